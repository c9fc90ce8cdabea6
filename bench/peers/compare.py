#!/usr/bin/env python3
"""Prefill and decode of one model shape by Rafter and by the peers that are installed, in the same run.

    bench/peers/compare.py [--rafter build/release/rafter] [--shape cpm5-1b] [--prefill 512] [--ctx 128]

Each round measures every program once, one after the other, so that a machine whose speed wanders slows all
of them; what is printed are medians of the rounds and of the ratios within a round. Rafter reads MLX 4 bit
(group 64), llama.cpp reads Q4_0, both with random weights from `rafter synth`: 4.5 bits per weight either way.

Peers: llama-cpp-python (`python3 -m venv build/peers/venv`, then
`CMAKE_ARGS=-DGGML_NATIVE=ON build/peers/venv/bin/pip install llama-cpp-python`, which compiles for some
minutes). OpenVINO GenAI and ONNX Runtime GenAI are named as missing: neither reads GGUF or MLX files of a
random model without a conversion of its own.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER_PYTHON = ROOT / "build/peers/venv/bin/python"


def llama_cpp_worker(model, prefill, ctx, steps, threads):
    """Serves one JSON object of figures per line read from stdin."""
    import time

    import llama_cpp

    llm = llama_cpp.Llama(model, n_ctx=max(prefill, ctx + steps) + 8, n_batch=max(prefill, 512),
                          n_ubatch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    vocabulary = llm.n_vocab()
    tokens = [(i * 7919 + 11) % (vocabulary - 300) + 256 for i in range(max(prefill, ctx) + steps)]
    llm.eval(tokens[:16])
    # Freed by the process's end: the interpreter's own order of freeing prints a traceback.
    for _ in sys.stdin:
        llm.reset()
        llm._ctx.kv_cache_clear()
        start = time.perf_counter()
        llm.eval(tokens[:prefill])
        prefill_seconds = time.perf_counter() - start
        llm.reset()
        llm._ctx.kv_cache_clear()
        llm.eval(tokens[:ctx])
        decode = []
        for token in tokens[ctx:ctx + steps]:
            start = time.perf_counter()
            llm.eval([token])
            decode.append(time.perf_counter() - start)
        figures = {"prefill": prefill / prefill_seconds, "decode": 1 / statistics.median(decode)}
        print(json.dumps(figures), flush=True)
    os._exit(0)


class LlamaCpp:
    name = "llama-cpp-python Q4_0"

    def __init__(self, gguf, args):
        self.process = subprocess.Popen(
            [PEER_PYTHON, __file__, "--worker", gguf, "--prefill", str(args.prefill), "--ctx", str(args.ctx),
             "--steps", str(args.steps), "--threads", str(args.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.measure()  # loads the model, touches its pages

    @staticmethod
    def missing():
        if not PEER_PYTHON.exists():
            return f"no {PEER_PYTHON.relative_to(ROOT)}"
        found = subprocess.run([PEER_PYTHON, "-c", "import llama_cpp"], capture_output=True)
        return None if found.returncode == 0 else "not installed in build/peers/venv"

    def measure(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended without figures")
        self.process.send_signal(signal.SIGSTOP)  # its idle threads spin
        return json.loads(line)


class Rafter:
    """A process per round, so its first pass finds nothing warm; the median of three is what the peer's one is."""
    name = "rafter q4g64"

    def __init__(self, model, args):
        self.command = [args.rafter, "bench", model, "--prefill", str(args.prefill), "--ctx", str(args.ctx),
                        "--passes", "3", "--pairs", "1", "--steps", str(args.steps), "--threads",
                        str(args.threads), "--no-record", "--json"]

    def measure(self):
        result = json.loads(subprocess.run(self.command, check=True, capture_output=True, text=True).stdout)
        return {"prefill": result["prefill"][0]["tps"], "decode": result["decode"][0]["tps"],
                "of_peak": result["prefill"][0]["compute_pct"], "of_read": result["decode"][0]["roofline_pct"]}


def synthesize(args, layout):
    """The model's path; written if it is not there."""
    folder = ROOT / "build/peers/models" / f"{args.shape}-{layout}"
    if not any(folder.glob("*")):
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([args.rafter, "synth", args.shape, "--format", layout, "--out", str(folder)], check=True)
    ggufs = sorted(folder.glob("*.gguf"))
    return str(ggufs[0] if ggufs else folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rafter", default=str(ROOT / "build/release/rafter"))
    parser.add_argument("--shape", default="cpm5-1b", help="a shape of `rafter synth`")
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--ctx", type=int, default=128)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        llama_cpp_worker(args.worker, args.prefill, args.ctx, args.steps, args.threads)
        return

    missing = {"OpenVINO GenAI": "no route from these files", "ONNX Runtime GenAI": "no route from these files"}
    programs = [Rafter(synthesize(args, "mlx4"), args)]
    reason = LlamaCpp.missing()
    if reason:
        missing["llama-cpp-python"] = reason
    else:
        programs.append(LlamaCpp(synthesize(args, "q4_0"), args))
    rounds = [[program.measure() for program in programs] for _ in range(args.rounds)]
    for program in programs[1:]:
        program.process.kill()

    table = []
    for i, program in enumerate(programs):
        row = {"program": program.name}
        for work in ("prefill", "decode"):
            row[work] = statistics.median(figures[i][work] for figures in rounds)
            row[f"{work}_ratio"] = statistics.median(figures[0][work] / figures[i][work] for figures in rounds)
        table.append(row)
    if args.json:
        print(json.dumps({"shape": args.shape, "prefill": args.prefill, "ctx": args.ctx, "threads": args.threads,
                          "rounds": rounds, "programs": table, "missing": missing}, indent=1))
        return
    print(f"{args.shape}, {args.threads} threads, medians of {args.rounds} rounds")
    print(f"{'':24}{f'prefill {args.prefill}':>14}{'rafter is':>11}{f'decode at {args.ctx}':>16}{'rafter is':>11}")
    for row in table:
        print(f"{row['program']:24}{row['prefill']:>8.1f} tok/s{row['prefill_ratio']:>10.2f}x"
              f"{row['decode']:>10.1f} tok/s{row['decode_ratio']:>10.2f}x")
    peak = statistics.median(figures[0]["of_peak"] for figures in rounds)
    read = statistics.median(figures[0]["of_read"] for figures in rounds)
    print(f"rafter: prefill {peak:.0f} % of the bf16 peak, decode {read:.0f} % of the raw read")
    for name, reason in missing.items():
        print(f"missing: {name} ({reason})")


if __name__ == "__main__":
    main()
