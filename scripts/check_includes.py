#!/usr/bin/env python3
"""Checks that no file under src/ includes a folder that cmake/layers.txt does not let its own folder see.

    scripts/check_includes.py [ROOT]

Includes between folders are written "folder/file.h". Also refuses includes that leave src/ and headers without
#pragma once. Prints each fault as file:line and exits with 1 if there was any.
"""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_layers(path: Path) -> dict[str, set[str]]:
    direct = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, lower = line.partition(":")
            direct[folder.strip()] = lower.split()
    visible = {}
    for folder, lower in direct.items():  # listed from the lowest up, so that what a folder needs is known
        visible[folder] = {folder}
        for name in lower:
            if name not in visible:
                sys.exit(f"{path}: {folder} may not include {name}: it is not listed above")
            visible[folder] |= visible[name]
    return visible


def layer_of(path: str, layers) -> str | None:
    """The longest listed folder that holds the path."""
    found = [folder for folder in layers if path.startswith(folder + "/")]
    return max(found, key=len, default=None)


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    layers = read_layers(root / "cmake/layers.txt")
    faults = 0
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".cuh"))
    for file in files:
        name = file.relative_to(root / "src").as_posix()
        own = layer_of(name, layers)
        text = file.read_text()
        problems = []
        if own is None:
            problems.append((1, "is in no folder of cmake/layers.txt"))
        if file.suffix in (".h", ".cuh") and "#pragma once" not in text:
            problems.append((1, "has no #pragma once"))
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or own is None:
                continue
            target = layer_of(match[1], layers)
            if target is None:
                problems.append((number, f'includes "{match[1]}", which is not "folder/file" under src/'))
            elif target not in layers[own]:
                problems.append((number, f"{own} may not include {target}"))
        for number, problem in problems:
            print(f"{file}:{number}: {problem}")
            faults += 1
    if faults == 0:
        print(f"check_includes: {len(files)} files, every include points down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
