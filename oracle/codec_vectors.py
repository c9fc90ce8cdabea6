"""Writes what other implementations store and decode, for the scalar codecs.

Peers: the `gguf` package (numpy quantize and dequantize) and `mlx` (its CPU quantizer). Usage:
    python oracle/codec_vectors.py                       tests/fixtures/codec_vectors.txt
    python oracle/codec_vectors.py --random OUT          many more cases of every format and width

One case a line, fields separated by spaces, arrays as hex of their little-endian bytes:
    decode FORMAT COLUMNS DATA SCALES BIASES EXPECTED     the bytes decode to these f32
    encode FORMAT COLUMNS VALUES DATA SCALES BIASES       these f32 encode to the bytes
FORMAT is q4_0 ..., mxfp4 ..., or affine:BITS:GROUP:DTYPE. "-" is an absent array.
"""

import argparse
import pathlib

import gguf
import mlx.core as mx
import numpy as np

rng = np.random.default_rng(20260901)
# Bytes of a block, and where its halves lie.
BLOCKS = {
    "q4_0": (18, [0]), "q4_1": (20, [0, 2]), "q5_0": (22, [0]), "q5_1": (24, [0, 2]), "q8_0": (34, [0]),
    "q2_k": (84, [80, 82]), "q3_k": (110, [108]), "q4_k": (144, [0, 2]), "q5_k": (176, [0, 2]),
    "q6_k": (210, [208]), "iq4_nl": (18, [0]), "iq4_xs": (136, [0]), "mxfp4_block": (17, []),
}
LARGE = ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs")
ENCODED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4_block")
MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
lines = []


def hexed(array):
    return "-" if array is None else np.ascontiguousarray(array).tobytes().hex()


def type_of(name):
    return gguf.GGMLQuantizationType[name.removesuffix("_block").upper()]


def gguf_decode(name, blocks):
    """Random codes; d and m are ordinary, negative, subnormal and large halves in turn."""
    size, halves = BLOCKS[name]
    data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for b in range(blocks):
        for at in halves:
            value = np.float16([0.0123, -0.7, 3e-7, 300.0][(b + at) % 4])
            data[b, at:at + 2] = np.frombuffer(value.tobytes(), np.uint8)
    values = gguf.dequantize(data.reshape(1, -1), type_of(name))
    lines.append(f"decode {name} {values.size} {hexed(data)} - - {hexed(values.astype('<f4'))}")


def gguf_encode(name, values):
    values = np.float32(values).reshape(1, -1)
    data = gguf.quantize(values, type_of(name))
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


def floating_decode(mode, columns):
    """Random codes under scales from the smallest to the largest; none is NaN."""
    group, bits = MODES[mode]
    data = rng.integers(0, 256, (1, columns * bits // 8), dtype=np.uint8)
    if bits == 8:
        data[data & 0x7F == 0x7F] = 0x7E
    scales = rng.integers(0, 255, (1, columns // group), dtype=np.uint8)
    scales[0, :4] = [0, 1, 126, 130][: columns // group]
    if mode == "nvfp4":
        scales[scales & 0x7F == 0x7F] = 0x38
    out = mx.dequantize(mx.array(data.view(np.uint32)), mx.array(scales), mode=mode, dtype=mx.float32)
    lines.append(f"decode {mode} {columns} {hexed(data)} {hexed(scales)} - {hexed(np.array(out))}")


def floating_encode(mode, values):
    values = np.float32(values).reshape(1, -1)
    words, scales = mx.quantize(mx.array(values), mode=mode)
    name = f"encode {mode} {values.size} {hexed(values)}"
    lines.append(f"{name} {hexed(np.array(words))} {hexed(np.array(scales))} -")


def normal(count):
    # 16 significant bits: enough to exercise rounding, short enough to print
    return np.float32(np.round(rng.normal(0, 0.05, count) * 2**16) / 2**16)


def committed():
    for name in BLOCKS:
        gguf_decode(name, 1 if name in LARGE else 4)
    for name in ENCODED:
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
    for mode in MODES:
        floating_decode(mode, 128)
        floating_encode(mode, np.concatenate([normal(64), np.zeros(32), np.linspace(-1, 0.998, 32)]))


def many():
    """Every affine width, group and type of scale; 64 blocks of each GGUF type; all bytes of small floats."""
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            for dtype in ("f32", "f16", "bf16"):
                affine(bits, group, dtype, normal(1024), True)
    for name in BLOCKS:
        gguf_decode(name, 64)
    for name in ENCODED:
        if name != "q4_0":  # numpy's rounding is not the fused one of the C quantizer
            gguf_encode(name, normal(1024))
    for mode in MODES:
        for _ in range(16):
            floating_decode(mode, 4096)
        for spread in (1e-6, 1, 1e3):
            floating_encode(mode, normal(1024) * spread)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--random", type=pathlib.Path, metavar="OUT")
out = parser.parse_args().random
mx.set_default_device(mx.cpu)
(many if out else committed)()
path = out or pathlib.Path(__file__).parent.parent / "tests/fixtures/codec_vectors.txt"
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("\n".join(lines) + "\n")
print(f"{path}: {len(lines)} cases, {path.stat().st_size} bytes")
