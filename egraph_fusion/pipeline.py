"""The stages from an ONNX model to a running program, in the order in which they are applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egraph_fusion.arguments import checked
from egraph_fusion.codegen.cache import digest
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.errors import CompileError, EgraphFusionError, ModelError, RunError
from egraph_fusion.frontend import load
from egraph_fusion.frontend import save as save_model
from egraph_fusion.frontend.bodies import load_body
from egraph_fusion.frontend.expansion import expand
from egraph_fusion.frontend.input_shapes import fix_input_shapes
from egraph_fusion.frontend.input_values import fix_input_values, value_inputs
from egraph_fusion.frontend.source import ModelSource, Source, graph_of
from egraph_fusion.fusion.dnnfusion import estimated_profit, plan_dnnfusion
from egraph_fusion.fusion.elimination import without_copies
from egraph_fusion.fusion.extended import plan_extended
from egraph_fusion.fusion.nominal import at_nominal_sizes, for_symbols
from egraph_fusion.fusion.plan import Block, Plan
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.index_ranges import check_constant_indices, input_index_ranges
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.optimizer import check_options, optimize
from egraph_fusion.output_files import write_text
from egraph_fusion.runtime.assemble import Assembly, assemble, likely_layouts, ports, refusal
from egraph_fusion.runtime.execution import Native
from egraph_fusion.runtime.feeds import Extents, Request, fixed_extents
from egraph_fusion.runtime.loading import load_compiled
from egraph_fusion.runtime.machine import release_memory
from egraph_fusion.runtime.program import Program
from egraph_fusion.runtime.program_cache import default_cache, program_key
from egraph_fusion.runtime.session import Session
from egraph_fusion.runtime.targets import TARGETS, load_native

__all__ = [
    "PIPELINE",
    "Options",
    "Stage",
    "compile",
    "emit_c",
    "load",
    "load_compiled",
    "optimize",
    "plan",
    "save",
]


ADDRESSABLE = 2**62
"""Bytes of a value that a kernel can index."""


@dataclass(frozen=True)
class Options:
    """How to compile: target, threads, numerics level, whether to rewrite, the C -march.

    `node_limit` and `iter_limit` bound the rewriting, as for `optimize`.
    """

    target: str = "c"
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    numerics: str = "finite"
    optimize: bool = True
    march: str | None = None
    node_limit: int = 100_000
    iter_limit: int = 12


@dataclass(frozen=True)
class Stage:
    """A named pure function from one stage's value to the next's."""

    name: str
    run: Callable[[Any, Options], Any]


def _expanded(graph: Graph, _options: Options) -> Graph:
    for value, kind in graph.types.items():
        if (kind.nbytes or 0) > ADDRESSABLE:
            raise CompileError(f"value {value!r} ({kind}) has more bytes than memory can ever hold")
    check_constant_indices(graph)
    return expand(graph)


def _rewritten(graph: Graph, options: Options) -> Graph:
    if not options.optimize:
        return graph
    found = optimize(
        graph,
        numerics=options.numerics,
        node_limit=options.node_limit,
        iter_limit=options.iter_limit,
    )
    return found.graph


def _planned(graph: Graph, options: Options) -> Plan:
    check_constant_indices(graph)  # once more: some became constants only now
    return plan_for(graph, target_info(options))


def _assembled(found: Plan, options: Options) -> Assembly:
    return assemble(found, target_info(options), options.target)


def _built(assembly: Assembly, options: Options) -> Program:
    return TARGETS[options.target].build(assembly, options.march)


PIPELINE = (
    Stage("expand", _expanded),
    Stage("rewrite", _rewritten),
    Stage("plan", _planned),
    Stage("lower", _assembled),
    Stage("build", _built),
)


def target_info(options: Options) -> TargetInfo:
    """Return what schedules need to know of the machine that `options` name."""
    return TARGETS[options.target].info(options.march, options.threads)


def plan_for(graph: Graph, target: TargetInfo) -> Plan:
    """Plan with the extended planner; blocks the code generator refuses are planned again.

    Then layout operators are eliminated.  Sizes that are symbols are planned at nominal ones.
    """
    sized = at_nominal_sizes(graph)
    if sized is not graph:
        return for_symbols(plan_for(sized, target), graph)
    found = plan_extended(graph)
    layouts = likely_layouts(graph)

    def supported(g: Graph, nodes: Sequence[Node]) -> str | None:
        return refusal(g, nodes, target, layouts)

    if any(supported(graph, b.nodes) is not None for b in found.blocks if len(b.nodes) > 1):
        found = plan_extended(graph, supported)

    def native(block: Block) -> bool:
        alone = len(block.nodes) == 1
        return not block.opaque and not (alone and supported(graph, block.nodes))

    return without_copies(found, native)


def _through(graph: Graph, options: Options, stages: Sequence[Stage] = PIPELINE) -> Any:
    # Read before rewriting: a rule may leave out a lookup whose result is known without it.
    ranges = input_index_ranges(graph)
    value: Any = graph
    del graph
    for stage in stages:
        value = stage.run(value, options)
        if isinstance(value, Assembly):
            value = value.bounded(ranges)
        if isinstance(value, Graph):
            # What the former graph held, and the new one does not.
            release_memory(sum(c.array.nbytes for c in value.constants.values()))
    return value


@checked(EgraphFusionError)
def plan(
    graph: Source, planner: str = "extended", profile: Callable[..., bool] | None = None
) -> Plan:
    """Partition `graph` into fusion blocks with planner "extended" or "dnnfusion".

    `profile` answers the yellow cells of Table 3 (graph, producer block, consumer block) -> faster;
    without it the plan comes from the stated cost model alone.  Raises EgraphFusionError for an
    unknown planner.
    """
    g = graph_of(graph)
    if planner == "dnnfusion":
        return plan_dnnfusion(g, profile or estimated_profit)
    if planner == "extended":
        return plan_for(g, target_info(Options()))
    raise EgraphFusionError(f"planner is 'extended' or 'dnnfusion', not {planner!r}")


@checked(CompileError, least={"threads": 1})
def compile(
    source: Source,
    target: str = "c",
    threads: int | None = None,
    numerics: str = "finite",
    optimize: bool = True,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    march: str | None = None,
) -> Session:
    """Compile a model (path, ModelProto or Graph) for `target` "c" or "opencl".

    `shapes` fixes symbolic input shapes; what stays symbolic is compiled when a run shows its
    size.  Raises ModelError, OptimizeError or CompileError.
    """
    if target not in TARGETS:
        raise CompileError(f"target is one of {sorted(TARGETS)}, not {target!r}")
    check_options(numerics)
    options = Options(target, threads or os.cpu_count() or 1, numerics, optimize, march)
    model = ModelSource(source, shapes)
    key = program_key(model.fingerprint(), TARGETS[target].identity(march), repr(options))
    found = default_cache().find(key)
    if found is None:
        return _cold(model, key, options)
    sides, programs = found
    specialize = None if programs else _specializer(model, key, options)
    return Session(sides, programs, _loader(options), specialize, make_body=_bodies(options))


def _cold(model: ModelSource, key: str, options: Options) -> Session:
    """Compile `model` if its shapes are fixed, else return a session that does when it runs.

    Either goes into the user's cache, unless values of inputs decide what is compiled.
    """
    check_constant_indices(model.graph())
    sides, values = ports(model.graph()), value_inputs(model.graph())
    extents = fixed_extents(sides[0])
    if values or extents is None:
        if not values:
            default_cache().keep(key, sides, {})
        specialize = _specializer(model, key, options)
        return Session(sides, {}, _loader(options), specialize, values, _bodies(options))
    programs: dict[Extents, Program] = {extents: _through(model.take(), options)}
    default_cache().keep(key, sides, programs)
    release_memory(sum(p.constants.nbytes for p in programs.values()))
    return Session(sides, programs, _loader(options), make_body=_bodies(options))


def _specializer(model: ModelSource, key: str, options: Options) -> Callable[[Request], Program]:
    """Return what compiles `model` for a request, through the user's cache."""

    def specialize(request: Request) -> Program:
        own = digest(key, repr(request.key))
        found = default_cache().find(own)
        if found is not None:
            return next(iter(found[1].values()))
        program: Program = _through(specialized(model.graph(), request), options)
        sides = (program.inputs, program.outputs)
        default_cache().keep(own, sides, {request.extents: program})
        return program

    return specialize


