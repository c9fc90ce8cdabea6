"""What SmolLM2-135M-Instruct gives, computed by transformers in fp32 on the weights of its GGUF file.

    python oracle/smollm2.py --gguf FILE [--out DIR]        DIR defaults to build/oracle/smollm2

smollm2.json holds the figures, smollm2.safetensors the arrays:

    text_tokens    i32 [2000]     the first tokens of tests/data/public_domain.txt, no token in front
    nll            f32 [1999]     −ln p of text_tokens[1..], one window; perplexity = exp(mean)
    logits         f32 [64, V]    after each of the first 64 text tokens: the truth, fp32
    witness        f32 [64, V]    the same in bf16
    prompt_tokens  i32 [P]        the question, in the file's own chat template
    answer_tokens  i32 [A]        the greedy answer, its end token included

A second run with unchanged scripts, pins, text and model returns at once.
"""

import argparse
import hashlib
import math
import sys
import time
from collections import Counter
from pathlib import Path

import cache

SCRIPTS = (
    "cache.py",
    "checks.py",
    "expand.py",
    "fixtures.py",
    "gguf_checkpoint.py",
    "gguf_tokenizer.py",
    "hf_checkpoint.py",
    "mlx_model.py",
    "q6_k.py",
    "safetensors_file.py",
    "smollm2.py",
    "truth.py",
)
TEXT_TOKENS = 2000
LOGIT_TOKENS = 64
ANSWER_TOKENS = 64
QUESTION = "What is the capital of France?"
# Rows of logits held at once: 250 × 49,152 × 4 bytes = 49 MB.
LOGIT_ROWS = 250


def read_config(reader) -> dict:
    """The metadata in config.json's words."""

    def value(key):
        return reader.fields[f"llama.{key}"].contents()

    return {
        "model_type": "llama",
        "vocab_size": value("vocab_size"),
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "head_dim": value("rope.dimension_count"),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base"),
        "hidden_act": "silu",
        "bos_token_id": reader.fields["tokenizer.ggml.bos_token_id"].contents(),
        "eos_token_id": reader.fields["tokenizer.ggml.eos_token_id"].contents(),
    }


def render(template: str, messages: list) -> str:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True)


def text_nll(model, tokens):
    """−ln p of every token but the first, given all before it, fp32 [T − 1].

    Attention without the [heads, T, T] scores takes half the time here and moves no value by more than 5e-5.
    """
    import torch

    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        hidden = model.model(torch.tensor(tokens)[None], use_cache=False).last_hidden_state[0]
        targets = torch.tensor(tokens[1:])
        parts = [
            torch.nn.functional.cross_entropy(model.lm_head(rows), wanted, reduction="none")
            for rows, wanted in zip(hidden[:-1].split(LOGIT_ROWS), targets.split(LOGIT_ROWS))
        ]
    model.set_attn_implementation("eager")
    return torch.cat(parts).numpy()


def greedy(model, prompt: list, end: int):
    """The answer, and by how much each chosen logit led the next best."""
    import torch
    from transformers import DynamicCache

    answer, leads, kept, feed = [], [], DynamicCache(config=model.config), prompt
    with torch.inference_mode():
        while len(answer) < ANSWER_TOKENS and (not answer or answer[-1] != end):
            logits = model(torch.tensor([feed]), cache=kept, use_cache=True, logits_to_keep=1).logits[0, -1]
            best = logits.topk(2)
            leads.append(float(best.values[0] - best.values[1]))
            feed = [int(best.indices[0])]
            answer += feed
    return answer, leads


def compute(path: Path) -> tuple:
    """Figures for the JSON file and arrays for the safetensors file."""
    import checks
    import expand
    import gguf
    import gguf_tokenizer
    import mlx_model
    import numpy as np
    import truth
    from fixtures import Fixture

    reader = gguf.GGUFReader(path)
    config = read_config(reader)
    tokenizer = gguf_tokenizer.read_tokenizer(reader)
    template = reader.fields["tokenizer.chat_template"].contents()
    weights = expand.read_gguf(path)
    tied = "lm_head.weight" not in weights
    model = truth.build(config, tied)
    truth.set_weights(model, weights)

    text = tokenizer.encode(cache.TEXT.read_text(), add_special_tokens=False).ids
    if len(text) < TEXT_TOKENS:
        raise ValueError(f"{cache.TEXT} has {len(text)} tokens, {TEXT_TOKENS} are needed")
    text = text[:TEXT_TOKENS]
    nll = text_nll(model, text)
    first = np.array(text[:LOGIT_TOKENS], dtype=np.int32)
    logits, *_ = truth.forward(model, first)
    rendered = render(template, [{"role": "user", "content": QUESTION}])
    prompt = tokenizer.encode(rendered, add_special_tokens=False).ids
    answer, leads = greedy(model, prompt, config["eos_token_id"])
    witness, *_ = truth.forward(truth.bf16_copy(model), first)
    fixture = Fixture(name="smollm2", config=config, tied=tied, pre="smollm", mlx=())
    second = mlx_model.logits(fixture, first, weights)

    mean = float(nll.astype(np.float64).mean())
    figures = {
        "tensor_types": dict(Counter(tensor.tensor_type.name for tensor in reader.tensors)),
        "config": config,
        "tied": tied,
        "chat_template_bytes": len(template.encode()),
        "text_tokens": len(text),
        "mean_nll": mean,
        "perplexity": math.exp(mean),
        "max_abs_logit": float(np.abs(logits).max()),
        "witness_max_abs_delta": float(np.abs(witness - logits).max()),
        "witness_mean_kl": checks.mean_kl(witness, logits),
        "mlx_lm_relative_delta": checks.check_second_truth("smollm2", second, logits),
        "prompt": rendered,
        "prompt_tokens": len(prompt),
        "answer": tokenizer.decode(answer),
        "answer_tokens": len(answer),
        "smallest_lead": min(leads),
    }
    arrays = {
        "text_tokens": np.array(text, dtype=np.int32),
        "nll": nll,
        "logits": logits,
        "witness": witness,
        "prompt_tokens": np.array(prompt, dtype=np.int32),
        "answer_tokens": np.array(answer, dtype=np.int32),
    }
    return figures, arrays


def main() -> int:
    parser = argparse.ArgumentParser(description="Computes what SmolLM2's GGUF file should give.")
    parser.add_argument(
        "--gguf", type=Path, required=True, metavar="FILE", help="as scripts/fetch-smollm2 left it"
    )
    parser.add_argument(
        "--out", type=Path, default=cache.ROOT / "build" / "oracle" / "smollm2", metavar="DIR"
    )
    arguments = parser.parse_args()
    if not arguments.gguf.is_file():
        parser.error(f"{arguments.gguf} is no file; scripts/fetch-smollm2 fetches it")
    out = arguments.out.resolve()
    with arguments.gguf.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    inputs = cache.inputs_hash(SCRIPTS, extra=sha256)
    manifest = out / "smollm2.json"
    if cache.is_current(manifest, inputs):
        print(f"{out}: up to date")
        return 0
    cache.require_environment()
    begin = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    figures, arrays = compute(arguments.gguf)
    from safetensors.numpy import save_file

    expected = out / "smollm2.safetensors"
    save_file(arrays, expected)
    content = {"inputs": inputs, "gguf_sha256": sha256, **figures, "files": cache.sizes(out, [expected])}
    cache.write(manifest, content)
    for key in ("tensor_types", "perplexity", "mlx_lm_relative_delta", "answer", "smallest_lead"):
        print(f"{key}: {figures[key]!r}")
    print(f"{out}: written in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
