"""What is particular to Qwen3.5's checkpoints: names, shifted norms, the convolution's axes, GGUF's head order.

Weights are kept here as transformers' language model has them: `model.layers…`, norms less 1, the convolution
as [C, 1, taps].
"""

import numpy as np

SHIFTED = (
    ".input_layernorm.weight",
    ".post_attention_layernorm.weight",
    "model.norm.weight",
    ".q_norm.weight",
    ".k_norm.weight",
)
GGUF_PARTS = {
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
}


def is_hybrid(config: dict) -> bool:
    return config["model_type"].startswith("qwen3_5")


def is_shifted(name: str) -> bool:
    return name.endswith(SHIFTED)


def is_convolution(name: str) -> bool:
    return name.endswith("conv1d.weight")


def attends(config: dict, layer: int) -> bool:
    return (layer + 1) % config["full_attention_interval"] == 0


def delta_sizes(config: dict) -> tuple:
    """Key width, value width, value heads."""
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    return keys, values, config["linear_num_value_heads"]


def wrapper_config(config: dict) -> dict:
    """The config of a checkpoint that also sees images: the language model's is one part of it."""
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": config["model_type"].removesuffix("_text"),
        "text_config": config,
        "tie_word_embeddings": config["tie_word_embeddings"],
        "vision_config": {"depth": 1},
    }


def wrap(weights: dict, hidden: int) -> dict:
    """Names as in a checkpoint that also sees images and predicts several tokens, with tensors of those parts."""
    named = {name.replace("model.", "model.language_model.", 1): value for name, value in weights.items()}
    extra = np.random.default_rng(0).standard_normal((hidden, hidden)).astype(np.float32)
    for name in ("mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight", "model.visual.blocks.0.attn.proj.weight"):
        named[name] = extra.copy()
    return named


def from_folder(weights: dict) -> dict:
    """Any folder's names and form → this module's."""
    plain = {}
    for name, value in weights.items():
        if name.startswith(("mtp.", "model.visual.")):
            continue
        name = name.replace("model.language_model.", "model.").removeprefix("language_model.")
        plain[name] = value
    if any(is_convolution(name) and value.shape[-1] == 1 for name, value in plain.items()):  # MLX's form
        for name, value in plain.items():
            if is_convolution(name):
                plain[name] = np.moveaxis(value, 1, 2)
            elif is_shifted(name):
                plain[name] = value - 1
    return plain


