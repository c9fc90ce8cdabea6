"""Random weights of a fixture, by Hugging Face name, fp32.

Matrices are normal with a deviation of gain / sqrt(inputs), so that every branch moves the residual stream by
as much as it holds, attention is neither flat nor saturated, and logits reach a few units. Norm weights are
uniform in [0.5, 1.5] and biases are N(0, 0.1), so that an offset, a missing bias or a swapped norm shows.
"""

import re
import zlib

import gemma
import numpy as np
import qwen3_5
from fixtures import Fixture


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


def matrix_shapes(fixture: Fixture) -> dict:
    """Module path → (outputs, inputs, gain, has a bias)."""
    config = fixture.config
    if gemma.is_gemma(config):
        return gemma.matrix_shapes(config)
    hidden, inner = config["hidden_size"], config.get("intermediate_size")
    queries = config["num_attention_heads"] * fixture.head_dim
    keys = fixture.kv_heads * fixture.head_dim
    qkv_bias = fixture.family == "qwen2" or config.get("attention_bias", False)
    o_bias = config.get("attention_bias", False)
    # A tied embedding also makes the logits: at unit row length they stay within a few units.
    shapes = {
        "model.embed_tokens": (
            config["vocab_size"],
            hidden,
            1.0 if fixture.tied else 0.5 * hidden**0.5,
            False,
        )
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        if qwen3_5.is_hybrid(config):
            shapes |= qwen3_5.matrix_shapes(config, layer)
            shapes |= feed_forward_shapes(fixture, layer)
            continue
        shapes[f"{at}.self_attn.o_proj"] = (hidden, queries, 1.0, o_bias)
        if fixture.family == "phi3":
            shapes[f"{at}.self_attn.qkv_proj"] = (queries + 2 * keys, hidden, 1.1, False)
            shapes[f"{at}.mlp.gate_up_proj"] = (2 * inner, hidden, 1.0, False)
            shapes[f"{at}.mlp.down_proj"] = (hidden, inner, 1.0, False)
            continue
        shapes[f"{at}.self_attn.q_proj"] = (queries, hidden, 1.2, qkv_bias)
        shapes[f"{at}.self_attn.k_proj"] = (keys, hidden, 1.2, qkv_bias)
        shapes[f"{at}.self_attn.v_proj"] = (keys, hidden, 1.0, qkv_bias)
        shapes |= feed_forward_shapes(fixture, layer)
    if not fixture.tied:
        shapes["lm_head"] = (config["vocab_size"], hidden, 1.5, False)
    return shapes


def feed_forward_shapes(fixture: Fixture, layer: int) -> dict:
    config, at = fixture.config, f"model.layers.{layer}"
    hidden, has_bias = config["hidden_size"], config.get("mlp_bias", False)

    def gated(path, inner, gain):
        return {
            f"{path}.gate_proj": (inner, hidden, 1.0, has_bias),
            f"{path}.up_proj": (inner, hidden, 1.0, has_bias),
            f"{path}.down_proj": (hidden, inner, gain, has_bias),
        }

    if not fixture.is_sparse(layer):
        return gated(f"{at}.mlp", config["intermediate_size"], 1.0)
    # A router with a wide spread, and experts that differ: a wrong choice shows.
    shapes = {f"{at}.mlp.gate": (config["num_experts"], hidden, 2.0, False)}
    for expert in range(config["num_experts"]):
        shapes |= gated(f"{at}.mlp.experts.{expert}", config["moe_intermediate_size"], 1.5)
    if "shared_expert_intermediate_size" in config:
        shapes[f"{at}.mlp.shared_expert_gate"] = (1, hidden, 1.0, False)
        shapes |= gated(f"{at}.mlp.shared_expert", config["shared_expert_intermediate_size"], 1.0)
    return shapes


def norm_shapes(fixture: Fixture) -> dict:
    """Norm name → width."""
    hidden = fixture.config["hidden_size"]
    shapes = {"model.norm": hidden}
    for layer in range(fixture.config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm"] = hidden
        shapes[f"{at}.post_attention_layernorm"] = hidden
        if fixture.family in ("qwen3", "qwen3_moe"):
            shapes[f"{at}.self_attn.q_norm"] = fixture.head_dim
            shapes[f"{at}.self_attn.k_norm"] = fixture.head_dim
    return shapes


def random_weights(fixture: Fixture) -> dict:
    random = np.random.default_rng(seed_of(fixture.name))
    weights = {}
    for path, (outputs, inputs, gain, has_bias) in matrix_shapes(fixture).items():
        weights[f"{path}.weight"] = random.standard_normal((outputs, inputs)) * (gain / inputs**0.5)
        if has_bias:
            weights[f"{path}.bias"] = random.standard_normal(outputs) * 0.1
    if gemma.is_gemma(fixture.config):
        weights |= gemma.vectors(fixture.config, random)
    elif qwen3_5.is_hybrid(fixture.config):
        weights["model.norm.weight"] = random.integers(-64, 64, fixture.config["hidden_size"]) / 128
        for layer in range(fixture.config["num_hidden_layers"]):
            weights |= qwen3_5.vectors(fixture.config, layer, random)
    else:
        for path, width in norm_shapes(fixture).items():
            weights[f"{path}.weight"] = random.uniform(0.5, 1.5, width)
    return {name: value.astype(np.float32) for name, value in weights.items()}


EXPERT = re.compile(r"^(.*)\.experts\.(\d+)\.(gate|up|down)_proj\.weight$")


def stack_experts(weights: dict, name: str) -> dict:
    """A mixture's matrices per expert → one [E, out, in] per role; `name` is formatted with layer's path and role."""
    stacked, roles = {}, {}
    for key, value in weights.items():
        found = EXPERT.match(key)
        if not found:
            stacked[key] = value
            continue
        roles.setdefault(name.format(found[1], found[3]), {})[int(found[2])] = value
    for key, experts in roles.items():
        stacked[key] = np.stack([experts[expert] for expert in range(len(experts))])
    return stacked


def unstack_experts(path: str, role: str, value: np.ndarray) -> dict:
    """The reverse, of one role: `path` is that of the layer's feed-forward."""
    return {f"{path}.experts.{e}.{role}_proj.weight": matrix for e, matrix in enumerate(value)}
