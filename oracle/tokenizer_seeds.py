#!/usr/bin/env python3
"""Seeds for tests/fuzz/tokenizer_fuzz.cpp: small tokenizers with every component.

    tokenizer_seeds.py [--out tests/fixtures/tokenizer]

The vocabularies that tokenizer_vocabularies.py trains are cut to a few pieces and lose their tables of normalization
rules, so that a fuzzer reaches the rest.
"""

import argparse
import json
import pathlib

TRAINED = pathlib.Path("build/oracle/vocabularies")
KEPT = 40


def shortened(whole):
    model = whole["model"]
    specials = {token["content"] for token in whole["added_tokens"]}
    if isinstance(model["vocab"], list):
        kept = [entry for entry in model["vocab"] if entry[0] in specials or len(entry[0]) == 1][:KEPT]
        model["vocab"] = kept + [entry for entry in model["vocab"] if entry not in kept][:KEPT]
        model["unk_id"] = next((i for i, entry in enumerate(model["vocab"]) if entry[0] == "<unk>"), None)
        ids = {piece: i for i, (piece, _) in enumerate(model["vocab"])}
    else:
        pieces = [piece for piece in model["vocab"] if piece in specials]
        pieces += [piece for piece in model["vocab"] if piece not in specials][:KEPT]
        ids = model["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    if "merges" in model:
        prefix = len(model.get("continuing_subword_prefix") or "")
        model["merges"] = [m for m in model["merges"] if m[0] in ids and m[1] in ids and m[0] + m[1][prefix:] in ids]
    following = len(ids)
    for token in whole["added_tokens"]:
        if token["content"] not in ids:
            ids_of_added, following = following, following + 1
        else:
            ids_of_added = ids[token["content"]]
        token["id"] = ids_of_added
    for step in [whole["normalizer"], *(whole["normalizer"] or {}).get("normalizers", [])]:
        if step and "precompiled_charsmap" in step:
            step["precompiled_charsmap"] = None
    if "special_tokens" in (whole["post_processor"] or {}):
        for token in whole["post_processor"]["special_tokens"].values():
            token["ids"] = [ids.get(content, 0) for content in token["tokens"]]
    return whole


def varint(bytes_, at):
    value = shift = 0
    while True:
        value |= (bytes_[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if bytes_[at - 1] < 128:
            return value, at


def fields(message):
    """Number, first byte and end of each field of a protocol buffer."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = varint(message, at)
        size, after = varint(message, at) if tag & 7 in (0, 2) else (0, at + (8 if tag & 7 == 1 else 4))
        at = after + (size if tag & 7 == 2 else 0)
        yield tag >> 3, begin, at


def shortened_model(model):
    """The first pieces, and of the other messages what is short."""
    out, pieces = b"", 0
    for number, begin, end in fields(model):
        field = model[begin:end]
        if number == 1:
            pieces += 1
            out += field if pieces <= KEPT else b""
            continue
        size, at = varint(field, 1)
        inner = field[at:]
        inner = b"".join(inner[b:e] for _, b, e in fields(inner) if e - b < 64)
        out += field[:1] + (bytes([len(inner)]) if len(inner) < 128 else bytes([len(inner) & 127 | 128, len(inner) >> 7])) + inner
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/fixtures/tokenizer"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(TRAINED.glob("*/tokenizer.json")):
        if path.stat().st_size > 1 << 20:
            continue
        whole = shortened(json.loads(path.read_text(encoding="utf-8")))
        (arguments.out / f"{path.parent.name}.json").write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    for path in sorted(TRAINED.glob("spm*.model")):
        (arguments.out / path.name).write_bytes(shortened_model(path.read_bytes()))


if __name__ == "__main__":
    main()
