"""Graph text: what is printed parses back to the same graph, and bad text is refused by line."""

from __future__ import annotations

import contextlib
import math
from types import MappingProxyType

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from operator_samples import SAMPLES, Sample

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.dims import Dim, floordiv, symbol
from egraph_fusion.ir.graph import Array, AttrValue, Constant, Graph, Node, frozen_attrs
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.ir.text import parse_graph, print_graph

WORDS = st.text(max_size=8)
NAMES = st.text(min_size=1, max_size=8)


def one_input(kind: TensorType, name: str = "x") -> Graph:
    return Graph("g", (name,), (name,), (), {name: kind})


def with_constant(array: Array) -> Graph:
    constant = Constant.of(array)
    return Graph("g", (), ("c",), (), {"c": constant.type}, {"c": constant})


def with_node(n: Node) -> Graph:
    kind = TensorType(DType.FLOAT32, (3,))
    types = {v: kind for v in (*n.reads, *n.outputs) if v}
    return Graph("g", tuple(dict.fromkeys(n.reads)), n.outputs, (n,), types)


def test_printed_form() -> None:
    b = GraphBuilder("net", opset=17)
    x = b.add_input("x", TensorType(DType.FLOAT32, (symbol("batch"), 2)))
    y = b.op("Add", x, b.const(np.array([1.0, 2.5], np.float32), "c"), out="y")
    b.output(b.op("Softmax", y, out="z"))
    assert print_graph(b.build()) == (
        'graph "net" opset 17\n'
        "input x: float32[batch,2]\n"
        "const c: float32[2] = [1.0, 2.5]\n"
        "y: float32[batch,2] = Add(x, c)\n"
        "z: float32[batch,2] = Softmax(y) {axis: 1}\n"
        "output z\n"
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_operator_samples_survive(sample: Sample) -> None:
    b = GraphBuilder()
    names = [
        "" if t is None else b.add_input(f"x{i}", t)
        for i, t in enumerate(types_of(sample.operands))
    ]
    for value in b.node(sample.op, names, sample.outputs, **sample.attrs):
        b.output(value)
    g = b.build()
    assert parse_graph(print_graph(g)) == g


@given(NAMES)
def test_any_name_survives(name: str) -> None:
    g = one_input(TensorType(DType.FLOAT32, ()), name)
    assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize("name", ["input", "output", "const", "graph", "_", "a:b", "1x", "é"])
def test_awkward_names_survive(name: str) -> None:
    g = one_input(TensorType(DType.FLOAT32, ()), name)
    assert parse_graph(print_graph(g)) == g


@given(NAMES, st.integers(1, 5), st.integers(-5, 5))
def test_any_symbolic_shape_survives(name: str, k: int, c: int) -> None:
    n, m = symbol(name), symbol("m")
    dims: tuple[Dim, ...] = (n, k * n * m + c, floordiv(n + c, 2) * m, floordiv(n * m + 1, m + k))
    g = one_input(TensorType(DType.INT64, dims))
    assert parse_graph(print_graph(g)) == g


@given(arrays(np.float32, array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4)))
def test_any_float_constant_survives(array: Array) -> None:
    g = with_constant(array)
    assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize(
    "array",
    [
        np.array([-0.0, 1e-45, 0.1], np.float32),
        np.array([np.nan, np.inf]),
        np.array([2**63 - 1, -(2**63)]),
        np.array([True, False]),
        np.array(7, np.uint8),
        np.array([1 + 2j], np.complex64),
        np.array([1.1, 3e38], ml_dtypes.bfloat16),
        np.array([1.0, 2.0], ml_dtypes.float8_e4m3fn),
        np.array(["a", 'quo"te\n', "é"], object),
        np.array([b"\x00\xff"], object),
        np.zeros((0, 3), np.float32),
        np.arange(100, dtype=np.int16).reshape(10, 10),
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_constants_of_every_kind_survive(array: Array) -> None:
    g = with_constant(array)
    assert parse_graph(print_graph(g)) == g


VALUES: st.SearchStrategy[AttrValue] = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    WORDS,
    st.binary(max_size=6),
    st.lists(st.integers(-99, 99)).map(tuple),
    st.lists(st.floats(allow_nan=False)).map(tuple),
    st.lists(WORDS).map(tuple),
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), WORDS, st.binary(max_size=9))
def test_any_opaque_node_survives(attrs: dict[str, AttrValue], word: str, payload: bytes) -> None:
    n = Node(
        op="com.example:Foo",
        inputs=("a", "", "b"),
        outputs=("y",),
        attrs=frozen_attrs(attrs),
        name=word,
        opaque=True,
        captures=("c",),
        payload=payload,
        absorbed=MappingProxyType({1: Constant.of(np.arange(3))}),
        reason=word,
        rules=(word, "r"),
    )
    (found,) = parse_graph(print_graph(with_node(n))).nodes
    assert found == n
    carried = (found.payload, found.reason, found.rules, dict(found.absorbed))
    assert carried == (n.payload, n.reason, n.rules, dict(n.absorbed))


