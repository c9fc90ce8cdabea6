"""Checkpoint folders as Hugging Face publishes them: config.json and safetensors in fp32, bf16 or fp16."""

import json
from pathlib import Path

import gemma
import qwen3_5
import safetensors_file
import torch
from fixtures import Fixture
from safetensors.torch import save_file

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONFIG_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
SHARDS = 3


def _write_sharded(folder: Path, tensors: dict) -> None:
    """Splits by size in the file's order; a layer may end up in two shards, as in real checkpoints."""
    total = sum(tensor.nbytes for tensor in tensors.values())
    shards = [{} for _ in range(SHARDS)]
    seen = 0
    for name, tensor in tensors.items():
        shards[min(SHARDS - 1, seen * SHARDS // total)][name] = tensor
        seen += tensor.nbytes
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def with_dtype(config: dict, dtype: str) -> dict:
    """The older spelling of the dtype key goes with the older spelling of the RoPE keys."""
    key = "dtype" if "rope_parameters" in config else "torch_dtype"
    return {**config, key: CONFIG_DTYPES[dtype]}


def write(folder: Path, fixture: Fixture, weights: dict, dtype: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = with_dtype(fixture.config, dtype)
    if gemma.is_gemma(config):
        weights = gemma.to_folder(weights, config, fixture.wrapped)
        config = gemma.wrapper_config(config) if fixture.wrapped else config
    elif fixture.wrapped:
        config = qwen3_5.wrapper_config(config)
        weights = qwen3_5.wrap(weights, fixture.config["hidden_size"])
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {name: torch.from_numpy(value).to(DTYPES[dtype]) for name, value in weights.items()}
    if fixture.layout == "sharded":
        _write_sharded(folder, tensors)
    elif fixture.layout == "odd":
        safetensors_file.write_odd(folder / "model.safetensors", tensors)
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
