"""Programs as JSON: everything but bulk data, which goes into numbered sections."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.index_ranges import IndexRange
from egraph_fusion.ir.parse import parse_dim
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.runtime.program import (
    ControlBody,
    ControlStep,
    DeviceBlock,
    FallbackStep,
    NativeStep,
    Port,
    Program,
    Step,
    StepRecord,
)
from egraph_fusion.version import __version__

Ports = tuple[tuple[Port, ...], tuple[Port, ...]]
Key = tuple[tuple[int, ...], ...]
AddSection = Callable[[NDArray[Any]], int]
GetSection = Callable[[int], NDArray[np.uint8]]


def dump(ports: Ports, programs: Mapping[Key, Program], add: AddSection) -> dict[str, Any]:
    """Return the JSON form; arrays go through `add`, which returns their section's number."""
    return {
        "version": __version__,
        "ports": [[_port(p, add) for p in side] for side in ports],
        "programs": [[[list(s) for s in k], _program(p, add)] for k, p in programs.items()],
    }


def parse(head: Mapping[str, Any], get: GetSection) -> tuple[Ports, dict[Key, Program]]:
    """Return ports and programs from their JSON form; ValueError if the version differs."""
    if head["version"] != __version__:
        raise ValueError(f"written by version {head['version']}, this is {__version__}")
    ins, outs = (tuple(_read_port(p, get) for p in side) for side in head["ports"])
    programs = {
        tuple(tuple(int(d) for d in s) for s in k): _read_program(p, (ins, outs), get)
        for k, p in head["programs"]
    }
    return (ins, outs), programs


def _type(kind: TensorType | None) -> Any:
    if kind is None:
        return None
    dims = None if kind.shape is None else [d if isinstance(d, int) else str(d) for d in kind.shape]
    return [kind.dtype.value, dims]


def _read_type(data: Any) -> TensorType | None:
    if data is None:
        return None
    name, dims = data
    return TensorType(DType(name), None if dims is None else tuple(map(_read_dim, dims)))


def _read_dim(dim: int | str) -> Dim:
    return dim if isinstance(dim, int) else parse_dim(dim)


def _array(array: NDArray[Any], add: AddSection) -> Any:
    if array.dtype == object:
        return ["string", list(array.shape), array.reshape(-1).tolist()]
    return [array.dtype.name, list(array.shape), add(array)]


def _read_array(data: Any, get: GetSection) -> NDArray[Any]:
    name, shape, held = data
    if name == "string":
        return np.array(held, dtype=object).reshape(shape)
    array: NDArray[Any] = get(held).view(getattr(ml_dtypes, name, name)).reshape(shape)
    return array


def _port(port: Port, add: AddSection) -> Any:
    default = None if port.default is None else _array(port.default, add)
    return [port.name, _type(port.type), default]


def _read_port(data: Any, get: GetSection) -> Port:
    name, kind, default = data
    found = _read_type(kind)
    assert found is not None
    return Port(name, found, None if default is None else _read_array(default, get))


def _program(program: Program, add: AddSection) -> dict[str, Any]:
    return {
        "input_slots": program.input_slots,
        "output_slots": program.output_slots,
        "slot_types": [_type(t) for t in program.slot_types],
        "slot_constants": [[i, _array(a, add)] for i, a in program.slot_constants.items()],
        "steps": [_step(s) for s in program.steps],
        "arena_bytes": program.arena_bytes,
        "scratch_bytes": program.scratch_bytes,
        "constants": add(program.constants),
        "target": program.target,
        "sources": program.sources,
        "library": add(np.frombuffer(program.library, np.uint8)),
        "features": program.features,
        "device_blocks": {k: [asdict(b) for b in v] for k, v in program.device_blocks.items()},
        "index_ranges": [{**asdict(r), "dtype": r.dtype.value} for r in program.index_ranges],
    }


def _read_program(data: Mapping[str, Any], ports: Ports, get: GetSection) -> Program:
    return Program(
        inputs=ports[0],
        outputs=ports[1],
        input_slots=tuple(data["input_slots"]),
        output_slots=tuple(data["output_slots"]),
        slot_types=tuple(_read_type(t) for t in data["slot_types"]),
        slot_constants={i: _read_array(a, get) for i, a in data["slot_constants"]},
        steps=tuple(_read_step(s) for s in data["steps"]),
        arena_bytes=int(data["arena_bytes"]),
        scratch_bytes=int(data["scratch_bytes"]),
        constants=get(data["constants"]),
        target=str(data["target"]),
        sources=tuple((str(n), str(t)) for n, t in data["sources"]),
        library=get(data["library"]).tobytes(),
        features=tuple(data["features"]),
        device_blocks={
            str(k): tuple(_read_device_block(b) for b in v)
            for k, v in data["device_blocks"].items()
        },
        index_ranges=tuple(_read_range(r) for r in data["index_ranges"]),
    )


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, NativeStep):
        return {"native": asdict(step)}
    if isinstance(step, ControlStep):
        return {"control": {**asdict(step), "bodies": [_body(b) for b in step.bodies]}}
    return {"fallback": {**asdict(step), "model": _text(step.model)}}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _body(body: ControlBody) -> dict[str, Any]:
    results = [_type(t) for t in body.results]
    return {**asdict(body), "model": _text(body.model), "results": results}


def _read_step(data: Mapping[str, Any]) -> Step:
    if "native" in data:
        d = data["native"]
        blocks = tuple(_read_record(b) for b in d["blocks"])
        return NativeStep(d["entry"], blocks, tuple(d["reads"]), tuple(d["writes"]))
    if "control" in data:
        return _read_control(data["control"])
    d = data["fallback"]
    feeds = tuple((str(n), int(i)) for n, i in d["feeds"])
    model = base64.b64decode(d["model"])
    return FallbackStep(model, feeds, tuple(d["writes"]), _read_record(d["record"]))


def _read_control(data: Mapping[str, Any]) -> ControlStep:
    return ControlStep(
        op=str(data["op"]),
        bodies=tuple(_read_body(b) for b in data["bodies"]),
        operands=tuple(data["operands"]),
        writes=tuple(data["writes"]),
        attrs={str(k): tuple(v) for k, v in data["attrs"].items()},
        record=_read_record(data["record"]),
    )


def _read_body(data: Mapping[str, Any]) -> ControlBody:
    return ControlBody(
        model=base64.b64decode(data["model"]),
        formals=tuple(data["formals"]),
        ranks=tuple(data["ranks"]),
        captures=tuple((str(n), int(i)) for n, i in data["captures"]),
        results=tuple(t for t in map(_read_type, data["results"]) if t is not None),
    )


def _read_range(data: Mapping[str, Any]) -> IndexRange:
    return IndexRange(
        input=str(data["input"]),
        dtype=DType(data["dtype"]),
        low=int(data["low"]),
        high=int(data["high"]),
        node=str(data["node"]),
    )


def _read_device_block(data: Mapping[str, Any]) -> DeviceBlock:
    return DeviceBlock(
        launches=tuple((str(s), int(n)) for s, n in data["launches"]),
        buffers=tuple((str(s), int(o), int(n)) for s, o, n in data["buffers"]),
        scratch=int(data["scratch"]),
    )


def _read_record(data: Mapping[str, Any]) -> StepRecord:
    fields: dict[str, Any] = {**data, "nodes": tuple(data["nodes"])}
    return StepRecord(**fields)
