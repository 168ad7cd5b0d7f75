"""Extractors keep their promises on random cyclic e-graphs and on real ones."""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egraph_fusion.egraph.snapshot import Node, Snapshot
from egraph_fusion.errors import OptimizeError
from egraph_fusion.extract import EXTRACTORS, Choice, Promise, from_gym
from egraph_fusion.extract.choice import dag_cost, make_choice, reachable
from egraph_fusion.extract.cost import COST_MODELS, Features, combine
from egraph_fusion.extract.greedy_dag import acyclic
from egraph_fusion.extract.must import always_needed, members
from egraph_fusion.extract.stdout import LEFTOVER, without_leftover

GYM = sorted((Path(__file__).parents[2] / "shared" / "cases" / "egraphs").glob("*.json"))
EXACT = [n for n, e in EXTRACTORS.items() if e.promise is Promise.DAG]
BIG = 1 << 48  # the default weight of a FLOP


@st.composite
def egraphs(draw: st.DrawFn) -> Snapshot:
    """Small e-graphs with cycles in which every class has a finite term."""
    n = draw(st.integers(1, 7))
    costs = st.integers(0, 4) | st.builds(combine, st.integers(0, 3), st.integers(0, 9), st.just(1))
    nodes: list[Node] = []
    for eclass in range(n):
        below = st.lists(st.integers(0, eclass - 1), max_size=3) if eclass else st.just([])
        anywhere = st.lists(st.integers(0, n - 1), max_size=3)
        lists = [draw(below), *draw(st.lists(anywhere, max_size=3))]
        nodes += [Node(eclass, tuple(c), draw(costs), "f") for c in lists]
    roots = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2))
    return Snapshot.build(nodes, roots)


def all_choices(eg: Snapshot) -> list[Choice]:
    """Every valid choice of a small e-graph: the oracle."""
    found: list[Choice] = []
    for nodes in itertools.product(*eg.class_nodes):
        try:
            found.append(make_choice(eg, dict(enumerate(nodes)), extractor="all", seconds=0.0))
        except OptimizeError:
            continue
    return found


@settings(max_examples=120, deadline=None)
@given(eg=egraphs())
def test_promises_hold_on_random_egraphs(eg: Snapshot) -> None:
    valid = all_choices(eg)
    least_dag, least_tree = min(c.cost for c in valid), min(c.tree_cost for c in valid)
    for extractor in EXTRACTORS.values():
        choice = extractor(eg, time_limit=60)
        choice.check(eg)
        assert choice.cost >= least_dag
        if extractor.promise is Promise.TREE:
            assert choice.tree_cost == least_tree
        if extractor.promise is Promise.DAG:
            assert (choice.cost, choice.bound, choice.gap) == (least_dag, least_dag, 0)


@settings(max_examples=60, deadline=None)
@given(eg=egraphs())
def test_always_needed_is_what_all_choices_share(eg: Snapshot) -> None:
    must = always_needed(
        {c: [frozenset(eg.children[n]) for n in ns] for c, ns in enumerate(eg.class_nodes)}
    )
    for root in eg.roots:
        one_root = replace(eg, roots=(root,))
        shared = set.intersection(*(set(c.nodes) for c in all_choices(one_root)))
        assert set(members(must[root])) == shared


@settings(max_examples=60, deadline=None)
@given(eg=egraphs(), data=st.data())
def test_cycles_of_a_choice_are_repaired(eg: Snapshot, data: st.DataObject) -> None:
    nodes = {c: data.draw(st.sampled_from(ns)) for c, ns in enumerate(eg.class_nodes)}
    assert set(reachable(eg, acyclic(eg, nodes))) >= set(eg.roots)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_two_runs_choose_the_same(name: str) -> None:
    eg = sharing()
    first, second = EXTRACTORS[name](eg), EXTRACTORS[name](eg)
    assert replace(first, seconds=0) == replace(second, seconds=0)


def sharing() -> Snapshot:
    """Class 3 may use 1 twice over 4 and 5 (shared), or two cheaper trees."""
    return Snapshot.build(
        [
            Node(0, (), 6 * BIG, "shared"),
            Node(1, (), 5 * BIG, "own1"),
            Node(2, (), 5 * BIG, "own2"),
            Node(4, (0,), 1, "a"), Node(4, (1,), 1, "a"),
            Node(5, (0,), 1, "b"), Node(5, (2,), 1, "b"),
            Node(3, (4, 5), 1, "root"),
        ],
        [3],
    )  # fmt: skip


def test_tree_misses_the_sharing_that_exact_finds() -> None:
    eg = sharing()
    costs = {n: EXTRACTORS[n](eg).dag_cost for n in EXTRACTORS}
    assert costs["tree"] == 10 * BIG + 3
    assert costs["exact"] == costs["auto"] == 6 * BIG + 3


def test_local_search_flips_two_classes_at_once_to_share() -> None:
    assert EXTRACTORS["greedy-dag"](sharing()).dag_cost == 6 * BIG + 3


