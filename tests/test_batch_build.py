"""Programs built together share kernels and libraries, and fail alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from egraph_fusion import pipeline
from egraph_fusion.codegen import build
from egraph_fusion.errors import CompileError
from egraph_fusion.runtime import batch_build
from egraph_fusion.runtime.assemble import Assembly
from egraph_fusion.runtime.feeds import Request
from egraph_fusion.runtime.program import NativeStep, Program

OPTIONS = pipeline.Options(threads=1, optimize=False)


def assembly(op: str) -> Assembly:
    value = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [5]) for v in "xy"]
    body = helper.make_graph([helper.make_node(op, ["x"], ["y"])], op, value[:1], value[1:])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    return pipeline.assembled(pipeline.load(model), Request(((5,),)), OPTIONS)


def test_equal_kernels_are_compiled_once() -> None:
    text, _ = batch_build.merged([assembly("Neg").text, assembly("Neg").text])
    assert (len(text.kernels), len(text.segments)) == (1, 2)


def test_segments_of_one_library_have_names_of_their_own() -> None:
    built = batch_build.build_many([assembly("Neg"), assembly("Abs")], flags=("-O0",))
    programs = [p for p in built if isinstance(p, Program)]
    entries = [s.entry for p in programs for s in p.steps if isinstance(s, NativeStep)]
    assert len(set(entries)) == 2
    assert programs[0].library == programs[1].library


def test_what_the_compiler_refuses_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = build.shared_library

    def refusing(units: Sequence[build.Unit], march: str | None, jobs: int) -> Path:
        if any("/* Abs */" in u.source for u in units):
            raise CompileError("refused")
        return compiled(units, march, jobs=jobs)

    monkeypatch.setattr(build, "shared_library", refusing)
    ops = ("Neg", "Abs", "Cos", "Sin")
    built = batch_build.build_many([assembly(op) for op in ops], flags=("-O0",))
    assert [isinstance(p, Program) for p in built] == [True, False, True, True]


def test_nothing_to_build_is_nothing() -> None:
    assert batch_build.build_many([]) == []