def _loader(options: Options) -> Callable[[Program], Native]:
    return lambda program: load_native(program, options.threads)


def _bodies(options: Options) -> Callable[[bytes, bool], Session]:
    """Return what makes sessions of the bodies of control flow."""

    def make(model: bytes, steady: bool) -> Session:
        return session(load_body(model), options, bind=steady)

    return make


def session(graph: Graph, options: Options, *, bind: bool = True) -> Session:
    """Return a session that compiles `graph` when it is prepared or run, past the cache.

    Without `bind` it is never compiled for the values of inputs.
    """

    def specialize(request: Request) -> Program:
        return _built(assembled(graph, request, options), options)

    values = value_inputs(graph) if bind else ()
    return Session(ports(graph), {}, _loader(options), specialize, values, _bodies(options))


def assembled(graph: Graph, request: Request, options: Options) -> Assembly:
    """Return the program, still to be built, that runs what `request` says."""
    found: Assembly = _through(specialized(graph, request), options, PIPELINE[:-1])
    return found


def _is_symbolic(kind: TensorType) -> bool:
    """Whether a tensor's shape is not fixed; sequences and the like have none to fix."""
    return kind.static_shape is None and (kind.shape is not None or kind.dtype is not DType.OTHER)


def specialized(graph: Graph, request: Request) -> Graph:
    """Return `graph` for the shapes and values that `request` says, where these are not fixed."""
    extents = zip(graph.inputs, request.extents, strict=True)
    shapes = {v: s for v, s in extents if _is_symbolic(graph.types[v])}
    fixed = fix_input_shapes(graph, shapes) if shapes else graph
    if not request.values:
        return fixed
    check_constant_indices(fixed)
    found = expand(fix_input_values(fixed, request.values), request.values)
    check_constant_indices(found, RunError, "value")
    return found


