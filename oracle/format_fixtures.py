"""Writes tests/fixtures/format/: small model files made by other programs, with the values they hold.

    python -m pip install gguf safetensors "mlx[cpu]"; python oracle/format_fixtures.py

`*.expected` beside each: one tensor a line, NAME ROWS COLUMNS HEX (f32 little-endian; a vector has 0 rows).
"""

import json
import pathlib

import gguf
import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

root = pathlib.Path(__file__).parent.parent / "tests/fixtures/format"
rng = np.random.default_rng(7)


def normal(*shape):
    return rng.normal(0, 0.05, shape).astype(np.float32)


def expected(path, tensors):
    lines = []
    for name, values in tensors.items():
        rows = 0 if values.ndim == 1 else values.shape[0]
        lines.append(f"{name} {rows} {values.shape[-1]} {values.astype('<f4').tobytes().hex()}")
    path.write_text("\n".join(lines) + "\n")


# MLX: mixed widths, starts of tensors wherever the unpadded header puts them.
folder = root / "mlx"
folder.mkdir(parents=True, exist_ok=True)
tensors, values = {}, {}
for path, bits, group in (("model.a", 4, 64), ("model.b", 8, 32), ("model.head", 4, 64)):
    w = mx.array(normal(3, 128)).astype(mx.bfloat16)
    tensors[path + ".weight"], tensors[path + ".scales"], tensors[path + ".biases"] = q = mx.quantize(
        w, group_size=group, bits=bits)
    values[path] = np.array(mx.dequantize(q[0], q[1].astype(mx.float32), q[2].astype(mx.float32), group_size=group,
                                          bits=bits))
plain = mx.array(normal(3, 32)).astype(mx.bfloat16)
norm = mx.array(normal(33)).astype(mx.float16)
tensors |= {"model.plain.weight": plain, "model.norm.weight": norm}
values |= {"model.plain": np.array(plain.astype(mx.float32)), "model.norm.weight": np.array(norm.astype(mx.float32))}
for pad in range(8):  # a header of odd length: every tensor then starts at an odd address
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "mlx", "pad": "x" * pad})
    length = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    if length % 2:
        break
quantization = {"group_size": 64, "bits": 4, "model.b": {"group_size": 32, "bits": 8}, "model.plain": False}
(folder / "config.json").write_text(json.dumps(
    {"model_type": "llama", "quantization": quantization, "quantization_config": quantization}, indent=1))
expected(folder / "expected", values)

# Hugging Face's writer.
folder = root / "hf"
folder.mkdir(parents=True, exist_ok=True)
a, b, norm = normal(3, 16), normal(5, 16).astype(np.float16), normal(16)
save_file({"model.a.weight": a, "model.b.weight": b, "model.norm.weight": norm,
           "scalar": np.array(3, np.int64), "empty": np.zeros((4, 0), np.float32)},
          str(folder / "model.safetensors"), metadata={"format": "pt"})
(folder / "config.json").write_text('{"model_type": "llama"}')
expected(folder / "expected", {"model.a": a, "model.b": b.astype(np.float32), "model.norm.weight": norm})

# Two shards and their index.
folder = root / "sharded"
folder.mkdir(parents=True, exist_ok=True)
files = {name: f"model-0000{i}-of-00002.safetensors" for i, name in enumerate("ab", 1)}
for name, file in files.items():
    save_file({name: np.arange(4, dtype=np.uint8)}, str(folder / file), metadata={"format": "pt"})
(folder / "model.safetensors.index.json").write_text(
    json.dumps({"metadata": {"total_size": 8}, "weight_map": files}, indent=1))
(folder / "config.json").write_text('{"model_type": "llama"}')

# The gguf package.
folder = root / "gguf"
folder.mkdir(parents=True, exist_ok=True)
writer, values = gguf.GGUFWriter(str(folder / "model.gguf"), "llama"), {}
writer.add_uint32("llama.block_count", 2)
writer.add_uint64("llama.context_length", 2048)
writer.add_int8("test.small", -5)
writer.add_float32("llama.rope.freq_base", 10000.0)
writer.add_float64("test.double", 0.1)
writer.add_bool("tokenizer.ggml.add_bos_token", False)
writer.add_array("llama.attention.head_count_kv", [2, 4])
writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "Ġé", "日本"])
writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0, 3.0])
writer.add_string("tokenizer.chat_template", "{{ 'é' }}")
types = gguf.GGMLQuantizationType
for name, kind, columns in (("blk.0.q4_0", types.Q4_0, 64), ("blk.0.q4_1", types.Q4_1, 64),
                            ("blk.0.q8_0", types.Q8_0, 64), ("blk.0.q6_k", types.Q6_K, 256),
                            ("blk.0.f16", types.F16, 8), ("blk.0.bf16", types.BF16, 8), ("blk.0.q5_0", types.Q5_0, 64)):
    if kind == types.Q6_K:
        data = rng.integers(0, 256, (3, 210), dtype=np.uint8)
        data[:, 208:] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    else:
        data = gguf.quantize(normal(3, columns), kind)
    writer.add_tensor(name + ".weight", data, raw_dtype=kind)
    if kind != types.Q5_0:
        values[name] = gguf.dequantize(data, kind)
norm = normal(9)
writer.add_tensor("output_norm.weight", norm)
values["output_norm.weight"] = norm
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
expected(folder / "expected", values)
print({str(p.relative_to(root)): p.stat().st_size for p in sorted(root.rglob("*")) if p.is_file()})
