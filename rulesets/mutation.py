"""Wrong rules made from right ones, to find out whether the verifier tells them apart.

`python -m egraph_fusion.rulesets.mutation` prints the kill rate; `--into FILE` keeps every verdict,
and docs/verification.md tells what is in docs/mutation.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from egraph_fusion.errors import RuleError
from egraph_fusion.output_files import output_path, write_text
from egraph_fusion.rulesets.catalogue import ALL
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Tensor,
    walk,
)
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verification import holds_without, verify

EACH = 5
"""Examples of each operator of a schema at least."""
FIRST, SECOND = 120, 240
"""Examples of the ordinary search, and of the long one that a survivor has to stand as well."""

SIMILAR = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"),
    ("Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Relu", "Tanh", "Sigmoid", "Floor"),
    ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    ("And", "Or", "Xor"),
    ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    ("MaxPool", "AveragePool"),
    ("GlobalMaxPool", "GlobalAveragePool"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
FATES = ("refuted", "missed", "equivalent", "void", "error")
COMMUTATIVE = ("Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum", "Mean")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule changed in one place; `kind` says how, `dropped` is the guard that was left out."""

    kind: str
    rule: Rule
    dropped: Guard | None = None


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


def mutants(rules: Sequence[Rule] = ALL) -> list[Mutant]:
    """Return every wrong candidate, each once, in a fixed order."""
    found: dict[str, Mutant] = {}
    originals = {f"{r.lhs} {r.rhs} {r.when} {r.level} {r.dtypes}" for r in rules}
    for r in rules:
        for m in _mutated(r):
            key = f"{m.rule.lhs} {m.rule.rhs} {m.rule.when} {m.rule.level} {m.rule.dtypes}"
            if key not in originals:
                found.setdefault(key, m)
    return list(found.values())


def sample(found: Sequence[Mutant], count: int, seed: int = 0) -> list[Mutant]:
    """Return `count` mutants, from every kind alike as far as there are enough."""
    rng = Random(seed)
    by_kind: dict[str, list[Mutant]] = {}
    for m in found:
        by_kind.setdefault(m.kind, []).append(m)
    for group in by_kind.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_kind.values()):
        chosen += [group.pop() for group in by_kind.values() if group]
    return chosen[:count]


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


def _mutated(r: Rule) -> Iterator[Mutant]:
    for kind, change in CHANGES.items():
        for side in change(r.rhs):
            yield from _built(kind, r, rhs=side)
    for i, g in enumerate(r.when):
        if g.kind.form is not Form.GRAPH and not g.gain:
            for m in _built("guard", r, when=r.when[:i] + r.when[i + 1 :]):
                yield replace(m, dropped=g)
    if r.level != "exact":
        yield from _built("level", r, level="exact")
    for wider in ("numeric", "any", "int", "bool"):
        if r.dtypes != wider:
            yield from _built("dtypes", r, dtypes=wider)


def _built(kind: str, r: Rule, **changed: object) -> Iterator[Mutant]:
    """Yield the changed rule unless it is malformed."""
    try:
        yield Mutant(kind, replace(r, name=f"{r.name}~{kind}", both=False, **changed))  # type: ignore[arg-type]
    except RuleError:
        return


def _everywhere(p: Pattern, change: Callable[[Pattern], Iterator[Pattern]]) -> Iterator[Pattern]:
    """Yield `p` with `change` made at each of its sub-terms in turn."""
    yield from change(p)
    if isinstance(p, Apply):
        for i, a in enumerate(p.args):
            for b in _everywhere(a, change):
                yield replace(p, args=(*p.args[:i], b, *p.args[i + 1 :]))
    if isinstance(p, Output):
        for b in _everywhere(p.of, change):
            yield Output(b, p.index)


def _operators(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Apply):
        for group in SIMILAR:
            if p.op in group:
                yield from (replace(p, op=other) for other in group if other != p.op)


def _operands(p: Pattern) -> Iterator[Pattern]:
    if not isinstance(p, Apply) or p.op in COMMUTATIVE or p.op.startswith("?"):
        return
    if len(p.args) > 1 and p.args[-1] != p.args[-2]:
        yield replace(p, args=(*p.args[:-2], p.args[-1], p.args[-2]))


def _constants(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Number):
        yield from (Number(v) for v in (p.value + 1, -p.value, p.value * 2) if v != p.value)


def _attributes(p: Pattern) -> Iterator[Pattern]:
    if not isinstance(p, Apply):
        return
    for i, (name, value) in enumerate(p.attrs):
        for other in _other_values(name, value):
            yield replace(p, attrs=(*p.attrs[:i], (name, other), *p.attrs[i + 1 :]))


def _other_values(name: str, value: AttrTerm) -> Iterator[AttrTerm]:
    match value:
        case Computed(args=args):
            yield from (a for a in args if isinstance(a, Attribute))
        case int() if name == "keepdims" or name.startswith("trans"):
            yield 1 - value
        case int():
            yield from (value + 1, value - 1)
        case "LEFT":
            yield "RIGHT"
        case Attribute() if name == "axes":
            yield from ((0,), (-1,))
        case Attribute() if name == "axis":
            yield from (0, -1)
        case Attribute() if name == "keepdims":
            yield from (0, 1)
        case _:
            return


def _signs(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Apply | Tensor):
        yield Apply("Neg", (p,))


def _variables(side: Pattern) -> Iterator[Pattern]:
    names = [q for q in dict.fromkeys(walk(side)) if isinstance(q, Tensor)]

    def change(p: Pattern) -> Iterator[Pattern]:
        if isinstance(p, Tensor):
            yield from (q for q in names if q != p)

    yield from _everywhere(side, change)


CHANGES: dict[str, Callable[[Pattern], Iterator[Pattern]]] = {
    "operator": lambda p: _everywhere(p, _operators),
    "operands": lambda p: _everywhere(p, _operands),
    "constant": lambda p: _everywhere(p, _constants),
    "attribute": lambda p: _everywhere(p, _attributes),
    "sign": lambda p: _everywhere(p, _signs),
    "variable": _variables,
}
"""How right sides are changed; guards, level and dtypes are changed besides."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the kill rate, and every mutant that was missed or is equivalent, with the reason."""
    parser = argparse.ArgumentParser(prog="python -m egraph_fusion.rulesets.mutation")
    parser.add_argument("--count", type=int, default=1000, help="mutants to try")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
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
