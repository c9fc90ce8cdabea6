"""A `tokenizers` object built from the byte-level BPE that a GGUF file carries."""

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3
USER_DEFINED = 4

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")


def pre_tokenizer(name: str):
    """The pre-tokenizer that `tokenizer.ggml.pre` names."""
    if name == "smollm":
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    patterns = {"llama-bpe": LLAMA3_PATTERN, "qwen2": QWEN2_PATTERN}
    if name not in patterns:
        raise ValueError(f"no pre-tokenizer is written for tokenizer.ggml.pre = {name!r}")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(patterns[name]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def read_tokenizer(reader: GGUFReader) -> Tokenizer:
    """Control and user-defined tokens match as whole words before the merges see the text."""

    def contents(key):
        return reader.fields[f"tokenizer.ggml.{key}"].contents()

    if contents("model") != "gpt2":
        raise ValueError(f"tokenizer.ggml.model is {contents('model')!r}, expected gpt2 (byte-level BPE)")
    tokens = contents("tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in contents("merges")]
    pre = contents("pre")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, contents("token_type")):
        if kind in (CONTROL, USER_DEFINED):
            added = AddedToken(token, normalized=False, special=kind == CONTROL)
            (tokenizer.add_special_tokens if added.special else tokenizer.add_tokens)([added])
    return tokenizer
