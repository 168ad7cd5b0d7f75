"""The step of a program that runs an If, Loop or Scan."""

from __future__ import annotations

from collections.abc import Mapping

from egraph_fusion.frontend.bodies import Body, bodies_of
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.runtime.program import ControlBody, ControlStep, StepRecord

_AXES = (
    "scan_input_axes",
    "scan_input_directions",
    "scan_output_axes",
    "scan_output_directions",
)


def control_step(graph: Graph, n: Node, slots: Mapping[str, int]) -> ControlStep | None:
    """Return the step that runs an If, Loop or Scan; None for what the fallback has to run."""
    bodies = bodies_of(graph, n)
    if bodies is None:
        return None
    left = tuple(dict.fromkeys(op for b in bodies for op in b.left))
    return ControlStep(
        op=n.op,
        bodies=tuple(_control_body(b, slots) for b in bodies),
        operands=tuple(slots[v] if v else -1 for v in n.inputs),
        writes=tuple(slots[v] if v else -1 for v in n.outputs),
        attrs=_ints(n),
        record=StepRecord(
            nodes=(n.label(),),
            executor="fallback" if left else "host",
            mapping_type="opaque",
            flops=0,
            bytes=sum(t.nbytes or 0 for t in graph.out_types(n)),
            reason=f"its bodies hold {', '.join(left)}, which have no declaration" if left else "",
        ),
    )


def _control_body(body: Body, slots: Mapping[str, int]) -> ControlBody:
    captured = tuple((v, slots[v]) for v in body.captures)
    return ControlBody(body.model, body.formals, body.ranks, captured, body.results)


def _ints(n: Node) -> dict[str, tuple[int, ...]]:
    held: dict[str, tuple[int, ...]] = {}
    for name, value in n.attrs.items():
        if name in _AXES and isinstance(value, tuple):
            held[name] = tuple(int(v) for v in value)
        if name == "num_scan_inputs" and isinstance(value, int):
            held[name] = (value,)
    return held
