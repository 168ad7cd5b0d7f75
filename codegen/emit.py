"""Loop IR to text: one emitter for C and OpenCL C, which differ by the table in `targets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from egraph_fusion.codegen import scalars
from egraph_fusion.codegen.emit_expr import Expressions
from egraph_fusion.codegen.identifiers import comment, identifier
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loop_walk import statements, substitute
from egraph_fusion.codegen.loops import (
    Alloc,
    Assign,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    LoopKind,
    MicroKernel,
    Pointer,
    PointerTable,
    Role,
    SetPointer,
    Stmt,
    Store,
    Table,
    dtype_of,
)
from egraph_fusion.codegen.nests import Nest, nests
from egraph_fusion.codegen.scratch import Placement, placed, scratch_bytes
from egraph_fusion.codegen.targets import ZERO_ROW_FLOATS, C, Target, prelude
from egraph_fusion.codegen.used import used_names
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

__all__ = ["Launch", "emit", "launches", "scratch_bytes", "symbol", "translation_unit"]

_SYMBOLS = {"add": "+", "mul": "*"}


@dataclass(frozen=True, slots=True)
class Launch:
    """One OpenCL kernel to enqueue: its function and how many independent iterations it has."""

    symbol: str
    items: Expr


def symbol(kernel: Kernel) -> str:
    """Return the name of the C function of `kernel`."""
    return f"k_{kernel.name}"


def launches(kernel: Kernel) -> tuple[Launch, ...]:
    """Return the OpenCL kernels that run `kernel`, in order, each finished before the next.

    Their arguments: every buffer, every size (long), scratch (`scratch_bytes` for each work-item),
    a buffer of `ZERO_ROW_FLOATS` zeros.  Any global size works; more than `items` is waste.
    """
    return tuple(
        Launch(f"{symbol(kernel)}_{number}", _items(nest))
        for number, nest in enumerate(nests(kernel))
    )


def translation_unit(
    kernels: Sequence[Kernel], target: Target = C, vector_floats: int | None = None
) -> str:
    """Return a whole source file: prelude, the micro-kernels that are called, and `kernels`.

    `vector_floats` is the vector length that panels are packed for (None: the compiler's own).
    Deterministic: equal kernels give equal text.
    """
    calls = [s for k in kernels for s in statements(k.body) if isinstance(s, MicroKernel)]
    variants = sorted({(c.name, c.variant) for c in calls})
    parts = [prelude(target.name), _zero_row(target)]
    if variants:
        parts.append(target.micro_prelude(vector_floats))
    parts += [_micro_kernel(target, name, variant) for name, variant in variants]
    return "\n".join([*parts, emit(kernels, target)])


def emit(kernels: Sequence[Kernel], target: Target = C) -> str:
    """Return the functions of `kernels` for `target`, without any prelude.

    C: `void k_NAME(ef_env *env, char *const *buffers, const int64_t *sizes)`; buffers and sizes
    stand in the kernel's order.  OpenCL: see `launches`.
    """
    return "\n".join(_kernel(kernel, target) for kernel in kernels)


def _items(nest: Nest) -> Expr:
    """Return the iterations of a nest in terms of sizes alone."""
    if nest.parallel is None:
        return Const(1)
    values: dict[str, Expr] = {}
    for let in nest.shared:
        values[let.name] = substitute(let.value, values)
    return simplify(substitute(nest.parallel.extent, values))


def _zero_row(target: Target) -> str:
    return f"static float zero_row[{ZERO_ROW_FLOATS}];\n" if target is C else ""


def _micro_kernel(target: Target, name: str, variant: tuple[int, ...]) -> str:
    if name not in target.micro_kernels:
        known = ", ".join(sorted(target.micro_kernels))
        raise CompileError(f"micro-kernel {name!r} is unknown for {target.name}; known: {known}")
    return target.micro_kernels[name](*variant)


def _kernel(kernel: Kernel, target: Target) -> str:
    lines = [comment(kernel.note)] if kernel.note else []
    for number, nest in enumerate(nests(kernel)):
        lines += _Emitter.of(kernel, nest, target).function(f"{symbol(kernel)}_{number}")
    if target is C:
        lines += _entry(kernel)
    return "\n".join(lines) + "\n"


def _entry(kernel: Kernel) -> list[str]:
    """Return the C function that runs the nests one after another."""
    name = symbol(kernel)
    lines = [f"void {name}(ef_env *env, char *const *buffers, const int64_t *sizes) {{"]
    lines.append("    ef_call call = {env, buffers, sizes};")
    all_nests = nests(kernel)
    loops = tuple(replace(n.parallel, body=()) for n in all_nests if n.parallel)
    shared = all_nests[-1].shared if loops else ()
    emitter = _Emitter.of(kernel, Nest(shared, loops), C)
    lines += ["    " + line for line in emitter.sizes("sizes")]
    for number, nest in enumerate(all_nests):
        function = f"{name}_{number}"
        if nest.parallel is None:
            lines.append(f"    {function}(&call, 0, 1, 0);")
        else:
            extent = emitter.expr(nest.parallel.extent)
            grain = nest.parallel.grain
            lines.append(f"    ef_parallel(env->pool, {function}, &call, {extent}, {grain});")
    return [*lines, "}"]


@dataclass(frozen=True, slots=True)
class _Emitter:
    """Prints one nest."""

    kernel: Kernel
    nest: Nest
    target: Target
    expr: Expressions
    placement: Placement
    stacked: frozenset[str]

    @staticmethod
    def of(kernel: Kernel, nest: Nest, target: Target) -> _Emitter:
        placement = placed(nest, target)
        allocs = [s for s in statements(nest.body) if isinstance(s, Alloc)]
        stacked = frozenset(a.buffer for a in allocs if a not in placement.offsets)
        ranges = Expressions(dict.fromkeys(kernel.sizes, (0, None)))
        emitter = _Emitter(kernel, nest, target, ranges, placement, stacked)
        for let in nest.shared:
            emitter = emitter.knowing(let)
        return emitter

    def knowing(self, stmt: Let | For) -> _Emitter:
        """Return an emitter that knows the range of what `stmt` binds."""
        if isinstance(stmt, For):
            bound = (0, stmt.extent - 1)
            return replace(self, expr=Expressions({**self.expr.ranges, stmt.var: bound}))
        if dtype_of(stmt.value) is not DType.INT64:
            return self
        exact = (stmt.value, stmt.value)
        return replace(self, expr=Expressions({**self.expr.ranges, stmt.name: exact}))

    def function(self, name: str) -> list[str]:
        """Return the function that runs the nest: a range of it in C, a work-item's share else."""
        head = self.c_head(name) if self.target is C else self.opencl_head(name)
        loop = self.nest.parallel
        if loop is None:
            guard = [] if self.target is C else ["if (get_global_id(0) > 0) return;"]
            body = [*guard, *self.block(self.nest.body)]
        else:
            note = [comment(loop.note)] if loop.note else []
            body = [*note, self.shared_loop(loop), *self.indented(self.knowing(loop), loop.body)]
            body.append("}")
        sizes = self.sizes("call->sizes" if self.target is C else "")
        return [*head, *("    " + line for line in (*sizes, *body)), "}"]

    def shared_loop(self, loop: For) -> str:
        """Return the head of the PARALLEL loop."""
        var = identifier(loop.var)
        if self.target is C:
            return f"for (int64_t {var} = begin; {var} < end; ++{var}) {{"
        bound = self.expr(loop.extent)
        step = f"{var} += get_global_size(0)"
        return f"for (int64_t {var} = get_global_id(0); {var} < {bound}; {step}) {{"

    def c_head(self, name: str) -> list[str]:
        """Return the head of a C function: unpack the buffers that the nest uses."""
        lines = [f"static void {name}(void *context, int64_t begin, int64_t end, int thread) {{"]
        lines.append("    const ef_call *call = context;")
        lines.append("    (void)begin, (void)end, (void)thread, (void)call;")
        if self.placement.offsets:
            lines.append("    char *const scratch = call->env->scratch[thread];")
        for number, buffer in enumerate(self.kernel.buffers):
            if buffer.name in self.used():
                pointer = self.pointer_type(buffer)
                name = identifier(buffer.name)
                lines.append(f"    {pointer}{name} = ({pointer.strip()})call->buffers[{number}];")
        return lines

    def opencl_head(self, name: str) -> list[str]:
        """Return the head of an OpenCL kernel: all buffers, all sizes, scratch, zeros."""
        buffers = [f"{self.pointer_type(b)}{identifier(b.name)}" for b in self.kernel.buffers]
        sizes = [f"const int64_t {identifier(s)}" for s in self.kernel.sizes]
        rest = ["__global char *scratch", "__global const float *zero_row"]
        lines = [f"__kernel void {name}({', '.join([*buffers, *sizes, *rest])}) {{"]
        if self.placement.offsets:
            step = self.expr(scratch_bytes(self.kernel, self.target))
            lines.append(f"    scratch += get_global_id(0) * ({step});")
        return lines

    def pointer_type(self, buffer: Buffer) -> str:
        """Return the type of a buffer's pointer, with its star."""
        const = "const " if buffer.role in (Role.IN, Role.CONST) else ""
        return f"{self.target.space}{const}{scalars.storage_type(buffer.dtype)} *"

    def sizes(self, values: str = "") -> list[str]:
        """Return the declarations of the sizes that are read, then of the shared `Let`s.

        `values` is the C array that holds the sizes; OpenCL kernels have them as arguments.
        """
        lines = [
            f"const int64_t {identifier(name)} = {values}[{number}];"
            for number, name in enumerate(self.kernel.sizes)
            if values and name in self.used()
        ]
        return [*lines, *(self.let(s) for s in self.nest.shared if s.name in self.used())]

    def used(self) -> frozenset[str]:
        """Return the names that the nest reads or writes."""
        return used_names(self.nest)

    def block(self, body: tuple[Stmt, ...]) -> list[str]:
        """Return the lines of a body."""
        lines: list[str] = []
        emitter = self
        for stmt in body:
            lines += emitter.statement(stmt)
            if isinstance(stmt, Let):
                emitter = emitter.knowing(stmt)
        return lines

    @staticmethod
    def indented(emitter: _Emitter, body: tuple[Stmt, ...]) -> list[str]:
        """Return the lines of an inner body."""
        return ["    " + line for line in emitter.block(body)]

    def statement(self, stmt: Stmt) -> list[str]:
        """Return the lines of one statement."""
        match stmt:
            case Let():
                return [self.let(stmt)]
            case Declare(name, dtype, init):
                return [f"{scalars.value_type(dtype)} {identifier(name)} = {self.expr(init)};"]
            case Assign(name, value):
                return [f"{identifier(name)} = {self.expr(value)};"]
            case For():
                return self.loop(stmt)
            case If():
                return self.conditional(stmt)
            case Store(buffer, index, value):
                place = f"{identifier(buffer)}[{self.expr(index)}]"
                return [f"{place} = {scalars.stored(dtype_of(value), self.expr(value))};"]
            case Alloc():
                return [self.alloc(stmt)]
            case PointerTable(name, size):
                return [f"{self.target.space}const float *{identifier(name)}[{size}];"]
            case SetPointer(table, index, buffer, offset):
                entry = f"{identifier(table)}[{self.expr(index)}]"
                return [f"{entry} = {self.address(buffer, offset)};"]
            case MicroKernel():
                return [self.micro_kernel(stmt)]
            case _:
                assert_never(stmt)

    def let(self, stmt: Let) -> str:
        """Return the declaration of a named value."""
        kind = scalars.value_type(dtype_of(stmt.value))
        return f"const {kind} {identifier(stmt.name)} = {self.expr(stmt.value)};"

    def loop(self, loop: For) -> list[str]:
        """Return a serial, vector or unrolled loop."""
        var = identifier(loop.var)
        lines = [comment(loop.note)] if loop.note else []
        if loop.kind is LoopKind.VECTOR and self.target.simd:
            lines.append(self.target.simd.format(self.reductions(loop)))
        if loop.kind is LoopKind.UNROLL:
            lines.append(self.target.unroll.format(self.expr(loop.extent)))
        bound = self.expr(loop.extent)
        lines.append(f"for (int64_t {var} = 0; {var} < {bound}; ++{var}) {{")
        return [*lines, *self.indented(self.knowing(loop), loop.body), "}"]

    def reductions(self, loop: For) -> str:
        """Return the reduction clauses of a vector loop; NaN must pass minimum and maximum."""
        dtypes = {s.name: dtype_of(s.value) for s in statements(loop.body) if isinstance(s, Assign)}
        clauses: list[str] = []
        for name, op in loop.reductions:
            if name not in dtypes:
                continue
            shown = _SYMBOLS.get(op, op)
            if op in ("min", "max") and dtypes[name].is_float:
                shown = f"ef_{op}_{scalars.SUFFIXES[dtypes[name]]}"
            clauses.append(f" reduction({shown} : {identifier(name)})")
        return "".join(clauses)

    def conditional(self, stmt: If) -> list[str]:
        """Return an if with its branches."""
        lines = [f"if ({self.expr(stmt.cond)}) {{", *self.indented(self, stmt.body)]
        if stmt.orelse:
            lines += ["} else {", *self.indented(self, stmt.orelse)]
        return [*lines, "}"]

    def alloc(self, alloc: Alloc) -> str:
        """Return the declaration of per-thread scratch: an array, or a pointer into the block."""
        kind, name = scalars.storage_type(alloc.dtype), identifier(alloc.buffer)
        offset = self.placement.offsets.get(alloc)
        if offset is None:
            return f"{self.target.aligned}{kind} {name}[{max(1, self.constant(alloc.size))}];"
        pointer = f"{self.target.space}{kind} *"
        place = f"scratch + {self.expr.tight(offset)}"
        return f"{pointer}{self.target.restrict.strip()} {name} = ({pointer})({place});"

    def constant(self, size: Expr) -> int:
        """Return a size that is known to be constant."""
        return int(self.expr(size))

    def micro_kernel(self, stmt: MicroKernel) -> str:
        """Return the call of a micro-kernel."""
        name = "_".join([stmt.name, *(["x".join(map(str, stmt.variant))] if stmt.variant else [])])
        return f"{name}({', '.join(map(self.argument, stmt.operands))});"

    def argument(self, operand: Pointer | Table | Expr) -> str:
        """Return an operand of a micro-kernel."""
        match operand:
            case Pointer(buffer, offset):
                return self.address(buffer, offset)
            case Table(name, start):
                return self.offset(identifier(name), start)
            case _:
                return self.expr(operand)

    def address(self, buffer: str | None, offset: Expr) -> str:
        """Return the address of an element; of the row of zeros for no buffer."""
        return "zero_row" if buffer is None else self.offset(identifier(buffer), offset)

    def offset(self, pointer: str, offset: Expr) -> str:
        """Return `pointer + offset`."""
        return pointer if offset == Const(0) else f"{pointer} + {self.expr.at(offset, 4)}"
