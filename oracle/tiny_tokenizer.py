"""A byte-level BPE of 320 ids, trained on the text under tests/data: tiny checkpoints can be talked to."""

import json
from pathlib import Path

import gguf_tokenizer
from fixtures import VOCABULARY, Fixture
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train(pre: str, text: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = gguf_tokenizer.pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def merges_of(tokenizer: Tokenizer) -> list:
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def write(folder: Path, fixture: Fixture, tokenizer: Tokenizer) -> None:
    """The four files beside the weights of a checkpoint folder."""
    tokenizer.save(str(folder / "tokenizer.json"))
    end_of_text, _, end_of_turn = SPECIALS
    settings = {
        "added_tokens_decoder": {
            str(token): {
                "content": text,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token, text in enumerate(SPECIALS)
        },
        "bos_token": end_of_text,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": end_of_turn,
        "model_max_length": fixture.config["max_position_embeddings"],
        "pad_token": end_of_text,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    generation = {"bos_token_id": 0, "eos_token_id": [2, 0]}
    if fixture.family != "llama":
        generation |= {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
