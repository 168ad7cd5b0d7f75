"""Latency, compile time and peak memory of whole models beside onnxruntime, as one table.

    python benchmarks/latency.py MODEL.onnx ... [--threads 2] [--rounds 15] [--seconds 60]

Both sides run in this process on the same seeded inputs: rounds interleaved, order turned, a pause
between sides, onnxruntime with all optimisations and without spinning between runs.  A figure is
the median over rounds of the ratio of the two times.  Compile times and memory are those of fresh
processes: cold with an empty cache folder, warm with the one that the cold run filled; memory is
the peak resident set of a process that only loads and runs the model once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from egraph_fusion.convert.bench import measure
from egraph_fusion.frontend import load
from egraph_fusion.frontend.inputs import example_inputs
from egraph_fusion.pipeline import load_compiled

COMPILE = """
import sys, time
start = time.perf_counter()
import egraph_fusion as ef
session = ef.compile(sys.argv[1], threads=int(sys.argv[3]))
print(time.perf_counter() - start)
if sys.argv[2]:
    session.save(sys.argv[2])
"""
# Of this program alone: getrusage would count the parent's pages before exec.
PEAK = """
from pathlib import Path
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""
RUN_OURS = """
import sys, numpy as np
from egraph_fusion.pipeline import load_compiled
session = load_compiled(sys.argv[1], threads=int(sys.argv[3]))
session.run(None, dict(np.load(sys.argv[2])))
"""
RUN_PEER = """
import sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
options.log_severity_level = 4
session = onnxruntime.InferenceSession(sys.argv[1], options)
session.run(None, dict(np.load(sys.argv[2])))
"""


def fresh(code: str, *arguments: str, cache: str | None = None) -> float:
    """Run `code` in a new interpreter and return the number it prints last."""
    environment = dict(os.environ)
    if cache is not None:
        environment["EGRAPH_FUSION_CACHE"] = cache
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout.split()[-1])


def row(model: Path, threads: int, rounds: int, folder: Path) -> dict[str, float | str]:
    """Measure one model."""
    compiled, inputs = folder / "model.efz", folder / "inputs.npz"
    cache = str(folder / f"cache-{model.stem}")
    cold = fresh(COMPILE, str(model), str(compiled), str(threads), cache=cache)
    warm = fresh(COMPILE, str(model), "", str(threads), cache=cache)
    session = load_compiled(compiled, threads)
    feeds = example_inputs(load(model))
    np.savez(inputs, **feeds)  # type: ignore[arg-type]
    result = measure(session, str(model), feeds, "onnxruntime", threads, rounds)
    ours = fresh(RUN_OURS + PEAK, str(compiled), str(inputs), str(threads))
    peer = fresh(RUN_PEER + PEAK, str(model), str(inputs), str(threads))
    steps = session.steps(feeds)
    return {
        "model": model.stem,
        "ms": result.milliseconds,
        "onnxruntime ms": result.peer_milliseconds or math.nan,
        "faster by": result.speedup or math.nan,
        "difference": result.worst_difference or 0.0,
        "launches": len(steps),
        "fallback": sum(s.executor == "fallback" for s in steps),
        "cold s": cold,
        "warm s": warm,
        "memory MB": ours / 1e6,
        "onnxruntime MB": peer / 1e6,
    }


def main() -> None:
    """Print the table and the geometric mean of the speed ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row(model, options.threads, options.rounds, Path(folder)))
        print(f"{model.stem}: {rows[-1]['faster by']:.2f}x", file=sys.stderr)
    mean = statistics.geometric_mean(float(r["faster by"]) for r in rows)
    if options.json:
        print(json.dumps({"rows": rows, "geometric_mean": mean}, indent=2))
        return
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for r in rows:
        print(
            "| "
            + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in r.values())
            + " |"
        )
    print(f"geometric mean {mean:.2f}x; {options.threads} threads, {options.rounds} rounds")


if __name__ == "__main__":
    main()
