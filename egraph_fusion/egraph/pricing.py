"""What each e-node of a state costs under a cost model, and which may not be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from egraph_fusion.egraph import foldable
from egraph_fusion.egraph.demand import attrs_of, first_type
from egraph_fusion.egraph.interning import Interner, Typed
from egraph_fusion.egraph.language import OPAQUE, Constructor
from egraph_fusion.egraph.state import ENode, EState
from egraph_fusion.errors import REFUSALS
from egraph_fusion.extract.cost import CostModel, Features
from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import frozen_attrs
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.tracing import node_flops
from egraph_fusion.ir.tensors import TensorType

VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")

Allowed = Callable[
    [str, tuple[TensorType | None, ...], tuple[TensorType, ...], dict[str, Any]], bool
]


def bytes_of(t: TensorType) -> int:
    """Return the bytes of a tensor, symbols counted as `NOMINAL`; 0 if the rank is unknown."""
    return 0 if t.size is None else nominal(t.size) * t.dtype.itemsize


def _features(op: str, flops: int, outs: Sequence[TensorType], original: bool) -> Features:
    """Return what a node adds: elementwise work fuses into the kernel that makes its operand.

    Of graphs that are equal otherwise, the one with fewer nodes is cheaper, then the one with more
    of the original nodes: a kept node counts eight bytes, a new one nine, and a tensor computed at
    compile time one, so that a new node with weights of its own still beats two that were there.
    """
    own = 8 if original else 9
    if OPERATORS[op].kind is Kind.ELEMENTWISE:
        return Features(flops, own, 0)
    written = 0 if op in VIEWS else sum(map(bytes_of, outs))
    return Features(flops, written + own, 1)


@dataclass
class Prices:
    """Prices of the e-nodes of one state; None for a node that may not be chosen.

    `allowed` says whether a node that a rule made can be written in the model's opset; `unfolded`
    classes of constants are computed at run time.
    """

    interner: Interner
    state: EState
    model: CostModel
    allowed: Allowed | None = None
    unfolded: frozenset[int] = frozenset()
    known: dict[tuple[Any, ...], int | None] = field(
        default_factory=dict[tuple[Any, ...], int | None]
    )

    def __post_init__(self) -> None:
        self.folded: dict[int, ENode] = foldable.folded_choice(
            self.state, self._small, self._usable
        )
        """The classes computed at compile time, and absent operands: how each is computed."""
        self._folding = {c for c in self.folded if self._small(c)}

    def of(self, eclass: int, n: ENode) -> int | None:
        """Return the price of `n`, a member of `eclass`."""
        c = n.constructor
        if isinstance(c, str):
            return 0
        if c.op == OPAQUE:
            return self.model(Features(blocks=1))
        types = tuple(self.state.types.get(k) for k in n.children)
        known = tuple(self.folds(k) for k in n.children)
        own = self.state.types.get(eclass)
        key = (c, types, known, n.attrs, own, self.folds(eclass), n.made_by >= 0)
        if key not in self.known:
            self.known[key] = self._price(eclass, n, c, known)
        return self.known[key]

    def folds(self, eclass: int) -> bool:
        """Whether a class is computed at compile time."""
        return eclass in self._folding

    def _small(self, eclass: int) -> bool:
        """Whether a class is one constant of at most `FOLD_LIMIT` elements."""
        kind = self.type_of(eclass)
        if eclass not in self.state.constant or eclass in self.unfolded or kind is None:
            return False
        return isinstance(kind.size, int) and kind.size <= foldable.FOLD_LIMIT

    def _usable(self, eclass: int, n: ENode) -> bool:
        """Whether a node gives what its class holds; nodes of the graph itself always do."""
        c = n.constructor
        if isinstance(c, str) or n.made_by < 0:
            return True
        outs = self._results(n, c)
        return outs is not None and self.interner.types(outs) == self.state.types.get(eclass)

    def _results(self, n: ENode, c: Constructor) -> tuple[TensorType, ...] | None:
        """Return the types that a node gives, or None if its operands do not fit."""
        attrs = frozen_attrs(attrs_of(self.interner, c, n.attrs))
        try:
            return tuple(OPERATORS[c.op].infer(self._operands(n), attrs)[: c.outputs or 1])
        except REFUSALS:
            return None

    def _operands(self, n: ENode) -> list[TensorType | None]:
        types = (self.state.types.get(k) for k in n.children)
        return [None if t is None else first_type(self.interner, t) for t in types]

    def type_of(self, eclass: int) -> TensorType | None:
        """Return the type of a class that holds one tensor, if it is known."""
        key = self.state.types.get(eclass)
        if key is None:
            return None
        typed: Typed = self.interner.value(key)
        return typed.types[0] if len(typed.types) == 1 else None

    def _price(self, eclass: int, n: ENode, c: Constructor, known: tuple[bool, ...]) -> int | None:
        original = n.made_by < 0
        outs = self._results(n, c)
        if outs is None:
            return self.model(Features(blocks=1)) if original else None
        if not original and self.interner.types(outs) != self.state.types.get(eclass):
            return None
        if self.folds(eclass):
            return self.model(Features(nbytes=1))
        ins, attrs = self._operands(n), attrs_of(self.interner, c, n.attrs)
        if not original and self.allowed and not self.allowed(c.op, tuple(ins), outs, attrs):
            return None
        flops = nominal(node_flops(OPERATORS[c.op], ins, outs, frozen_attrs(attrs), known))
        return self.model(_features(c.op, flops, outs, original))
