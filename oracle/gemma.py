"""What is particular to the checkpoints of Gemma 2, 3 and 4: names, norms less 1, stacked experts, tensors of layers
that share keys and values, GGUF's metadata.

Weights are kept here as transformers' language model has them (`model.layers…`), experts a matrix each.
"""

import re

import gguf
import numpy as np

# Other parts of a checkpoint that also sees and hears.
OTHER_PARTS = ("vision_tower.", "multi_modal_projector.", "audio_tower.", "embed_vision.", "embed_audio.")
SHARED = ("k_proj.weight", "v_proj.weight", "k_norm.weight")


def is_gemma(config: dict) -> bool:
    return config["model_type"].startswith("gemma")


def is_gemma4(config: dict) -> bool:
    return config["model_type"].startswith("gemma4")


def stores_norms_less_1(config: dict) -> bool:
    return not is_gemma4(config)


def slides(config: dict, layer: int) -> bool:
    if "layer_types" in config:
        return config["layer_types"][layer] == "sliding_attention"
    pattern = 2 if config["model_type"] == "gemma2" else config.get("sliding_window_pattern", 6)
    return (layer + 1) % pattern != 0


def shares(config: dict, layer: int) -> bool:
    """Whether this layer reads another's keys and values."""
    return layer >= config["num_hidden_layers"] - config.get("num_kv_shared_layers", 0)


def head_dim(config: dict, layer: int) -> int:
    return config["head_dim"] if slides(config, layer) or not is_gemma4(config) else config["global_head_dim"]


def kv_heads(config: dict, layer: int) -> int:
    if config.get("attention_k_eq_v") and not slides(config, layer):
        return config.get("num_global_key_value_heads") or config["num_key_value_heads"]
    return config["num_key_value_heads"]


def inner_size(config: dict, layer: int) -> int:
    return config["intermediate_size"] * (2 if config.get("use_double_wide_mlp") and shares(config, layer) else 1)


def embedding_scale(config: dict) -> np.float32:
    return np.float32(np.sqrt(config["hidden_size"]))


