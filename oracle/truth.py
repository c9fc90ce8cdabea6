"""transformers' forward: in fp32 the truth, in bf16 (fp32 accumulation) the witness of what bf16 costs."""

import copy

import expand
import numpy as np
import torch
import weights as fixture_weights
from fixtures import Fixture
from transformers import (
    DynamicCache,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

CLASSES = {
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),
    "gemma3_text": (Gemma3TextConfig, Gemma3ForCausalLM),
    "gemma4_text": (Gemma4TextConfig, Gemma4ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "phi3": (Phi3Config, Phi3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    "qwen3_5_text": (Qwen3_5TextConfig, Qwen3_5ForCausalLM),
    "qwen3_5_moe_text": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM),
}


def build(config: dict, tied: bool):
    """An fp32 model without weights of its own. `tied` overrides the config, where the key may be missing."""
    config_class, model_class = CLASSES[config["model_type"]]
    parsed = config_class.from_dict({**config, "tie_word_embeddings": tied})
    parsed._attn_implementation = "eager"
    return model_class(parsed).eval()


def set_weights(model, weights: dict) -> None:
    """Every weight must be used and every parameter set."""
    state = expand.to_torch(fixture_weights.stack_experts(weights, "{}.experts.{}_proj"))
    for name in [name for name in state if name.endswith(".experts.gate_proj")]:  # as transformers holds them
        parts = [state.pop(name), state.pop(name.replace("gate_proj", "up_proj"))]
        state[name.replace("gate_proj", "gate_up_proj")] = torch.cat(parts, dim=1)
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)


def bf16_copy(model):
    """Weights in bf16; the RoPE frequencies stay fp32, as when a bf16 checkpoint is loaded."""
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return copied


@torch.inference_mode()
def forward(model, tokens: np.ndarray):
    """Logits fp32 [T, V] of one pass over all tokens, what goes into and comes out of layer 0, [T, H], and the
    last token's state after the final norm, scaled to length 1, [H]."""
    output = model(
        torch.from_numpy(tokens.astype(np.int64))[None],
        use_cache=False,
        output_hidden_states=True,
        logits_to_keep=0,
    )
    hidden = [state[0].float().numpy() for state in output.hidden_states[:2]]
    state = output.hidden_states[-1][0, -1].float().numpy()
    return output.logits[0].float().numpy(), hidden[0], hidden[1], state / np.sqrt(np.square(state).sum())


@torch.inference_mode()
def router_margins(model, tokens: np.ndarray) -> np.ndarray:
    """By how much each token's last chosen expert beats the first one left out, least over the layers, fp32 [T]."""
    recorded, hooks = [], []
    chosen = getattr(model.config, "top_k_experts", None)
    if chosen is None:
        chosen = model.config.num_experts_per_tok
        output = model(torch.from_numpy(tokens.astype(np.int64))[None], use_cache=False, output_router_logits=True)
        recorded = output.router_logits
    else:  # Gemma 4 records probabilities
        for layer in model.model.layers:
            hooks.append(layer.router.proj.register_forward_hook(lambda *call: recorded.append(call[-1])))
        model(torch.from_numpy(tokens.astype(np.int64))[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    margins = []
    for logits in recorded:
        best = logits.reshape(len(tokens), -1).sort(dim=-1, descending=True).values
        margins.append(best[:, chosen - 1] - best[:, chosen])
    return torch.stack(margins).min(dim=0).values.float().numpy()


@torch.inference_mode()
def draw_tokens(model, fixture: Fixture, seed: int, prompt: int, steps: int) -> np.ndarray:
    """A random prompt, then the truth's own choices at temperature 1: greedy ones soon repeat themselves."""
    random = np.random.default_rng(seed)
    tokens = random.integers(0, fixture.config["vocab_size"], prompt).tolist()
    feed, cache = tokens, DynamicCache(config=model.config)
    for _ in range(steps):
        output = model(torch.tensor([feed]), cache=cache, use_cache=True)
        chances = output.logits[0, -1].double().softmax(-1).numpy()
        feed = [int(np.searchsorted(chances.cumsum(), random.random() * chances.sum()))]
        tokens += feed
    return np.array(tokens, dtype=np.int32)
