"""ONNX's backend tests go as the committed lists say, and the interface is the one ONNX defines."""

import numpy as np
import onnx
import onnx_backend_suite as suite
import pytest
from onnx import TensorProto, helper
from onnx.backend.base import Backend, BackendRep

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.runtime import backend


@pytest.mark.timeout(1800)  # minutes beside nothing else
@pytest.mark.parametrize("kind", suite.KINDS)
def test_every_test_goes_as_listed(kind: str, request: pytest.FixtureRequest) -> None:
    found = suite.run_all(suite.cases(kind))
    if request.config.getoption("--update-golden"):
        suite.write_list(kind, found)
        suite.update_page()
        return
    worse, better = suite.changes(suite.read_list(kind), found)
    assert not worse, "these got worse:\n" + "\n".join(worse)
    assert not better, "update the list (--update-golden); these got better:\n" + "\n".join(better)


@pytest.mark.parametrize("kind", suite.KINDS)
def test_lists_are_sorted(kind: str) -> None:
    outcomes = list(suite.read_list(kind).values())
    assert outcomes == sorted(outcomes)


@pytest.mark.parametrize("kind", suite.KINDS)
def test_no_test_fails_by_an_internal_error(kind: str) -> None:
    assert [o for o in suite.read_list(kind).values() if "internal error" in o.note] == []


def test_the_documentation_counts_as_the_lists_do() -> None:
    assert "\n".join(suite.table()) in suite.PAGE.read_text()


def test_what_gets_worse_is_told() -> None:
    listed = {"test_a": suite.Outcome("test_a", "native")}
    worse, better = suite.changes(listed, [suite.Outcome("test_a", "fallback", "why")])
    assert worse == ["test_a fallback: why (listed: native)"]
    assert better == []


def test_what_gets_better_must_be_listed() -> None:
    listed = {"test_a": suite.Outcome("test_a", "fails", "why")}
    worse, better = suite.changes(listed, [suite.Outcome("test_a", "native")])
    assert worse == []
    assert better == ["test_a native (listed: fails)"]


def test_outcomes_print_and_parse() -> None:
    outcome = suite.Outcome("test_a", "fallback", "Cast: an operand is other[2]")
    assert suite.Outcome.parse(str(outcome)) == outcome


def negated(dims: list[int | str]) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "negated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


def test_the_backend_is_one_of_onnx() -> None:
    assert issubclass(backend.EgraphFusionBackend, Backend)
    assert issubclass(backend.EgraphFusionRep, BackendRep)


@pytest.mark.parametrize("device", ["CPU", "CPU:0"])
def test_the_cpu_is_supported(device: str) -> None:
    assert backend.supports_device(device)


def test_other_devices_are_refused() -> None:
    assert not backend.supports_device("CUDA")
    with pytest.raises(EgraphFusionError, match="not 'CUDA'"):
        backend.prepare(negated([2]), "CUDA")


@pytest.mark.parametrize("given", [[np.ones(2, "f")], np.ones(2, "f"), {"x": np.ones(2, "f")}])
def test_a_prepared_model_takes_a_list_an_array_or_a_mapping(given: object) -> None:
    (y,) = backend.prepare(negated([2]), threads=1).run(given)
    np.testing.assert_array_equal(y, [-1, -1])


def test_too_many_inputs_are_an_error() -> None:
    rep = backend.prepare(negated([2]), threads=1)
    with pytest.raises(EgraphFusionError, match="2 inputs given"):
        rep.run([np.ones(2, "f"), np.ones(2, "f")])


def test_run_model_runs_once() -> None:
    (y,) = backend.run_model(negated(["n"]), [np.ones(3, "f")], threads=1)
    np.testing.assert_array_equal(y, [-1, -1, -1])


def test_run_node_takes_types_from_the_arrays() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (c,) = backend.run_node(node, [np.ones((2, 3), "f"), np.ones(3, "f")], threads=1)
    np.testing.assert_array_equal(c, np.full((2, 3), 2, "f"))


def test_a_model_that_cannot_be_read_is_incompatible() -> None:
    model = negated([2])
    model.graph.node[0].input[0] = "missing"
    assert not backend.is_compatible(model)
    assert backend.is_compatible(negated([2]))


def test_a_batch_keeps_its_order_and_its_errors() -> None:
    broken = negated([2])
    broken.graph.node[0].input[0] = "missing"
    ones = np.ones(2, "f")
    first, second, third = backend.prepare_many(
        [negated([2]), broken, negated(["n"])], [[ones], [ones], [np.ones(5, "f")]]
    )
    assert isinstance(second, EgraphFusionError)
    assert isinstance(first, backend.EgraphFusionRep)
    assert isinstance(third, backend.EgraphFusionRep)
    np.testing.assert_array_equal(first.run([ones])[0], -ones)
    np.testing.assert_array_equal(third.run([np.ones(5, "f")])[0], -np.ones(5, "f"))
