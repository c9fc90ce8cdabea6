"""Writes tests/fixtures/synth/: what checkpoints of the shapes that `rafter synth` knows hold, by other programs.

    build/oracle/venv/bin/python oracle/synth_fixtures.py

tensors.txt    per shape and format a line "SHAPE FORMAT", then a tensor a line: NAME TYPE DIM…, row-major;
               {0-3,5-8} in a name stands for each of these layers. Names and shapes are those of transformers' model
               classes (bf16), of mlx-lm's after mlx's quantisation (mlx4, mlx-mixed), of gguf's name map (q4_0).
configs.json   per shape the published config.json's keys, and what Llama 3's scaling divides the base
               frequencies by as transformers computes them (empty without scaling).

No weights are made: models live on torch's meta device and in arrays that mlx never evaluates.
"""

import copy
import json
import re
from pathlib import Path

import gemma
import gguf
import mlx.core as mx
import mlx.nn as nn
import qwen3_5
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


def gemma4_config(layers: int, period: int, **sizes) -> dict:
    """The whole checkpoint's config: the language model's is one part of it."""
    text = {
        "model_type": "gemma4_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "num_hidden_layers": layers,
        "head_dim": 256,
        "global_head_dim": 512,
        "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144,
        "rms_norm_eps": 1e-6,
        "final_logit_softcapping": 30.0,
        "tie_word_embeddings": True,
        "max_position_embeddings": 262144,
        "num_global_key_value_heads": None,
        "attention_k_eq_v": False,
        "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False,
        "hidden_size_per_layer_input": 0,
        "enable_moe_block": False,
        "layer_types": [
            "full_attention" if (layer + 1) % period == 0 else "sliding_attention" for layer in range(layers)
        ],
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        "bos_token_id": 2,
        "pad_token_id": 0,
        **sizes,
    }
    text["vocab_size_per_layer_input"] = text["vocab_size"]
    return {
        "model_type": "gemma4",
        "architectures": ["Gemma4ForConditionalGeneration"],
        "eos_token_id": [1, 106, 50],
        "vocab_size": text["vocab_size"],
        "tie_word_embeddings": True,
        "text_config": text,
    }


def gemma4_sizes(hidden: int, inner: int, heads: int, kv_heads: int, window: int, **more) -> dict:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "sliding_window": window,
        **more,
    }


def gemma4_experts(count: int, chosen: int, inner: int) -> dict:
    return {
        "enable_moe_block": True,
        "num_experts": count,
        "top_k_experts": chosen,
        "moe_intermediate_size": inner,
    }


TINY = {"head_dim": 32, "global_head_dim": 64, "vocab_size": 512, "max_position_embeddings": 65536}
PER_LAYER = {"hidden_size_per_layer_input": 256}
SMALL = {"max_position_embeddings": 131072}  # E2B and E4B
WIDE = {"use_double_wide_mlp": True}
KEYS_1 = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
KEYS_2 = {"attention_k_eq_v": True, "num_global_key_value_heads": 2}
UNIFIED = {"model_type": "gemma4_unified"}

CONFIGS |= {
    "gemma4-e2b": gemma4_config(
        35, 5, **gemma4_sizes(1536, 6144, 8, 1, 512, num_kv_shared_layers=20, **PER_LAYER, **WIDE, **SMALL)
    ),
    "gemma4-e4b": gemma4_config(
        42, 6, **gemma4_sizes(2560, 10240, 8, 2, 512, num_kv_shared_layers=18, **PER_LAYER, **SMALL)
    ),
    "gemma4-12b": gemma4_config(48, 6, **gemma4_sizes(3840, 15360, 16, 8, 1024, **KEYS_1)),
    "gemma4-26b-a4b": gemma4_config(
        30, 6, **gemma4_sizes(2816, 2112, 16, 8, 1024, **KEYS_2, **gemma4_experts(128, 8, 704))
    ),
    "gemma4-e2b-tiny": gemma4_config(
        10, 5, **gemma4_sizes(256, 512, 8, 1, 64, num_kv_shared_layers=4, **PER_LAYER, **WIDE, **TINY)
    ),
    "gemma4-e4b-tiny": gemma4_config(
        12, 6, **gemma4_sizes(256, 512, 8, 2, 64, num_kv_shared_layers=5, **PER_LAYER, **TINY)
    ),
    "gemma4-12b-tiny": gemma4_config(12, 6, **gemma4_sizes(256, 512, 8, 2, 64, **KEYS_1, **TINY)),
    "gemma4-26b-a4b-tiny": gemma4_config(
        12, 6, **gemma4_sizes(256, 512, 8, 2, 64, **KEYS_2, **gemma4_experts(8, 2, 256), **TINY)
    ),
}


