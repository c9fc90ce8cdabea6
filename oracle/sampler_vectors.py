#!/usr/bin/env python3
"""Expected values of the sampler, from a numpy implementation of its rules in fp32.

    python3 oracle/sampler_vectors.py            writes tests/data/sampler_vectors.json
    python3 oracle/sampler_vectors.py --check    also compares every case with mlx_lm.sample_utils, where installed

Each case: parameters, a history, logits [V]; expected: the logprobs after bias and penalties, the ids that survive the
filters (with the XTC coin on heads), the greedy token, and the tokens drawn for some seeds and steps. Cases with a token
closer to a filter's border than fp32 rounding can decide are drawn again.
"""
import argparse
import json
import math
import pathlib

import numpy as np

VOCABULARY = 24
MARGIN = 1e-4
MASK = (1 << 64) - 1


def processed(case, logits):
    out = logits.astype(np.float32).copy()
    for token, bias in case.get("logit_bias", []):
        out[token] += np.float32(bias)
    history = case["history"]
    for name in ("repetition", "presence", "frequency"):
        strength, window = case.get(name, (0, 20))
        if strength == 0 or (name == "repetition" and strength == 1):
            continue
        recent = history[-window:]  # Python's [-0:] is the whole history
        for token in sorted(set(recent)):
            count = recent.count(token)
            value = out[token]
            if name == "repetition":
                out[token] = value * np.float32(strength) if value < 0 else value / np.float32(strength)
            elif name == "presence":
                out[token] = value - np.float32(strength)
            else:
                out[token] = value - np.float32(strength) * np.float32(count)
    return out


def normalized(logits):
    wide = logits.astype(np.float64)
    top = wide.max()
    return (wide - (top + math.log(np.exp(wide - top).sum()))).astype(np.float32)


class TooClose(Exception):
    pass


def near(a, b):
    if math.isfinite(a) and math.isfinite(b) and abs(a - b) < MARGIN:
        raise TooClose


def survivors(case, logprobs):
    """Ids left by top_p → min_p → XTC → top_k, by the ascending-sum statement of top_p."""
    lp = logprobs.astype(np.float64).copy()
    top_p, min_p, top_k = case.get("top_p", 0), case.get("min_p", 0), case.get("top_k", 0)
    if 0 < top_p < 1:
        order = np.argsort(lp, kind="stable")
        cumulative = np.cumsum(np.exp(lp[order]))
        for value in cumulative:
            near(value, 1 - top_p)
        lp[order[~(cumulative > 1 - top_p)]] = -np.inf
    if min_p != 0:
        floor = lp.max() + math.log(min_p)
        if min_p != 1:
            for value in lp:
                near(value, floor)
        lp[lp < floor] = -np.inf
    if case.get("xtc_probability", 0) > 0:
        threshold = case["xtc_threshold"]
        probabilities = np.exp(lp - lp.max())
        probabilities /= probabilities.sum()
        for value in probabilities:
            near(value, threshold)
        above = probabilities[probabilities > threshold]
        least = above.min() if len(above) else np.inf
        remove = probabilities > least
        remove[case.get("xtc_exempt", [])] = False
        lp[remove] = -np.inf
    if 0 < top_k < np.isfinite(lp).sum():
        order = sorted(np.flatnonzero(np.isfinite(lp)), key=lambda i: (-lp[i], i))
        lp[order[top_k:]] = -np.inf
    return [int(i) for i in np.flatnonzero(np.isfinite(lp))]


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(key):
    return (mix64(key) >> 11) * 2.0**-53


def draw(case, logprobs, kept, seed, step):
    temperature = case["temperature"]
    if temperature == 0:
        return int(np.argmax(logprobs))
    key = seed ^ (((step + 1) * 0x9E3779B97F4A7C15) & MASK)
    if case.get("xtc_probability", 0) > 0:
        key = mix64((key + 2 * 0xD1342543DE82EF95) & MASK)
    lp = logprobs[kept].astype(np.float64)
    weights = np.exp((lp - lp.max()) / temperature)
    cumulative = np.cumsum(weights / weights.sum())
    unit = uniform(key)
    if np.min(np.abs(cumulative - unit)) < 1e-6:
        raise TooClose
    return kept[int(np.searchsorted(cumulative, unit, side="right"))]


