"""Random environments in which the left side of a rule is well typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rule_meaning import Environment, attributes_of, evaluate, holds

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.ir.graph import Array, AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Apply, Attribute, Output, Pattern, Tensor, walk
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import takes

Dims = tuple[int, ...]
Place = tuple[str, int, tuple[Dims, ...]]
"""An operator, an operand's position, and the shapes of the operands before it."""
DTYPES = {"uint": np.dtype(np.uint64), "int": np.dtype(np.int64), "bool": np.dtype(np.bool_)}
ATTEMPTS = 200


class Sampler:
    """Draws environments for one rule from one random generator."""

    def __init__(self, rng: np.random.Generator, dtype: np.dtype[np.generic] | None = None) -> None:
        self.rng = rng
        self.wanted = dtype

    def environment(self, r: Rule) -> Environment | None:
        """Return an environment in which `r.lhs` has a value and the guards hold.

        None if `ATTEMPTS` draws gave none.
        """
        for _ in range(ATTEMPTS):
            try:
                env = _Draw(self.rng, r, self.wanted).environment()
                if all(holds(g, env) for g in r.when):
                    return env
            except (EgraphFusionError, IndexError, ValueError, TypeError, ZeroDivisionError):
                continue
        return None


def guarded(r: Rule, name: str, drawn: Array) -> Array:
    """Return the value of a variable with the guards on it kept that random numbers rarely meet."""
    integer = any(g.name == "integer" and g.args == (Tensor(name),) for g in r.when)
    return np.rint(drawn) if integer and drawn.dtype.kind == "f" else drawn


