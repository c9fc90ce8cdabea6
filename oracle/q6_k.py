"""An encoder for GGUF's Q6_K, which the gguf package only decodes.

A block of 256 values holds 16 groups of 16: value = d · scale_g · (q − 32), with q in 0..63, an i8 scale
per group and an fp16 d per block. Bytes: low nibbles [128], high bit pairs [64], scales [16], d [2].
"""

import numpy as np

BLOCK = 256
GROUP = 16
BLOCK_BYTES = 210


def _codes(values: np.ndarray):
    """[blocks, 256] → d [blocks] fp16, scales [blocks, 16] i8, q [blocks, 256] in 0..63.

    The value of largest magnitude in a group lands on code 0 (−32), so that no code is wasted; the largest
    scale of a block lands on −128.
    """
    groups = values.reshape(-1, BLOCK // GROUP, GROUP)
    edge = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)[..., 0]
    wanted = edge / -32.0
    largest = np.take_along_axis(wanted, np.abs(wanted).argmax(-1, keepdims=True), -1)
    d = (largest / -128.0).astype(np.float16)
    step = np.where(d == 0, 1.0, d.astype(np.float32))
    scales = np.clip(np.rint(wanted / step), -128, 127).astype(np.int8)
    fine = (d.astype(np.float32) * scales)[..., None]
    q = np.rint(groups / np.where(fine == 0, 1.0, fine))
    q = np.where(fine == 0, 0.0, np.clip(q, -32, 31)) + 32
    return d[:, 0], scales, q.astype(np.uint8).reshape(-1, BLOCK)


def encode(values: np.ndarray) -> np.ndarray:
    """fp32 [..., K] with K a multiple of 256 → bytes [..., K / 256 · 210]."""
    if values.shape[-1] % BLOCK:
        raise ValueError(f"Q6_K rows are whole blocks of {BLOCK}, got {values.shape[-1]} values")
    d, scales, q = _codes(values.astype(np.float32).reshape(-1, BLOCK))
    # Axes: half of the block, quarter of the half, place in the quarter.
    q = q.reshape(-1, 2, 4, 32)
    low, high = q & 15, q >> 4
    # Quarters 0 and 1 fill the low nibbles of a half's 64 bytes, quarters 2 and 3 the high ones.
    nibbles = (low[:, :, :2] | low[:, :, 2:] << 4).reshape(-1, 128)
    pairs = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(-1, 64)
    blocks = np.concatenate([nibbles, pairs, scales.view(np.uint8), d[:, None].view(np.uint8)], axis=1)
    return blocks.reshape(*values.shape[:-1], values.shape[-1] // BLOCK * BLOCK_BYTES)


def intended(values: np.ndarray) -> np.ndarray:
    """What the encoded values stand for, without going through the bytes."""
    d, scales, q = _codes(values.astype(np.float32).reshape(-1, BLOCK))
    fine = d.astype(np.float32)[:, None] * scales.astype(np.float32)
    return (fine.repeat(GROUP, axis=1) * (q.astype(np.float32) - 32)).reshape(values.shape)
