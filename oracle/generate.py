"""Writes tiny random checkpoints in every format, with the logits that a right engine computes from them.

    python oracle/generate.py [--out DIR]        DIR defaults to build/oracle/data

manifest.json lists the checkpoints; paths in it are relative to its folder. Each checkpoint has a file of
expected values (safetensors), for T = prompt + `steps` tokens over a vocabulary of V:

    tokens      i32 [T]      the input, to be fed as it is (teacher forcing)
    prompt_len  i32 [1]      how many of them are the prompt
    logits      f32 [T, V]   the truth: transformers in fp32 on the weights as stored, expanded in fp32
    witness     f32 [T, V]   transformers in bf16 on the same weights: what bf16 arithmetic costs
    hidden_in   f32 [P, H]   the input of layer 0 for the P prompt tokens
    hidden_out  f32 [P, H]   its output
    embedding   f32 [H]      the last token's state after the final norm, scaled to length 1
    perplexity  f32 [2]      what mlx-lm is compared on: its perplexity of the tokens in windows of 25, and the error
    router_margin  f32 [T]   mixtures only: by how much the last chosen expert beats the first left out

A second run with unchanged scripts, pins and text returns at once.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

import cache

SCRIPTS = (
    "cache.py",
    "checks.py",
    "expand.py",
    "fixtures.py",
    "gemma.py",
    "generate.py",
    "gguf_checkpoint.py",
    "gguf_tokenizer.py",
    "hf_checkpoint.py",
    "k_quants.py",
    "mlx_model.py",
    "qwen3_5.py",
    "q6_k.py",
    "safetensors_file.py",
    "tiny_tokenizer.py",
    "truth.py",
    "weights.py",
)
PROMPT = 37


class FixtureWriter:
    """Makes one fixture's checkpoints and their expected values."""

    def __init__(self, fixture, out: Path, tokenizer):
        import tiny_tokenizer
        import truth
        import weights

        self.fixture = fixture
        self.out = out
        self.folder = out / fixture.name
        self.tokenizer = tokenizer
        self.merges = tiny_tokenizer.merges_of(tokenizer)
        self.weights = weights.random_weights(fixture)
        self.model = truth.build(fixture.config, fixture.tied)
        truth.set_weights(self.model, self.weights)
        self.tokens = truth.draw_tokens(self.model, fixture, weights.seed_of(fixture.name), PROMPT, fixture.steps)
        self.entries = []
        self.paths = []

    def write_all(self) -> None:
        import checks
        import gguf_checkpoint
        import hf_checkpoint
        import mlx_model
        import tiny_tokenizer

        checks.check_frequencies(self.fixture, self.model)
        for dtype in self.fixture.hf_dtypes:
            path = self.folder / f"hf-{dtype}"
            hf_checkpoint.write(path, self.fixture, self.weights, dtype)
            tiny_tokenizer.write(path, self.fixture, self.tokenizer)
            self.add(path, dtype, lambda _, own=dtype: own, dtype=dtype)
        for variant in self.fixture.mlx:
            path = self.folder / variant.folder
            mlx_model.write_quantised(path, self.fixture, self.weights, variant)
            tiny_tokenizer.write(path, self.fixture, self.tokenizer)
            group = 0 if variant.name else variant.group
            self.add(path, variant.format, variant.format_of, dtype=variant.dtype, group=group)
        for kind in self.fixture.gguf_types:
            path = self.folder / f"{self.fixture.name}-{kind.lower()}.gguf"
            template = tiny_tokenizer.CHAT_TEMPLATE
            gguf_checkpoint.write(
                path, self.fixture, self.weights, kind, self.tokenizer, self.merges, template
            )

            def format_of(name, kind=kind):
                return f"gguf-{gguf_checkpoint.type_of(name, kind).lower()}"

            group = 32 if kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4") else 0
            self.add(path, f"gguf-{kind.lower()}", format_of, group=group)

    def add(self, path: Path, format_name: str, format_of, dtype: str | None = None, group: int = 0) -> None:
        """Reads the checkpoint back and computes what it should give.

        `format_of` gives the format of each matrix by name, `dtype` is that of a folder's plain tensors, and
        `group` is 0 where there is no one group size.
        """
        import checks
        import expand
        import gemma
        import mlx_model
        import numpy as np
        import truth
        from safetensors.numpy import save_file

        name = f"{self.fixture.name}/{path.name if path.is_dir() else format_name}"
        stored = expand.read(path)
        checks.check_expanded(name, format_of, stored, self.weights)
        truth.set_weights(self.model, stored)
        logits, hidden_in, hidden_out, embedding = truth.forward(self.model, self.tokens)
        witness, _, _, _ = truth.forward(truth.bf16_copy(self.model), self.tokens)
        looked_up = stored["model.embed_tokens.weight"][self.tokens]
        if gemma.is_gemma(self.fixture.config):
            looked_up = looked_up * gemma.embedding_scale(self.fixture.config)
        checks.require((hidden_in == looked_up).all(), f"{name}: layer 0 does not start from the embedding")
        figures = checks.check_outputs(name, logits, witness, self.fixture.amplifies_rounding)
        second = self.second_truth(path, format_name, stored)
        if second is not None:
            figures["mlx_lm_relative_delta"] = checks.check_second_truth(name, second, logits)
            perplexity = mlx_model.perplexity(self.fixture, path, stored, self.tokens, format_name)
        expected = self.folder / "truth" / f"{path.stem}.safetensors"
        expected.parent.mkdir(exist_ok=True)
        values = {
            "tokens": self.tokens,
            "prompt_len": np.array([PROMPT], dtype=np.int32),
            "logits": logits,
            "witness": witness,
            "hidden_in": hidden_in[:PROMPT],
            "hidden_out": hidden_out[:PROMPT],
            "embedding": embedding,
        }
        if second is not None:
            values["perplexity"] = np.array(perplexity, dtype=np.float32)
        if "num_experts" in self.fixture.config:
            values["router_margin"] = truth.router_margins(self.model, self.tokens)
        save_file({key: np.ascontiguousarray(value) for key, value in values.items()}, expected)
        self.paths += [path, expected]
        self.entries.append(
            {
                "name": name,
                "path": str(path.relative_to(self.out)),
                "truth": str(expected.relative_to(self.out)),
                "fixture": self.fixture.name,
                "family": self.fixture.family,
                "model_type": self.fixture.config["model_type"],
                "container": "folder" if path.is_dir() else "gguf",
                "format": format_name,
                "dtype": dtype,
                "group": group,
                "is_256": self.fixture.is_256,
                "tied": self.fixture.tied,
                "prompt_len": PROMPT,
                "tokens": len(self.tokens),
                "figures": figures,
            }
        )

    def second_truth(self, path: Path, format_name: str, stored: dict):
        """mlx-lm's own fp32 forward, of the plain fp32 weights and of everything that it packed itself."""
        import gemma
        import mlx_model

        if gemma.is_gemma(self.fixture.config) and not gemma.mlx_agrees(self.fixture.config):
            return None
        if format_name == "fp32":
            return mlx_model.logits(self.fixture, self.tokens, stored)
        if format_name.startswith("mlx"):
            return mlx_model.quantised_logits(path, self.fixture, self.tokens)
        return None


