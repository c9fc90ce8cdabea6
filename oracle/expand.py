"""Plain fp32 weights, by Hugging Face name, out of any checkpoint as it lies on disk.

Quantised weights are fp32(code) · fp32(scale) + fp32(bias), never a library's dequantise in a narrower type.
"""

import json
from pathlib import Path

import gemma
import gguf
import gguf_checkpoint
import numpy as np
import qwen3_5
import safetensors_file
import torch
from weights import unstack_experts


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """u32 [rows, words] → codes [rows, words · 32 / bits]: one stream, least significant bits first."""
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(stream.reshape(len(words), -1, bits), axis=-1, bitorder="little")[..., 0]


def e4m3(codes: np.ndarray) -> np.ndarray:
    return torch.from_numpy(np.ascontiguousarray(codes)).view(torch.float8_e4m3fn).float().numpy()


def e8m0(codes: np.ndarray) -> np.ndarray:
    return np.exp2(codes.astype(np.float64) - 127).astype(np.float32)


def floating(words: np.ndarray, scales: np.ndarray, mode: str) -> np.ndarray:
    """The weights of MLX's modes without biases, in fp32, [rows, K]."""
    values = e4m3(unpack(words, 8)) if mode == "mxfp8" else E2M1[unpack(words, 4)]
    scales = e4m3(scales) if mode == "nvfp4" else e8m0(scales)
    groups = values.reshape(*scales.shape, -1)
    if groups.shape[-1] != (16 if mode == "nvfp4" else 32):
        raise ValueError(f"{mode} groups of {groups.shape[-1]}")
    return (groups * scales[..., None]).reshape(values.shape)


def affine(words: np.ndarray, scales: np.ndarray, biases: np.ndarray, bits: int, group: int) -> np.ndarray:
    """MLX's affine weights in fp32, [rows, K]."""
    codes = unpack(words, bits).astype(np.float32)
    groups = codes.reshape(codes.shape[0], -1, group)
    if groups.shape[:2] != scales.shape or scales.shape != biases.shape:
        raise ValueError(f"{groups.shape[:2]} groups, but scales {scales.shape} and biases {biases.shape}")
    return (groups * scales[..., None] + biases[..., None]).reshape(codes.shape)


def read_folder(folder: Path) -> dict:
    tensors = safetensors_file.read_folder(folder)
    config = json.loads((folder / "config.json").read_text())
    quantization = config.get("quantization", {})
    weights = {}
    for name, tensor in tensors.items():
        path, part = name.rsplit(".", 1)
        if part in ("scales", "biases"):
            continue
        if f"{path}.scales" not in tensors or part != "weight":
            value = tensor.float().numpy()
        else:
            parameters = {"mode": "affine", **quantization, **(quantization.get(path) or {})}
            parts = [tensor, tensors[f"{path}.scales"]]
            rows = [part.reshape(-1, part.shape[-1]) for part in parts]
            if parameters["mode"] != "affine":
                value = floating(rows[0].numpy(), rows[1].numpy(), parameters["mode"])
            else:
                biases = tensors[f"{path}.biases"]
                value = affine(
                    rows[0].numpy(),
                    rows[1].float().numpy(),
                    biases.reshape(-1, biases.shape[-1]).float().numpy(),
                    parameters["bits"],
                    parameters["group_size"],
                )
            value = value.reshape(*tensor.shape[:-1], -1)
        if ".switch_mlp." in path:
            at, role = path.split(".switch_mlp.")
            weights.update(unstack_experts(at, role.removesuffix("_proj"), value))
        else:
            weights[name] = value
    if gemma.is_gemma(config):
        return gemma.from_folder(weights, config.get("text_config", config))
    return qwen3_5.from_folder(weights)


def _gguf_values(reader: gguf.GGUFReader) -> dict:
    """GGUF name → fp32, but for the RoPE's frequencies."""
    values = {}
    for tensor in reader.tensors:
        if not tensor.name.startswith("rope_f"):
            value = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            values[tensor.name] = value.reshape([int(size) for size in reversed(tensor.shape)])
    return values


def read_gguf(path: Path) -> dict:
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    if arch.startswith("gemma"):
        return gemma.from_gguf(_gguf_values(reader), arch, int(reader.fields[f"{arch}.block_count"].contents()))
    heads = int(reader.fields[f"{arch}.attention.head_count"].contents())
    kv_heads = int(reader.fields[f"{arch}.attention.head_count_kv"].contents())
    sizes = qwen3_5.read_gguf_config(reader) if arch == "qwen35" else {}
    weights = {}
    for stored, value in _gguf_values(reader).items():
        name = gguf_checkpoint.hf_name(stored, arch)
        permuted = gguf_checkpoint.permuted_heads(name, arch, heads, kv_heads)
        if value.ndim == 3:
            at, role = name.removesuffix("_proj.weight").split(".experts.")
            weights.update(unstack_experts(at, role, value))
            continue
        if arch == "qwen35":
            value = qwen3_5.from_gguf(name, value, sizes)
        weights[name] = gguf_checkpoint.unpermute(value, permuted) if permuted else value
    return weights


def read(path: Path) -> dict:
    return read_folder(path) if path.is_dir() else read_gguf(path)


def to_torch(weights: dict) -> dict:
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in weights.items()}
