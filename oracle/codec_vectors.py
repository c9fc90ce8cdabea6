"""Writes tests/fixtures/codec_vectors.txt: what other implementations store and decode, for the scalar codecs.

Peers: the `gguf` package (numpy quantize and dequantize) and `mlx` (its CPU quantizer). Usage:
    python -m pip install gguf "mlx[cpu]"; python oracle/codec_vectors.py

One case a line, fields separated by spaces, arrays as hex of their little-endian bytes:
    decode FORMAT COLUMNS DATA SCALES BIASES EXPECTED     the bytes decode to these f32
    encode FORMAT COLUMNS VALUES DATA SCALES BIASES       these f32 encode to the bytes
FORMAT is q4_0 ..., or affine:BITS:GROUP:DTYPE. "-" is an absent array.
"""

import pathlib

import gguf
import mlx.core as mx
import numpy as np

rng = np.random.default_rng(20260901)
TYPES = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q4_1": gguf.GGMLQuantizationType.Q4_1,
         "q8_0": gguf.GGMLQuantizationType.Q8_0, "q6_k": gguf.GGMLQuantizationType.Q6_K}
HALVES = {"q4_0": (18, [0]), "q4_1": (20, [0, 2]), "q8_0": (34, [0]), "q6_k": (210, [208])}
lines = []


def hexed(array):
    return "-" if array is None else np.ascontiguousarray(array).tobytes().hex()


def gguf_decode(name, blocks):
    """Random codes; d and m are ordinary, negative, subnormal and large halves in turn."""
    size, halves = HALVES[name]
    data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for b in range(blocks):
        for at in halves:
            value = np.float16([0.0123, -0.7, 3e-7, 300.0][(b + at) % 4])
            data[b, at:at + 2] = np.frombuffer(value.tobytes(), np.uint8)
    values = gguf.dequantize(data.reshape(1, -1), TYPES[name])
    lines.append(f"decode {name} {values.size} {hexed(data)} - - {hexed(values.astype('<f4'))}")


def gguf_encode(name, values):
    values = np.float32(values).reshape(1, -1)
    data = gguf.quantize(values, TYPES[name])
    lines.append(f"encode {name} {values.size} {hexed(values)} {hexed(data)} - -")


def affine(bits, group, dtype_name, values, with_decode):
    dtype = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}[dtype_name]
    weights = mx.array(np.float32(values).reshape(1, -1)).astype(dtype)
    words, scales, biases = mx.quantize(weights, group_size=group, bits=bits)
    mx.eval(words, scales, biases)
    raw = np.uint32 if dtype_name == "f32" else np.uint16
    data, s, b = np.array(words), np.array(scales.view(getattr(mx, raw.__name__))), \
        np.array(biases.view(getattr(mx, raw.__name__)))
    name = f"affine:{bits}:{group}:{dtype_name}"
    lines.append(f"encode {name} {values.size} {hexed(np.float32(values))} {hexed(data)} {hexed(s)} {hexed(b)}")
    if with_decode:
        out = mx.dequantize(words, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
        lines.append(f"decode {name} {values.size} {hexed(data)} {hexed(s)} {hexed(b)} {hexed(np.array(out))}")


def normal(count):
    # 16 significant bits: enough to exercise rounding, short enough to print
    return np.float32(np.round(rng.normal(0, 0.05, count) * 2**16) / 2**16)


for name in TYPES:
    gguf_decode(name, 1 if name == "q6_k" else 4)
for name in ("q4_0", "q4_1", "q8_0"):
    gguf_encode(name, np.concatenate([normal(32), np.zeros(32), np.linspace(-1, 0.998, 32)]))
for bits in (2, 3, 4, 5, 6, 8):
    affine(bits, 32, "bf16", normal(32), True)
affine(4, 64, "bf16", normal(64), True)
affine(4, 128, "f16", normal(128), False)
affine(8, 64, "f32", normal(64), True)
affine(4, 32, "f32", (np.arange(32) - 12) / 16, False)
affine(4, 32, "f32", -(np.arange(32) + 1) / 32, False)
affine(4, 32, "f16", np.zeros(32), True)
affine(3, 32, "bf16", np.linspace(-1, 0.998, 32), False)
affine(5, 32, "f16", np.linspace(-0.1, -1, 32), False)

path = pathlib.Path(__file__).parent.parent / "tests/fixtures/codec_vectors.txt"
path.write_text("\n".join(lines) + "\n")
print(f"{path}: {len(lines)} cases, {path.stat().st_size} bytes")