def summary(entries: list) -> dict:
    second = [
        entry["figures"]["mlx_lm_relative_delta"]
        for entry in entries
        if "mlx_lm_relative_delta" in entry["figures"]
    ]
    witness = [
        entry["figures"]["witness_max_abs_delta"] / entry["figures"]["max_abs_logit"] for entry in entries
    ]
    return {
        "checkpoints": len(entries),
        "largest_mlx_lm_relative_delta": max(second),
        "compared_with_mlx_lm": len(second),
        "witness_relative_delta": [min(witness), max(witness)],
        "max_abs_logit": [
            pick(entry["figures"]["max_abs_logit"] for entry in entries) for pick in (min, max)
        ],
    }


def generate(out: Path, inputs: str) -> None:
    import checks
    import safetensors_file
    import tiny_tokenizer
    import torch
    from fixtures import FIXTURES

    torch.set_num_threads(1)  # these matrices are too small to share
    manifest = out / "manifest.json"
    manifest.unlink(missing_ok=True)
    checks.check_encoders()
    text = cache.TEXT.read_text()
    tokenizers = {pre: tiny_tokenizer.train(pre, text) for pre in {fixture.pre for fixture in FIXTURES}}
    entries, paths = [], []
    for fixture in FIXTURES:
        begin = time.monotonic()
        shutil.rmtree(out / fixture.name, ignore_errors=True)
        writer = FixtureWriter(fixture, out, tokenizers[fixture.pre])
        writer.write_all()
        entries += writer.entries
        paths += writer.paths
        print(
            f"{fixture.name}: {len(writer.entries)} checkpoints, {time.monotonic() - begin:.1f} s", flush=True
        )
    odd = [path for path in paths if path.is_dir() and (path / "model.safetensors").exists()]
    odd = [path.name for path in odd if safetensors_file.data_offset(path / "model.safetensors") % 2]
    checks.require(odd, "no checkpoint has its data at an odd offset")
    totals = summary(entries) | {"at_odd_offsets": len(odd)}
    cache.write(
        manifest,
        {"inputs": inputs, "summary": totals, "checkpoints": entries, "files": cache.sizes(out, paths)},
    )
    for key, value in totals.items():
        print(f"{key}: {value}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes tiny checkpoints and the logits expected of them.")
    parser.add_argument("--out", type=Path, default=cache.ROOT / "build" / "oracle" / "data", metavar="DIR")
    out = parser.parse_args().out.resolve()
    inputs = cache.inputs_hash(SCRIPTS)
    if cache.is_current(out / "manifest.json", inputs):
        print(f"{out}: up to date")
        return 0
    cache.require_environment()
    begin = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    generate(out, inputs)
    print(f"{out}: written in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
