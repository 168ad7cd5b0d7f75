"""If, Loop and Scan: the host decides what runs, the bodies are programs of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import RunError
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.runtime.program import ControlBody, ControlStep, StepRecord

Array = NDArray[Any]
RunBody = Callable[[Sequence[Array]], list[Array]]
"""Runs a body on its formal inputs; captures are already there."""


class Runnable(Protocol):
    """What a body is compiled to: a session."""

    def run(self, output_names: None, feeds: Mapping[str, Array]) -> list[Array]:
        """Run on `feeds` and return all outputs."""
        ...

    def records(self) -> tuple[StepRecord, ...]:
        """List the launches of the programs compiled so far."""
        ...


# Compiles a body (an ONNX model), given whether the values of its inputs are steady.
MakeBody = Callable[[bytes, bool], Runnable]


class Bodies:
    """The bodies of a program's control flow, compiled when they first run.

    Without a compiler (`make` is None) onnx.reference runs them.
    """

    def __init__(self, make: MakeBody | None) -> None:
        self._make = make
        self._made: dict[bytes, Runnable] = {}
        self._making = threading.RLock()

    def run(self, step: ControlStep, slots: list[Any]) -> None:
        """Run a step: read its operands from `slots` and put its results there."""
        bodies = [self._runner(step, b, slots) for b in step.bodies]
        operands = [None if i < 0 else slots[i] for i in step.operands]
        for i, value in zip(step.writes, run_control(step, operands, bodies), strict=False):
            if i >= 0:
                slots[i] = value

    def record(self, step: ControlStep) -> StepRecord:
        """Return the step's record, which is the fallback's if that ran a part of a body."""
        if self._make is None:
            reason = "its bodies run without a compiler"
            return replace(step.record, executor="fallback", reason=reason)
        made = [self._made[b.model] for b in step.bodies if b.model in self._made]
        left = [r for m in made for r in m.records() if r.executor == "fallback"]
        if not left or step.record.reason:
            return step.record
        reason = f"in its body, {left[0].nodes[0]}: {left[0].reason}"
        return replace(step.record, executor="fallback", reason=reason)

    def _runner(self, step: ControlStep, body: ControlBody, slots: Sequence[Any]) -> RunBody:
        captured = {name: slots[i] for name, i in body.captures}

        def run(formals: Sequence[Array]) -> list[Array]:
            feeds = {**dict(zip(body.formals, formals, strict=True)), **captured}
            if self._make is not None:
                return self._compiled(body, step.op == "If").run(None, feeds)
            # onnx takes a fifth of a second to import, and most programs need no fallback.
            from egraph_fusion.runtime import fallback

            return [np.asarray(v) for v in fallback.run(body.model, feeds, step.record.nodes[0])]

        return run

    def _compiled(self, body: ControlBody, steady: bool) -> Runnable:
        assert self._make is not None
        with self._making:
            if body.model not in self._made:
                self._made[body.model] = self._make(body.model, steady)
            return self._made[body.model]


def run_control(
    step: ControlStep, operands: Sequence[Array | None], bodies: Sequence[RunBody]
) -> list[Array]:
    """Run a control-flow step on its operands (None: absent) and return all its results.

    Semantics are those of the ONNX operators of the same name; RunError if the operands do not
    fit them.
    """
    match step.op:
        case "If":
            return _if(operands, bodies)
        case "Loop":
            return _loop(step.bodies[0], operands, bodies[0])
        case _:
            return _scan(step, operands, bodies[0])


def _if(operands: Sequence[Array | None], bodies: Sequence[RunBody]) -> list[Array]:
    condition = operands[0]
    shape = None if condition is None else condition.shape
    if condition is None or condition.size != 1:
        raise RunError(f"the condition of If must be one element, its shape is {shape}")
    return bodies[0 if condition.item() else 1]([])


def _loop(body: ControlBody, operands: Sequence[Array | None], run: RunBody) -> list[Array]:
    trips, going, *start = [*operands, None, None][: max(2, len(operands))]
    limit = None if trips is None else int(trips.item())
    carried = [np.asarray(v) for v in start if v is not None]
    condition = np.array(True) if going is None else going
    stacked: list[list[Array]] = [[] for _ in body.results[1 + len(carried) :]]
    turn = 0
    while bool(condition.item()) and (limit is None or turn < limit):
        number = _shaped(np.array(turn, np.int64), body.ranks[0])
        condition, *made = run([number, _shaped(condition, body.ranks[1]), *carried])
        carried, scanned = made[: len(carried)], made[len(carried) :]
        for held, value in zip(stacked, scanned, strict=True):
            held.append(value)
        turn += 1
    kinds = body.results[1 + len(carried) :]
    return [*carried, *(_stack(held, kind) for held, kind in zip(stacked, kinds, strict=True))]


def _shaped(one: Array, rank: int) -> Array:
    """Return a single element in the rank that the body declares for it (0 if it doesn't)."""
    return one.reshape((1,) * max(0, rank))


def _stack(held: list[Array], kind: TensorType, axis: int = 0) -> Array:
    if held:
        return np.stack(held, axis)
    dims = list(kind.static_shape or ())
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 0)
    return np.zeros(dims, kind.dtype.numpy)


def _scan(step: ControlStep, operands: Sequence[Array | None], run: RunBody) -> list[Array]:
    given = [np.asarray(v) for v in operands if v is not None]
    (count,) = step.attrs["num_scan_inputs"]
    state, scanned = given[: len(given) - count], given[len(given) - count :]
    results = step.bodies[0].results[len(state) :]
    axes = step.attrs.get("scan_input_axes", (0,) * count)
    backward = step.attrs.get("scan_input_directions", (0,) * count)
    rows = [
        np.moveaxis(v, axis, 0)[:: -1 if back else 1]
        for v, axis, back in zip(scanned, axes, backward, strict=True)
    ]
    lengths = {len(r) for r in rows}
    if len(lengths) != 1:
        raise RunError(f"the inputs of Scan have different lengths: {sorted(lengths)}")
    made: list[list[Array]] = [[] for _ in results]
    for turn in range(lengths.pop()):
        found = run([*state, *(np.asarray(r[turn], order="C") for r in rows)])
        state, pieces = found[: len(state)], found[len(state) :]
        for held, value in zip(made, pieces, strict=True):
            held.append(value)
    out_axes = step.attrs.get("scan_output_axes", (0,) * len(results))
    turned = step.attrs.get("scan_output_directions", (0,) * len(results))
    ordered = [h[::-1] if back else h for h, back in zip(made, turned, strict=True)]
    places = zip(ordered, results, out_axes, strict=True)
    return [*state, *(_stack(held, kind, axis) for held, kind, axis in places)]
