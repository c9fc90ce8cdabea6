"""Encoders for the GGUF blocks that the gguf package only decodes: Q2_K to Q5_K, IQ4_NL and IQ4_XS.

Plain ones: a group's scale and minimum span its values, codes are the nearest. check() decodes them with the
gguf package.
"""

import gguf
import numpy as np

LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def _over(values, unit):
    """values / unit, 0 where the unit is."""
    return np.divide(values, unit, out=np.zeros(np.broadcast_shapes(values.shape, unit.shape), np.float32), where=unit != 0)


def _bytes(array) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


def _with_minima(values, group, highest_code, highest_scale):
    """[blocks, 256] → d, dmin [blocks, 1] fp16; scales, minima [blocks, groups]; codes [blocks, 256]."""
    groups = values.reshape(len(values), -1, group)
    minima = np.maximum(0, -groups.min(-1))
    scales = np.maximum(0, groups.max(-1) + minima) / highest_code
    d = (scales.max(-1, keepdims=True) / highest_scale).astype(np.float16)
    dmin = (minima.max(-1, keepdims=True) / highest_scale).astype(np.float16)
    whole_scales = np.clip(np.rint(_over(scales, d.astype(np.float32))), 0, highest_scale)
    whole_minima = np.clip(np.rint(_over(minima, dmin.astype(np.float32))), 0, highest_scale)
    step = (d.astype(np.float32) * whole_scales)[..., None]
    offset = (dmin.astype(np.float32) * whole_minima)[..., None]
    codes = np.clip(np.rint(_over(groups + offset, step)), 0, highest_code)
    shape = values.shape
    return d, dmin, whole_scales.astype(np.uint8), whole_minima.astype(np.uint8), codes.astype(np.uint8).reshape(shape)


def _signed_scales(values, group, edge_code):
    """d [blocks, 1] fp16, scales [blocks, groups] in -32..31, step [blocks, groups, 1] fp32."""
    groups = values.reshape(len(values), -1, group)
    edge = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)[..., 0]
    wanted = edge / edge_code
    largest = np.take_along_axis(wanted, np.abs(wanted).argmax(-1, keepdims=True), -1)
    d = (largest / -32).astype(np.float16)
    scales = np.clip(np.rint(_over(wanted, d.astype(np.float32))), -32, 31)
    return d, scales.astype(np.int8), (d.astype(np.float32) * scales)[..., None]


def _k_scales(scales, minima) -> np.ndarray:
    """Eight pairs of six bits in twelve bytes."""
    low, high = scales[:, :4] | (scales[:, 4:] >> 4 << 6), minima[:, :4] | (minima[:, 4:] >> 4 << 6)
    return np.concatenate([low, high, scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4], 1)


def _nibbles(codes) -> np.ndarray:
    """Groups 2j and 2j + 1 of 32 codes share 32 bytes."""
    pairs = (codes & 15).reshape(-1, 4, 2, 32)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)


def _bit_pairs(codes) -> np.ndarray:
    """Four strips of 32 codes of each half share 32 bytes."""
    strips = (codes & 3).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return np.bitwise_or.reduce(strips << shifts, 2).reshape(-1, 64)


def _bit_planes(bits) -> np.ndarray:
    """Bit e / 32 of byte e % 32."""
    planes = bits.reshape(-1, 8, 32) << np.arange(8, dtype=np.uint8)[:, None]
    return np.bitwise_or.reduce(planes, 1)


def _q2_k(values):
    d, dmin, scales, minima, codes = _with_minima(values, 16, 3, 15)
    return [scales | minima << 4, _bit_pairs(codes), _bytes(d), _bytes(dmin)]


def _q3_k(values):
    d, scales, step = _signed_scales(values, 16, -4)
    codes = np.clip(np.rint(_over(values.reshape(len(values), 16, 16), step)), -4, 3) + 4
    codes = codes.astype(np.uint8).reshape(-1, 256)
    stored = (scales + 32).astype(np.uint8)
    low = stored[:, :8] & 15 | (stored[:, 8:] & 15) << 4
    quarters = (stored >> 4).reshape(-1, 4, 4) << np.array([0, 2, 4, 6], np.uint8)[:, None]
    return [_bit_planes(codes >> 2), _bit_pairs(codes), low, np.bitwise_or.reduce(quarters, 1), _bytes(d)]


def _q4_k(values):
    d, dmin, scales, minima, codes = _with_minima(values, 32, 15, 63)
    return [_bytes(d), _bytes(dmin), _k_scales(scales, minima), _nibbles(codes)]


def _q5_k(values):
    d, dmin, scales, minima, codes = _with_minima(values, 32, 31, 63)
    return [_bytes(d), _bytes(dmin), _k_scales(scales, minima), _bit_planes(codes >> 4), _nibbles(codes)]


def _nearest_levels(values, step):
    """Byte j of a group holds elements j and j + 16."""
    levels = _over(values.reshape(*step.shape[:-1], 32), step)
    codes = np.abs(levels[..., None] - LEVELS).argmin(-1).astype(np.uint8)
    return (codes[..., :16] | codes[..., 16:] << 4).reshape(len(values), -1)


def _iq4_nl(values):
    edge = np.take_along_axis(values, np.abs(values).argmax(-1, keepdims=True), -1)
    d = (edge / -127).astype(np.float16)
    return [_bytes(d), _nearest_levels(values, d.astype(np.float32))]


def _iq4_xs(values):
    d, scales, step = _signed_scales(values, 32, -127)
    stored = (scales + 32).astype(np.uint8)
    high = np.bitwise_or.reduce((stored >> 4).astype(np.uint16) << np.arange(0, 16, 2, dtype=np.uint16), 1)
    return [_bytes(d), _bytes(high), stored[:, ::2] & 15 | (stored[:, 1::2] & 15) << 4, _nearest_levels(values, step)]


# Type → (encoder of [blocks, block], values a block)
ENCODERS = {
    "Q2_K": (_q2_k, 256),
    "Q3_K": (_q3_k, 256),
    "Q4_K": (_q4_k, 256),
    "Q5_K": (_q5_k, 256),
    "IQ4_NL": (_iq4_nl, 32),
    "IQ4_XS": (_iq4_xs, 256),
}


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    """fp32 [..., K] with K a multiple of the block → bytes [..., bytes of a row]."""
    encoder, block = ENCODERS[kind]
    if values.shape[-1] % block:
        raise ValueError(f"{kind} rows are whole blocks of {block}, got {values.shape[-1]} values")
    stored = np.concatenate(encoder(values.astype(np.float32).reshape(-1, block)), 1)
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    if stored.shape[1] != size:
        raise ValueError(f"{kind} blocks have {size} bytes, the encoder made {stored.shape[1]}")
    return stored.reshape(*values.shape[:-1], -1)
