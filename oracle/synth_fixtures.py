"""Writes tests/fixtures/synth/: what checkpoints of the shapes that `rafter synth` knows hold, by other programs.

    build/oracle/venv/bin/python oracle/synth_fixtures.py

tensors.txt    per shape and format a line "SHAPE FORMAT", then a tensor a line: NAME TYPE DIM…, row-major; {0-3}
               in a name stands for each of these layers. Names and shapes are those of transformers' model
               classes (bf16), of mlx-lm's after mlx's quantisation (mlx4, mlx-mixed), of gguf's name map (q4_0).
configs.json   per shape the published config.json's keys, and what Llama 3's scaling divides the base
               frequencies by as transformers computes them (empty without scaling).

No weights are made: models live on torch's meta device and in arrays that mlx never evaluates.
"""

import copy
import json
import re
from pathlib import Path

import gguf
import mlx.core as mx
import mlx.nn as nn
import torch
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FOLDER = Path(__file__).parent.parent / "tests/fixtures/synth"


def llama3_scaling(factor: float, original: int) -> dict:
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": original,
    }


LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu"}
QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_act": "silu"}

CONFIGS = {
    "cpm5-1b": LLAMA
    | {
        "hidden_size": 1536,
        "intermediate_size": 4608,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "vocab_size": 130560,
        "rms_norm_eps": 1e-6,
        "rope_theta": 5000000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
        "bos_token_id": 0,
        "eos_token_id": [1, 130073],
    },
    "llama3-8b": LLAMA
    | {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": llama3_scaling(8.0, 8192),
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
    },
    "llama3.2-1b": LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": llama3_scaling(32.0, 8192),
        "tie_word_embeddings": True,
        "max_position_embeddings": 131072,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
    },
    "llama3-tiny": LLAMA
    | {
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": llama3_scaling(8.0, 512),
        "tie_word_embeddings": False,
        "max_position_embeddings": 4096,
    },
    "qwen3-tiny": QWEN3
    | {
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "max_position_embeddings": 4096,
    },
}


def parsed(config: dict):
    """transformers' config object: it checks the keys and fills in what the published file leaves out."""
    rest = copy.deepcopy(config)  # transformers writes into it
    del rest["model_type"]
    return AutoConfig.for_model(config["model_type"], **rest)


def hugging_face(config: dict) -> dict:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(parsed(config))
    tensors = {name: ("BF16", list(value.shape)) for name, value in model.state_dict().items()}
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]  # a tied head is not saved
    return tensors


MLX_TYPES = {mx.bfloat16: "BF16", mx.uint32: "U32"}


def mlx(config: dict, mixed: bool) -> dict:
    model_class, arguments = _get_classes(config)
    model = model_class(arguments.from_dict(config))
    model.set_dtype(mx.bfloat16)
    ends = (f"model.layers.{layer}." for layer in (0, config["num_hidden_layers"] - 1))
    wide = ("model.embed_tokens", "lm_head", *ends) if mixed else ()

    def storage(path: str, module: nn.Module):
        return hasattr(module, "to_quantized") and {"group_size": 64, "bits": 8 if path.startswith(wide) else 4}

    nn.quantize(model, class_predicate=storage)
    return {
        name: (MLX_TYPES[value.dtype], list(value.shape)) for name, value in tree_flatten(model.parameters())
    }


def gguf_names(config: dict) -> dict:
    arch = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen3": gguf.MODEL_ARCH.QWEN3}[config["model_type"]]
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    tensors = {}
    for name, (_, shape) in hugging_face(config).items():
        stored = names.get_name(name, try_suffixes=(".weight",))
        tensors[stored] = ("Q4_0" if len(shape) == 2 else "F32", shape)
    if config["rope_scaling"]:
        tensors["rope_freqs.weight"] = ("F32", [len(rope_divisors(config))])
    return tensors


def rope_divisors(config: dict) -> list:
    if not config["rope_scaling"]:
        return []
    whole = parsed(config)
    width = whole.head_dim
    base = 1.0 / config["rope_theta"] ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](whole, "cpu")
    return [float(f"{value:.7g}") for value in (base / scaled).tolist()]


def folded(tensors: dict) -> list:
    """Lines in which layers that hold the same stand together."""
    lines, layers = [], {}
    for name, entry in tensors.items():
        match = re.fullmatch(r"(model\.layers\.|blk\.)(\d+)\.(.*)", name)
        if not match:
            lines.append((name, entry))
            continue
        prefix, layer, part = match.groups()
        runs = layers.setdefault((prefix, part), [])
        if runs and runs[-1][2] == entry and runs[-1][1] == int(layer) - 1:
            runs[-1][1] += 1
        else:
            runs.append([int(layer), int(layer), entry])
    for (prefix, part), runs in layers.items():
        lines += [(f"{prefix}{{{first}-{last}}}.{part}", entry) for first, last, entry in runs]
    return [" ".join([name, kind, *map(str, shape)]) for name, (kind, shape) in lines]


def main() -> None:
    lines = []
    for shape, config in CONFIGS.items():
        formats = {
            "bf16": hugging_face(config),
            "mlx4": mlx(config, mixed=False),
            "mlx-mixed": mlx(config, mixed=True),
            "q4_0": gguf_names(config),
        }
        for name, tensors in formats.items():
            lines += [f"{shape} {name}", *folded(tensors), ""]
    configs = {
        shape: {"config": config, "rope_divisors": rope_divisors(config)} for shape, config in CONFIGS.items()
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "tensors.txt").write_text("\n".join(lines))
    (FOLDER / "configs.json").write_text(json.dumps(configs, indent=1) + "\n")


if __name__ == "__main__":
    main()