def qwen3_5_config(layers: int, hidden: int, heads: int, kv_heads: int, value_heads: int, **sizes) -> dict:
    text = {
        "hidden_act": "silu",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 256,
        "vocab_size": 248320,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 262144,
        "full_attention_interval": 4,
        "layer_types": [
            "full_attention" if (layer + 1) % 4 == 0 else "linear_attention" for layer in range(layers)
        ],
        "linear_num_key_heads": 16,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        "tie_word_embeddings": False,
        **sizes,
    }
    kind = "qwen3_5_moe" if "num_experts" in text else "qwen3_5"
    text["model_type"] = f"{kind}_text"
    architecture = {"qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}[kind]
    return {
        "model_type": kind,
        "architectures": [f"{architecture}ForConditionalGeneration"],
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": text,
    }


def qwen3_5_experts(count: int, chosen: int, inner: int) -> dict:
    return {
        "num_experts": count,
        "num_experts_per_tok": chosen,
        "moe_intermediate_size": inner,
        "shared_expert_intermediate_size": inner,
        "norm_topk_prob": True,
    }


TINY_DELTA = {
    "head_dim": 64,
    "vocab_size": 512,
    "max_position_embeddings": 65536,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
}

CONFIGS |= {
    "qwen3.5-4b": qwen3_5_config(32, 2560, 16, 4, 32, intermediate_size=9216, tie_word_embeddings=True),
    "qwen3.5-27b": qwen3_5_config(64, 5120, 24, 4, 48, intermediate_size=17408),
    "qwen3.5-35b-a3b": qwen3_5_config(40, 2048, 16, 2, 32, **qwen3_5_experts(256, 8, 512)),
    "qwen3.5-4b-tiny": qwen3_5_config(
        8, 256, 4, 2, 8, intermediate_size=512, tie_word_embeddings=True, **TINY_DELTA
    ),
    "qwen3.5-27b-tiny": qwen3_5_config(8, 256, 4, 2, 12, intermediate_size=512, **TINY_DELTA),
    "qwen3.5-35b-a3b-tiny": qwen3_5_config(8, 256, 4, 2, 8, **qwen3_5_experts(8, 2, 256), **TINY_DELTA),
}


def text_of(config: dict) -> dict:
    """The language model's config."""
    return config.get("text_config", config)


def parsed(config: dict):
    """transformers' config object: it checks the keys and fills in what the published file leaves out."""
    rest = copy.deepcopy(text_of(config))  # transformers writes into it
    return AutoConfig.for_model(rest.pop("model_type"), **rest)


def hugging_face(config: dict) -> dict:
    """As transformers saves it. Of models that also see images, the language model under its name there."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(parsed(config))
    tensors = {name: ("BF16", list(value.shape)) for name, value in model.state_dict().items()}
    if text_of(config)["tie_word_embeddings"]:
        del tensors["lm_head.weight"]  # a tied head is not saved
    if "text_config" in config:
        tensors = {name.replace("model.", "model.language_model.", 1): entry for name, entry in tensors.items()}
    return tensors


MLX_TYPES = {mx.bfloat16: "BF16", mx.uint32: "U32"}
# Modules that the mixed format stores at 8 bits in every layer: tables, heads, routers, layers' own inputs.
WIDE_MODULES = (
    "embed_tokens",
    "lm_head",
    "embed_tokens_per_layer",
    "per_layer_model_projection",
    "per_layer_input_gate",
    "per_layer_projection",
    "router.proj",
    "mlp.gate",
    "mlp.shared_expert_gate",
)


def mlx(config: dict, mixed: bool) -> dict:
    config = copy.deepcopy(config)  # mlx-lm writes into it
    model_class, arguments = _get_classes(config)
    model = model_class(arguments.from_dict(config))
    model.set_dtype(mx.bfloat16)
    ends = tuple(f".layers.{layer}." for layer in (0, text_of(config)["num_hidden_layers"] - 1))

    def storage(path: str, module: nn.Module):
        wide = mixed and (path.endswith(WIDE_MODULES) or any(end in path for end in ends))
        return hasattr(module, "to_quantized") and {"group_size": 64, "bits": 8 if wide else 4}

    nn.quantize(model, class_predicate=storage)
    return {
        name: (MLX_TYPES[value.dtype], list(value.shape)) for name, value in tree_flatten(model.parameters())
    }


# Matrices that llama.cpp leaves as they are when it quantises.
GGUF_KEPT = {"ffn_gate_inp.weight": "F32", "ffn_gate_inp_shexp.weight": "F32", "ssm_conv1d.weight": "F32"}
GGUF_KEPT |= {"per_layer_model_proj.weight": "BF16"}


def gguf_names(config: dict) -> dict:
    text = text_of(config)
    layers = text["num_hidden_layers"]
    kind = text["model_type"].removesuffix("_text")
    arch = {"qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe"}.get(kind, kind)
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], layers)
    gemma_names = gemma._gguf_names("gemma4", layers) if arch == "gemma4" else {}
    tensors = {}
    for name, (_, shape) in hugging_face(config).items():
        name = name.replace("model.language_model.", "model.")
        own = gemma_names.get(name) or (arch.startswith("qwen35") and qwen3_5.gguf_name(name))
        for part, shape in gguf_parts(name, shape, arch):
            stored = own or names.get_name(part, try_suffixes=(".weight",))
            kept = GGUF_KEPT.get(stored.split(".", 2)[-1]) or GGUF_KEPT.get(stored)
            if "conv1d" in name:
                shape = [shape[0], shape[2]]
            tensors[stored] = (kept or ("Q4_0" if len(shape) > 1 else "F32"), shape)
    if arch == "gemma4":
        tensors["rope_freqs.weight"] = ("F32", [text["global_head_dim"] // 2])
    elif text.get("rope_scaling"):
        tensors["rope_freqs.weight"] = ("F32", [len(rope_divisors(config))])
    return tensors


def gguf_parts(name: str, shape: list, arch: str) -> list:
    """Qwen3.5's stack of gates and ups lies in two tensors there."""
    if arch != "qwen35moe" or ".mlp.experts." not in name:
        return [(name, shape)]
    at = name.rsplit(".", 1)[0]
    if name.endswith("gate_up_proj"):
        half = [shape[0], shape[1] // 2, shape[2]]
        return [(f"{at}.gate_proj.weight", half), (f"{at}.up_proj.weight", half)]
    return [(f"{at}.down_proj.weight", shape)]


def rope_divisors(config: dict) -> list:
    if not text_of(config).get("rope_scaling"):
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
        match = re.fullmatch(r"((?:language_model\.)?model\.(?:language_model\.)?layers\.|blk\.)(\d+)\.(.*)", name)
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
        together = {}
        for first, last, (kind, shape) in runs:
            together.setdefault((kind, *shape), []).append(f"{first}-{last}")
        for (kind, *shape), where in together.items():
            lines.append((f"{prefix}{{{','.join(where)}}}.{part}", (kind, shape)))
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
        print(shape, flush=True)
    configs = {
        shape: {"config": config, "rope_divisors": rope_divisors(config)} for shape, config in CONFIGS.items()
    }
    configs["gemma4-12b"]["config"] |= UNIFIED  # a name of its own, which mlx-lm takes for the others'
    configs["gemma4-12b"]["config"]["text_config"]["model_type"] = "gemma4_unified_text"
    configs["gemma4-12b-tiny"]["config"] |= UNIFIED
    configs["gemma4-12b-tiny"]["config"]["text_config"]["model_type"] = "gemma4_unified_text"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "tensors.txt").write_text("\n".join(lines))
    (FOLDER / "configs.json").write_text(json.dumps(configs, indent=1) + "\n")


if __name__ == "__main__":
    main()
