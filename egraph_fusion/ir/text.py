"""Graphs as text: one line a value or node; `parse_graph` reads it back.

    graph "net" opset 17
    input x: float32[batch,3]
    const c0: float32[2] = [1.0, 2.5]
    y: float32[batch,3] = Softmax(x) {axis: 1}
    output y

An absent operand prints as `_`; names that are not plain words are quoted.  What an opaque or
imported node carries besides (captures, reason, rules, payload) follows its attributes by keyword.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array, AttrValue, Constant, Graph, Node
from egraph_fusion.ir.parse import KEYWORDS, parse_graph
from egraph_fusion.ir.tensors import DType

__all__ = ["parse_graph", "print_graph"]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./]*\Z|_[A-Za-z0-9_./]+\Z")
_INLINE_ELEMENTS = 8


def print_graph(graph: Graph, data: bool = True) -> str:
    """Return `graph` as text.

    With `data` false the elements of larger constants, payloads and the header are left out, for
    reading; such text parses only with the constants given by id.
    """
    lines = [f"graph {json.dumps(graph.name)} opset {graph.opset}"]
    if graph.header and data:
        lines.append(f"header {_base64(graph.header)}")
    lines += [f"input {_name(v)}: {graph.types[v]}" for v in graph.inputs]
    lines += _constants("default", graph.defaults, data)
    lines += _constants("const", graph.constants, data)
    lines += [_node(graph, n, data) for n in graph.nodes]
    lines += [f"output {_name(v)}" for v in graph.outputs]
    return "\n".join(lines) + "\n"


def _constants(keyword: str, constants: Mapping[str, Constant], data: bool) -> list[str]:
    return [f"{keyword} {_name(v)}: {_constant(c, data)}" for v, c in constants.items()]


def _constant(constant: Constant, data: bool) -> str:
    return f"{constant.type} = {_elements(constant, data)}"


def _elements(constant: Constant, data: bool) -> str:
    array = constant.array
    if _readable(array):
        return _list(_attribute(_python(v)) for v in array.reshape(-1))
    if not data:
        return f"id {json.dumps(constant.id)}"
    if array.dtype == object:
        return _list(_attribute(_python(v)) for v in array.reshape(-1))
    raw = np.ascontiguousarray(array).tobytes()
    return f"raw {json.dumps(array.dtype.name)} {_base64(raw)}"


def _readable(array: Array) -> bool:
    """Whether the elements print as numbers without loss: few, finite and of a plain dtype."""
    dtype = DType.of(array.dtype)
    if array.size > _INLINE_ELEMENTS:
        return False
    if dtype.is_float:
        return bool(np.isfinite(array.astype(np.float64)).all())
    return dtype.is_integer or dtype is DType.BOOL


def _python(value: Any) -> AttrValue:
    """Return the Python value with the shortest exact text of a numpy scalar."""
    if isinstance(value, str | bytes):
        return value
    if value.dtype.kind in "biu":
        return int(value)
    return float(str(value))


def _node(graph: Graph, n: Node, data: bool) -> str:
    results = ", ".join(f"{_name(v)}: {graph.types[v]}" if v else "_" for v in n.outputs)
    text = f"{results or '()'} = {_name(n.op)}({', '.join(map(_name, n.inputs))})"
    if n.attrs:
        text += f" {{{', '.join(f'{_name(k)}: {_attribute(v)}' for k, v in n.attrs.items())}}}"
    if n.captures:
        text += f" captures {_list(map(_name, n.captures))}"
    if n.name:
        text += f" name {json.dumps(n.name)}"
    if n.opaque:
        text += f" opaque {json.dumps(n.reason)}"
    if n.rules:
        text += f" rules {_list(map(json.dumps, n.rules))}"
    if not data:
        return text
    for position, constant in n.absorbed.items():
        text += f" absorbed {position}: {_constant(constant, data)}"
    return f"{text} payload {_base64(n.payload)}" if n.payload else text


def _name(name: str) -> str:
    if not name:
        return "_"
    return name if _PLAIN.match(name) and name not in KEYWORDS else json.dumps(name)


def _attribute(value: AttrValue) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bytes):
        return f"bytes {_base64(value)}"
    if isinstance(value, tuple | list):
        return _list(_attribute(v) for v in value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _base64(data: bytes) -> str:
    return json.dumps(base64.b64encode(data).decode())
