#!/usr/bin/env python3
"""A corpus for tests/fuzz/tokenizer_fuzz.cpp: small tokenizers with every component.

    tokenizer_seeds.py --out DIR

The vocabularies that tokenizer_vocabularies.py trains are cut to a few pieces, so that a fuzzer reaches the rest.
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
    text = json.dumps(whole["post_processor"])
    if text != "null":  # its ids were those of the whole vocabulary
        whole["post_processor"] = None
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(TRAINED.glob("*/tokenizer.json")):
        if path.stat().st_size > 1 << 20:
            continue
        whole = shortened(json.loads(path.read_text(encoding="utf-8")))
        (arguments.out / f"{path.parent.name}.json").write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    for path in sorted(TRAINED.glob("spm*.model")):
        (arguments.out / path.stem).write_bytes(b"\x01" + path.read_bytes()[:3000])


if __name__ == "__main__":
    main()
