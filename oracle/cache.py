"""Outputs are made once: a manifest carries a hash of the scripts, pins and texts that made them."""

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

ORACLE = Path(__file__).resolve().parent
ROOT = ORACLE.parent
TEXT = ROOT / "tests" / "data" / "public_domain.txt"


def require_environment() -> None:
    """Ends the program with what to do when it does not run in the pinned environment, and sets that up.

    Called before the peers are imported. Threads that wait sleep: on a busy machine that halves the time.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "mlx_lm", "gguf")):
        sys.exit("run oracle/setup first, then this script with build/oracle/venv/bin/python")


def inputs_hash(scripts: tuple, *, extra: str = "") -> str:
    """Of the named scripts of this folder, the pinned requirements and the text; hex."""
    digest = hashlib.sha256(extra.encode())
    for path in (*(ORACLE / name for name in sorted(scripts)), ORACLE / "requirements.txt", TEXT):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_current(manifest: Path, inputs: str) -> bool:
    """Whether the manifest was made from these inputs and every file that it names still has its size."""
    try:
        content = json.loads(manifest.read_text())
        files = content["files"]
        return content["inputs"] == inputs and all(
            (manifest.parent / name).stat().st_size == size for name, size in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def sizes(folder: Path, paths: list) -> dict:
    """Every file under the paths → its size, by name relative to the folder."""
    files = []
    for path in paths:
        files += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return {str(file.relative_to(folder)): file.stat().st_size for file in sorted(files)}


def write(manifest: Path, content: dict) -> None:
    """Last and at once: a manifest that can be read stands for outputs that are complete."""
    partial = manifest.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(manifest)
