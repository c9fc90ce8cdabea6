#!/usr/bin/env python3
"""Expected token ids from the `tokenizers` library.

    tokenizer_vectors.py --out DIR [--random N]        small byte-level BPE tokenizers, one per component
                         [--tokenizer FILE.json ...]   real tokenizers beside them
                         [--gguf FILE.gguf]            the ids of a GGUF's own vocabulary
    tokenizer_vectors.py --unicode-additions           the table src/text/unicode_additions.inc

DIR/vectors.json holds
    model      vocab and merges that all small tokenizers share
    texts      chosen to break tokenizers; followed, in every list of hashes, by the texts of `random`
    group      texts per hash (--group 1 shows which text differs)
    tokenizers [{name, json | path, extra_vocab, hashes, special_hashes, ids, decoded}]
               hashes: 6 hex digits per group (see hashes()), special_hashes: with special tokens added;
               ids: of `texts`, for one tokenizer; decoded: [ids, text, text without special tokens]
    splits     [{step, hashes}]: the pieces of a Split pre-tokenizer, hashed as their lengths in bytes
The copy in tests/data/tokenizer/ is made by `--out tests/data/tokenizer --random 400 --group 12`.
"""

import argparse
import json
import pathlib
import random
import struct
import unicodedata
import zlib

from tokenizer_texts import CROSSING, NASTY, TEXTS, WORDS
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen2": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen35": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL,
    "minicpm5": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "digit_groups": r"\p{N}{1,3}",
    "o200k": r"[^\r\n\p{L}\p{N}]?%(U)s*%(L)s+%(C)s?|[^\r\n\p{L}\p{N}]?%(U)s+%(L)s*%(C)s?|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|%(T)s" % {"U": UPPER, "L": LOWER, "C": CONTRACTION, "T": TAIL},
    "tekken": r"[^\r\n\p{L}\p{N}]?%(U)s*%(L)s+|[^\r\n\p{L}\p{N}]?%(U)s+%(L)s*|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|%(T)s" % {"U": UPPER, "L": LOWER, "T": TAIL},
    "deepseek": (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
        r" ?[\p{P}\p{S}]+[\r\n]*|" + TAIL
    ),
}
# Beyond the known patterns: what Oniguruma and PCRE2 read differently.
REGEXES = [
    r"\s",
    r"\S+",
    r"\w+",
    r"\W",
    r"[\w\s]+",
    r"\b",
    r"\B",
    r"\d+",
    r"\D",
    r"[^\S\n]+",
    r"\h+",
    r"\v",
    r".",
    r"(?:.|\n)e",
    r".+?e",
    r"^.",
    r".$",
    r"\A.",
    r"\p{Han}+",
    r"\p{^L}+",
    r"\P{N}",
    r"\p{Lu}?\p{Ll}+",
    r"\p{N}{1,3}+",
    r"a{,2}b",
    r"(?i)s+",
    r"(?i:k|sh)",
    r"(?<=\s)\S",
    r"(?<!a)b",
    r"(?>a+)b",
    r"[]a-c]+",
    r"[^]a]+",
    r"\u0085|\x{A0}|\x41",
    r"(?=\p{Lu})",
    r"a*",
    r"x{2}|\{",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[[:space:]]+",
    r"'(?i:[sdmt]|ll|ve|re)",
    r"\p{P}|\p{S}",
    r"(a|b)+c?\.",
    r"\p{M}+",
    r"\p{Katakana}|\p{Cyrillic}+",
    r"[^\r\n\p{L}\p{N}]?+\p{L}+",
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def random_texts(count, seed=20):
    rng = random.Random(seed)

    def one():
        kind = rng.random()
        length = int(rng.expovariate(1 / 12)) + 1
        if kind < 0.6:
            return "".join(rng.choice(NASTY) for _ in range(length))
        if kind < 0.75:  # few kinds, long runs
            few = rng.sample(NASTY, 3)
            return "".join(rng.choice(few) * rng.randint(1, 4) for _ in range(length))
        if kind < 0.9:
            return rng.choice(["", " "]).join(rng.choice(WORDS + NASTY) for _ in range(length))
        points = (
            rng.choice(
                [rng.randrange(0x300), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x32000)]
            )
            for _ in range(length)
        )
        return "".join(chr(p) for p in points if not 0xD800 <= p <= 0xDFFF)

    # The library orders some marks by tables far older than this Python's: its ids of such texts are wrong.
    texts = [one() for _ in range(count)]
    return [
        text for text in texts if normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)
    ]


def hashes(results, group):
    """Per group of results (lists of numbers), the low 24 bits of CRC-32 over each length and the numbers in
    it, all as little-endian 32-bit words."""
    words = [struct.pack(f"<{len(numbers) + 1}I", len(numbers), *numbers) for numbers in results]
    return "".join(
        f"{zlib.crc32(b''.join(words[i : i + group])) & 0xFFFFFF:06x}" for i in range(0, len(words), group)
    )