def matrix_shapes(config: dict) -> dict:
    """Module path → (outputs, inputs, gain, has a bias)."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    per_layer = config.get("hidden_size_per_layer_input", 0)
    shapes = {"model.embed_tokens": (config["vocab_size"], hidden, 1.0, False)}
    if per_layer:
        table = (config["vocab_size_per_layer_input"], layers * per_layer, layers**0.5, False)
        shapes["model.embed_tokens_per_layer"] = table
        shapes["model.per_layer_model_projection"] = (layers * per_layer, hidden, 1.0, False)
    for layer in range(layers):
        at, width = f"model.layers.{layer}", head_dim(config, layer)
        queries, keys = config["num_attention_heads"] * width, kv_heads(config, layer) * width
        shapes[f"{at}.self_attn.q_proj"] = (queries, hidden, 1.2, False)
        if not shares(config, layer):
            shapes[f"{at}.self_attn.k_proj"] = (keys, hidden, 1.2, False)
            if slides(config, layer) or not config.get("attention_k_eq_v"):
                shapes[f"{at}.self_attn.v_proj"] = (keys, hidden, 1.0, False)
        shapes[f"{at}.self_attn.o_proj"] = (hidden, queries, 1.0, False)
        inner = inner_size(config, layer)
        shapes[f"{at}.mlp.gate_proj"] = shapes[f"{at}.mlp.up_proj"] = (inner, hidden, 1.0, False)
        shapes[f"{at}.mlp.down_proj"] = (hidden, inner, 1.0, False)
        if per_layer:
            shapes[f"{at}.per_layer_input_gate"] = (per_layer, hidden, 1.0, False)
            shapes[f"{at}.per_layer_projection"] = (hidden, per_layer, 1.0, False)
        if config.get("enable_moe_block"):
            # The router's input is small; a wide spread, so that a wrong choice shows.
            shapes[f"{at}.router.proj"] = (config["num_experts"], hidden, 2.0 * hidden**0.5, False)
            inner = config["moe_intermediate_size"]
            for expert in range(config["num_experts"]):
                own = f"{at}.experts.{expert}"
                shapes[f"{own}.gate_proj"] = shapes[f"{own}.up_proj"] = (inner, hidden, 1.0, False)
                shapes[f"{own}.down_proj"] = (hidden, inner, 1.5, False)
    return shapes


def vectors(config: dict, random) -> dict:
    """Norms and scales. Norms stored less 1 are multiples of 1/128, so that 1 more or less is exact in bf16."""
    hidden = config["hidden_size"]

    def norm(width):
        if stores_norms_less_1(config):
            return random.integers(-38, 39, width) / 128
        return random.uniform(0.5, 1.5, width)

    def head_norm(width):  # attention is not scaled in Gemma 4: small norms keep it from saturating
        return random.uniform(0.2, 0.5, width) if is_gemma4(config) else norm(width)

    named = {"model.norm.weight": norm(hidden)}
    per_layer = config.get("hidden_size_per_layer_input", 0)
    if per_layer:
        named["model.per_layer_projection_norm.weight"] = norm(per_layer)
    parts = ["input", "post_attention", "pre_feedforward", "post_feedforward"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        names = [f"{at}.{part}_layernorm" for part in parts]
        if per_layer:
            names.append(f"{at}.post_per_layer_input_norm")
        if config.get("enable_moe_block"):
            names += [f"{at}.{part}_feedforward_layernorm_{n}" for part, n in (("post", 1), ("post", 2), ("pre", 2))]
            named[f"{at}.router.scale"] = random.uniform(0.5, 1.5, hidden)
            named[f"{at}.router.per_expert_scale"] = random.uniform(0.5, 1.5, config["num_experts"])
        named |= {f"{name}.weight": norm(hidden) for name in names}
        if config["model_type"] != "gemma2":
            width = head_dim(config, layer)
            named[f"{at}.self_attn.q_norm.weight"] = head_norm(width)
            if not shares(config, layer):
                named[f"{at}.self_attn.k_norm.weight"] = head_norm(width)
        if is_gemma4(config):
            named[f"{at}.layer_scalar"] = random.integers(77, 103, 1) / 128
    return named


# ---- folders


def wrapper_config(config: dict) -> dict:
    """The config of a checkpoint that also sees images: the language model's is one part of it."""
    generation = 4 if is_gemma4(config) else 3
    outer = {3: "gemma3", 4: "gemma4_unified"}[generation]
    inner = {3: "gemma3_text", 4: "gemma4_unified_text"}[generation]
    return {
        "architectures": [f"Gemma{generation}ForConditionalGeneration"],
        "model_type": outer,
        "text_config": {**config, "model_type": inner},
        "vision_config": {"num_hidden_layers": 1},
        "vocab_size": config["vocab_size"],
    }