def _reorder(value: np.ndarray, groups: int, axis: int, heads: int) -> np.ndarray:
    """Value heads grouped by key head → tiled (groups = key heads), or back (groups = heads per key head)."""
    value = np.moveaxis(value, axis, 0)
    rest = value.shape[1:]
    parts = value.reshape(groups, heads // groups, -1, *rest)
    return np.moveaxis(parts.swapaxes(0, 1).reshape(value.shape), 0, axis)


def _reordered(name: str, value: np.ndarray, config: dict, groups: int) -> np.ndarray:
    keys, _, heads = delta_sizes(config)
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([value[: 2 * keys], _reorder(value[2 * keys :], groups, 0, heads)])
    if "out_proj" in name:
        return _reorder(value, groups, 1, heads)
    if any(part in name for part in ("in_proj_z", "in_proj_a", "in_proj_b", "A_log", "dt_bias")):
        return _reorder(value, groups, 0, heads)
    return value


def to_gguf(name: str, value: np.ndarray, config: dict) -> np.ndarray:
    if "linear_attn" in name:
        value = _reordered(name, value, config, config["linear_num_key_heads"])
    if is_shifted(name):
        return value + 1
    if name.endswith("A_log"):
        return -np.exp(value)
    return value.reshape(value.shape[0], -1) if is_convolution(name) else value


def from_gguf(name: str, value: np.ndarray, config: dict) -> np.ndarray:
    if "linear_attn" in name:
        groups = config["linear_num_value_heads"] // config["linear_num_key_heads"]
        value = _reordered(name, value, config, groups)
    if is_shifted(name):
        return value - 1
    if name.endswith("A_log"):
        return np.log(-value)
    return value[:, None, :] if is_convolution(name) else value


def gguf_name(name: str) -> str | None:
    """blk.0.ssm_a for model.layers.0.linear_attn.A_log; None: the name is as in the other families."""
    if not name.startswith("model.layers."):
        return None
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{GGUF_PARTS[part]}" if part in GGUF_PARTS else None


def hf_name(name: str) -> str | None:
    if not name.startswith("blk."):
        return None
    _, layer, part = name.split(".", 2)
    parts = {there: here for here, there in GGUF_PARTS.items()}
    return f"model.layers.{layer}.{parts[part]}" if part in parts else None


def add_gguf_config(writer, config: dict) -> None:
    _, values, heads = delta_sizes(config)
    writer.add_full_attention_interval(config["full_attention_interval"])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(values)


def read_gguf_config(reader) -> dict:
    """The sizes that from_gguf() needs."""

    def value(key):
        return int(reader.fields[f"qwen35.ssm.{key}"].contents())

    heads = value("time_step_rank")
    return {
        "linear_num_key_heads": value("group_count"),
        "linear_key_head_dim": value("state_size"),
        "linear_num_value_heads": heads,
        "linear_value_head_dim": value("inner_size") // heads,
    }


def matrix_shapes(config: dict, layer: int) -> dict:
    """Module path → (outputs, inputs, gain, has a bias) of what mixes the positions of one layer."""
    at, hidden = f"model.layers.{layer}", config["hidden_size"]
    if attends(config, layer):
        head_dim = config["head_dim"]
        queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
        return {
            f"{at}.self_attn.q_proj": (2 * queries, hidden, 1.2, False),
            f"{at}.self_attn.k_proj": (keys, hidden, 1.2, False),
            f"{at}.self_attn.v_proj": (keys, hidden, 1.0, False),
            f"{at}.self_attn.o_proj": (hidden, queries, 0.8, False),
        }
    keys, values, heads = delta_sizes(config)
    return {
        f"{at}.linear_attn.in_proj_qkv": (2 * keys + values, hidden, 1.2, False),
        f"{at}.linear_attn.in_proj_z": (values, hidden, 1.0, False),
        f"{at}.linear_attn.in_proj_b": (heads, hidden, 1.0, False),
        f"{at}.linear_attn.in_proj_a": (heads, hidden, 1.0, False),
        f"{at}.linear_attn.out_proj": (hidden, values, 0.5, False),
    }


def vectors(config: dict, layer: int, random) -> dict:
    """The rest of a layer's mixer. Norms are multiples of 1/128, so that 1 more or less is exact in bf16."""
    at = f"model.layers.{layer}"

    def steps(low, high, width):
        return random.integers(low, high, width) / 128

    named = {
        f"{at}.input_layernorm.weight": steps(-64, 64, config["hidden_size"]),
        f"{at}.post_attention_layernorm.weight": steps(-64, 64, config["hidden_size"]),
    }
    if attends(config, layer):
        named[f"{at}.self_attn.q_norm.weight"] = steps(-64, 64, config["head_dim"])
        named[f"{at}.self_attn.k_norm.weight"] = steps(-64, 64, config["head_dim"])
        return named
    keys, values, heads = delta_sizes(config)
    taps = config["linear_conv_kernel_dim"]
    named[f"{at}.linear_attn.conv1d.weight"] = random.standard_normal((2 * keys + values, 1, taps)) / taps**0.5
    named[f"{at}.linear_attn.A_log"] = np.log(random.uniform(1, 8, heads))
    named[f"{at}.linear_attn.dt_bias"] = random.standard_normal(heads) * 0.5 - 3
    named[f"{at}.linear_attn.norm.weight"] = random.uniform(0.5, 1.5, config["linear_value_head_dim"])
    return named
