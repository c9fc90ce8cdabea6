"""Texts that tokenizers are compared on, by the ten thousand: many languages, code, emoji, control characters,
special tokens and random bytes. Byte strings: some are not UTF-8."""

import pathlib
import random

from tokenizer_texts import NASTY, TEXTS, WORDS
from tokenizer_vectors import random_texts

ROOT = pathlib.Path(__file__).resolve().parent.parent

# First and last code point of what words of a script are made of.
SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0xFF), (0x100, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF),
    (0x400, 0x4FF), (0x531, 0x587), (0x5D0, 0x5EA), (0x591, 0x5C7), (0x620, 0x64A), (0x64B, 0x65F), (0x660, 0x669),
    (0x6A0, 0x6D3), (0x710, 0x72F), (0x780, 0x7B1), (0x7C0, 0x7FF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F),
    (0xA80, 0xAFF), (0xB00, 0xB7F), (0xB80, 0xBFF), (0xC00, 0xC7F), (0xC80, 0xCFF), (0xD00, 0xD7F), (0xD80, 0xDFF),
    (0xE00, 0xE5B), (0xE80, 0xEDF), (0xF00, 0xFBC), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF),
    (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x16A0, 0x16F0), (0x1780, 0x17DD), (0x1820, 0x1878),
    (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2070, 0x209C), (0x20A0, 0x20BF), (0x2100, 0x218B), (0x2190, 0x21FF),
    (0x2200, 0x22FF), (0x2460, 0x24FF), (0x2500, 0x257F), (0x2C00, 0x2C5F), (0x2D30, 0x2D67), (0x3041, 0x3096),
    (0x30A1, 0x30FA), (0x3105, 0x312F), (0x3131, 0x318E), (0x3200, 0x32FF), (0x3400, 0x4DB5), (0x4E00, 0x9FA5),
    (0x4E00, 0x4FFF), (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xF900, 0xFAD9), (0xFB00, 0xFB06), (0xFB50, 0xFDFD),
    (0xFF01, 0xFF5E), (0xFF66, 0xFF9D), (0x10400, 0x1044F), (0x12000, 0x12399), (0x1D400, 0x1D7FF),
    (0x20000, 0x2A6D6),
]
EMOJI = [(0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x2600, 0x27BF)]
SPECIALS = (
    "<bos> <eos> <pad> <unk> <mask> <start_of_turn> <end_of_turn> <|begin_of_text|> <|end_of_text|> <|eot_id|> "
    "<|start_header_id|> <|end_header_id|> <|im_start|> <|im_end|> <|endoftext|> <|endofprompt|> <s> </s> [CLS] [SEP] "
    "[UNK] [MASK] <think> </think> <tool_call> </tool_call> <table> </td> <h1> <unused7> <0x0A> <0xE4> <0xGG> "
    "<extra_id_0> <|User|> <|fim_prefix|> <|vision_start|> ▁ ▁▁ ## </w> Ġ Ċ"
).split()


def words(rng, low, high, count):
    return " ".join(
        "".join(chr(rng.randint(low, high)) for _ in range(int(rng.expovariate(1 / 4)) + 1)) for _ in range(count)
    )


def files():
    """This project's own sources and prose."""
    for pattern in ("src/**/*.cpp", "src/**/*.h", "oracle/*.py", "docs/*.md", "scripts/*", "tests/data/*.txt"):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                yield path.read_bytes()


def slices(rng, contents, count):
    for _ in range(count):
        content = rng.choice(contents)
        start = rng.randrange(max(1, len(content)))
        yield content[start : start + int(rng.expovariate(1 / 120)) + 1]


def emoji(rng):
    pieces = []
    for _ in range(rng.randint(1, 8)):
        pieces.append(chr(rng.randint(*rng.choice(EMOJI))))
        pieces.append(rng.choice(["", "", "", "\u200d", "\ufe0f", "🏽", " ", "a", "\n", "!", "🇩", "\u20e3"]))
    return "".join(pieces)


def control(rng):
    some = [chr(c) for c in range(0x20)] + ["\x7f", "\x80", "\x85", "\x9f", "\xa0", "\xad", "\u200b", "\u2028", "\ufeff"]
    some += ["\u202e", "\u2066", "\ufffd", "\u0000", "a", "Z", " ", "  ", "1", ".", "é", "中"]
    return "".join(rng.choice(some) for _ in range(rng.randint(1, 24)))


def marked(rng):
    """Special tokens among words and spaces, whole and damaged."""
    pieces = []
    for _ in range(rng.randint(1, 9)):
        kind = rng.random()
        special = rng.choice(SPECIALS)
        if kind < 0.45:
            pieces.append(special)
        elif kind < 0.55:
            pieces.append(special[: rng.randrange(len(special) + 1)])
        elif kind < 0.8:
            pieces.append(rng.choice(WORDS + NASTY))
        else:
            pieces.append(rng.choice([" ", "  ", "\n", "\n\n", "\t", "\n\n\n\n", "     ", "_", "▁", "."]) * rng.randint(1, 4))
    return "".join(pieces)


def random_bytes(rng):
    kind = rng.random()
    length = int(rng.expovariate(1 / 20)) + 1
    if kind < 0.5:
        return bytes(rng.randrange(256) for _ in range(length))
    if kind < 0.75:  # good text with a few bytes broken
        text = bytearray(rng.choice(TEXTS).encode() or b"x")
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        return bytes(text)
    return rng.choice(TEXTS).encode()[rng.randrange(3) : -1 - rng.randrange(3)]  # cut inside a character


def expanded(rng):
    """Characters that normalization makes several of, or none, at the beginning."""
    some = "½⅓㎏™℃ǆﬁ㏂⑴ỗが각ΐ㍿﷽İ" + "\u00ad\u200b\u0001\u0301"
    return "".join(rng.choice(some) for _ in range(rng.randint(1, 3))) + rng.choice(["", " ", "a", "1", " x", "é"])


def code_points(rng):
    def one():
        point = rng.randrange(rng.choice([0x3000, 0x10000, 0x20000, 0x110000]))
        return "" if 0xD800 <= point <= 0xDFFF else chr(point)

    return "".join(one() for _ in range(rng.randint(1, 12)))


def corpus(seed, scale=1.0):
    """Over 50,000 byte strings with scale 1."""
    rng = random.Random(seed)
    some = lambda count: range(int(count * scale))
    contents = list(files())
    texts = [text.encode() for text in TEXTS]
    texts += [text.encode() for text in random_texts(int(14000 * scale), seed)]
    texts += slices(rng, contents, int(9000 * scale))
    texts += [words(rng, *rng.choice(SCRIPTS), rng.randint(1, 9)).encode() for _ in some(9000)]
    texts += [
        "".join(words(rng, *rng.choice(SCRIPTS), 1) + rng.choice(["", " ", ", ", "1", "'s "]) for _ in range(5)).encode()
        for _ in some(4000)
    ]
    texts += [emoji(rng).encode() for _ in some(4000)]
    texts += [control(rng).encode() for _ in some(3000)]
    texts += [marked(rng).encode() for _ in some(4000)]
    texts += [random_bytes(rng) for _ in some(5000)]
    texts += [code_points(rng).encode() for _ in some(3000)]
    texts += [expanded(rng).encode() for _ in some(1000)]
    texts += [rng.choice(" \n\t.=-_#▁ae0").encode() * rng.choice([2, 3, 7, 16, 17, 31, 64, 65, 130, 300]) for _ in some(200)]
    return texts