class _Draw:
    """One attempt: variables are bound where they are first met, to fit their operator."""

    def __init__(
        self, rng: np.random.Generator, r: Rule, dtype: np.dtype[np.generic] | None
    ) -> None:
        self.rng = rng
        self.rule = r
        self.tensors: dict[str, Array] = {}
        self.attrs: dict[str, AttrValue] = {}
        self.rests: dict[str, dict[str, AttrValue]] = {}
        casts = any(isinstance(p, Apply) and p.op == "Cast" for p in walk(r.lhs))
        usual = np.dtype(np.float32 if casts else np.float64)
        if r.dtypes == "any":
            usual = next(d for d in (usual, *DTYPES.values()) if takes(r.lhs, DType.of(d)))
        self.dtype = dtype or DTYPES.get(r.dtypes, usual)
        self.base = self._shape(int(rng.integers(0, 5)))
        self.positive = bool(rng.random() < 0.6)

    def environment(self) -> Environment:
        self._bind(self.rule.lhs, None)
        evaluate(self.rule.lhs, self.env)
        return self.env

    @property
    def env(self) -> Environment:
        return Environment(self.tensors, self.attrs, self.rests, self.dtype)

    def _bind(self, p: Pattern, inside: Place | None) -> None:
        """Bind the variables of `p`, an operand at `inside`: elementwise terms pass that on."""
        if isinstance(p, Output):
            self._bind(p.of, None)
        if not isinstance(p, Apply):
            return
        shapes: list[Dims] = []
        for i, a in enumerate(p.args):
            elementwise = OPERATORS[p.op].kind is Kind.ELEMENTWISE
            place = inside if inside and elementwise and i == 0 else (p.op, i, tuple(shapes))
            if isinstance(a, Tensor) and a.name not in self.tensors:
                self.tensors[a.name] = guarded(self.rule, a.name, self._tensor(*place))
            self._bind(a, place)
            shapes.append(evaluate(a, self.env).shape)
        self._attributes(p, shapes)

    def _attributes(self, p: Apply, shapes: Sequence[Dims]) -> None:
        for name, term in p.attrs:
            if isinstance(term, Attribute) and term.name not in self.attrs:
                self.attrs[term.name] = self._attribute(p.op, name, shapes)
        if p.rest is None or p.rest.name in self.rests:
            return
        given = {n for n, _ in p.attrs}
        free = [a.name for a in OPERATORS[p.op].attrs if a.name not in given]
        drawn = {n: SAMPLES[p.op, n](self.rng, shapes) for n in free if (p.op, n) in SAMPLES}
        types = types_of([evaluate(a, self.env) for a in p.args])
        known = {**drawn, **attributes_of(p, self.env)}
        full = normalized(OPERATORS[p.op], types, known)
        self.rests[p.rest.name] = {n: v for n, v in full.items() if n not in given}

    def _attribute(self, op: str, name: str, shapes: Sequence[Dims]) -> AttrValue:
        found = SAMPLES.get((op, name)) or SAMPLES.get(("", name))
        if found is None:
            default = OPERATORS[op].attr(name).default
            if default is None:
                raise EgraphFusionError(f"no sample for {op}.{name}")
            return default
        return found(self.rng, shapes)

    def _tensor(self, op: str, index: int, shapes: Sequence[Dims]) -> Array:
        if (op, index) == ("Where", 0):
            return self.rng.random(self._near_base()) < 0.5
        if (op, index) == ("Gather", 1):
            limit = max(1, min(shapes[0], default=1))
            return self.rng.integers(0, limit, self._shape(int(self.rng.integers(0, 3))))
        return self._values(self._fitting(op, index, shapes))

    def _fitting(self, op: str, index: int, shapes: Sequence[Dims]) -> Dims:
        if op == "MatMul" and index == 1 and shapes[0]:
            batch = shapes[0][:-2] if self.rng.random() < 0.5 else ()
            return (*batch, shapes[0][-1], self._dim())
        if op == "MatMul":
            return self._shape(int(self.rng.integers(1, 4)))
        if op == "Gemm":
            return self._gemm(index, shapes)
        if op == "Clip" and index:
            return ()
        if op in ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"):
            return self._window(index, shapes)
        if op == "ConvTranspose":
            return (shapes[1][1],) if index == 2 else self._window(index, shapes, turned=True)
        if op == "BatchNormalization":
            rank = int(self.rng.integers(2, 5))
            return (shapes[0][1],) if index else tuple(self._dim() + 1 for _ in range(rank))
        if shapes and self.rng.random() < 0.4:
            return tuple(d if self.rng.random() < 0.6 else 1 for d in shapes[0])
        return self._near_base()

    def _gemm(self, index: int, shapes: Sequence[Dims]) -> Dims:
        side = 2
        if index == 0:
            return (side, side)
        return (side, side) if index == 1 else ((side,) if self.rng.random() < 0.7 else (1,))

    def _window(self, index: int, shapes: Sequence[Dims], turned: bool = False) -> Dims:
        if index == 0:
            rank = int(self.rng.integers(1, 3))
            return (self._dim(), int(self.rng.integers(1, 3)), *(3 for _ in range(rank)))
        if index == 1:
            most = 2 if self.rng.random() < 0.4 else 3
            kernel = (int(self.rng.integers(1, most)) for _ in shapes[0][2:])
            channels = int(self.rng.integers(1, 4)), shapes[0][1]
            return (*(channels[::-1] if turned else channels), *kernel)
        return (shapes[1][0],)

    def _near_base(self) -> Dims:
        """The base shape, some dimensions 1 or leading ones missing, or rank 0."""
        kind = self.rng.random()
        if kind < 0.45:
            return self.base
        if kind < 0.65:
            return tuple(d if self.rng.random() < 0.5 else 1 for d in self.base)
        if kind < 0.85:
            return self.base[int(self.rng.integers(0, len(self.base) + 1)) :]
        return () if kind < 0.95 else self._shape(int(self.rng.integers(0, 4)))

    def _shape(self, rank: int) -> Dims:
        return tuple(self._dim() for _ in range(rank))

    def _dim(self) -> int:
        return int(self.rng.choice([0, 1, 2, 3], p=[0.04, 0.26, 0.4, 0.3]))

    def _values(self, shape: Dims) -> Array:
        if self.dtype == np.bool_:
            return self.rng.random(shape) < 0.5
        if self.dtype.kind in "iu":
            return self.rng.integers(0, 5, shape).astype(self.dtype)
        values = self.rng.normal(size=shape) * 1.5
        if self.positive:
            values = np.abs(values) + 0.1
        elif self.rng.random() < 0.3:
            values = np.where(self.rng.random(shape) < 0.3, 0.0, values)
        return np.asarray(values, self.dtype)


Sample = Callable[[np.random.Generator, Sequence[Dims]], AttrValue]