def to_folder(weights: dict, config: dict, wrapped: bool) -> dict:
    """As published: experts in stacks, gate over up; what layers that share keys and values do not use; other parts."""
    named, stacks = {}, {}
    for name, value in weights.items():
        found = re.match(r"^(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight$", name)
        if found:
            stacks.setdefault(found[1], {}).setdefault(found[3], []).append(value)
        else:
            named[name] = value
    for path, roles in stacks.items():
        gate, up, down = (np.stack(roles[role]) for role in ("gate", "up", "down"))
        named[f"{path}.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        named[f"{path}.down_proj"] = down
    random = np.random.default_rng(0)
    for layer in range(config["num_hidden_layers"]):
        if not shares(config, layer):
            continue
        width = head_dim(config, layer)
        keys = (kv_heads(config, layer) * width, config["hidden_size"])
        for part, shape in zip(SHARED, (keys, keys, (width,))):
            named[f"model.layers.{layer}.self_attn.{part}"] = random.standard_normal(shape).astype(np.float32)
    if not wrapped:
        return named
    prefix = "model.language_model." if is_gemma4(config) else "language_model.model."
    named = {name.replace("model.", prefix, 1): value for name, value in named.items()}
    extra = random.standard_normal((32, config["hidden_size"])).astype(np.float32)
    before = "model." if is_gemma4(config) else ""
    for part in OTHER_PARTS if is_gemma4(config) else OTHER_PARTS[:2]:
        named[f"{before}{part}extra.weight"] = extra.copy()
    return named


def from_folder(weights: dict, config: dict) -> dict:
    """Any folder's names → this module's."""
    plain = {}
    for name, value in weights.items():
        name = name.replace("model.language_model.", "model.").removeprefix("language_model.")
        if name.removeprefix("model.").startswith(OTHER_PARTS):
            continue
        found = re.match(r"^model\.layers\.(\d+)\.self_attn\.(.*)$", name)
        if found and found[2] in SHARED and shares(config, int(found[1])):
            continue
        if name.endswith(".experts.gate_up_proj"):
            gate, up = np.split(value, 2, axis=1)
            plain |= _unstacked(name.removesuffix(".gate_up_proj"), "gate", gate)
            plain |= _unstacked(name.removesuffix(".gate_up_proj"), "up", up)
        elif name.endswith(".experts.down_proj"):
            plain |= _unstacked(name.removesuffix(".down_proj"), "down", value)
        elif found := re.match(r"^(.*\.experts)\.switch_glu\.(gate|up|down)_proj\.weight$", name):
            plain |= _unstacked(found[1], found[2], value)
        else:
            plain[name] = value
    return plain


def _unstacked(path: str, role: str, stack: np.ndarray) -> dict:
    return {f"{path}.{expert}.{role}_proj.weight": matrix for expert, matrix in enumerate(stack)}


# ---- mlx-lm


def mlx_config(config: dict, wrapped: bool) -> dict:
    """In the spelling of mlx-lm's classes, nothing left to a default."""
    inner = dict(config)
    if not is_gemma4(config):
        rope = inner.pop("rope_parameters", None)
        if rope:
            full = dict(rope["full_attention"])
            inner["rope_theta"] = full.pop("rope_theta")
            inner["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
            inner["rope_scaling"] = {"type": full["rope_type"], **full}
    if not wrapped:
        return inner
    return {
        "model_type": "gemma4" if is_gemma4(config) else "gemma3",
        "text_config": inner,
        "vocab_size": config["vocab_size"],
    }


def mlx_name(name: str, wrapped: bool) -> str:
    return f"language_model.{name}" if wrapped else name


def mlx_agrees(config: dict) -> bool:
    """mlx-lm's Gemma 2 has no sliding layers."""
    return config["model_type"] != "gemma2" or config["sliding_window"] >= config["max_position_embeddings"]


# ---- GGUF


def _gguf_names(architecture: str, layers: int) -> dict:
    """Hugging Face name → GGUF name, by gguf's own map."""
    arch = {value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(arch, layers)
    outer = ("embed_tokens", "norm", "embed_tokens_per_layer", "per_layer_model_projection", "per_layer_projection_norm")
    paths = [f"model.{part}" for part in outer]
    parts = [f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")]
    parts += [f"mlp.{part}_proj" for part in ("gate", "up", "down")]
    parts += [f"{part}_layernorm" for part in ("input", "post_attention", "pre_feedforward", "post_feedforward")]
    parts += ["per_layer_input_gate", "per_layer_projection", "post_per_layer_input_norm", "router.proj"]
    parts += [f"{part}_feedforward_layernorm_{n}" for part, n in (("post", 1), ("post", 2), ("pre", 2))]
    paths += [f"model.layers.{layer}.{part}" for layer in range(layers) for part in parts]
    mapped = {f"{path}.weight": names.get_name(path) for path in paths}
    mapped = {name: f"{stored}.weight" for name, stored in mapped.items() if stored}
    if architecture == "gemma4":
        for layer in range(layers):
            at, block = f"model.layers.{layer}", f"blk.{layer}"
            mapped[f"{at}.layer_scalar"] = f"{block}.layer_output_scale.weight"
            mapped[f"{at}.router.scale"] = f"{block}.ffn_gate_inp.scale"
            mapped[f"{at}.router.per_expert_scale"] = f"{block}.ffn_down_exps.scale"
            mapped[f"{at}.experts.gate_up_proj"] = f"{block}.ffn_gate_up_exps.weight"
            mapped[f"{at}.experts.down_proj"] = f"{block}.ffn_down_exps.weight"
    return mapped


def add_gguf_config(writer: gguf.GGUFWriter, config: dict, name: str) -> None:
    layers = range(config["num_hidden_layers"])
    full = [layer for layer in layers if not slides(config, layer)]

    def one_or_all(values):
        return values[0] if len(set(values)) == 1 else values

    writer.add_name(name)
    writer.add_block_count(len(layers))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(one_or_all([inner_size(config, layer) for layer in layers]))
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(one_or_all([kv_heads(config, layer) for layer in layers]))
    writer.add_key_length(head_dim(config, full[0]))
    writer.add_value_length(head_dim(config, full[0]))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_sliding_window(config["sliding_window"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if not is_gemma4(config):
        writer.add_rope_freq_base(config["rope_theta"])
        if config.get("rope_scaling"):
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
        return
    rope, width = config["rope_parameters"], config["global_head_dim"]
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    writer.add_rope_dimension_count(width)
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_sliding_window_pattern([slides(config, layer) for layer in layers])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    if config.get("enable_moe_block"):
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    turning = int(rope["full_attention"]["partial_rotary_factor"] * width // 2)
    divisors = np.full(width // 2, 1e30, dtype=np.float32)
    divisors[:turning] = 1
    writer.add_tensor("rope_freqs.weight", divisors)


def to_gguf(weights: dict, config: dict) -> dict:
    """GGUF name → value. Norms of Gemma 2 and 3 are stored with the 1 added."""
    names = _gguf_names(config["model_type"].removesuffix("_text"), config["num_hidden_layers"])
    stored = {}
    for name, value in to_folder(weights, {**config, "num_kv_shared_layers": 0}, wrapped=False).items():
        is_norm = value.ndim == 1 and stores_norms_less_1(config)
        stored[names[name]] = value + 1 if is_norm else value
    return stored


def from_gguf(values: dict, architecture: str, layers: int) -> dict:
    """The reverse, of dequantised values by GGUF name."""
    names = {stored: name for name, stored in _gguf_names(architecture, layers).items()}
    less_1 = architecture != "gemma4"
    plain = {names[name]: value - 1 if value.ndim == 1 and less_1 else value for name, value in values.items()}
    return from_folder(plain, {"num_hidden_layers": layers})


def expected_frequencies(config: dict) -> dict:
    """Layer type → what a pair of dims turns by per position, in fp64."""
    if is_gemma4(config):
        rope = config["rope_parameters"]
        width = config["global_head_dim"]
        turning = int(rope["full_attention"]["partial_rotary_factor"] * width // 2)
        pairs = np.arange(width // 2)
        full = np.where(pairs < turning, rope["full_attention"]["rope_theta"] ** (-2.0 * pairs / width), 0)
    else:
        rope = config.get("rope_parameters") or {
            "full_attention": {"rope_theta": config["rope_theta"], **(config.get("rope_scaling") or {})},
            "sliding_attention": {"rope_theta": config.get("rope_local_base_freq", config["rope_theta"])},
        }
        width = config["head_dim"]
        full = rope["full_attention"]["rope_theta"] ** (-2.0 * np.arange(width // 2) / width)
        full = full / rope["full_attention"].get("factor", 1.0)
    width = config["head_dim"]
    sliding = rope["sliding_attention"]["rope_theta"] ** (-2.0 * np.arange(width // 2) / width)
    return {"full_attention": full, "sliding_attention": sliding}
