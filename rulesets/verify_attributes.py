"""Random attributes for every operator that a rule may leave open, given its operands' types.

The registry says which values an attribute may have; what depends on the operands is drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Attr
from egraph_fusion.ir.ops.resize import CROP, MODES
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets.verify_asked import Asked, Chosen, Rule, Sizes
from egraph_fusion.rulesets.verify_terms import IllTypedError
from egraph_fusion.rulesets.verify_windows import WINDOWS

NUMBERS = (0.5, 2.0, 0.25, 1.0, -0.5, -1.0, 0.0, 3.0)
"""Values of numeric attributes besides the default."""
LETTERS = "ijklmnopqr"


def choose_attributes(
    rng: Random, op: str, types: Sequence[TensorType], given: Mapping[str, Any]
) -> Chosen:
    """Return attributes for `op` that mostly fit its operands; `given` ones are decided already.

    Raises IllTypedError for an attribute that is not known how to choose.
    """
    asked = Asked(rng, [t.static_shape or () for t in types], given)
    found: Chosen = CHOICES[op](asked) if op in CHOICES else {}
    if op in WINDOWS and "pads" in given:  # any other way to pad would not keep them
        found["auto_pad"] = "NOTSET"
    for attr in OPERATORS[op].attrs:
        if attr.name not in found and attr.name not in given and attr.name not in RESOLVED:
            found[attr.name] = _generic(asked, op, attr)
    return found


RESOLVED = ("kernel_shape", "output_shape", "end", "sizes", "scales", "roi")
"""Attributes that may be absent: the weights say it, the pads, the whole shape, or one another."""


def _generic(a: Asked, op: str, attr: Attr) -> AttrValue:
    rank = len(a.x) + (1 if attr.axis_of == "result" else 0)
    if attr.axis_of and attr.kind == "int":
        if not rank:
            raise IllTypedError("a tensor of rank 0 has no axis")
        return a.rng.randrange(rank)
    if attr.axis_of:
        return _some_axes(a.rng, rank, a.x)
    if attr.switch:
        return a.rng.randrange(2)
    if attr.values:
        return attr.values[0] if a.often(0.33) else a.rng.choice(attr.values)
    if attr.kind == "float" and isinstance(attr.default, float):
        return attr.default if a.often(0.4) else a.rng.choice(NUMBERS)
    raise IllTypedError(f"no values are known for {attr.name} of {op}")


def _some_axes(rng: Random, rank: int, x: Sizes = ()) -> Sizes:
    """Return some axes, mostly those of extent 0 among them: the group is empty, not the result."""
    empty = [a for a, d in enumerate(x) if d == 0]
    some = [a for a in range(rank) if rng.random() < (0.75 if a in empty else 0.5)]
    return _in_some_order(rng, some)


def _in_some_order(rng: Random, axes: list[int]) -> Sizes:
    """Return sorted axes, or rarely in another order."""
    if rng.random() < 0.1:
        rng.shuffle(axes)
    return tuple(axes)


def _transpose(a: Asked) -> Chosen:
    perm = list(range(len(a.x)))
    if a.often(0.5):
        a.rng.shuffle(perm)
    elif len(perm) > 1:
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


def _reshape(a: Asked) -> Chosen:
    shape = a.x if a.often(0.2) else factorised(a.rng, math.prod(a.x))
    empty = 0 in shape
    kept = [i for i, (d, n) in enumerate(zip(shape, a.x, strict=False)) if d == n]
    if kept and not empty and a.often(0.1):
        at = a.rng.choice(kept)
        return {"shape": (*shape[:at], 0, *shape[at + 1 :]), "allowzero": 0}
    if shape and not empty and a.often(0.2):
        at = a.rng.randrange(len(shape))
        shape = (*shape[:at], -1, *shape[at + 1 :])
    return {"shape": shape, "allowzero": int(empty or a.often(0.1))}


def _expand(a: Asked) -> Chosen:
    rng = a.rng
    shape = [rng.randrange(1, 4) if d == 1 and rng.random() < 0.7 else d for d in a.x]
    if len(shape) < 4 and a.often(0.4):
        shape = [rng.randrange(1, 3), *shape]
    if a.often(0.15):  # the operand may be the larger one
        shape = [1 if rng.random() < 0.5 else d for d in shape][rng.randrange(2) :]
    return {"shape": tuple(shape)}


def _tile(a: Asked) -> Chosen:
    return {"repeats": tuple(a.rng.choice((1, 1, 2, 0)) for _ in a.x)}


def _squeeze(a: Asked) -> Chosen:
    axes = [i for i, d in enumerate(a.x) if d == 1 and a.often(0.7)]
    return {"axes": _in_some_order(a.rng, axes)}


def _unsqueeze(a: Asked) -> Chosen:
    count = a.rng.randrange(3)
    axes = sorted(a.rng.sample(range(len(a.x) + count), count))
    return {"axes": _in_some_order(a.rng, axes)}


def _flatten(a: Asked) -> Chosen:
    return {"axis": a.rng.randrange(len(a.x) + 1)}


def _slice(a: Asked) -> Chosen:
    axes = a.wholes("axes", lambda: _some_axes(a.rng, len(a.x)) if a.often(0.8) else ())
    cuts = [_cut(a.rng, a.x[i]) for i in axes if -len(a.x) <= i < len(a.x)]
    starts, ends, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    return {"axes": axes, "starts": starts, "ends": ends, "steps": steps}


def _cut(rng: Random, n: int) -> tuple[int, int, int]:
    """Return start, end and step: anything, or the whole axis, forwards or backwards."""
    whole = rng.choice(((0, n, 1), (-1, -n - 1, -1), None, None))
    anywhere = rng.randrange(-n - 1, n + 1), rng.randrange(-n - 2, n + 3)
    return whole or (*anywhere, rng.choice((1, 1, 1, 2, -1)))


def _pad(a: Asked) -> Chosen:
    amounts = tuple(a.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * len(a.x)))
    return {"pads": (0,) * len(amounts) if a.often(0.3) else amounts}


def _split(a: Asked) -> Chosen:
    """Return two parts mostly, and one or more than a pattern may name."""
    if not a.x:
        raise IllTypedError("a tensor of rank 0 cannot be split")
    axis = a.whole("axis", lambda: a.rng.randrange(len(a.x)))
    extent = a.x[axis] if -len(a.x) <= axis < len(a.x) else 0
    count = a.rng.choices((2, 3, 4, 1), (8, 5, 2, 1))[0]
    if a.often(0.5) and extent % count == 0:
        return {"axis": axis, "split": (extent // count,) * count}
    stops = sorted(a.rng.randrange(extent + 1) for _ in range(count - 1))
    parts = zip([0, *stops], [*stops, extent], strict=True)
    return {"axis": axis, "split": tuple(end - start for start, end in parts)}


def _block(a: Asked) -> Chosen:
    return {"blocksize": a.rng.choice((1, 2, 2))}


def _gather_nd(a: Asked) -> Chosen:
    """Return a number of leading axes that are the same."""
    most = min(len(a.x), len(a.shapes[1])) - 1
    same = next((i for i in range(most) if a.x[i] != a.shapes[1][i]), max(0, most))
    return {"batch_dims": a.rng.randrange(same + 1)}


def _shape(a: Asked) -> Chosen:
    ends, rank = ("start", "end"), len(a.x)
    return {n: a.rng.randrange(-rank - 1, rank + 2) for n in ends if a.often(0.5)}


def _one_hot(a: Asked) -> Chosen:
    return {"depth": a.rng.randrange(1, 4)}


def _group_normalization(a: Asked) -> Chosen:
    channels = a.x[1] if len(a.x) > 1 else 1
    groups = [g for g in range(1, channels + 1) if channels % g == 0]
    return {"num_groups": a.rng.choice(groups or [1])}


def _lrn(a: Asked) -> Chosen:
    return {"size": a.rng.randrange(1, 4)}


def _axis_of_scales(a: Asked) -> Chosen:
    rank = len(a.x)
    return {"axis": a.rng.randrange(-rank, rank) if rank else 1}


def _resize(a: Asked) -> Chosen:
    found: Chosen = {"scales": tuple(a.rng.choice((1.0, 2.0, 0.5, 0.5)) for _ in a.x)}
    if a.often(0.5):
        found = {"sizes": tuple(d and a.rng.choice((d + 1, 2 * d, max(1, d - 1))) for d in a.x)}
    if a.often(0.25):
        found["coordinate_transformation_mode"] = CROP
    found["mode"] = a.rng.choice(MODES)
    found["roi"] = (0.0,) * len(a.x) + tuple(a.rng.choice((0.5, 2.0, 2.0)) for _ in a.x)
    return found


def _einsum(a: Asked) -> Chosen:
    """Return an equation in which axes of the same size may be one."""
    sizes: dict[str, int] = {}
    terms: list[str] = []
    for shape in a.shapes:
        term = ""
        for d in shape:
            alike = [c for c, n in sizes.items() if n == d and c not in term]
            fresh = LETTERS[len(sizes) % len(LETTERS)]
            letter = a.rng.choice(alike) if alike and a.often(0.7) else fresh
            sizes.setdefault(letter, d)
            term += letter
        terms.append(term)
    result = [c for c in sizes if a.often(0.6)]
    a.rng.shuffle(result)
    return {"equation": f"{','.join(terms)}->{''.join(result)}"}


CHOICES: dict[str, Rule] = {
    **WINDOWS,
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
    "DepthToSpace": _block,
    "SpaceToDepth": _block,
    "GatherND": _gather_nd,
    "Shape": _shape,
    "OneHot": _one_hot,
    "GroupNormalization": _group_normalization,
    "LRN": _lrn,
    "QuantizeLinear": _axis_of_scales,
    "DequantizeLinear": _axis_of_scales,
    "Resize": _resize,
    "Einsum": _einsum,
}
"""How attributes are chosen that depend on the operands."""