def test_nan_attribute_survives() -> None:
    n = Node("Foo", ("a",), ("y",), frozen_attrs({"v": math.nan}), opaque=True)
    (found,) = parse_graph(print_graph(with_node(n))).nodes
    assert math.isnan(float(str(found.attrs["v"])))


def test_absent_outputs_survive() -> None:
    n = Node("Foo", ("a",), ("", "y", ""), opaque=True)
    g = with_node(n).replace(outputs=("y",))
    assert parse_graph(print_graph(g)) == g


def test_defaults_and_header_survive() -> None:
    kind = TensorType(DType.FLOAT32, (3,))
    g = one_input(kind).replace(
        defaults={"x": Constant.of(np.zeros(3, np.float32))}, header=b"\x00model"
    )
    found = parse_graph(print_graph(g))
    assert found == g
    assert found.header == g.header


def test_elided_text_is_short() -> None:
    g = with_constant(np.zeros(1000))
    assert len(print_graph(g, data=False)) < 200


def test_elided_text_parses_with_the_constants() -> None:
    g = with_constant(np.zeros(1000))
    constants = {c.id: c for c in g.constants.values()}
    assert parse_graph(print_graph(g, data=False), constants) == g


def test_elided_text_does_not_parse_alone() -> None:
    with pytest.raises(ModelError, match="elided"):
        parse_graph(print_graph(with_constant(np.zeros(1000)), data=False))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("input x: float33[3]", "'float33' is no element type"),
        ("input x float32[3]", "expected ':'"),
        ("const c: float32[2] = [1.0]", "1 elements do not fill"),
        ('const c: float32[2] = raw "float32" "AAAA"', "3 bytes do not fill"),
        ('const c: float32[1] = raw "float99" "AAAA"', "no numpy dtype"),
        ('const c: float32[1] = raw "float32" "A"', "bad base64"),
        ("const c: float32[n] = [1.0]", "static shape"),
        ("y: float32[3] = Relu(x", "expected"),
        ("y: float32[3] = Relu(x) $", "cannot read"),
        ("y: float32[3] = Relu(x) extra", "unexpected 'extra'"),
        ("y: float32[3] = Relu(x) {a: }", "expected an attribute value"),
        ("graph 3 opset 1", "expected a quoted string"),
        ("const c: int8[1] = [300]", "does not fit"),
        ('const c: float32[1] = ["a"]', "does not fit"),
        ("y: float32[3] = Relu(x) {a: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_bad_text_is_refused_by_line(line: str, message: str) -> None:
    with pytest.raises(ModelError, match=f"line 2: .*{message}"):
        parse_graph(f"\n{line}\n")


def test_text_of_a_broken_graph_is_refused() -> None:
    with pytest.raises(ModelError, match="before it is defined"):
        parse_graph('graph "g" opset 1\ny: float32[3] = Relu(x)\noutput y\n')


@given(st.text(alphabet='graph inputconst[](){}:=,*+"0123.-_\n', max_size=60))
def test_random_text_gives_only_model_errors(text: str) -> None:
    with contextlib.suppress(ModelError):
        parse_graph(text)
