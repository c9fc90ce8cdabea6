"""Plain fp32 weights, by Hugging Face name, out of any checkpoint as it lies on disk.

Quantised weights are fp32(code) · fp32(scale) + fp32(bias), never a library's dequantise in a narrower type.
"""

import json
from pathlib import Path

import gguf
import gguf_checkpoint
import numpy as np
import safetensors_file
import torch
from weights import unstack_experts


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """u32 [rows, words] → codes [rows, words · 32 / bits], least significant bits first; 4 and 8 bits."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (words[..., None] >> shifts & np.uint32(2**bits - 1)).reshape(words.shape[0], -1)


def affine(words: np.ndarray, scales: np.ndarray, biases: np.ndarray, bits: int, group: int) -> np.ndarray:
    """MLX's affine weights in fp32, [rows, K]."""
    codes = unpack(words, bits).astype(np.float32)
    groups = codes.reshape(codes.shape[0], -1, group)
    if groups.shape[:2] != scales.shape or scales.shape != biases.shape:
        raise ValueError(f"{groups.shape[:2]} groups, but scales {scales.shape} and biases {biases.shape}")
    return (groups * scales[..., None] + biases[..., None]).reshape(codes.shape)


def read_folder(folder: Path) -> dict:
    tensors = safetensors_file.read_folder(folder)
    quantization = json.loads((folder / "config.json").read_text()).get("quantization", {})
    weights = {}
    for name, tensor in tensors.items():
        path, part = name.rsplit(".", 1)
        if part in ("scales", "biases"):
            continue
        if f"{path}.scales" not in tensors or part != "weight":
            value = tensor.float().numpy()
        else:
            parameters = {**quantization, **(quantization.get(path) or {})}
            parts = [tensor, tensors[f"{path}.scales"].float(), tensors[f"{path}.biases"].float()]
            rows = [values.reshape(-1, values.shape[-1]).numpy() for values in parts]
            value = affine(*rows, parameters["bits"], parameters["group_size"])
            value = value.reshape(*tensor.shape[:-1], -1)
        if ".switch_mlp." in path:
            at, role = path.split(".switch_mlp.")
            weights.update(unstack_experts(at, role.removesuffix("_proj"), value))
        else:
            weights[name] = value
    return weights


def read_gguf(path: Path) -> dict:
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    heads = int(reader.fields[f"{arch}.attention.head_count"].contents())
    kv_heads = int(reader.fields[f"{arch}.attention.head_count_kv"].contents())
    weights = {}
    for tensor in reader.tensors:
        if tensor.name.startswith("rope_f"):
            continue
        name = gguf_checkpoint.hf_name(tensor.name, arch)
        value = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        value = value.reshape([int(size) for size in reversed(tensor.shape)])
        permuted = gguf_checkpoint.permuted_heads(name, arch, heads, kv_heads)
        if value.ndim == 3:
            at, role = name.removesuffix("_proj.weight").split(".experts.")
            weights.update(unstack_experts(at, role, value))
            continue
        weights[name] = gguf_checkpoint.unpermute(value, permuted) if permuted else value
    return weights


def read(path: Path) -> dict:
    return read_folder(path) if path.is_dir() else read_gguf(path)


def to_torch(weights: dict) -> dict:
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in weights.items()}