@pytest.mark.parametrize("name", EXTRACTORS)
def test_a_root_without_a_finite_term_is_refused(name: str) -> None:
    eg = Snapshot.build([Node(0, (1,), 1, "f"), Node(1, (0,), 1, "g")], [0])
    with pytest.raises(OptimizeError, match="root class %0 has no finite term"):
        EXTRACTORS[name](eg)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_deep_graphs_need_no_recursion(name: str) -> None:
    chain = [Node(0, (), 1, "x"), *(Node(i, (i - 1, i - 1), 1, "f") for i in range(1, 3000))]
    choice = EXTRACTORS[name](Snapshot.build(chain, [2999]))
    assert (choice.dag_cost, choice.tree_cost) == (3000, 2**3000 - 1)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({3: 7, 4: 3, 5: 5}, "incomplete: class %0"),
        ({3: 7, 4: 5, 5: 5, 0: 0}, "class %4: node 5 is not in the class"),
        ({3: 99, 4: 3, 5: 5, 0: 0}, "class %3: node 99 is not in the class"),
        ({3: 7, 4: 3, 5: 5, 0: 0, 1: 1}, "class %1, which no root needs"),
    ],
)
def test_check_refuses_wrong_choices(nodes: dict[int, int], message: str) -> None:
    eg = sharing()
    with pytest.raises(OptimizeError, match=message):
        replace(EXTRACTORS["exact"](eg), nodes=nodes).check(eg)


def test_check_refuses_a_wrong_price() -> None:
    eg = sharing()
    with pytest.raises(OptimizeError, match="states cost 1, its nodes cost"):
        replace(EXTRACTORS["exact"](eg), cost=1).check(eg)


def test_check_refuses_a_bound_above_the_cost() -> None:
    eg = sharing()
    choice = EXTRACTORS["exact"](eg)
    with pytest.raises(OptimizeError, match="below its bound"):
        replace(choice, bound=choice.dag_cost + 1).check(eg)


def test_check_refuses_a_cycle() -> None:
    eg = Snapshot.build([Node(0, (1,), 1, "f"), Node(1, (0,), 1, "g"), Node(1, (), 9, "x")], [0])
    with pytest.raises(OptimizeError, match="cyclic"):
        replace(EXTRACTORS["exact"](eg), nodes={0: 0, 1: 1}).check(eg)


def test_unsolved_search_reports_time_and_a_bound() -> None:
    eg = sharing()
    choice = EXTRACTORS["exact"](eg, time_limit=0.0)
    choice.check(eg)
    assert choice.stop_reason in ("time", "done")
    assert choice.bound is not None


def test_gym_costs_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    nodes = {
        "a.0": {"op": "x", "children": [], "eclass": "a", "cost": 0.1},
        "a.1": {"op": "y", "children": ["a.0"], "eclass": "a", "cost": 0.0},
        "b.0": {"op": "f", "children": ["a.1", "a.0"], "eclass": "b", "cost": 0.2},
    }
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["b"]}))
    eg = from_gym(path)
    choice = EXTRACTORS["exact"](eg)
    assert (eg.costs, eg.unit) == ((1, 0, 2), Fraction(1, 10))
    assert (choice.dag_cost, choice.tree_cost) == (0.3, 0.4)


@pytest.mark.parametrize("text", ["", "[1]", '{"nodes": {}}', '{"nodes": {"a": {"eclass": "x"}}}'])
def test_broken_gym_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(OptimizeError, match="not an extraction-gym e-graph"):
        from_gym(path)


@pytest.mark.parametrize("path", GYM, ids=lambda p: p.stem)
def test_real_egraphs_get_valid_choices_within_their_bounds(path: Path) -> None:
    eg = from_gym(path)
    greedy, tree = EXTRACTORS["greedy-dag"](eg), EXTRACTORS["tree"](eg)
    exact = EXTRACTORS["exact"](eg, time_limit=3)
    for choice in (tree, greedy, exact):
        choice.check(eg)
    assert exact.bound is not None
    assert exact.bound <= min(greedy.dag_cost, exact.dag_cost)
    assert max(greedy.dag_cost, exact.dag_cost) <= tree.dag_cost
    assert exact.gap or exact.dag_cost <= greedy.dag_cost


@given(st.integers(1, 10**12), st.integers(0, 2**47), st.integers(0, 2**34))
def test_one_flop_outweighs_all_bytes_and_blocks(flops: int, nbytes: int, blocks: int) -> None:
    price = COST_MODELS["flops"]
    assert price(Features(flops)) > price(Features(flops - 1, nbytes, blocks))


def test_dag_cost_counts_shared_work_once() -> None:
    eg = sharing()
    nodes = {3: 7, 4: 3, 5: 5, 0: 0}
    assert dag_cost(eg, nodes, reachable(eg, nodes)) == 6 * BIG + 3


def test_the_solvers_leftover_line_and_only_it_is_kept_off_standard_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    libc = ctypes.CDLL(None)
    libc.puts(b"before")
    with without_leftover():
        libc.puts(LEFTOVER + b" tmpSolver.run();")
        print("from another thread")
        libc.puts(b"from C")
    libc.puts(b"after")
    libc.fflush(None)
    out, _ = capfd.readouterr()
    assert sorted(out.split("\n")) == ["", "after", "before", "from C", "from another thread"]
    assert (out.index("before"), out.rindex("after")) == (0, len(out) - len("after\n"))


def test_a_closed_standard_output_is_left_alone(tmp_path: Path) -> None:
    code = "import os\nos.close(1)\nfrom egraph_fusion.extract.stdout import without_leftover\n"
    code += "with without_leftover():\n    pass\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
