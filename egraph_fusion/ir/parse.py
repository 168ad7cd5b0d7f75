"""Reading the text of a graph: one function per kind of phrase."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import cast

import ml_dtypes
import numpy as np

from egraph_fusion.ir.dims import Dim, floordiv, symbol
from egraph_fusion.ir.graph import Array, AttrValue, Constant, Graph, Node, frozen_attrs
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.ir.tokens import Line

KEYWORDS = frozenset({"graph", "header", "input", "default", "const", "output"})


def parse_dim(text: str) -> Dim:
    """Read a dimension as it prints; ModelError if it is none.

    >>> parse_dim("2*n + 1")
    2*n + 1
    """
    return _dim(Line(text, 1))


def _dim(line: Line) -> Dim:
    """Read a sum of products of integers, symbols and floor divisions."""
    total = _product(line)
    while line.accept("+"):
        total = total + _product(line)
    return total


def _product(line: Line) -> Dim:
    value = _factor(line)
    while line.accept("*"):
        value = value * _factor(line)
    return value


def _factor(line: Line) -> Dim:
    if line.accept("("):
        numerator = _dim(line)
        for mark in (")", "//", "("):
            line.expect(mark)
        denominator = _dim(line)
        line.expect(")")
        return floordiv(numerator, denominator)
    if line.peek()[0] == "number":
        return line.integer()
    return symbol(line.name())


def _type(line: Line) -> TensorType:
    name = line.name()
    try:
        dtype = DType(name)
    except ValueError:
        raise line.error(f"{name!r} is no element type") from None
    line.expect("[")
    if line.accept("*"):
        line.expect("]")
        return TensorType(dtype, None)
    return TensorType(dtype, line.listed(lambda: _dim(line), "]"))


def _value(line: Line) -> AttrValue:
    """Read one attribute value."""
    if line.accept("["):
        return cast(AttrValue, line.listed(lambda: _value(line), "]"))
    if line.accept("bytes"):
        return line.bytes()
    kind, text = line.take()
    if kind == "string":
        return line.unquoted(text)
    if text in ("nan", "inf", "-inf"):
        return float(text)
    if kind != "number":
        raise line.error(f"expected an attribute value, found {text!r}")
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _constant(line: Line, known: Mapping[str, Constant]) -> Constant:
    declared = _type(line)
    line.expect("=")
    if line.accept("id"):
        name = line.string()
        if name not in known:
            raise line.error(f"the data of constant {name!r} is elided and not given")
        return known[name]
    constant = Constant.of(_array(line, declared))
    if constant.type != declared:
        raise line.error(f"declared {declared}, but the data is {constant.type}")
    return constant


def _array(line: Line, declared: TensorType) -> Array:
    shape = declared.static_shape
    if shape is None:
        raise line.error(f"a constant needs a static shape, not {declared}")
    if line.accept("raw"):
        dtype, data = _raw_dtype(line), line.bytes()
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise line.error(f"{len(data)} bytes do not fill {declared}")
        return np.frombuffer(data, dtype).reshape(shape)
    line.expect("[")
    items = line.listed(lambda: _value(line), "]")
    if len(items) != math.prod(shape):
        raise line.error(f"{len(items)} elements do not fill {declared}")
    return np.array(items, dtype=declared.dtype.numpy).reshape(shape)


def _raw_dtype(line: Line) -> np.dtype[np.generic]:
    name = line.string()
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise line.error(f"{name!r} is no numpy dtype") from None


class _Reader:
    """Collects the parts of a graph line by line."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.known = constants
        self.graph = Graph("", (), (), (), {})
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}
        self.defaults: dict[str, Constant] = {}
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.nodes: list[Node] = []

    def read(self, line: Line) -> None:
        """Read one line."""
        for keyword, phrase in (
            ("graph", self._graph),
            ("header", self._header),
            ("input", self._input),
            ("default", self._default),
            ("const", self._const),
            ("output", self._output),
        ):
            if line.accept(keyword):
                phrase(line)
                break
        else:
            self._node(line)
        if line.peek()[0] != "end":
            raise line.error(f"unexpected {line.peek()[1]!r}")

    def finish(self) -> Graph:
        """Return the graph, checked."""
        graph = replace(
            self.graph,
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            nodes=tuple(self.nodes),
            types=MappingProxyType(self.types),
            constants=MappingProxyType(self.constants),
            defaults=MappingProxyType(self.defaults),
        )
        graph.check()
        return graph

    def _graph(self, line: Line) -> None:
        name = line.string()
        line.expect("opset")
        self.graph = replace(self.graph, name=name, opset=line.integer())

    def _header(self, line: Line) -> None:
        self.graph = replace(self.graph, header=line.bytes())

    def _input(self, line: Line) -> None:
        self.inputs.append(self._declared(line))

    def _declared(self, line: Line) -> str:
        value = line.name()
        if not value:
            return ""
        line.expect(":")
        self.types[value] = _type(line)
        return value

    def _default(self, line: Line) -> None:
        value = line.name()
        line.expect(":")
        self.defaults[value] = _constant(line, self.known)

    def _const(self, line: Line) -> None:
        value = line.name()
        line.expect(":")
        constant = _constant(line, self.known)
        if value in self.constants:
            raise line.error(f"constant {value!r} is defined twice")
        self.constants[value] = constant
        self.types[value] = constant.type

    def _output(self, line: Line) -> None:
        self.outputs.append(line.name())

    def _node(self, line: Line) -> None:
        if line.accept("("):
            line.expect(")")
            line.expect("=")
            outputs: tuple[str, ...] = ()
        else:
            outputs = line.listed(lambda: self._declared(line), "=")
        op = line.name()
        line.expect("(")
        node = Node(op, line.listed(line.name, ")"), outputs)
        if line.accept("{"):
            pairs = line.listed(lambda: _pair(line), "}")
            node = replace(node, attrs=frozen_attrs(dict(pairs)))
        self.nodes.append(self._carried(line, node))

    def _carried(self, line: Line, node: Node) -> Node:
        """Read what follows the attributes, by keyword."""
        if line.accept("captures"):
            line.expect("[")
            node = replace(node, captures=line.listed(line.name, "]"))
        if line.accept("name"):
            node = replace(node, name=line.string())
        if line.accept("opaque"):
            node = replace(node, opaque=True, reason=line.string())
        if line.accept("rules"):
            line.expect("[")
            node = replace(node, rules=line.listed(line.string, "]"))
        absorbed: dict[int, Constant] = {}
        while line.accept("absorbed"):
            position = line.integer()
            line.expect(":")
            absorbed[position] = _constant(line, self.known)
        if absorbed:
            node = replace(node, absorbed=MappingProxyType(absorbed))
        return replace(node, payload=line.bytes()) if line.accept("payload") else node


def _pair(line: Line) -> tuple[str, AttrValue]:
    name = line.name()
    line.expect(":")
    return name, _value(line)


def _read(reader: _Reader, text: str, number: int) -> None:
    line = Line(text, number)
    try:
        reader.read(line)
    except (ValueError, TypeError, OverflowError) as error:
        raise line.error(f"a value that does not fit: {error}") from None
    except RecursionError:
        raise line.error("nested too deeply") from None


def parse_graph(text: str, constants: Mapping[str, Constant] | None = None) -> Graph:
    """Return the graph that `print_graph` printed.

    `constants` holds by id the constants whose data the text leaves out.  Raises ModelError, naming
    the line, for text that is no graph.
    """
    reader = _Reader(constants or {})
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            _read(reader, line, number)
    return reader.finish()
