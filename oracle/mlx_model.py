"""mlx-lm: the writer of MLX-quantised folders and the second truth (its own forward in fp32)."""

import contextlib
import io
import json
from pathlib import Path

import gemma
import hf_checkpoint
import mlx.core as mx
import numpy as np
import qwen3_5
from fixtures import Fixture, MlxVariant
from mlx.utils import tree_flatten
from mlx_lm.perplexity import eval_ppl
from mlx_lm.utils import _get_classes, load_model, quantize_model, save_config, save_model
from weights import stack_experts

mx.set_default_device(mx.cpu)

PERPLEXITY_WINDOW = 25
DTYPES = {"bf16": mx.bfloat16, "fp16": mx.float16, "fp32": mx.float32}


def _mlx_config(fixture: Fixture) -> dict:
    """The config in the spelling that mlx-lm's dense families read, nothing left to a default."""
    if qwen3_5.is_hybrid(fixture.config):  # one class for dense and mixture
        return {**fixture.config, "model_type": "qwen3_5", "tie_word_embeddings": fixture.tied}
    if gemma.is_gemma(fixture.config):
        return gemma.mlx_config(fixture.config, fixture.wrapped)
    config = {key: value for key, value in fixture.config.items() if key != "rope_parameters"}
    rope = fixture.rope
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else {**rope, "type": rope["rope_type"]}
    config["tie_word_embeddings"] = fixture.tied
    return config


def _build(fixture: Fixture, weights: dict, dtype: str):
    model_class, args_class = _get_classes(_mlx_config(fixture))
    model = model_class(args_class.from_dict(_mlx_config(fixture)))
    is_gemma = gemma.is_gemma(fixture.config)
    stack = "{}.experts.switch_glu.{}_proj.weight" if is_gemma else "{}.switch_mlp.{}_proj.weight"
    weights = stack_experts(weights, stack)
    if is_gemma:
        weights = {gemma.mlx_name(name, fixture.wrapped): value for name, value in weights.items()}
    arrays = {name: mx.array(value).astype(DTYPES[dtype]) for name, value in weights.items()}
    if hasattr(model, "sanitize") and (is_gemma or qwen3_5.is_hybrid(fixture.config)):
        arrays = model.sanitize(arrays)
    model.load_weights(list(arrays.items()), strict=True)
    mx.eval(model.parameters())
    return model


def write_quantised(folder: Path, fixture: Fixture, weights: dict, variant: MlxVariant) -> None:
    """What mlx-lm's converter writes: weights in `variant.dtype`, quantised by mlx itself."""

    def predicate(path, _module):
        path = path.removeprefix("language_model.")
        if path not in variant.overrides:
            return True
        return variant.parameters_of(path) or False

    model = _build(fixture, weights, variant.dtype)
    config = hf_checkpoint.with_dtype(fixture.config, variant.dtype)
    if qwen3_5.is_hybrid(config):
        config = qwen3_5.wrapper_config(config)
    elif fixture.wrapped:
        config = gemma.wrapper_config(config)
    with contextlib.redirect_stdout(io.StringIO()):
        model, config = quantize_model(
            model,
            config,
            variant.group,
            variant.bits,
            mode=variant.mode,
            quant_predicate=predicate if variant.overrides else None,
        )
    for path, bits in variant.overrides.items():
        if bits is None:
            config["quantization"][path] = False
    save_model(folder, model)
    save_config(config, folder / "config.json")


def _load_quantised(folder: Path, fixture: Fixture):
    """A quantised folder on mlx-lm's own packed matmuls, in fp32."""
    overlay = {"quantization": json.loads((folder / "config.json").read_text())["quantization"]}
    model, _ = load_model(folder, model_config={**_mlx_config(fixture), **overlay})
    model.set_dtype(mx.float32)
    floats = {value.dtype for _, value in tree_flatten(model.parameters())} - {mx.uint32, mx.uint8}
    if floats != {mx.float32}:
        raise ValueError(f"{folder}: mlx-lm's model holds {floats}, expected fp32 scales, biases and norms")
    return model


def logits(fixture: Fixture, tokens: np.ndarray, weights: dict) -> np.ndarray:
    """mlx-lm's fp32 forward of plain weights, [T, V]."""
    model = _build(fixture, weights, "fp32")
    return np.array(model(mx.array(tokens)[None])[0])


def quantised_logits(folder: Path, fixture: Fixture, tokens: np.ndarray) -> np.ndarray:
    """mlx-lm's forward of a quantised folder, in fp32, [T, V]."""
    return np.array(_load_quantised(folder, fixture)(mx.array(tokens)[None])[0])


def perplexity(fixture: Fixture, folder: Path, weights: dict, tokens: np.ndarray, format_name: str) -> tuple:
    """mlx-lm's own perplexity of the tokens in windows of PERPLEXITY_WINDOW, and its standard error."""
    quantised = format_name.startswith("mlx")
    model = _load_quantised(folder, fixture) if quantised else _build(fixture, weights, "fp32")
    windows = len(tokens) // PERPLEXITY_WINDOW
    data = mx.array(tokens[: windows * PERPLEXITY_WINDOW]).reshape(windows, PERPLEXITY_WINDOW)
    with contextlib.redirect_stdout(io.StringIO()):
        return eval_ppl(model, data)
