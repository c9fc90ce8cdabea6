"""The tiny models: what each config holds and in which formats it is written.

Together they exercise every quirk of the llama, qwen2, qwen3, qwen3_moe, phi3, smollm3 and gemma families: grouped heads, a query width that
is not the model width, biases, tied and untied heads, a missing tie key, every RoPE scaling in scope, both
spellings of the RoPE keys, mixed bit widths, several groups, sharded files and data at odd offsets.
"""

import re
from dataclasses import dataclass, field

VOCABULARY = 320


@dataclass(frozen=True)
class MlxVariant:
    """One MLX quantisation.

    `overrides` maps a module path to its bits, to all of its parameters, or to None: left as it is.
    """

    bits: int
    group: int
    dtype: str = "bf16"  # of scales, biases, norms
    mode: str = "affine"
    overrides: dict = field(default_factory=dict)
    name: str = ""  # tells mixtures apart

    @property
    def format(self) -> str:
        return self.name or ("mlx-mixed" if self.overrides else self._format(self.bits, self.mode))

    @staticmethod
    def _format(bits: int, mode: str) -> str:
        return f"mlx{bits}" if mode == "affine" else f"mlx-{mode}"

    def parameters_of(self, path: str) -> dict | None:
        """bits, group_size and mode of a module; None: not quantised."""
        own = self.overrides.get(path, self.bits)
        if own is None:
            return None
        own = own if isinstance(own, dict) else {"bits": own}
        return {"group_size": self.group, "bits": self.bits, "mode": self.mode, **own}

    def format_of(self, name: str) -> str:
        """The format of one matrix, by the name of its weight; experts lie in one stack."""
        if not self.overrides and name.endswith((".mlp.gate.weight", ".mlp.shared_expert_gate.weight", ".router.proj.weight")):
            return "mlx8"  # mlx-lm's own choice for routers
        stack = ".switch_mlp." if ".mlp." in name else ".experts.switch_glu."
        own = self.parameters_of(re.sub(r"\.experts\.\d+\.", stack, name.removesuffix(".weight")))
        return self.dtype if own is None else self._format(own["bits"], own["mode"])

    @property
    def folder(self) -> str:
        return f"{self.format}-g{self.group}" + ("" if self.dtype == "bf16" else f"-{self.dtype}")


@dataclass(frozen=True)
class Fixture:
    """`config` is config.json as written; `tied` says what it means where the tie key is missing.

    `pre` is the tokenizer's pre-tokenizer by its GGUF name. `layout` is how the safetensors are laid out:
    "single", "sharded" (three files and an index) or "odd" (one file whose data starts at an odd offset).
    """

    name: str
    config: dict
    tied: bool
    pre: str
    mlx: tuple
    layout: str = "single"
    mixed_gguf: bool = False
    in_gguf: bool = True
    gguf: tuple | None = None  # instead of the usual types
    hf: tuple | None = None  # instead of the usual dtypes
    steps: int = 64  # tokens after the prompt
    wrapped: bool = False  # folders hold the language part of a model that also sees images

    @property
    def family(self) -> str:
        return {"mistral": "llama"}.get(self.config["model_type"], self.config["model_type"].removesuffix("_text"))

    @property
    def head_dim(self) -> int:
        config = self.config
        return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]

    @property
    def kv_heads(self) -> int:
        return self.config.get("num_key_value_heads", self.config["num_attention_heads"])

    @property
    def in_dimensions(self) -> tuple:
        config = self.config
        return (
            config["hidden_size"],
            config["num_attention_heads"] * self.head_dim,
            config.get("intermediate_size", config["hidden_size"]),
            config.get("moe_intermediate_size") or config["intermediate_size"],
        )

    @property
    def rotated_dims(self) -> int:
        partial = self.rope.get("partial_rotary_factor", self.config.get("partial_rotary_factor", 1.0))
        return int(self.head_dim * partial)

    @property
    def amplifies_rounding(self) -> bool:
        return "num_experts" in self.config or self.family.startswith("qwen3_5")

    @property
    def gguf_architecture(self) -> str:
        return {"qwen3_moe": "qwen3moe", "qwen3_5": "qwen35"}.get(self.family, self.family)

    def is_sparse(self, layer: int) -> bool:
        """Whether this layer's feed-forward is a mixture of experts."""
        return "num_experts" in self.config and layer not in self.config.get("mlp_only_layers", [])

    @property
    def is_256(self) -> bool:
        """Whether every matrix row is whole 256-element blocks."""
        return all(size % 256 == 0 for size in self.in_dimensions)

    @property
    def hf_dtypes(self) -> tuple:
        """The larger fixtures leave out what the others show, to keep the files small."""
        if self.hf is not None:
            return self.hf
        return ("fp32", "bf16") if self.is_256 else ("fp32", "bf16", "fp16")

    @property
    def gguf_types(self) -> tuple:
        if not self.in_gguf:
            return ()
        if self.gguf is not None:
            return self.gguf
        types = ("F16", "Q4_0", "Q4_1", "Q8_0") + (("Q6_K",) if self.is_256 else ("F32",))
        return types + (("mixed",) if self.mixed_gguf else ())

    @property
    def rope(self) -> dict:
        """`rope_theta`, and the scaling's keys with `rope_type`, in one spelling."""
        config = self.config
        rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        rope.setdefault("rope_theta", config.get("rope_theta"))
        rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type", "default")
        return rope


