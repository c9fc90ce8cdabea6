"""Tiny Qwen3.5 checkpoints with a multi-token-prediction head, and what it should give.

    build/oracle/venv/bin/python oracle/qwen3_5_draft.py --data build/oracle/data --out build/oracle/draft

transformers and mlx-lm drop `mtp.*`, so the truth is put together from transformers' own parts, in fp32:

    x = fc([norm_e(embed(token p + 1)), norm_h(state p)])     norms with 1 + weight
    x = one layer of full attention, as the model's own, over all rows so far
    logits = head(norm(x))                                     embedding and head are the model's

where state p is what the model's final norm gives at position p. DIR/NAME is the checkpoint, DIR/NAME.safetensors
holds tokens [T], hidden [T - 1, H], logits [T - 1, V].
"""

import argparse
import copy
import json
import shutil
from pathlib import Path

import expand
import numpy as np
import qwen3_5
import torch
import truth
from safetensors.numpy import load_file, save_file

# Checkpoint to start from, and whether its head is stored as converters to MLX would leave it.
SOURCES = {"dense": "qwen3_5-tiny/hf-fp32", "mixture": "qwen3_5-moe/hf-fp32"}
ROWS = 90


def head_weights(config: dict, random) -> dict:
    """The head's tensors under transformers' names for a model of one layer, and its own four."""
    hidden = config["hidden_size"]
    one = {**config, "full_attention_interval": 1, "num_hidden_layers": 1}

    def matrix(rows, columns, gain=1.0):
        return random.standard_normal((rows, columns)) * gain / columns**0.5

    named = {}
    for path, (rows, columns, gain, _) in qwen3_5.matrix_shapes(one, 0).items():
        named[f"{path}.weight"] = matrix(rows, columns, gain)
    named |= qwen3_5.vectors(one, 0, random)
    at = "model.layers.0.mlp"
    if "num_experts" in config:
        experts, inner = config["num_experts"], config["moe_intermediate_size"]
        shared = config["shared_expert_intermediate_size"]
        named[f"{at}.gate.weight"] = matrix(experts, hidden, 3.0)
        named[f"{at}.shared_expert_gate.weight"] = matrix(1, hidden)
        named[f"{at}.experts.gate_up_proj"] = np.stack([matrix(2 * inner, hidden) for _ in range(experts)])
        named[f"{at}.experts.down_proj"] = np.stack([matrix(hidden, inner) for _ in range(experts)])
        at, inner = f"{at}.shared_expert", shared
    else:
        inner = config["intermediate_size"]
    named[f"{at}.gate_proj.weight"] = matrix(inner, hidden)
    named[f"{at}.up_proj.weight"] = matrix(inner, hidden)
    named[f"{at}.down_proj.weight"] = matrix(hidden, inner)
    named["model.norm.weight"] = random.integers(-64, 64, hidden) / 128
    named["fc.weight"] = matrix(hidden, 2 * hidden)
    named["pre_fc_norm_embedding.weight"] = random.integers(-64, 64, hidden) / 128
    named["pre_fc_norm_hidden.weight"] = random.integers(-64, 64, hidden) / 128
    return {name: value.astype(np.float32) for name, value in named.items()}


def norm(x: torch.Tensor, weight: np.ndarray, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * (1 + torch.from_numpy(weight))


@torch.inference_mode()
def expected(config: dict, weights: dict, head: dict, tokens: np.ndarray) -> tuple:
    model = truth.build(config, config["tie_word_embeddings"])
    truth.set_weights(model, weights)
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    hidden = model.model(ids, use_cache=False).last_hidden_state[0, :-1]
    next_embedding = model.get_input_embeddings()(ids)[0, 1:]
    epsilon = config["rms_norm_eps"]
    joined = torch.cat(
        [
            norm(next_embedding, head["pre_fc_norm_embedding.weight"], epsilon),
            norm(hidden, head["pre_fc_norm_hidden.weight"], epsilon),
        ],
        dim=-1,
    )
    x = joined @ torch.from_numpy(head["fc.weight"]).T
    one = copy.deepcopy(config) | {"full_attention_interval": 1, "num_hidden_layers": 1}
    one.pop("layer_types", None)
    layer = truth.build(one, tied=False)
    state = {name: torch.from_numpy(value) for name, value in head.items() if name.startswith("model.")}
    state["model.embed_tokens.weight"] = model.get_input_embeddings().weight
    state["lm_head.weight"] = model.lm_head.weight
    layer.load_state_dict(state, strict=True)
    logits = layer(inputs_embeds=x[None], use_cache=False).logits[0]
    return hidden.numpy(), logits.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="what generate.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        random = np.random.default_rng(len(name))
        folder = arguments.out / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(arguments.data / source, folder)
        config = json.loads((folder / "config.json").read_text())
        head = head_weights(config, random)
        stored = load_file(folder / "model.safetensors")
        for path, value in head.items():
            path = path.removeprefix("model.")
            stored[f"mtp.{path}"] = np.ascontiguousarray(value)
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        weights = expand.read(arguments.data / source)
        tokens = random.integers(0, config["vocab_size"], ROWS).astype(np.int32)
        hidden, logits = expected(config, weights, head, tokens)
        values = {"tokens": tokens, "hidden": hidden, "logits": logits}
        save_file(
            {key: np.ascontiguousarray(value) for key, value in values.items()},
            arguments.out / f"{name}.safetensors",
        )
        print(f"{folder}: logits up to {np.abs(logits).max():.2f}, spread {logits.std():.2f}")


if __name__ == "__main__":
    main()