def make_cases(random):
    base = {"temperature": 1.0, "history": []}
    long_history = [3, 5, 3, 7, 3, 1, 1, 9, 20, 3] * 3 + [11, 12, 12]
    wanted = [
        dict(),
        dict(temperature=0.0),
        dict(temperature=0.3),
        dict(temperature=5.0),
        dict(temperature=1e-6),
        dict(logit_bias=[[4, 6.5], [9, -100.0]]),
        dict(logit_bias=[[4, 2.5]], temperature=0.0),
        dict(repetition=[1.3, 20], history=[3, 5, 3, 7, 3]),
        dict(repetition=[1.3, 20], history=long_history),
        dict(repetition=[1.3, 1], history=long_history),
        dict(repetition=[1.3, 0], history=long_history),
        dict(repetition=[0.5, 4], history=long_history),
        dict(repetition=[1.0, 20], history=long_history),
        dict(presence=[0.9, 20], history=long_history),
        dict(presence=[0.9, 1], history=long_history),
        dict(presence=[-0.9, 0], history=long_history),
        dict(frequency=[0.4, 20], history=long_history),
        dict(frequency=[0.4, 0], history=long_history),
        dict(frequency=[-0.4, 3], history=long_history),
        dict(logit_bias=[[3, 1.5]], repetition=[1.2, 10], presence=[0.3, 5], frequency=[0.2, 0], history=long_history),
        dict(logit_bias=[[3, 1.5]], repetition=[1.2, 10], presence=[0.3, 5], frequency=[0.2, 0], history=long_history,
             temperature=0.0),
    ]
    for top_p in (0.05, 0.5, 0.9, 0.99, 1.0):
        wanted.append(dict(top_p=top_p))
    for min_p in (0.02, 0.1, 0.5, 1.0):
        wanted.append(dict(min_p=min_p))
    for top_k in (1, 2, 5, 23, 24, 1000):
        wanted.append(dict(top_k=top_k))
    for threshold in (0.02, 0.1, 0.3, 0.5):
        wanted.append(dict(xtc_probability=1.0, xtc_threshold=threshold))
    wanted += [
        dict(xtc_probability=1.0, xtc_threshold=0.05, xtc_exempt=[0, 1, 2, 3, 4, 5, 6, 7]),
        dict(top_p=0.8, min_p=0.1, top_k=4),
        dict(top_p=0.95, min_p=0.02, top_k=3, temperature=0.6),
        dict(top_p=0.7, temperature=2.5),
        dict(min_p=0.15, temperature=3.0),
        dict(top_p=0.9, min_p=0.03, top_k=6, xtc_probability=1.0, xtc_threshold=0.08, temperature=1.3),
        dict(top_p=0.9, repetition=[1.2, 20], frequency=[0.3, 20], history=long_history, temperature=0.8),
        dict(tie=True, top_k=3),
        dict(tie=True, top_p=0.45),
        dict(tie=True, temperature=0.0),
        dict(tie=True, xtc_probability=1.0, xtc_threshold=0.1),
    ]
    for entry in wanted:
        case = {**base, **entry}
        tie = case.pop("tie", False)
        while True:
            logits = np.round(random.normal(0, 2.0, VOCABULARY), 3).astype(np.float32)
            if tie:  # five equal tokens share most of the mass
                logits[[2, 6, 7, 15, 21]] = np.float32(7.0)
            try:
                yield finished(case, logits, random)
                break
            except TooClose:
                continue


def finished(case, logits, random):
    out = processed(case, logits)
    logprobs = normalized(out)
    kept = survivors(case, logprobs)
    draws = []
    for seed, step in ((0, 0), (1, 0), (1, 1), (42, 7), (2**32 - 1, 3), (2**64 - 1, 100)):
        draws.append([str(seed), step, draw(case, logprobs, kept, seed, step)])
    return {
        **case,
        "logits": [round(float(x), 3) for x in logits],
        "logprobs": [float(f"{x:.7g}") for x in logprobs],
        "kept": kept,
        "draws": draws,
    }


def compare_with_mlx_lm(case):
    import mlx.core as mx
    from mlx_lm import sample_utils

    windows = {}
    for name in ("repetition", "presence", "frequency"):
        if name in case:
            windows[f"{name}_penalty"], windows[f"{name}_context_size"] = case[name]
    bias = dict((t, b) for t, b in case.get("logit_bias", [])) or None
    logits = mx.array(np.array(case["logits"], np.float32))[None]
    for processor in sample_utils.make_logits_processors(bias, **windows):
        logits = processor(mx.array(case["history"]), logits)
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    assert np.allclose(np.array(logprobs[0]), case["logprobs"], atol=2e-6), case
    if len(set(case["logits"])) < len(case["logits"]):
        return  # equals are the sort's business there
    if 0 < case.get("top_p", 0) < 1:
        logprobs = sample_utils.apply_top_p(logprobs, case["top_p"])
    if case.get("min_p", 0):
        logprobs = sample_utils.apply_min_p(logprobs, case["min_p"])
    if case.get("xtc_probability", 0):
        logprobs = sample_utils.apply_xtc(logprobs, 1.0, case["xtc_threshold"], case.get("xtc_exempt", []))
    if 0 < case.get("top_k", 0) < VOCABULARY:
        logprobs = sample_utils.apply_top_k(logprobs, case["top_k"])
    kept = [int(i) for i in np.flatnonzero(np.isfinite(np.array(logprobs[0])))]
    assert kept == case["kept"], (case, kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with mlx_lm.sample_utils too")
    arguments = parser.parse_args()
    cases = list(make_cases(np.random.default_rng(20240611)))
    if arguments.check:
        for case in cases:
            compare_with_mlx_lm(case)
        print(f"{len(cases)} cases agree with mlx_lm.sample_utils")
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "sampler_vectors.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
