"""Sanity checks of the oracle itself: each raises CheckFailed with what it saw and what it expected."""

import expand
import gemma
import gguf
import gguf_checkpoint
import k_quants
import mlx.core as mx
import numpy as np
import q6_k

# Root mean square error of an expanded matrix, relative to the original's: least and most.
RELATIVE_ERROR = {
    "fp32": (0.0, 0.0),
    "fp16": (1e-5, 3e-4),
    "bf16": (5e-4, 2e-3),
    "mlx8": (1e-3, 1.2e-2),
    "mlx6": (5e-3, 4e-2),
    "mlx5": (1e-2, 8e-2),
    "mlx4": (3e-2, 1.6e-1),
    "mlx3": (8e-2, 3.5e-1),
    "mlx2": (2e-1, 7e-1),
    "mlx-mxfp4": (5e-2, 2e-1),
    "mlx-mxfp8": (1e-2, 5e-2),
    "mlx-nvfp4": (5e-2, 1.5e-1),
    "gguf-f32": (0.0, 0.0),
    "gguf-f16": (1e-5, 3e-4),
    "gguf-q8_0": (1e-3, 1e-2),
    "gguf-q6_k": (5e-3, 3e-2),
    "gguf-q4_0": (3e-2, 1.2e-1),
    "gguf-q4_1": (3e-2, 1.2e-1),
    "gguf-q5_0": (1.5e-2, 6e-2),
    "gguf-q5_1": (1.5e-2, 6e-2),
    "gguf-q2_k": (1.5e-1, 5e-1),
    "gguf-q3_k": (8e-2, 3e-1),
    "gguf-q4_k": (3e-2, 1.2e-1),
    "gguf-q5_k": (1.5e-2, 6e-2),
    "gguf-iq4_nl": (3e-2, 1.2e-1),
    "gguf-iq4_xs": (3e-2, 1.2e-1),
    "gguf-mxfp4": (5e-2, 2e-1),
}

# Largest difference between two logit sets, relative to the largest logit.
SECOND_TRUTH_BOUND = 1e-4
WITNESS_RANGE = (3e-4, 1e-1)
MIXTURE_WITNESS_RANGE = (3e-4, 1.0)
# A row whose two best logits differ by more than this part of the largest logit has a choice worth comparing.
MARGIN = 2e-3
ROWS_WITH_MARGIN = 0.8


class CheckFailed(Exception):
    pass


def require(holds, message: str) -> None:
    if not holds:
        raise CheckFailed(message)


def relative_delta(ours: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(ours - truth).max() / np.abs(truth).max())


def _words(text: str) -> np.ndarray:
    return np.array([[int(word, 16) for word in text.split()]], dtype=np.uint32)


def check_packing() -> None:
    """Codes 0, 1, 2 … in order, against words written down by hand."""
    vectors = {
        4: "76543210 fedcba98 76543210 fedcba98",
        8: "03020100 07060504 0b0a0908 0f0e0d0c 13121110 17161514 1b1a1918 1f1e1d1c",
    }
    for bits, words in vectors.items():
        codes = expand.unpack(_words(words), bits)[0]
        require((codes == np.arange(32) % 2**bits).all(), f"{bits}-bit unpacking gave {codes}")


def check_affine() -> None:
    """mlx's quantiser on a known ramp, and our expansion of it against mlx's own in fp32."""
    ramp = ((np.arange(32) - 12) / 16).astype(np.float32)[None]
    expected = {4: (-0.131944448, "bccddeef 88999aab 44556677 00112233"), 8: (-0.0076121795, None)}
    for bits, (scale, words) in expected.items():
        packed, scales, biases = (np.array(part) for part in mx.quantize(mx.array(ramp), 32, bits))
        require(abs(scales[0, 0] - scale) < 1e-8, f"{bits}-bit scale {scales[0, 0]}, expected {scale}")
        require(biases[0, 0] == 1.1875, f"{bits}-bit bias {biases[0, 0]}, expected 1.1875")
        require(
            words is None or (packed == _words(words)).all(), f"{bits}-bit words {packed}, expected {words}"
        )
        ours = expand.affine(packed, scales, biases, bits, 32)
        theirs = np.array(mx.dequantize(mx.array(packed), mx.array(scales), mx.array(biases), 32, bits))
        require(np.abs(ours - theirs).max() < 1e-6, f"{bits}-bit expansion differs from mlx's in fp32")


def check_permutation() -> None:
    rows = np.arange(16)
    stored = gguf_checkpoint.permute(rows, 2)
    require(stored[:8].tolist() == [0, 4, 1, 5, 2, 6, 3, 7], f"one head of 8 rows is stored as {stored[:8]}")
    require((gguf_checkpoint.unpermute(stored, 2) == rows).all(), "unpermute does not undo permute")


