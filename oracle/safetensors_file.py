"""Reading and laying out safetensors by hand: the layouts that the usual writer never makes.

A file is an 8-byte little-endian header length, a JSON header, and the tensors' bytes back to back.
"""

import json
import struct
from pathlib import Path

import numpy as np
import torch

DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "U8": torch.uint8,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def read(path: Path) -> dict:
    """Every tensor of one file; any alignment."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(content[8 + length + begin : 8 + length + end], np.uint8).copy()
        tensors[name] = torch.from_numpy(data).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def read_folder(folder: Path) -> dict:
    """Every tensor of a checkpoint folder, through the index when there is one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read(folder / "model.safetensors")
    weight_map = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(weight_map.values())):
        found = read(folder / file)
        expected = {name for name, where in weight_map.items() if where == file}
        if found.keys() != expected:
            raise ValueError(
                f"{folder / file}: the index names {sorted(expected ^ found.keys())} differently"
            )
        tensors.update(found)
    return tensors


def write_odd(path: Path, tensors: dict) -> None:
    """As MLX's writer lays files out, at its worst: no padding, unsorted tensors, data at an odd offset."""
    names = sorted(tensors, key=lambda name: name[::-1])
    header = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name in names:
        end = begin + tensors[name].nbytes
        header[name] = {
            "dtype": NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
        begin = end
    encoded = json.dumps(header, separators=(",", ":"))
    encoded += " " if len(encoded) % 2 == 0 else ""
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded.encode())
        for name in names:
            file.write(_bytes_of(tensors[name]))


def data_offset(path: Path) -> int:
    """Where the tensors' bytes start in the file."""
    with path.open("rb") as file:
        return 8 + struct.unpack("<Q", file.read(8))[0]