def _axes(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(a for a in range(len(shapes[0])) if rng.random() < 0.5)


def _new_axes(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(a for a in range(len(shapes[0]) + 1) if rng.random() < 0.3)


def _unit_axes(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(a for a, d in enumerate(shapes[0]) if d == 1)


def _axis(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return int(rng.integers(0, len(shapes[0])))


def _keepdims(rng: np.random.Generator, _shapes: Sequence[Dims]) -> AttrValue:
    return int(rng.integers(0, 2))


def _perm(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    n = len(shapes[0])
    if n > 1 and rng.random() < 0.5:
        return (*range(n - 2), n - 1, n - 2)
    return tuple(int(i) for i in rng.permutation(n))


def _new_shape(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    choices = [(-1,), tuple(reversed(shapes[0])), (1, *shapes[0]), (-1, 1)]
    return choices[int(rng.integers(0, len(choices)))]


def _wider(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    wide = tuple(3 if d == 1 and rng.random() < 0.7 else d for d in shapes[0])
    return (2, *wide) if rng.random() < 0.4 else wide


def _repeats(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(int(rng.integers(1, 3)) for _ in shapes[0])


def _zeros(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(0 for _ in shapes[0])


def _ends(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(max(d - int(rng.integers(0, 2)), 0) for d in shapes[0])


def _all_axes(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(range(len(shapes[0])))


def _ones(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(1 for _ in shapes[0])


def _pads(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    """None, or some around all axes but the first two."""
    rank, most = len(shapes[0]), 1 if rng.random() < 0.3 else 3
    side = [0 if n < 2 else int(rng.integers(0, most)) for n in range(rank)]
    return (*side, *(s and int(rng.integers(0, most)) for s in side))


def _window_pads(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    most = 1 if rng.random() < 0.4 else 2
    return tuple(int(rng.integers(0, most)) for _ in range(2 * (len(shapes[0]) - 2)))


def _strides(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(1 for _ in shapes[0][2:])


def _dilations(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(int(rng.integers(1, 3)) for _ in shapes[0][2:])


def _kernel(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return tuple(2 for _ in shapes[0][2:])


def _flag(rng: np.random.Generator, _shapes: Sequence[Dims]) -> AttrValue:
    return int(rng.integers(0, 2))


def _dtype(rng: np.random.Generator, _shapes: Sequence[Dims]) -> AttrValue:
    return ("float16", "float32", "float64", "int32")[int(rng.integers(0, 4))]


def _direction(rng: np.random.Generator, _shapes: Sequence[Dims]) -> AttrValue:
    return ("LEFT", "RIGHT")[int(rng.integers(0, 2))]


def _epsilon(_rng: np.random.Generator, _shapes: Sequence[Dims]) -> AttrValue:
    return 1e-3


def _first_axis(_rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    return 0


def _parts(rng: np.random.Generator, shapes: Sequence[Dims]) -> AttrValue:
    """Sizes along the first axis: one part in all, or two."""
    size = shapes[0][0]
    first = int(rng.integers(0, size + 1))
    return (size,) if rng.random() < 0.6 else (first, size - first)


SAMPLES: dict[tuple[str, str], Sample] = {
    ("", "axes"): _axes,
    ("", "axis"): _axis,
    ("", "keepdims"): _keepdims,
    ("", "perm"): _perm,
    ("Transpose", "perm"): _perm,
    ("Reshape", "shape"): _new_shape,
    ("Expand", "shape"): _wider,
    ("Tile", "repeats"): _repeats,
    ("Squeeze", "axes"): _unit_axes,
    ("Unsqueeze", "axes"): _new_axes,
    ("Slice", "starts"): _zeros,
    ("Slice", "ends"): _ends,
    ("Slice", "axes"): _all_axes,
    ("Slice", "steps"): _ones,
    ("Pad", "pads"): _pads,
    ("Concat", "axis"): _axis,
    ("Gather", "axis"): _axis,
    ("Split", "axis"): _first_axis,
    ("Split", "split"): _parts,
    ("Conv", "pads"): _window_pads,
    ("Conv", "dilations"): _dilations,
    ("Conv", "strides"): _strides,
    ("MaxPool", "kernel_shape"): _kernel,
    ("AveragePool", "kernel_shape"): _kernel,
    ("MaxPool", "pads"): _window_pads,
    ("AveragePool", "pads"): _window_pads,
    ("AveragePool", "count_include_pad"): _flag,
    ("Gemm", "transA"): _flag,
    ("Gemm", "transB"): _flag,
    ("Cast", "to"): _dtype,
    ("BitShift", "direction"): _direction,
    ("CumSum", "axis"): _axis,
    ("BatchNormalization", "epsilon"): _epsilon,
}