def _config(model_type, hidden, layers, heads, kv_heads, intermediate, **more):
    architecture = {
        "gemma2": "Gemma2",
        "gemma3_text": "Gemma3",
        "gemma4_text": "Gemma4",
        "llama": "Llama",
        "mistral": "Mistral",
        "phi3": "Phi3",
        "qwen2": "Qwen2",
        "qwen3": "Qwen3",
        "qwen3_moe": "Qwen3Moe",
        "smollm3": "SmolLM3",
        "qwen3_5_text": "Qwen3_5",
        "qwen3_5_moe_text": "Qwen3_5Moe",
    }[model_type]
    return {
        "architectures": [f"{architecture}ForCausalLM"],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": 2,
        **more,
    }


def _mixed_overrides(*layers: int, left_alone: str | None = None) -> dict:
    """8 bits for the embedding, the head and every matrix of these layers, experts included."""
    paths = ["model.embed_tokens", "lm_head"]
    for layer in layers:
        paths += [f"model.layers.{layer}.self_attn.{part}_proj" for part in "qkvo"]
        paths += [f"model.layers.{layer}.mlp.{part}_proj" for part in ("gate", "up", "down")]
        paths += [f"model.layers.{layer}.mlp.switch_mlp.{part}_proj" for part in ("gate", "up", "down")]
    return {path: None if path == left_alone else 8 for path in paths}


def _mode(mode: str) -> dict:
    group, bits = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}[mode]
    return {"group_size": group, "bits": bits, "mode": mode}


# Every affine width and group that no other checkpoint has.
MIXED_WIDTHS = {
    "model.embed_tokens": {"bits": 6, "group_size": 32},
    "lm_head": {"bits": 6, "group_size": 64},
    "model.layers.0.self_attn.q_proj": {"bits": 5, "group_size": 32},
    "model.layers.0.self_attn.k_proj": {"bits": 5, "group_size": 64},
    "model.layers.0.self_attn.v_proj": {"bits": 5, "group_size": 128},
    "model.layers.0.self_attn.o_proj": {"bits": 6, "group_size": 128},
    "model.layers.0.mlp.gate_proj": {"bits": 3, "group_size": 32},
    "model.layers.0.mlp.up_proj": {"bits": 3, "group_size": 64},
    "model.layers.0.mlp.down_proj": {"bits": 3, "group_size": 128},
    "model.layers.1.mlp.gate_proj": {"bits": 2, "group_size": 32},
    "model.layers.1.mlp.up_proj": {"bits": 2, "group_size": 64},
}
# All modes in one file, some modules left as they are.
MIXED_MODES = {
    "model.embed_tokens": _mode("mxfp8"),
    "lm_head": {"group_size": 64, "bits": 6, "mode": "affine"},
    "model.layers.0.self_attn.v_proj": _mode("mxfp8"),
    "model.layers.0.mlp.down_proj": _mode("mxfp4"),
    "model.layers.1.self_attn.q_proj": {"group_size": 32, "bits": 4, "mode": "affine"},
    "model.layers.1.self_attn.o_proj": None,
}