def train():
    """Merges that cross every boundary, so that a wrong cut anywhere changes the ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=760, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    corpus = TEXTS * 2 + random_texts(1500, seed=7) + [" ".join(WORDS)] * 5 + CROSSING * 60
    corpus = [text for text in corpus if "<|" not in text and "<think>" not in text]
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": model["merges"]}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = dict(BYTE_LEVEL, use_regex=True)


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(vocab, *tokens):
    """tokens: (content, flags), flags among the letters s(pecial) n(ormalized) l(strip) r(strip) w(ord)."""
    ids = dict(vocab)
    return [
        {
            "id": ids.setdefault(content, len(ids)),
            "content": content,
            "single_word": "w" in flags,
            "lstrip": "l" in flags,
            "rstrip": "r" in flags,
            "normalized": "n" in flags,
            "special": "s" in flags,
        }
        for content, flags in tokens
    ]


def definitions(model):
    """(name, tokenizer.json without model.vocab and model.merges, extra vocabulary)"""
    size = len(model["vocab"])
    chat = [("<|im_start|>", "s"), ("<|im_end|>", "s"), ("<think>", "")]
    nasty = [
        ("<mask>", "sl"),
        ("<left>", "sl"),
        ("<right>", "r"),
        ("word", "w"),
        ("<a>", ""),
        ("<a><b>", ""),
        ("\n\n", ""),
        ("<|im_start|>", "s"),
        ("é", "n"),
        ("normal", "n"),
        ("E", "nr"),
    ]

    def definition(name, pre_tokenizer, tokens=chat, extra=(), **parts):
        extra = {piece: size + i for i, piece in enumerate(p for p in extra if p not in model["vocab"])}
        whole = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added(
                parts.get("model", {}).get("vocab", dict(model["vocab"], **extra)), *tokens
            ),
            "normalizer": None,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": None,
            "decoder": dict(GPT2),
            "model": {"type": "BPE", "dropout": None},
        }
        whole["model"].update(parts.pop("model", {}))
        whole.update(parts)
        return name, whole, extra

    nfc = {"type": "NFC"}
    bos = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "B", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "E", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "B": {"id": "B", "ids": [size], "tokens": ["<|im_start|>"]},
            "E": {"id": "E", "ids": [size + 1, size], "tokens": ["<|im_end|>", "<|im_start|>"]},
        },
    }
    processors = {"type": "Sequence", "processors": [dict(GPT2), bos]}
    yield definition("gpt2", GPT2)
    yield definition("gpt2_prefix_space", dict(GPT2, add_prefix_space=True), nasty)
    yield definition("smollm", sequence({"type": "Digits", "individual_digits": True}, GPT2))
    yield definition(
        "digit_runs",
        sequence({"type": "Digits", "individual_digits": False}, dict(GPT2, add_prefix_space=True)),
    )
    yield definition("llama3", sequence(split(PATTERNS["llama3"]), BYTE_LEVEL), post_processor=processors)
    yield definition(
        "llama3_ignore_merges",
        sequence(split(PATTERNS["llama3"]), BYTE_LEVEL),
        extra=["Hello", "Ġworld", "wordy", "ĠĠ", "123", "'LL", "ä¸Ńæĸĩ", "Ã©te"],
        model={"ignore_merges": True},
    )
    yield definition("qwen2", sequence(split(PATTERNS["qwen2"]), BYTE_LEVEL), normalizer=nfc)
    yield definition("qwen2_added", sequence(split(PATTERNS["qwen2"]), BYTE_LEVEL), nasty, normalizer=nfc)
    yield definition(
        "qwen35",
        sequence(split(PATTERNS["qwen35"]), BYTE_LEVEL),
        normalizer={"type": "Sequence", "normalizers": [nfc]},
    )
    yield definition("qwen35_raw", sequence(split(PATTERNS["qwen35"], "Removed", True), BYTE_LEVEL))
    yield definition(
        "minicpm5",
        sequence(split(PATTERNS["digit_groups"]), split(PATTERNS["minicpm5"]), BYTE_LEVEL),
        model={"ignore_merges": True},
    )
    yield definition("o200k", sequence(split(PATTERNS["o200k"]), BYTE_LEVEL))
    yield definition("tekken", sequence(split(PATTERNS["tekken"]), BYTE_LEVEL))
    yield definition(
        "deepseek",
        sequence(
            split(r"\p{N}{1,3}"),
            split("[一-龥\u3040-\u309f\u30a0-\u30ff]+"),
            split(PATTERNS["deepseek"]),
            BYTE_LEVEL,
        ),
    )
    yield definition("whole_text", BYTE_LEVEL, nasty)
    yield definition(
        "literal_split", sequence(split(" ", "MergedWithPrevious", False, "String"), BYTE_LEVEL), nasty
    )
    # A vocabulary without most bytes: what is missing vanishes, or becomes one unknown token, or one per byte.
    small = {
        "vocab": {p: i for i, p in enumerate(["<unk>", "a", "b", "c", "Ġ", "e", "ab", "Ġa", "abc", "Ãģ"])},
        "merges": [["a", "b"], ["Ġ", "a"], ["ab", "c"]],
    }
    for name, extra in (
        ("vanish", {}),
        ("unknown", {"unk_token": "<unk>"}),
        ("fuse_unknown", {"unk_token": "<unk>", "fuse_unk": True}),
    ):
        yield definition(name, GPT2, [], model=dict(small, **extra))


def tokenizer_entry(name, tokenizer, texts, group, seed):
    rng = random.Random(seed)
    encode_all = lambda some, special: [
        tokenizer.encode(text, add_special_tokens=special).ids for text in some
    ]
    entry = {"name": name, "hashes": hashes(encode_all(texts, False), group)}
    if encode_all([""], True)[0]:
        entry["special_hashes"] = hashes(encode_all(texts, True), group)
    if name == "llama3":
        entry["ids"] = encode_all(TEXTS, False)
    size = max(tokenizer.get_vocab().values()) + 1
    entry["decoded"] = []
    for _ in range(6):
        ids = [rng.randrange(size) for _ in range(rng.randint(1, 14))]
        entry["decoded"].append(
            [
                ids,
                tokenizer.decode(ids, skip_special_tokens=False),
                tokenizer.decode(ids, skip_special_tokens=True),
            ]
        )
    return entry


def small_tokenizers(model, texts, group):
    for index, (name, whole, extra) in enumerate(definitions(model)):
        filled = json.loads(json.dumps(whole))
        if "vocab" not in filled["model"]:
            filled["model"].update(vocab=dict(model["vocab"], **extra), merges=model["merges"])
        entry = tokenizer_entry(name, Tokenizer.from_str(json.dumps(filled)), texts, group, index)
        yield dict(entry, json=whole, extra_vocab=extra)


def splits(texts, group):
    steps = [split(pattern) for pattern in PATTERNS.values()]
    steps += [split(pattern, BEHAVIORS[i % 5], i % 3 == 0) for i, pattern in enumerate(REGEXES)]
    steps += [
        split(pattern, behavior, invert, kind)
        for behavior in BEHAVIORS
        for invert in (False, True)
        for pattern, kind in ((r"\s|a", "Regex"), (" ", "String"))
    ]
    for step in steps:
        (pattern,) = step["pattern"].items()
        behavior = {"MergedWithPrevious": "merged_with_previous", "MergedWithNext": "merged_with_next"}.get(
            step["behavior"]
        )
        splitter = pre_tokenizers.Split(
            Regex(pattern[1]) if pattern[0] == "Regex" else pattern[1],
            behavior or step["behavior"].lower(),
            step["invert"],
        )
        lengths = lambda text: [len(piece.encode()) for piece, _ in splitter.pre_tokenize_str(text)]
        yield {"step": step, "hashes": hashes([lengths(text) if text else [] for text in texts], group)}


def unicode_additions():
    """Characters that Oniguruma knows and Unicode 14 does not, with their categories."""
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit(f"needs a Python with Unicode 14.0.0, has {unicodedata.unidata_version}")
    rows = []
    for category in "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split():
        splitter = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed")
        for point in range(0x110000):
            if 0xD800 <= point <= 0xDFFF or unicodedata.category(chr(point)) != "Cn":
                continue
            if splitter.pre_tokenize_str(chr(point)):
                continue
            if rows and rows[-1][1:] == [point - 1, category]:
                rows[-1][1] = point
            else:
                rows.append([point, point, category])
    line = ""
    for first, last, category in sorted(rows):
        item = f'{{0x{first:X}, 0x{last:X}, "{category}"}},'
        if len(line) + 1 + len(item) > 104:
            print(line)
            line = ""
        line = f"{line} {item}".strip()
    print(line)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=500, help="how many random texts")
    parser.add_argument("--group", type=int, default=1, help="texts per hash")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--tokenizer", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--unicode-additions", action="store_true")
    arguments = parser.parse_args()
    if arguments.unicode_additions:
        return unicode_additions()
    if arguments.out is None:
        parser.error("--out is missing")
    arguments.out.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        (arguments.out / name).write_text(
            json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
        )

    if arguments.gguf:
        from gguf import GGUFReader
        from gguf_tokenizer import read_tokenizer

        tokenizer = read_tokenizer(GGUFReader(arguments.gguf))
        tokenizer.save(str(arguments.out / "smollm2_tokenizer.json"))
        texts = TEXTS + random_texts(arguments.random, arguments.seed)
        write(
            "smollm2_ids.json",
            [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts],
        )
        return None
    model = train()
    extra = random_texts(arguments.random, arguments.seed)
    texts = TEXTS + extra
    entries = list(small_tokenizers(model, texts, arguments.group))
    for path in arguments.tokenizer:
        entry = tokenizer_entry(path.stem, Tokenizer.from_file(str(path)), texts, arguments.group, 0)
        entries.append(dict(entry, path=str(path.resolve())))
    write(
        "vectors.json",
        {
            "model": model,
            "texts": TEXTS,
            "random": extra,
            "group": arguments.group,
            "tokenizers": entries,
            "splits": list(splits(texts, arguments.group)),
        },
    )
    return None


if __name__ == "__main__":
    main()
