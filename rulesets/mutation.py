"""Whether the verifier tells right rules from wrong ones that were made of them.

`python -m egraph_fusion.rulesets.mutation` prints the kill rate; `--into FILE` keeps every verdict,
and docs/verification.md tells what is in docs/mutation.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from egraph_fusion.errors import RuleError
from egraph_fusion.output_files import output_path, write_text
from egraph_fusion.rulesets.guards import Guard
from egraph_fusion.rulesets.mutants import Mutant, mutants, sample
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.verification import holds_without, verify

EACH = 5
"""Examples of each operator of a schema at least."""
FIRST, SECOND = 120, 240
"""Examples of the ordinary search, and of the long one that a survivor has to stand as well."""

FATES = ("refuted", "missed", "equivalent", "void", "error")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    `fate` is "refuted"; "missed": refuted by the long search only; "equivalent": not refuted at
    all, for the `reason` given; "void": no operands satisfy it, so that it claims nothing; or
    "error": the verifier failed, which counts as missed.
    """

    kind: str
    rule: str
    fate: str
    reason: str = ""


def judged(m: Mutant, first: int = FIRST, second: int = SECOND) -> Outcome:
    """Verify a mutant; what survives is searched longer, and then called equivalent."""
    try:
        quick = verify(m.rule, first, 1, shrink=False, check_guards=False, least=EACH)
        if quick.counterexample is not None:
            return Outcome(m.kind, str(m.rule), "refuted", quick.counterexample.reason)
        if not quick.ok:
            fate = "void" if quick.status == "void" else "missed"
            return Outcome(m.kind, str(m.rule), fate, quick.note)
        if m.dropped is not None:
            return _without_guard(m, m.dropped, second)
        proof = prove(m.rule) if m.kind not in ("level", "dtypes") else None
        if proof is not None and proof.domain:
            return Outcome(m.kind, str(m.rule), "equivalent", str(proof))
        slow = verify(m.rule, second, 2, shrink=False, check_guards=False, least=EACH)
    except RuleError as e:
        return Outcome(m.kind, str(m.rule), "void", str(e))
    except Exception as e:  # a fault of the verifier must show, and must not end the run
        return Outcome(m.kind, str(m.rule), "error", f"{type(e).__name__}: {e}")
    if slow.counterexample is not None:
        return Outcome(m.kind, str(m.rule), "missed", slow.counterexample.reason)
    reason = f"equal to 100 digits or bit for bit in every trial: {slow.checked}"
    return Outcome(m.kind, str(m.rule), "equivalent", reason)


def _without_guard(m: Mutant, g: Guard, examples: int) -> Outcome:
    """Try a rule without its guard where the guard does not hold, and nowhere else."""
    guarded = replace(m.rule, when=(*m.rule.when, g))
    if holds_without(guarded, g, examples, seed=2):
        reason = f"holds in {examples} trials where {g} does not, too"
        return Outcome(m.kind, str(m.rule), "equivalent", reason)
    return Outcome(m.kind, str(m.rule), "missed", f"fails where {g} does not hold")


def kill_rate(outcomes: Sequence[Outcome]) -> float:
    """Return the part of the wrong mutants that was refuted."""
    fates = Counter(o.fate for o in outcomes)
    wrong = fates["refuted"] + fates["missed"] + fates["error"]
    return fates["refuted"] / wrong if wrong else 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the kill rate, and every mutant that was missed or is equivalent, with the reason."""
    parser = argparse.ArgumentParser(prog="python -m egraph_fusion.rulesets.mutation")
    parser.add_argument("--count", type=_from(1), default=1000, help="mutants to try")
    parser.add_argument("--seed", type=_from(0), default=0, help="which mutants")
    parser.add_argument("--jobs", type=_from(1), default=2, help="processes")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.add_argument("--into", type=Path, help="write every verdict to this file, as JSON")
    options = parser.parse_args(arguments)
    into = None if options.into is None else output_path(options.into)
    start = time.monotonic()
    everything = mutants()
    chosen = sample(everything, options.count, options.seed)
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(judged, chosen):
            outcomes.append(outcome)
            _print(outcome, options.json)
    if into is not None:
        write_text(into, record(outcomes, len(everything), options.seed))
    _summarise(outcomes, len(everything), time.monotonic() - start, options.json)


def _from(least: int) -> Callable[[str], int]:
    """Return what reads an integer that is not below `least`."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return read


def record(outcomes: Sequence[Outcome], available: int, seed: int) -> str:
    """Return every verdict as JSON, one a line; how many there are and the rate follow from them.

    `available` is the number of mutants that can be made, `seed` chose those that were judged.
    """
    head = json.dumps({"seed": seed, "available": available})
    lines = ",\n  ".join(json.dumps(asdict(o)) for o in outcomes)
    return f'{head[:-1]}, "outcomes": [\n  {lines}\n]}}\n'


def _print(o: Outcome, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(o)), flush=True)
    elif o.fate != "refuted":
        print(f"{o.fate:10} {o.kind:10} {o.rule}\n{'':22}{o.reason}", flush=True)


def _summarise(outcomes: Sequence[Outcome], available: int, seconds: float, as_json: bool) -> None:
    fates, rate = Counter(o.fate for o in outcomes), kill_rate(outcomes)
    if as_json:
        totals = {"mutants": len(outcomes), "available": available, "kill_rate": rate, **fates}
        print(json.dumps({**totals, "seconds": round(seconds)}))
        return
    by_kind = Counter((o.kind, o.fate) for o in outcomes)
    for kind in sorted({k for k, _ in by_kind}):
        print(f"{kind:10}", ", ".join(f"{by_kind[kind, f]} {f}" for f in FATES if by_kind[kind, f]))
    print(f"{len(outcomes)} of {available} mutants: {dict(fates)} in {seconds:.0f} s")
    print(f"kill rate {rate:.4f}")


if __name__ == "__main__":
    main()