def _hybrid_config(model_type, hidden, layers, intermediate, head_dim, delta, tied, **more):
    """`delta`: key heads, value heads, key dim, value dim."""
    config = _config(
        model_type,
        hidden,
        layers,
        4,
        2,
        intermediate,
        head_dim=head_dim,
        tie_word_embeddings=tied,
        rope_parameters={"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 0.25},
        full_attention_interval=4,
        linear_num_key_heads=delta[0],
        linear_num_value_heads=delta[1],
        linear_key_head_dim=delta[2],
        linear_value_head_dim=delta[3],
        linear_conv_kernel_dim=4,
        **more,
    )
    return {key: value for key, value in config.items() if value is not None}


def _hybrid_overrides(*layers: int) -> dict:
    paths = ["model.embed_tokens"]
    for layer in layers:
        at = f"model.layers.{layer}"
        paths += [f"{at}.mlp.{part}_proj" for part in ("gate", "up", "down")]
        paths += [f"{at}.linear_attn.{part}" for part in ("in_proj_qkv", "in_proj_z", "in_proj_a", "out_proj")]
        paths += [f"{at}.self_attn.{part}_proj" for part in "qkvo"]
    return dict.fromkeys(paths, 8)

def _gemma_config(model_type, hidden, layers, intermediate, **more):
    config = _config(model_type, hidden, layers, 4, 2, intermediate, hidden_activation="gelu_pytorch_tanh", **more)
    del config["hidden_act"]
    return config


def _gemma4_config(hidden, types, intermediate, window, **more):
    """`types`: a letter per layer, s(liding) or f(ull)."""
    defaults = {
        "num_global_key_value_heads": None,
        "global_head_dim": 64,
        "attention_k_eq_v": False,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": VOCABULARY,
        "use_double_wide_mlp": False,
        "enable_moe_block": False,
        "head_dim": 32,
        "tie_word_embeddings": True,
    }
    return _gemma_config(
        "gemma4_text",
        hidden,
        len(types),
        intermediate,
        **{**defaults, **more},
        sliding_window=window,
        final_logit_softcapping=5.0,
        layer_types=[{"s": "sliding_attention", "f": "full_attention"}[kind] for kind in types],
        rope_parameters={
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e5, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
        },
    )


def _gemma_overrides(*layers: int) -> dict:
    """8 bits for the tied embedding, what feeds all layers, and every matrix of these layers."""
    paths = ["model.embed_tokens", "model.embed_tokens_per_layer", "model.per_layer_model_projection"]
    for layer in layers:
        at = f"model.layers.{layer}"
        paths += [f"{at}.self_attn.{part}_proj" for part in "qkvo"]
        paths += [f"{at}.mlp.{part}_proj" for part in ("gate", "up", "down")]
        paths += [f"{at}.experts.switch_glu.{part}_proj" for part in ("gate", "up", "down")]
        paths += [f"{at}.per_layer_input_gate", f"{at}.per_layer_projection"]
    return dict.fromkeys(paths, 8)


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_SCALING = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "mscale": 1.0}

