"""The ONNX backend interface (`onnx.backend.base`) over compiled sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

from egraph_fusion import pipeline
from egraph_fusion.errors import CompileError, EgraphFusionError, RunError
from egraph_fusion.ir.graph import Graph
from egraph_fusion.runtime.assemble import Assembly
from egraph_fusion.runtime.batch_build import build_many
from egraph_fusion.runtime.program import Program
from egraph_fusion.runtime.session import Session

# An operand of a model: an array, a sequence of arrays, or None for an empty optional.
Value = Any


class EgraphFusionRep(BackendRep):
    """A prepared model; `session` says how its steps run."""

    def __init__(self, session: Session, inputs: Sequence[str]) -> None:
        self.session = session
        self._names = tuple(inputs)

    def run(self, inputs: Any, **_kwargs: Any) -> tuple[Any, ...]:
        """Run on `inputs`, a sequence in the model's order, a mapping by name, or one array.

        Inputs that have defaults may be left out at the end.  Returns all outputs in order.  Raises
        RunError for a wrong number, shape or dtype of inputs.
        """
        return tuple(self.session.run(None, self.feeds(inputs)))

    def feeds(self, inputs: Any) -> dict[str, Value]:
        """Return `inputs` by name."""
        if isinstance(inputs, Mapping):
            return dict(cast(Mapping[str, Value], inputs))
        given = _listed(inputs)
        if len(given) > len(self._names):
            raise RunError(f"{len(given)} inputs given; the model takes {list(self._names)}")
        return dict(zip(self._names, given, strict=False))


class EgraphFusionBackend(Backend):
    """Compiles and runs ONNX models on the CPU."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether `device` (as in "CPU" or "CPU:0") is the CPU."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_kwargs: Any) -> bool:
        """Return whether `model` can be read; what has no kernel runs in the fallback."""
        try:
            pipeline.load(model)
        except EgraphFusionError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> EgraphFusionRep:
        """Compile `model`; keywords are those of `egraph_fusion.compile`.

        Raises ModelError or CompileError, RunError for another device.
        """
        cls._check_device(device)
        session = pipeline.compile(model, **kwargs)
        return EgraphFusionRep(session, [i.name for i in session.get_inputs()])

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile `model` and run it once on `inputs`, given as to `EgraphFusionRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator on arrays; `opset_version` defaults to the newest.

        Types are taken from the arrays, outputs' types are inferred (`outputs_info` is not needed).
        """
        opset = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        arrays = _listed(inputs)
        names = list(dict.fromkeys(v for v in node.input if v))
        infos = [_info(name, array) for name, array in zip(names, arrays, strict=True)]
        outputs = [helper.make_empty_tensor_value_info(v) for v in node.output if v]
        graph = helper.make_graph([node], "node", infos, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            raise RunError(f"device is 'CPU', not {device!r}")


def _listed(inputs: Any) -> list[Value]:
    return list(cast(Sequence[Value], inputs)) if isinstance(inputs, list | tuple) else [inputs]


def _info(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    kind = numpy_helper.from_array(array).data_type
    return helper.make_tensor_value_info(name, kind, array.shape)


@dataclass
class _Job:
    """One model on its way through the batch."""

    rep: EgraphFusionRep
    graph: Graph
    inputs: Any
    program: Program | None = None


def prepare_many(
    models: Sequence[onnx.ModelProto],
    inputs: Sequence[Any],
    options: pipeline.Options | None = None,
    flags: Sequence[str] = (),
) -> list[EgraphFusionRep | EgraphFusionError]:
    """Compile many models in one batch, each for the inputs it will be run on.

    Kernels that models share are compiled once, and compilers run while the next models are
    lowered.  `flags` go to the C compiler.  A model that fails gives its error, the others run.
    """
    chosen = options or pipeline.Options()
    jobs = [_job(m, i, chosen) for m, i in zip(models, inputs, strict=True)]
    waiting: list[int] = []
    built = build_many(_assemblies(jobs, chosen, waiting), chosen.march, flags)
    for i, program in zip(waiting, built, strict=True):
        job = jobs[i]
        assert isinstance(job, _Job)
        if isinstance(program, EgraphFusionError):
            jobs[i] = program
        else:
            job.rep.session.adopt(job.rep.session.request(job.rep.feeds(job.inputs)), program)
    return [j.rep if isinstance(j, _Job) else j for j in jobs]


def _job(
    model: onnx.ModelProto, inputs: Any, options: pipeline.Options
) -> _Job | EgraphFusionError:
    try:
        graph = pipeline.load(model)
    except EgraphFusionError as error:
        return error
    session = pipeline.session(graph, options)
    return _Job(EgraphFusionRep(session, graph.inputs), graph, inputs)


def _assemblies(
    jobs: list[_Job | EgraphFusionError], options: pipeline.Options, waiting: list[int]
) -> Iterator[Assembly]:
    """Yield what the jobs have to build, noting in `waiting` whose turn it was."""
    for i, job in enumerate(jobs):
        if isinstance(job, EgraphFusionError):
            continue
        try:
            request = job.rep.session.request(job.rep.feeds(job.inputs))
            assembly = pipeline.assembled(job.graph, request, options)
        except EgraphFusionError as error:
            jobs[i] = error
            continue
        except Exception as error:  # whatever goes wrong in one model, the others shall run
            jobs[i] = CompileError(f"internal error: {type(error).__name__}: {error}")
            continue
        waiting.append(i)
        yield assembly


is_compatible = EgraphFusionBackend.is_compatible
prepare = EgraphFusionBackend.prepare
run_model = EgraphFusionBackend.run_model
run_node = EgraphFusionBackend.run_node
supports_device = EgraphFusionBackend.supports_device
