"""The worker process: runs egglog programs that arrive as JSON lines, one answer per line."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"  # before egglog is loaded: one thread, so ids are repeatable

from egglog import bindings

CHUNK = 50
"""Lines parsed at once: every parse copies its whole text into each span."""


class Engine:
    """One e-graph and the rows of it that were already reported."""

    def __init__(self) -> None:
        """Start empty."""
        self.egraph = bindings.EGraph()
        self.reported: dict[str, set[tuple[Any, ...]]] = {}
        self.classes: dict[Any, int] = {}

    def run(self, text: str) -> dict[str, Any]:
        """Run commands; return how often each rule matched and whether the last run changed."""
        lines = text.strip().splitlines()
        matches: dict[str, int] = {}
        updated = False
        for i in range(0, len(lines), CHUNK):
            commands = self.egraph.parse_program("\n".join(lines[i : i + CHUNK]))
            for out in self.egraph.run_program(*commands):
                if isinstance(out, bindings.RunScheduleOutput):
                    updated = bool(out.report.updated)
                    for name, n in out.report.num_matches_per_rule.items():
                        if n:
                            matches[name] = matches.get(name, 0) + n
        return {"matches": matches, "updated": updated}

    def steps(self, texts: list[str]) -> dict[str, Any]:
        """Run schedules one by one, as `run` does; also return the seconds that each took."""
        matches: dict[str, int] = {}
        updated = False
        seconds: list[float] = []
        for text in texts:
            start = time.perf_counter()
            found = self.run(text)
            seconds.append(time.perf_counter() - start)
            updated = updated or found["updated"]
            for name, n in found["matches"].items():
                matches[name] = matches.get(name, 0) + n
        return {"matches": matches, "updated": updated, "seconds": seconds}

    def rows(self, names: list[str]) -> dict[str, list[list[Any]]]:
        """Return the rows of tables: numbers as they are, e-classes as dense integers."""
        functions = self.egraph.freeze().functions
        return {name: self._decoded(functions[name]) for name in names if name in functions}

    def fresh(self, names: list[str]) -> dict[str, list[list[Any]]]:
        """Return the rows that were not returned by an earlier call."""
        found: dict[str, list[list[Any]]] = {}
        for name, rows in self.rows(names).items():
            seen = self.reported.setdefault(name, set())
            new = [r for r in rows if tuple(r) not in seen]
            seen.update(map(tuple, new))
            if new:
                found[name] = [r[:-1] for r in new]
        return found

    def size(self, names: list[str]) -> int:
        """Return the number of rows of some tables."""
        wanted = set(names)
        out = self.egraph.run_program(*self.egraph.parse_program("(print-size)"))[-1]
        assert isinstance(out, bindings.PrintAllFunctionsSize)
        return sum(n for name, n in out.sizes if name in wanted)

    def _decoded(self, function: Any) -> list[list[Any]]:
        sorts = [*function.input_sorts, function.output_sort]
        return [
            [self._value(s, v) for s, v in zip(sorts, [*row.inputs, row.output], strict=True)]
            for row in function.rows
        ]

    def _value(self, sort: str, value: Any) -> Any:
        match sort:
            case "i64":
                return self.egraph.value_to_i64(value)
            case "f64":
                return self.egraph.value_to_f64(value)
            case "T":
                return self.classes.setdefault(value, len(self.classes))
            case _:
                return 0


def answer(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    """Do what one request asks."""
    reply: dict[str, Any] = {}
    if "run" in request:
        reply |= engine.run(request["run"])
    if "steps" in request:
        reply |= engine.steps(request["steps"])
    if "fresh" in request:
        reply["fresh"] = engine.fresh(request["fresh"])
    if "size" in request:
        reply["size"] = engine.size(request["size"])
    if "rows" in request:
        engine.classes = {}
        reply["rows"] = engine.rows(request["rows"])
    return reply


def peak_memory() -> int:
    """Return the most bytes that the process ever held in memory."""
    try:  # getrusage begins with what the parent held when it forked
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Answer requests until standard input ends."""
    engine = Engine()
    for line in sys.stdin:
        request = json.loads(line)
        if "memory" in request:
            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        if request.get("new"):
            engine = Engine()
        reply: dict[str, Any]
        try:
            reply = answer(engine, request)
        except MemoryError:  # as the engine does when it meets the limit
            os.abort()
        except BaseException as e:  # a Rust panic is not an Exception
            reply = {"error": str(e) or type(e).__name__, "panic": not isinstance(e, Exception)}
            if isinstance(e, KeyboardInterrupt | SystemExit):
                return
        reply["memory"] = peak_memory()
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