FIXTURES = (
    Fixture(
        name="llama-a",
        config=_config(
            "llama",
            64,
            2,
            4,
            2,
            128,
            head_dim=32,
            rope_theta=500.0,
            rope_scaling=LLAMA3_SCALING,
            tie_word_embeddings=False,
            attention_bias=True,
            mlp_bias=True,
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 64)),
    ),
    Fixture(
        name="llama-b",
        config=_config(
            "llama",
            128,
            2,
            4,
            2,
            192,
            rope_theta=10000.0,
            rope_scaling=YARN_SCALING,
            max_position_embeddings=256,
        ),
        tied=True,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 64), MlxVariant(8, 32)),
    ),
    Fixture(
        name="llama-linear",
        config=_config(
            "llama",
            96,
            2,
            3,
            3,
            128,
            rope_theta=10000.0,
            rope_scaling={"type": "linear", "factor": 4.0},
            tie_word_embeddings=True,
        ),
        tied=True,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 32),),
    ),
    Fixture(
        name="minicpm5-like",
        config=_config(
            "llama",
            96,
            3,
            4,
            1,
            160,
            head_dim=32,
            rope_theta=5000000.0,
            tie_word_embeddings=False,
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32), MlxVariant(4, 32, overrides=_mixed_overrides(0, 2))),
    ),
    Fixture(
        name="mistral",
        config=_config(
            "mistral",
            128,
            2,
            4,
            2,
            192,
            head_dim=64,
            tie_word_embeddings=False,
            sliding_window=None,
            rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 64), MlxVariant(8, 64)),
        layout="odd",
    ),
    Fixture(
        name="smollm-like",
        config=_config(
            "llama",
            192,
            2,
            3,
            1,
            256,
            rope_theta=100000.0,
            rope_scaling=None,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
        ),
        tied=True,
        pre="smollm",
        mlx=(MlxVariant(4, 64), MlxVariant(8, 64)),
    ),
    Fixture(
        name="llama-256",
        config=_config(
            "llama",
            256,
            2,
            4,
            2,
            512,
            tie_word_embeddings=False,
            rope_parameters={**LLAMA3_SCALING, "rope_theta": 500000.0},
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(
            MlxVariant(4, 32),
            MlxVariant(4, 64),
            MlxVariant(4, 128),
            MlxVariant(8, 32),
            MlxVariant(8, 64),
            MlxVariant(8, 128),
            MlxVariant(4, 64, dtype="fp16"),
        ),
        layout="sharded",
        mixed_gguf=True,
    ),
    Fixture(
        name="qwen2-tiny",
        config=_config("qwen2", 128, 2, 4, 2, 160, rope_theta=1000000.0, tie_word_embeddings=True),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
    ),
    Fixture(
        name="qwen2-256",
        config=_config("qwen2", 256, 2, 4, 1, 256, rope_theta=1000000.0, tie_word_embeddings=False),
        tied=False,
        pre="qwen2",
        mlx=(MlxVariant(4, 64), MlxVariant(4, 128), MlxVariant(8, 128)),
    ),
    Fixture(
        name="qwen3-tiny",
        config=_config(
            "qwen3",
            128,
            2,
            4,
            2,
            128,
            head_dim=64,
            tie_word_embeddings=False,
            rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"},
        ),
        tied=False,
        pre="qwen2",
        mlx=(MlxVariant(4, 64), MlxVariant(8, 32)),
    ),
    Fixture(
        name="qwen3-256",
        config=_config(
            "qwen3",
            256,
            2,
            4,
            2,
            256,
            head_dim=64,
            rope_theta=1000000.0,
            tie_word_embeddings=True,
        ),
        tied=True,
        pre="qwen2",
        mlx=(
            MlxVariant(4, 64),
            MlxVariant(4, 128),
            MlxVariant(8, 64),
            MlxVariant(8, 128),
            MlxVariant(4, 64, overrides=_mixed_overrides(0, left_alone="model.layers.0.self_attn.o_proj")),
        ),
    ),
    Fixture(  # weights that do not sum to 1, one layer without experts: neither can be said in GGUF
        name="qwen3-moe-tiny",
        config=_config(
            "qwen3_moe",
            128,
            3,
            4,
            2,
            192,
            head_dim=64,
            rope_theta=1000000.0,
            tie_word_embeddings=False,
            num_experts=8,
            num_experts_per_tok=2,
            moe_intermediate_size=64,
            norm_topk_prob=False,
            mlp_only_layers=[1],
            decoder_sparse_step=1,
        ),
        tied=False,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 64), MlxVariant(4, 64, overrides=_mixed_overrides(0))),
        in_gguf=False,
    ),
    Fixture(
        name="qwen3-moe-256",
        config=_config(
            "qwen3_moe",
            256,
            2,
            4,
            2,
            256,
            head_dim=64,
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_experts=8,
            num_experts_per_tok=3,
            moe_intermediate_size=256,
            norm_topk_prob=True,
            mlp_only_layers=[],
            decoder_sparse_step=1,
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 64), MlxVariant(8, 128)),
    ),
    Fixture(
        name="phi3",
        config=_config(
            "phi3",
            128,
            2,
            4,
            2,
            160,
            rope_theta=10000.0,
            partial_rotary_factor=0.75,
            rope_scaling={
                "type": "longrope",
                "long_factor": [1.0 + 0.5 * i for i in range(12)],
                "short_factor": [1.0 + 0.1 * i for i in range(12)],
            },
            original_max_position_embeddings=64,
            pad_token_id=2,
            max_position_embeddings=256,
            sliding_window=300,
            tie_word_embeddings=False,
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
    ),
    Fixture(
        name="smollm3",
        config=_config(
            "smollm3",
            64,
            4,
            4,
            2,
            128,
            rope_theta=2000000.0,
            tie_word_embeddings=True,
            no_rope_layer_interval=4,
            pad_token_id=2,
        ),
        tied=True,
        pre="smollm",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 64)),
    ),
    Fixture(
        name="llama-formats",
        config=_config(
            "llama", 256, 2, 4, 2, 512, rope_theta=10000.0, tie_word_embeddings=False, rms_norm_eps=1e-5
        ),
        tied=False,
        pre="llama-bpe",
        mlx=(
            MlxVariant(4, 32, mode="mxfp4"),
            MlxVariant(8, 32, mode="mxfp8"),
            MlxVariant(4, 16, mode="nvfp4"),
            MlxVariant(4, 16, mode="nvfp4", overrides=MIXED_MODES, name="mlx-modes"),
            MlxVariant(4, 32, overrides=MIXED_WIDTHS, name="mlx-widths"),
        ),
        hf=(),
        gguf=(
            "Q5_0",
            "Q5_1",
            "Q2_K",
            "Q3_K",
            "Q4_K",
            "Q5_K",
            "IQ4_NL",
            "IQ4_XS",
            "MXFP4",
            "mixed-k",
        ),
    ),
    Fixture(
        name="qwen3_5-tiny",
        config=_hybrid_config("qwen3_5_text", 64, 5, 128, 32, (2, 4, 32, 32), True),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 64), MlxVariant(4, 32, overrides=_hybrid_overrides(0, 4))),
    ),
    Fixture(  # several times 64 positions, heads that fill no vector, another model's parts beside it
        name="qwen3_5-wrapped",
        config=_hybrid_config("qwen3_5_text", 128, 4, 160, 64, (2, 6, 48, 48), False),
        tied=False,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
        layout="sharded",
        steps=190,
        wrapped=True,
    ),
    Fixture(
        name="qwen3_5-moe",
        config=_hybrid_config(
            "qwen3_5_moe_text",
            128,
            4,
            None,
            32,
            (2, 4, 32, 32),
            False,
            num_experts=8,
            num_experts_per_tok=2,
            moe_intermediate_size=64,
            shared_expert_intermediate_size=96,
        ),
        tied=False,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
        in_gguf=False,
    ),
    Fixture(  # alternating windows, which mlx-lm does not have; a scale and caps that bite
        name="gemma2-tiny",
        config=_gemma_config(
            "gemma2",
            96,
            4,
            128,
            head_dim=32,
            query_pre_attn_scalar=48,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=5.0,
            sliding_window=8,
            rope_theta=10000.0,
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
        in_gguf=False,
        steps=120,
    ),
    Fixture(
        name="gemma2-full",
        config=_gemma_config(
            "gemma2",
            64,
            2,
            128,
            head_dim=32,
            query_pre_attn_scalar=32,
            attn_logit_softcapping=8.0,
            final_logit_softcapping=10.0,
            sliding_window=512,
            rope_theta=1000.0,
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(4, 32, overrides=_gemma_overrides(0))),
        hf=("fp32", "bf16"),
    ),
    Fixture(
        name="gemma3-tiny",
        config=_gemma_config(
            "gemma3_text",
            64,
            7,
            128,
            head_dim=32,
            query_pre_attn_scalar=32,
            sliding_window=8,
            sliding_window_pattern=6,
            rope_theta=100000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32), MlxVariant(4, 32, overrides=_gemma_overrides(0, 6))),
    ),
    Fixture(  # beyond a split of 256 positions; new spellings; the language part of a model that sees images
        name="gemma3-wrapped",
        config=_gemma_config(
            "gemma3_text",
            64,
            6,
            160,
            head_dim=64,
            query_pre_attn_scalar=40,
            sliding_window=32,
            sliding_window_pattern=3,
            layer_types=(["sliding_attention"] * 2 + ["full_attention"]) * 2,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
            },
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32)),
        layout="sharded",
        in_gguf=False,
        hf=("fp32", "bf16"),
        steps=280,
        wrapped=True,
    ),
    Fixture(  # as E2B and E4B: per-layer inputs, layers that share keys and values, a wider feed-forward there
        name="gemma4-e",
        config=_gemma4_config(
            96,
            "ssfssf",
            128,
            8,
            hidden_size_per_layer_input=32,
            num_kv_shared_layers=2,
            use_double_wide_mlp=True,
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32), MlxVariant(4, 32, overrides=_gemma_overrides(0, 5))),
    ),
    Fixture(  # as 12B and 31B: values that are the keys of full layers, fewer heads there
        name="gemma4-dense",
        config=_gemma4_config(64, "sssf", 160, 32, attention_k_eq_v=True, num_global_key_value_heads=1),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32), MlxVariant(4, 32, overrides=_gemma_overrides(0, 3))),
        layout="sharded",
        steps=190,
        wrapped=True,
    ),
    Fixture(  # as 26B-A4B: experts beside a dense feed-forward
        name="gemma4-moe",
        config=_gemma4_config(
            64,
            "sssf",
            96,
            16,
            attention_k_eq_v=True,
            num_global_key_value_heads=2,
            enable_moe_block=True,
            num_experts=8,
            top_k_experts=2,
            moe_intermediate_size=64,
        ),
        tied=True,
        pre="qwen2",
        mlx=(MlxVariant(4, 32), MlxVariant(8, 32), MlxVariant(4, 32, overrides=_gemma_overrides(0, 3))),
        hf=("fp32", "bf16"),
        gguf=("F32", "F16", "Q8_0"),
    ),
)
