#!/usr/bin/env python3
"""Prompt tokens of conversations, as transformers makes them of the files that `rafter synth` writes.

    python3 oracle/chat_prompt_vectors.py --rafter build/release/rafter

writes tests/data/chat_prompt_vectors.json: for each shape the end tokens' sources and, for each conversation, the ids.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

from transformers import AutoTokenizer

CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße, 世界! 👋🏽"}],
    [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two\n\nlines"},
        {"role": "user", "content": "  three w300  "},
    ],
    [{"role": "user", "content": ""}],
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rafter", required=True, help="the program whose synth verb writes the checkpoints")
    arguments = parser.parse_args()
    vectors = []
    for shape in ("llama3-tiny", "qwen3-tiny"):
        with tempfile.TemporaryDirectory() as folder:
            command = [arguments.rafter, "synth", shape, "--format", "mlx4", "--out", folder]
            subprocess.run(command, check=True, capture_output=True)
            tokenizer = AutoTokenizer.from_pretrained(folder)
            for messages in CONVERSATIONS:
                ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
                vectors.append({"shape": shape, "messages": messages, "ids": list(ids)})
            vectors.append({"shape": shape, "raw": "plain text", "ids": tokenizer.encode("plain text")})
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "chat_prompt_vectors.json"
    path.write_text("[\n" + ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in vectors) + "\n]\n")
    print(f"{path}: {len(vectors)} prompts")


if __name__ == "__main__":
    main()
