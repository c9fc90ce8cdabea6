"""GGUF files as the usual converter writes them: names, metadata, row permutation, block types."""

import re
from pathlib import Path

import gemma
import gguf
import k_quants
import numpy as np
import qwen3_5
import q6_k
from fixtures import Fixture
from tokenizers import Tokenizer
from weights import stack_experts

# Hugging Face part → GGUF part, inside one layer.
LAYER_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
PHI3_PARTS = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
OUTER_PARTS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

# A file of several types, as the converters' mixed recipes give them.
MIXED = {
    "token_embd": "Q8_0",
    "attn_q": "Q4_0",
    "attn_k": "Q4_0",
    "attn_v": "F16",
    "attn_output": "Q4_1",
    "ffn_gate": "Q4_0",
    "ffn_up": "Q4_1",
    "ffn_down": "Q6_K",
    "output": "Q6_K",
}

# As K-quant recipes mix them, with the types they fall back to.
MIXED_K = {
    "token_embd": "Q3_K",
    "attn_q": "Q4_K",
    "attn_k": "Q5_0",
    "attn_v": "Q6_K",
    "attn_output": "Q5_K",
    "ffn_gate": "IQ4_NL",
    "ffn_up": "Q4_K",
    "ffn_down": "Q2_K",
    "output": "Q5_1",
}
MIXTURES = {"mixed": MIXED, "mixed-k": MIXED_K}

CONTROL, NORMAL = 3, 1


def gguf_name(name: str, is_hybrid: bool = False) -> str:
    """model.layers.0.self_attn.q_proj.weight → blk.0.attn_q.weight"""
    if own := qwen3_5.gguf_name(name) if is_hybrid else None:
        return own
    path, suffix = name.rsplit(".", 1)
    if path in OUTER_PARTS:
        return f"{OUTER_PARTS[path]}.{suffix}"
    layer, part = path.removeprefix("model.layers.").split(".", 1)
    part = re.sub(r"experts\.\d+\.", "experts.", part)
    return f"blk.{layer}.{(LAYER_PARTS | PHI3_PARTS)[part]}.{suffix}"


def hf_name(name: str, arch: str) -> str:
    if own := qwen3_5.hf_name(name) if arch == "qwen35" else None:
        return own
    path, suffix = name.rsplit(".", 1)
    outer = {part: whole for whole, part in OUTER_PARTS.items()}
    if path in outer:
        return f"{outer[path]}.{suffix}"
    _, layer, part = path.split(".")
    parts = LAYER_PARTS | PHI3_PARTS if arch == "phi3" else LAYER_PARTS
    layer_parts = {there: here for here, there in parts.items()}
    return f"model.layers.{layer}.{layer_parts[part]}.{suffix}"


def permute(rows: np.ndarray, heads: int) -> np.ndarray:
    """Half-split rows of each head → interleaved pairs, as files of the llama architecture hold q and k."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    pairs = rows.shape[0] // heads // 2
    return rows.reshape(heads, pairs, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def permuted_heads(name: str, arch: str, heads: int, kv_heads: int) -> int:
    """In how many heads the rows of this Hugging Face tensor are permuted in the file; 0: they are not."""
    if arch not in ("llama", "smollm3"):
        return 0
    return heads if ".q_proj." in name else kv_heads if ".k_proj." in name else 0


def llama3_divisors(rope: dict, head_dim: int) -> np.ndarray:
    """`rope_freqs`: base frequency i is divided by entry i. fp32 [head_dim / 2]."""
    frequency = 1.0 / rope["rope_theta"] ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    turns = rope["original_max_position_embeddings"] * frequency / (2 * np.pi)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    blend = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - blend) / factor + blend)).astype(np.float32)


def type_of(name: str, kind: str) -> str:
    """The GGUF type of a matrix, by its Hugging Face name, in a file of this kind."""
    return MIXTURES[kind][gguf_name(name).split(".")[-2]] if kind in MIXTURES else kind


def encode_rows(encoder, values: np.ndarray) -> np.ndarray:
    """A stack of matrices through an encoder of one."""
    return encoder(values.reshape(-1, values.shape[-1])).reshape(*values.shape[:-1], -1)


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "Q6_K":
        return encode_rows(q6_k.encode, values)
    if kind in k_quants.ENCODERS:
        return encode_rows(lambda rows: k_quants.encode(rows, kind), values)
    return gguf.quantize(values, gguf.GGMLQuantizationType[kind])


def _add_config(writer: gguf.GGUFWriter, fixture: Fixture) -> None:
    if gemma.is_gemma(fixture.config):
        return gemma.add_gguf_config(writer, fixture.config, fixture.name)
    config, rope = fixture.config, fixture.rope
    writer.add_name(fixture.name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(fixture.kv_heads)
    writer.add_key_length(fixture.head_dim)
    writer.add_value_length(fixture.head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(fixture.rotated_dims)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if qwen3_5.is_hybrid(config):
        qwen3_5.add_gguf_config(writer, config)
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if rope["rope_type"] == "longrope":
        original = config["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        ratio = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(ratio) / np.log(original))))
        for length in ("long", "short"):
            factors = np.array(rope[f"{length}_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{length}.weight", factors)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope, fixture.head_dim))


def _add_tokenizer(
    writer: gguf.GGUFWriter, fixture: Fixture, tokenizer: Tokenizer, merges: list, template: str
):
    specials = set(tokenizer.get_added_tokens_decoder())
    size = tokenizer.get_vocab_size()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(fixture.pre)
    writer.add_token_list([tokenizer.id_to_token(token) for token in range(size)])
    writer.add_token_types([CONTROL if token in specials else NORMAL for token in range(size)])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(fixture.config["bos_token_id"])
    writer.add_eos_token_id(fixture.config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)


def write(
    path: Path, fixture: Fixture, weights: dict, kind: str, tokenizer: Tokenizer, merges, template
) -> None:
    """`kind` is a GGUF type for every matrix, or a mixture; vectors stay F32."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arch = fixture.gguf_architecture
    writer = gguf.GGUFWriter(path, arch)
    _add_config(writer, fixture)
    _add_tokenizer(writer, fixture, tokenizer, merges, template)
    if gemma.is_gemma(fixture.config):
        for stored, value in gemma.to_gguf(weights, fixture.config).items():
            if value.ndim == 1:
                writer.add_tensor(stored, value)
            else:
                writer.add_tensor(stored, encode(value, kind), raw_dtype=gguf.GGMLQuantizationType[kind])
        weights = {}
    for name, value in stack_experts(weights, "{}.experts.{}_proj.weight").items():
        heads = permuted_heads(name, arch, fixture.config["num_attention_heads"], fixture.kv_heads)
        value = permute(value, heads) if heads else value
        is_hybrid = arch == "qwen35"
        stored = gguf_name(name, is_hybrid)
        if is_hybrid:
            value = qwen3_5.to_gguf(name, value, fixture.config)
        if value.ndim == 1 or qwen3_5.is_convolution(name):
            writer.add_tensor(stored, value)
            continue
        own = type_of(name, kind)
        writer.add_tensor(stored, encode(value, own), raw_dtype=gguf.GGMLQuantizationType[own])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
