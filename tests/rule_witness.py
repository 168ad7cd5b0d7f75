"""What a rule's witness costs with the rule and without it, through the whole pipeline.

`python tests/rule_witness.py [NAME...]` prints both for every rule that has a witness.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import onnx.parser

from egraph_fusion import rulesets
from egraph_fusion.frontend import load
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import Optimized, optimize
from egraph_fusion.pipeline import plan
from egraph_fusion.rulesets.pattern import Apply, walk
from egraph_fusion.rulesets.rule import Rule

SPARE = 2
"""Nodes that a witness has, at least, beyond the rule's own left side."""
INSTANCES = {"square-less-multiple": "mul-over-sub"}
"""Printed rules that are instances of another one: judged where that one is left out as well."""


@dataclass(frozen=True, order=True, slots=True)
class Figures:
    """What a graph costs, the weightiest first: FLOPs, kernels, bytes written, operators."""

    flops: int
    blocks: int
    nbytes: int
    ops: int

    @staticmethod
    def of(done: Optimized) -> Figures:
        """Count an optimised graph and its plan."""
        report = done.report
        blocks = len(plan(done.graph).blocks)
        return Figures(report.flops_after, blocks, report.bytes_after, report.ops_after)

    def __str__(self) -> str:
        """Print in one line."""
        flops, blocks, nbytes, ops = astuple(self)
        return f"{flops} FLOPs, {blocks} blocks, {nbytes} bytes, {ops} operators"


def witness_graph(r: Rule) -> Graph:
    """Return the graph that a witness writes."""
    return load(onnx.parser.parse_model(r.witness))


def left_side_size(r: Rule) -> int:
    """Return how many operators the rule's left side applies."""
    return len({p for p in walk(r.lhs) if isinstance(p, Apply)})


@dataclass(frozen=True, slots=True)
class Trial:
    """A witness optimised with all rules, and with all but its own."""

    rule: Rule
    graph: Graph
    with_it: Optimized
    without_it: Optimized

    @staticmethod
    def of(r: Rule) -> Trial:
        """Optimise the witness of `r` both ways."""
        graph = witness_graph(r)
        wider = [INSTANCES[r.name]] if r.name in INSTANCES else []
        with_it = optimize(graph, without=wider)
        return Trial(r, graph, with_it, optimize(graph, without=[*wider, r.name]))

    def problems(self) -> Iterator[str]:
        """Say what is wrong with the witness."""
        if not self.rule.witness.startswith("# "):
            yield "the first line is no comment that says where such a graph occurs"
        spare = len(self.graph.nodes) - left_side_size(self.rule)
        if spare < SPARE:
            yield f"it has {spare} nodes beyond the rule's left side, expected at least {SPARE}"
        ours, theirs = Figures.of(self.with_it), Figures.of(self.without_it)
        if ours >= theirs:
            yield f"the rule gains nothing: {ours}; without it {theirs}"


def listing(graph: Graph) -> Iterator[str]:
    """Yield the nodes of a graph, a line each, with the rules that made them."""
    for n in graph.nodes:
        made = f"   by {', '.join(n.rules)}" if n.rules else ""
        call = f"{n.op}({', '.join(n.inputs)})"
        yield f"\n    {', '.join(n.outputs)} = {call} {dict(n.attrs) or ''}{made}"


def main(names: Sequence[str]) -> None:
    """Print the figures of the rules of these names, with the results, or of all rules."""
    for r in map(rulesets.find, names) if names else rulesets.ALL:
        if not r.witness:
            print(f"{r.name}: no witness", flush=True)
            continue
        trial = Trial.of(r)
        print(f"{r.name}: {Figures.of(trial.with_it)}; without {Figures.of(trial.without_it)}")
        for problem in trial.problems():
            print(f"  PROBLEM: {problem}", flush=True)
        if names:
            print(f"  with, by {trial.with_it.report.rule_uses}:", *listing(trial.with_it.graph))
            print("  without:", *listing(trial.without_it.graph), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