@checked(CompileError)
def emit_c(source: Source, folder: str | Path, march: str | None = None) -> list[Path]:
    """Write the C sources of a model with static shapes into `folder` and return their paths."""
    return write_sources(compile(source, march=march), folder)


def write_sources(session: Session, folder: str | Path) -> list[Path]:
    """Write the generated text of all compiled programs into `folder` and return the paths."""
    session.prepare()
    if not session.programs:
        raise CompileError("nothing is compiled yet: the model's input shapes are symbolic")
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise CompileError(f"{root} cannot be made a folder: {error}") from error
    written: list[Path] = []
    for number, program in enumerate(session.programs):
        suffix = "cl" if program.target == "opencl" else "c"
        for name, text in program.sources:
            path = root / f"program_{number}_{name}.{suffix}"
            write_text(path, text, CompileError)
            written.append(path)
    return written


@checked(ModelError, least={"opset": 1})
def save(
    graph: Graph, path: str | Path, functions: Plan | None = None, opset: int | None = None
) -> None:
    """Write `graph` as an ONNX model, through a temporary name.

    With a plan of it as `functions`, each block of more than one node becomes a model-local
    function; `opset` raises the model's own.  Raises ModelError if an opset cannot express a node.
    """
    groups = None
    if functions is not None:
        groups = [b.nodes for b in functions.blocks if len(b.nodes) > 1 and not b.opaque]
    save_model(graph, path, functions=groups, opset=opset)
