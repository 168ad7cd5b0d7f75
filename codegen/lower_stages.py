"""Any block as stages: a nest per operator that is not pointwise, then the outputs left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.layout import row_major
from egraph_fusion.codegen.loops import Load, Stmt
from egraph_fusion.codegen.lower_elements import (
    Elements,
    Source,
    is_pointwise,
    is_reduction,
)
from egraph_fusion.codegen.lower_meaning import terms_of
from egraph_fusion.codegen.lower_nests import Target, pointwise, scoped
from egraph_fusion.codegen.lower_push import reached
from egraph_fusion.codegen.lower_reduce import reduce_nest
from egraph_fusion.codegen.lower_rows import rows
from egraph_fusion.codegen.lower_search import SEARCHES, search_nest
from egraph_fusion.ir.graph import Node
from egraph_fusion.ir.tensors import DType

Scratch = Callable[[DType, int, str], str]
"""Adds a scratch buffer of the kernel that holds a value, and returns its name."""


class Contractions(Protocol):
    """Writes contractions through micro-kernels, or raises LoweringError."""

    def single(self, elements: Elements, n: Node, targets: Sequence[Target]) -> tuple[Stmt, ...]:
        """Return the nests of one contraction."""
        ...

    def attention(
        self, elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]
    ) -> tuple[Stmt, ...]:
        """Return the nests of two contractions with reductions of rows between them."""
        ...


@dataclass
class Stages:
    """The nests written so far, and where the values that they store are read."""

    elements: Elements
    scratch: Scratch
    contractions: Contractions
    pending: list[Target]
    outputs: tuple[Target, ...] = ()
    stored: dict[str, Source] = field(default_factory=dict[str, Source])
    body: list[Stmt] = field(default_factory=list[Stmt])

    @property
    def fragment(self) -> Fragment:
        """The block."""
        return self.elements.fragment

    @property
    def known(self) -> Elements:
        """The elements, given what is stored."""
        return self.elements.given(self.stored)

    def run(self) -> tuple[Stmt, ...]:
        """Return the statements of the whole block."""
        heavy = [n for n in self.fragment.nodes if not is_pointwise(self.fragment, n)]
        if len(heavy) > 1:
            self.pending = [part for t in self.pending for part in self._concatenated(t)]
        while heavy:
            done = self._attention(heavy) or self._rows(heavy) or self._single(heavy)
            heavy = heavy[done:]
        self._pointwise()
        return tuple(self.body)

    def _add(self, nests: Sequence[Stmt]) -> None:
        self.body += scoped(nests)

    def _concatenated(self, target: Target) -> list[Target]:
        """Return the operands of a Concat as targets within its place, if the block makes them."""
        n = self.fragment.producers.get(target.value)
        if n is None or n.op != "Concat" or self.fragment.uses.get(target.value):
            return [target]
        if not all(v in self.fragment.producers for v in n.inputs):
            return [target]
        axis = n.attrs["axis"]
        assert isinstance(axis, int)
        sizes = [self.fragment.shape(v)[axis] for v in n.inputs]
        parts = target.parts(n.inputs, sizes, axis)
        return [inner for part in parts for inner in self._concatenated(part)]

    def _attention(self, heavy: Sequence[Node]) -> int:
        """Fuse two contractions through the rows between them; return how many operators were."""
        ends = [i for i, n in enumerate(heavy) if not is_reduction(self.fragment, n)]
        if len(ends) < 2 or ends[0] != 0 or ends[1] == 1:
            return 0
        run, later = heavy[: ends[1] + 1], heavy[ends[1] + 1 :]
        targets = [t for t in self.pending if self._made_of(t.value, run[-1], later)]
        inner = {n.outputs[0] for n in run[:-1]}
        others = [v for n in later for v in n.inputs if v]
        others += [t.value for t in self.pending if t not in targets]
        if not targets or any(inner & self._unstored(v) for v in others):
            return 0
        try:
            self._add(self.contractions.attention(self.known, run, targets))
        except LoweringError:
            return 0
        self._store(targets)
        return len(run)

    def _rows(self, heavy: Sequence[Node]) -> int:
        """Fuse the reductions from here on, if they share their rows; return how many were."""
        run = [n for n in heavy if is_reduction(self.fragment, n)]
        if len(run) < len(heavy) or not run:
            return 0
        shape = self.fragment.shape(run[0].inputs[0])
        targets = [t for t in self.pending if t.shape == shape or self._reaches(t.value, heavy)]
        try:
            self._add(rows(self.known, run, targets))
        except LoweringError:
            return 0
        self._store(targets)
        return len(heavy)

    def _single(self, heavy: Sequence[Node]) -> int:
        """Write one operator, with the outputs made of it alone fused where possible."""
        n, later = heavy[0], heavy[1:]
        ready = [t for t in self.pending if self._made_of(t.value, n, later)]
        fused = [t for t in ready if t.value != n.outputs[0]]
        own = [t for t in ready if t.value == n.outputs[0]]
        if fused:
            try:
                extra = own or self._kept(n, fused, later)
                self._nest(n, [*fused, *extra])
                return 1
            except LoweringError:
                pass
        try:
            self._nest(n, own or [self._new_target(self._frontier(n))])
        except LoweringError:
            self._nest(n, [self._new_target(n.outputs[0])])
        return 1

    def _frontier(self, n: Node) -> str:
        """Return the last value made of the result of `n` alone, element by element."""
        value = n.outputs[0]
        wanted = {t.value for t in self.pending}
        while value not in wanted and len(readers := self._readers(value)) == 1:
            reader = readers[0]
            others = [v for v in reader.inputs if v and v != value]
            known = all(not self._needs_heavy(v) for v in others)
            same = self.fragment.shape(reader.outputs[0]) == self.fragment.shape(value)
            if self.fragment.operator(reader).scalar is None or not (known and same):
                break
            value = reader.outputs[0]
        return value

    def _readers(self, value: str) -> list[Node]:
        return [m for m in self.fragment.nodes if value in m.inputs]

    def _needs_heavy(self, value: str) -> bool:
        open_values = self._unstored(value) - set(self.stored)
        made = [self.fragment.producers[v] for v in open_values if v in self.fragment.producers]
        return any(not is_pointwise(self.fragment, m) for m in made)

    def _kept(self, n: Node, fused: Sequence[Target], later: Sequence[Node]) -> list[Target]:
        """Return a scratch target for the operator's result if something else still reads it."""
        done = {t.value for t in fused}
        waiting = [t.value for t in self.pending if t.value not in done]
        waiting += [v for m in later for v in m.inputs if v]
        if any(n.outputs[0] in self._unstored(v) for v in waiting):
            return [self._new_target(n.outputs[0])]
        return []

    def _nest(self, n: Node, targets: Sequence[Target]) -> None:
        if n.op in SEARCHES:
            self._add(search_nest(self.known, n, targets))
        else:
            try:
                self._add(self.contractions.single(self.known, n, targets))
            except LoweringError:
                self._add(reduce_nest(self.known, terms_of(self.fragment, n), targets))
        self._store(targets)

    def _store(self, targets: Sequence[Target]) -> None:
        for t in targets:
            self.stored[t.value] = self._reader(t)
        done = {t.value for t in targets}
        self.pending = [t for t in self.pending if t.value not in done]

    def _reader(self, target: Target) -> Source:
        dtype = self.fragment.types[target.value].dtype
        return lambda index: Load(target.buffer, target.place(index), dtype)

    def _new_target(self, value: str) -> Target:
        shape = self.fragment.shape(value)
        size = 1
        for d in shape:
            size *= d
        buffer = self.scratch(self.fragment.types[value].dtype, size, value)
        layout = next((t.layout.dense for t in self.outputs if len(t.shape) == len(shape)), None)
        return Target(value, buffer, shape, layout or row_major(len(shape)))

    def _unstored(self, target: str) -> set[str]:
        return reached(self.fragment, target, frozenset(self.stored))

    def _reaches(self, target: str, heavy: Sequence[Node]) -> bool:
        return any(n.outputs[0] in self._unstored(target) for n in heavy)

    def _made_of(self, target: str, n: Node, later: Sequence[Node]) -> bool:
        found = self._unstored(target)
        return n.outputs[0] in found and not any(m.outputs[0] in found for m in later)

    def _pointwise(self) -> None:
        groups: dict[tuple[object, ...], list[Target]] = {}
        for t in self.pending:
            groups.setdefault(t.group, []).append(t)
        for group in groups.values():
            self._add(pointwise(self.known, group))