def _decode_q6_k(block: np.ndarray) -> np.ndarray:
    """One 210-byte block by the closed form of each element, apart from the gguf package's decoder."""
    e = np.arange(256)
    half, rest = e // 128, e % 128
    quarter, place = rest // 32, rest % 32
    low = block[64 * half + place + 32 * (quarter & 1)] >> 4 * (quarter >> 1) & 15
    high = block[128 + 32 * half + place] >> 2 * quarter & 3
    scale = block[192:208].view(np.int8)[e // 16].astype(np.float32)
    d = block[208:210].view(np.float16).astype(np.float32)
    return d * scale * ((low + 16 * high).astype(np.float32) - 32)


def check_q6_k() -> None:
    values = np.random.default_rng(6).standard_normal((7, 512)).astype(np.float32)
    values[0] *= np.repeat(2.0 ** np.arange(-16, 16), 16).astype(np.float32)
    values[1] = 0
    encoded = q6_k.encode(values)
    decoded = gguf.dequantize(encoded, gguf.GGMLQuantizationType.Q6_K)
    require(
        (decoded == q6_k.intended(values)).all(), "gguf's Q6_K decoder disagrees with what the encoder meant"
    )
    blocks = encoded.reshape(-1, q6_k.BLOCK_BYTES)
    by_form = np.concatenate([_decode_q6_k(block) for block in blocks]).reshape(values.shape)
    require((decoded == by_form).all(), "gguf's Q6_K decoder disagrees with the closed form")
    error = np.abs(decoded - values)[2:].max() / np.abs(values[2:]).max()
    require(error < 0.04, f"Q6_K error {error:.3f} of the largest value")
    require((decoded[1] == 0).all(), "a block of zeros decodes to something else")


def check_k_quants() -> None:
    """gguf's decoders give back what the encoders were given, to within the width of their codes."""
    values = np.random.default_rng(7).standard_normal((5, 512)).astype(np.float32)
    values[1] = 0
    values[2] = np.abs(values[2])
    for kind, most in (("Q2_K", 0.5), ("Q3_K", 0.4), ("Q4_K", 0.1), ("Q5_K", 0.06), ("IQ4_NL", 0.16), ("IQ4_XS", 0.16)):
        stored = k_quants.encode(values, kind)
        decoded = gguf.dequantize(stored, gguf.GGMLQuantizationType[kind])
        error = np.abs(decoded - values).max() / np.abs(values).max()
        require(error < most, f"{kind} error {error:.3f} of the largest value")
        require((decoded[1] == 0).all(), f"{kind}: a block of zeros decodes to something else")


def check_floating() -> None:
    """Our expansion of MLX's floating-point modes against mlx's own, over every scale and code."""
    random = np.random.default_rng(8)
    for mode, group, bits in (("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)):
        scales = np.arange(255 if mode != "nvfp4" else 127, dtype=np.uint8)[:, None].repeat(4, 1)
        codes = random.integers(0, 256, (len(scales), 4 * group * bits // 8), dtype=np.uint8)
        codes[codes & 0x7F == 0x7F] = 0
        words = codes.view(np.uint32)
        theirs = mx.dequantize(mx.array(words), mx.array(scales), mode=mode, dtype=mx.float32)
        with np.errstate(over="ignore"):
            ours = expand.floating(words, scales, mode)
        require((ours == np.array(theirs)).all(), f"{mode} expansion differs from mlx's in fp32")


def check_encoders() -> None:
    check_packing()
    check_affine()
    check_permutation()
    check_q6_k()
    check_k_quants()
    check_floating()


def check_frequencies(fixture, model) -> None:
    """transformers' RoPE frequencies and scale against the formulas, in fp64."""
    if gemma.is_gemma(fixture.config):
        return _check_gemma_frequencies(fixture, model)
    rope, width = fixture.rope, fixture.rotated_dims
    pairs = np.arange(width // 2)
    expected = rope["rope_theta"] ** (-2.0 * pairs / width)
    magnitude = 1.0
    if rope["rope_type"] == "linear":
        expected = expected / rope["factor"]
    elif rope["rope_type"] == "llama3":
        expected = expected / gguf_checkpoint.llama3_divisors(rope, width)
    elif rope["rope_type"] == "longrope":  # the tokens were drawn beyond the original context
        original = fixture.config["original_max_position_embeddings"]
        ratio = fixture.config["max_position_embeddings"] / original
        expected = expected / np.array(rope["long_factor"])
        magnitude = np.sqrt(1 + np.log(ratio) / np.log(original))
    elif rope["rope_type"] == "yarn":
        factor, original = rope["factor"], rope["original_max_position_embeddings"]

        def turn(beta):
            return width * np.log(original / (2 * np.pi * beta)) / (2 * np.log(rope["rope_theta"]))

        low, high = max(np.floor(turn(32)), 0), min(np.ceil(turn(1)), width - 1)
        keep = 1 - np.clip((pairs - low) / (high - low), 0, 1)
        expected = keep * expected + (1 - keep) * expected / factor
        magnitude = 0.1 * np.log(factor) + 1
    rotary = model.model.rotary_emb
    error = np.abs(rotary.inv_freq.double().numpy() / expected - 1).max()
    require(error < 1e-5, f"{fixture.name}: RoPE frequencies differ by {error:.1e} from the formula")
    scaling = rotary.attention_scaling
    require(
        abs(scaling - magnitude) < 1e-6, f"{fixture.name}: RoPE magnitude {scaling}, expected {magnitude}"
    )


def _check_gemma_frequencies(fixture, model) -> None:
    rotary = model.model.rotary_emb
    for kind, expected in gemma.expected_frequencies(fixture.config).items():
        own = getattr(rotary, f"{kind}_inv_freq", None)
        own = (rotary.inv_freq if own is None else own).double().numpy()
        require(own.shape == expected.shape, f"{fixture.name}: {len(own)} frequencies, expected {len(expected)}")
        error = np.abs(own - expected).max() / np.abs(expected).max()
        require(error < 1e-6, f"{fixture.name}: {kind} frequencies differ by {error:.1e} from the formula")


def check_expanded(name: str, format_of, weights: dict, originals: dict) -> None:
    """The same names and shapes, vectors almost as they were, matrices as far off as their format says.

    `format_of` gives the format of a matrix by its name: a key of RELATIVE_ERROR.
    """
    require(
        weights.keys() == originals.keys(),
        f"{name}: weights {sorted(weights.keys() ^ originals.keys())} are in one of file and original only",
    )
    for key, original in originals.items():
        value = weights[key]
        require(value.shape == original.shape, f"{name}: {key} has shape {value.shape}, not {original.shape}")
        error = float(np.sqrt(np.square(value - original).mean() / np.square(original).mean()))
        if original.ndim != 2:
            require(error < 3e-3, f"{name}: {key} differs by {error:.1e}")
        else:
            least, most = RELATIVE_ERROR[format_of(key)]
            require(
                least <= error <= most, f"{name}: {key} differs by {error:.1e}, not {least:.0e}..{most:.0e}"
            )


def check_second_truth(name: str, second: np.ndarray, truth: np.ndarray) -> float:
    delta = relative_delta(second, truth)
    require(delta <= SECOND_TRUTH_BOUND, f"{name}: mlx-lm in fp32 differs from the truth by {delta:.1e}")
    return delta


def mean_kl(logits: np.ndarray, truth: np.ndarray) -> float:
    """Mean over rows of KL(truth ‖ logits), in nats."""

    def log_softmax(values):
        values = values.astype(np.float64) - values.max(-1, keepdims=True)
        return values - np.log(np.exp(values).sum(-1, keepdims=True))

    expected, seen = log_softmax(truth), log_softmax(logits)
    return float((np.exp(expected) * (expected - seen)).sum(-1).mean())


def margins(truth: np.ndarray) -> np.ndarray:
    best = np.sort(truth, -1)[:, -2:]
    return best[:, 1] - best[:, 0]


def check_outputs(name: str, truth: np.ndarray, witness: np.ndarray, amplifies_rounding: bool) -> dict:
    """The truth must be worth comparing with, the witness off by what bf16 costs: neither more nor less.

    In a mixture bf16 also sends a few rows to other experts, and a delta net normalises what may be small.
    """
    require(np.isfinite(truth).all() and np.isfinite(witness).all(), f"{name}: logits are not finite")
    largest = float(np.abs(truth).max())
    require(1.0 < largest < 30.0, f"{name}: the largest logit is {largest:.2f}, expected a few units")
    off = relative_delta(witness, truth)
    least, most = WITNESS_RANGE if not amplifies_rounding else MIXTURE_WITNESS_RANGE
    require(
        least <= off <= most,
        f"{name}: the witness is off by {off:.1e}, not {least:.0e}..{most:.0e}",
    )
    clear = float((margins(truth) > MARGIN * largest).mean())
    require(clear >= ROWS_WITH_MARGIN, f"{name}: only {clear:.0%} of the rows have a clear best token")
    return {
        "max_abs_logit": largest,
        "witness_max_abs_delta": float(np.abs(witness - truth).max()),
        "witness_mean_kl": mean_kl(witness, truth),
        "witness_argmax_agreement": float((witness.argmax(-1) == truth.argmax(-1)).mean()),
        "rows_with_margin": clear,
        "distinct_argmax": int(len(np.unique(truth.argmax(-1)))),
    }
