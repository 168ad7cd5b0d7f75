"""One batch over collected models, as Markdown: what became of each, and what it took.

    python benchmarks/batch.py OUT [--repros REPROS.py] [--light] [--copies N] [--jobs N] SOURCE...

`--repros` takes the models that the builders of such a file make, `--light` those that come with
the onnx package; `--copies` converts every source so often (for load: memory has to stay where it
is).  The check compares each result with its original; OUT should be empty.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

import egraph_fusion as ef
from egraph_fusion.convert.batch.results import BatchResult

LONGEST = 400


def repros(file: Path, folder: Path) -> Iterator[Path]:
    """Write the models of a file of builders: REPROS lists their `name` and `build`."""
    spec = importlib.util.spec_from_file_location("repros", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["repros"] = module
    spec.loader.exec_module(module)
    folder.mkdir(parents=True, exist_ok=True)
    for entry in module.REPROS:
        path = folder / f"{entry['name']}.onnx"
        onnx.save(entry["build"]()[0], path)
        yield path


def light(folder: Path) -> Iterator[Path]:
    """Copy the light models of the onnx package."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx")):
        yield Path(shutil.copy(path, folder))


def copy(sources: Sequence[Path], target: Path) -> None:
    """Copy files and folders into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sources:
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            shutil.copy(path, target)


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cells(result: BatchResult) -> list[str]:
    """Return the table's cells of one model."""
    change = [
        f"{result.before(k)} → {result.after(k)}" if result.after(k) is not None else "-"
        for k in ("ops", "blocks")
    ]
    worst = result.report.get("worst_difference")
    same = "same bytes" if result.report.get("verbatim") else ""
    shown = same or (f"{worst:.1e}" if worst is not None else "-")
    reason = result.reason.replace(result.source, Path(result.source).name)
    plain = " ".join(reason.replace("|", "\\|").split())
    short = plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"
    return [
        Path(result.source).name,
        str(result.status),
        *change,
        shown,
        f"{result.seconds:.1f}",
        short,
    ]


def table(results: Sequence[BatchResult]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| model | status | nodes | blocks | difference | s | reason |"
    yield "|---|---|---|---|---|---|---|"
    for result in sorted(results, key=lambda r: r.source):
        yield f"| {' | '.join(cells(result))} |"


def memory(results: Sequence[BatchResult], own: Sequence[int]) -> Iterator[str]:
    """Yield how memory went: medians over each fifth of the batch, in the order of results."""
    size = max(1, len(results) // 5)
    for start in range(0, size * 5, size):
        part, mine = results[start : start + size], own[start : start + size]
        if part:
            peak = statistics.median(r.peak_memory for r in part) / 2**20
            yield (
                f"models {start + 1} to {start + len(part)}: workers {peak:.0f} MiB each, "
                f"parent {statistics.median(mine) / 2**20:.0f} MiB"
            )


def main() -> None:
    """Run the batch and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--repros", type=Path)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="no table")
    options = parser.parse_intermixed_args()
    originals, models = options.out / "originals", options.out / "sources"
    found = [Path(s) for s in options.sources]
    found += list(repros(options.repros, originals / "repros")) if options.repros else []
    found += list(light(originals / "light")) if options.light else []
    for number in range(options.copies):
        copy(found, models / str(number) if options.copies > 1 else models)
    start, own, results = time.monotonic(), list[int](), list[BatchResult]()
    for result in ef.batch(models, options.out / "results", jobs=options.jobs):
        results.append(result)
        own.append(resident())
    seconds = time.monotonic() - start
    if not options.quiet:
        print(*table(results), sep="\n")
        print()
    counts = Counter(r.failure or str(r.status) for r in results)
    print(f"{len(results)} models, {seconds:.0f} s:", dict(counts))
    print(*memory(results, own), sep="\n")


if __name__ == "__main__":
    main()
