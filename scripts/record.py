"""What every record that a script writes begins with: the machine and the commit."""

import json
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def machine() -> str:
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def commit() -> str:
    command = ["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def write(name: str, measured: dict) -> None:
    record = {"machine": machine(), "commit": commit(), **measured}
    (ROOT / "bench/records" / name).write_text(json.dumps(record, indent=1) + "\n")
