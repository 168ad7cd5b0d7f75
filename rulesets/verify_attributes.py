"""Random attributes for every operator that a rule may leave open, given its operands' types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Attr
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets.verify_terms import IllTypedError

Sizes = tuple[int, ...]
Chosen = dict[str, AttrValue]
Rule = Callable[[Random, Sizes, Sequence[Sizes]], Chosen]

CASTS = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool")
NUMBERS = (0.5, 2.0, 0.25, 1.0, -0.5, -1.0, 0.0, 3.0)
"""Element types to cast to, and values of numeric attributes besides the default."""


def choose_attributes(
    rng: Random, op: str, types: Sequence[TensorType], given: Mapping[str, Any]
) -> Chosen:
    """Return attributes for `op` that mostly fit its operands; `given` ones are decided already.

    Raises IllTypedError for an operator whose attributes are not known how to choose.
    """
    shapes = [t.static_shape or () for t in types]
    x = shapes[0] if shapes else ()
    found: Chosen = CHOICES[op](rng, x, shapes) if op in CHOICES else {}
    for attr in OPERATORS[op].attrs:
        if attr.name not in found and attr.name not in given:
            value = _generic(rng, attr, x, found)
            if value is not None:
                found[attr.name] = value
    return found


def _generic(rng: Random, attr: Attr, x: Sizes, found: Chosen) -> AttrValue | None:
    rank = len(x) + (1 if attr.axis_of == "result" else 0)
    if attr.axis_of and attr.kind == "int":
        if not rank:
            raise IllTypedError("a tensor of rank 0 has no axis")
        return rng.randrange(rank)
    if attr.axis_of:
        return _some_axes(rng, rank, x)
    if attr.name in ("keepdims", "transA", "transB", "exclusive", "reverse", "select_last_index"):
        return rng.randrange(2)
    if attr.kind == "float" and isinstance(attr.default, float):
        return attr.default if rng.random() < 0.4 else rng.choice(NUMBERS)
    del found
    return attr.default


def _some_axes(rng: Random, rank: int, x: Sizes = ()) -> Sizes:
    """Return some axes, mostly those of extent 0 among them: the group is empty, not the result."""
    empty = [a for a, d in enumerate(x) if d == 0]
    return tuple(a for a in range(rank) if rng.random() < (0.75 if a in empty else 0.5))


def _transpose(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    perm = list(range(len(x)))
    if rng.random() < 0.5:
        rng.shuffle(perm)
    elif len(x) > 1:
        perm[-1], perm[-2] = perm[-2], perm[-1]
    return {"perm": tuple(perm)}


def factorised(rng: Random, size: int) -> Sizes:
    """Return a random shape with `size` elements."""
    out: list[int] = []
    rest = size
    for _ in range(rng.randrange(4)):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0] or [1]
        out.append(rng.choice(divisors))
        rest = rest // out[-1] if rest else 0
    shape = [*out, rest] if rest != 1 or rng.random() < 0.3 else out
    rng.shuffle(shape)
    return tuple(shape)


def _reshape(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    shape = x if rng.random() < 0.2 else factorised(rng, math.prod(x))
    if shape and 0 not in shape and rng.random() < 0.2:
        at = rng.randrange(len(shape))
        shape = (*shape[:at], -1, *shape[at + 1 :])
    return {"shape": shape, "allowzero": int(0 in shape)}


def _expand(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    shape = [rng.randrange(1, 4) if d == 1 and rng.random() < 0.7 else d for d in x]
    if len(shape) < 4 and rng.random() < 0.4:
        shape = [rng.randrange(1, 3), *shape]
    return {"shape": tuple(shape)}


def _tile(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"repeats": tuple(rng.choice((1, 1, 2, 0)) for _ in x)}


def _squeeze(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"axes": tuple(a for a, d in enumerate(x) if d == 1 and rng.random() < 0.7)}


def _unsqueeze(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    count = rng.randrange(3)
    return {"axes": tuple(sorted(rng.sample(range(len(x) + count), count)))}


def _flatten(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"axis": rng.randrange(len(x) + 1)}


def _slice(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    axes = _some_axes(rng, len(x)) if rng.random() < 0.8 else ()
    cuts = [_cut(rng, x[a]) for a in axes]
    starts, ends, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    return {"axes": axes, "starts": starts, "ends": ends, "steps": steps}


def _cut(rng: Random, n: int) -> tuple[int, int, int]:
    """Return start, end and step: anything, or the whole axis, forwards or backwards."""
    whole = rng.choice(((0, n, 1), (-1, -n - 1, -1), None, None))
    anywhere = rng.randrange(-n - 1, n + 1), rng.randrange(-n - 2, n + 3)
    return whole or (*anywhere, rng.choice((1, 1, 1, 2, -1)))


def _pad(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    amounts = tuple(rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * len(x)))
    if rng.random() < 0.3:
        amounts = (0,) * (2 * len(x))
    mode = rng.choice(("constant", "constant", "edge", "reflect"))
    return {"pads": amounts, "mode": mode}


def _split(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    if not x:
        raise IllTypedError("a tensor of rank 0 cannot be split")
    axis = rng.randrange(len(x))
    if rng.random() < 0.5 and x[axis] % 2 == 0:
        return {"axis": axis, "split": (x[axis] // 2,) * 2}
    first = rng.randrange(x[axis] + 1)
    return {"axis": axis, "split": (first, x[axis] - first)}


def _windows(rng: Random, rank: int) -> Chosen:
    if rng.random() < 0.25:
        return {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * (2 * rank)}
    return {
        "strides": tuple(rng.choice((1, 1, 2)) for _ in range(rank)),
        "dilations": tuple(rng.choice((1, 1, 2)) for _ in range(rank)),
        "pads": tuple(rng.choice((0, 1)) for _ in range(2 * rank)),
    }


def _conv(rng: Random, x: Sizes, shapes: Sequence[Sizes]) -> Chosen:
    w = shapes[1]
    group = x[1] // w[1] if len(x) > 2 and len(w) == len(x) and w[1] else 1
    return {"group": max(1, group), **_windows(rng, max(0, len(x) - 2))}


def _conv_transpose(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    rank = max(0, len(x) - 2)
    extra = tuple(rng.choice((0, 0, 1)) for _ in range(rank))
    return {"group": 1, "output_padding": extra, **_windows(rng, rank)}


def _pool(rng: Random, x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    rank = max(0, len(x) - 2)
    kernel = tuple(rng.randrange(1, 3) for _ in range(rank))
    return {
        "kernel_shape": kernel,
        "ceil_mode": rng.randrange(2),
        "count_include_pad": rng.randrange(2),
        **_windows(rng, rank),
    }


def _max_pool(rng: Random, x: Sizes, shapes: Sequence[Sizes]) -> Chosen:
    return {n: v for n, v in _pool(rng, x, shapes).items() if n != "count_include_pad"}


def _shift(rng: Random, _x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"direction": rng.choice(("LEFT", "RIGHT"))}


def _cast(rng: Random, _x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"to": rng.choice(CASTS)}


def _block(rng: Random, _x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"blocksize": rng.choice((1, 2))}


def _batch_norm(rng: Random, _x: Sizes, _all: Sequence[Sizes]) -> Chosen:
    return {"training_mode": 0, "epsilon": rng.choice((1e-5, 1e-3, 0.0))}


CHOICES: dict[str, Rule] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Slice": _slice,
    "Pad": _pad,
    "Split": _split,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _pool,
    "BitShift": _shift,
    "Cast": _cast,
    "DepthToSpace": _block,
    "SpaceToDepth": _block,
    "BatchNormalization": _batch_norm,
}
"""How attributes are chosen where a random value of the right kind would rarely fit."""
