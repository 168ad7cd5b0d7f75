"""Inputs that decide axes or shapes: compiled for their values, visibly and within bounds."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import egraph_fusion as ef
from egraph_fusion.frontend import load
from egraph_fusion.frontend.input_values import VALUE_OPERANDS, fix_input_values, value_inputs
from egraph_fusion.runtime import session as sessions


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def sliced(size: int = 1) -> onnx.ModelProto:
    """Relu(x[starts:ends]) along run-time axes."""
    body = helper.make_graph(
        [
            helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["part"]),
            helper.make_node("Relu", ["part"], ["y"]),
        ],
        "sliced",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6]),
            *(
                helper.make_tensor_value_info(v, TensorProto.INT64, [size])
                for v in ("starts", "ends", "axes")
            ),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


def feeds(first: int, last: int) -> dict[str, np.ndarray]:
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    return {"x": x, "starts": ints(first), "ends": ints(last), "axes": ints(1)}


def test_inputs_that_decide_the_slice_are_found() -> None:
    assert value_inputs(load(sliced())) == ("starts", "ends", "axes")


def test_large_inputs_are_data() -> None:
    assert value_inputs(load(sliced(size=65))) == ()


def test_fixing_values_keeps_the_inputs() -> None:
    graph = fix_input_values(load(sliced()), {"starts": ints(1), "ends": ints(3), "axes": ints(1)})
    assert graph.inputs == ("x", "starts", "ends", "axes")
    assert not any(n.opaque for n in graph.nodes)


def test_fixing_an_unknown_input_is_an_error() -> None:
    with pytest.raises(ef.EgraphFusionError, match="no input is called 'depth'"):
        fix_input_values(load(sliced()), {"depth": ints(1)})


def test_a_session_runs_natively_for_the_values_it_is_given() -> None:
    session = ef.compile(sliced(), threads=1)
    given = feeds(1, 4)
    assert [s.executor for s in session.steps(given)] == ["native"]
    np.testing.assert_array_equal(session.run(None, given)[0], np.maximum(given["x"][:, 1:4], 0))


def test_a_session_lists_the_values_it_was_compiled_for() -> None:
    session = ef.compile(sliced(), threads=1)
    session.run(None, feeds(1, 4))
    session.run(None, feeds(1, 4))
    assert session.bound_values == ({"starts": [1], "ends": [4], "axes": [1]},)


def test_beyond_the_bound_the_fallback_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_BOUND_PROGRAMS", 1)
    session = ef.compile(sliced(), threads=1)
    for last in (3, 4, 5):
        given = feeds(1, last)
        want = np.maximum(given["x"][:, 1:last], 0)
        np.testing.assert_array_equal(session.run(None, given)[0], want)
    assert len(session.bound_values) == 1
    assert len(session.programs) == 2


def test_a_saved_session_runs_for_any_values(tmp_path: Path) -> None:
    session = ef.compile(sliced(), threads=1)
    session.save(tmp_path / "sliced.efz")
    given = feeds(2, 6)
    (y,) = ef.load_compiled(tmp_path / "sliced.efz", threads=1).run(None, given)
    np.testing.assert_array_equal(y, np.maximum(given["x"][:, 2:6], 0))


@pytest.mark.parametrize("op", VALUE_OPERANDS)
def test_value_operands_exist(op: str) -> None:
    schema = onnx.defs.get_schema(op)
    assert max(VALUE_OPERANDS[op]) < max(len(schema.inputs), 2)
