"""Matrix products and einsum: sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, product
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Kind,
    Law,
    MappingType,
    Operator,
    fixed_mapping,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    integer,
    known_shape,
    must_broadcast_into,
    number,
    present,
    same_dtype,
)
from egraph_fusion.ir.ops.scalars_numpy import accumulator
from egraph_fusion.ir.tensors import TensorType, broadcast

MANY = fixed_mapping(MappingType.MANY_TO_MANY)


def agree(a: Dim, b: Dim, what: str) -> Dim:
    """Return the common value of two dims; TypeRuleError if both are known and differ."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise TypeRuleError(f"{what}: {a} and {b} differ")
    return a if isinstance(a, int) else b


def matmul_shape(a: Shape, b: Shape) -> Shape | None:
    """Return the shape of a numpy matmul; None if the batch dims do not decide it.

    Raises TypeRuleError for scalars, and for inner or batch dims that are known to differ.
    """
    if not a or not b:
        raise TypeRuleError("MatMul: a scalar operand")
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    agree(left[-1], right[-2], "MatMul: inner dimensions")
    batch = broadcast(left[:-2], right[:-2])
    if batch is None:
        _refuse_known_clash(left[:-2], right[:-2])
        return None
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


def _refuse_known_clash(a: Shape, b: Shape) -> None:
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if isinstance(x, int) and isinstance(y, int) and x != y and 1 not in (x, y):
            raise TypeRuleError(f"MatMul: batch dimensions {a} and {b} do not broadcast")


def _matmul_infer(types: Types, _attrs: Attrs) -> tuple[TensorType, ...]:
    dtype = same_dtype(types)
    a, b = known_shape(types, 0), known_shape(types, 1)
    return (TensorType(dtype, None if a is None or b is None else matmul_shape(a, b)),)


def _matmul_flops(ins: Types, outs: Sequence[TensorType], _attrs: Attrs) -> Dim:
    a, size = known_shape(ins, 0), outs[0].size
    return 0 if not a or size is None else 2 * size * a[-1]


def widened(values: Sequence[Array | None]) -> list[Array]:
    """Return the present operands in the dtype that contractions accumulate in."""
    return [v.astype(accumulator(v.dtype)) for v in values if v is not None]


def _matmul(values: Sequence[Array | None], _attrs: Attrs) -> tuple[Array, ...]:
    a, b = widened(values)
    dtype = next(v.dtype for v in values if v is not None)
    with np.errstate(all="ignore"):
        return (np.asarray(np.matmul(a, b)).astype(dtype),)


register(
    Operator(
        name="MatMul",
        kind=Kind.CONTRACTION,
        arity=(2, 2),
        infer=_matmul_infer,
        evaluate=_matmul,
        mapping=MANY,
        flops=_matmul_flops,
        laws=Law.INTEGER_PRESERVING,
    )
)


def _gemm_sizes(types: Types, attrs: Attrs) -> tuple[Dim, Dim, Dim] | None:
    """Return rows, columns and depth of a Gemm."""
    a, b = known_shape(types, 0), known_shape(types, 1)
    if a is None or b is None:
        return None
    if len(a) != 2 or len(b) != 2:
        raise TypeRuleError(f"Gemm: operands must be matrices, not of rank {len(a)} and {len(b)}")
    rows, depth = reversed(a) if integer(attrs, "transA") else a
    inner, columns = reversed(b) if integer(attrs, "transB") else b
    return rows, columns, agree(depth, inner, "Gemm: inner dimensions")


def _gemm_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    dtype, sizes = same_dtype(types), _gemm_sizes(types, attrs)
    if sizes is None:
        return (TensorType(dtype, None),)
    rows, columns, _ = sizes
    must_broadcast_into("Gemm", known_shape(types, 2), (rows, columns))
    return (TensorType(dtype, (rows, columns)),)


def _gemm_flops(ins: Types, _outs: Sequence[TensorType], attrs: Attrs) -> Dim:
    sizes = _gemm_sizes(ins, attrs)
    if sizes is None:
        return 0
    rows, columns, depth = sizes
    has_bias = len(ins) > 2 and ins[2] is not None
    extra = int(number(attrs, "alpha") != 1.0) + int(has_bias)
    scaled: Dim = 0
    if has_bias and number(attrs, "beta") != 1.0:
        scaled = product(known_shape(ins, 2) or ())
    return rows * columns * depth * 2 + rows * columns * extra + scaled


def _gemm(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    a, b, *bias = widened(values)
    dtype = next(v.dtype for v in values if v is not None)
    with np.errstate(all="ignore"):
        out = (a.T if attrs["transA"] else a) @ (b.T if attrs["transB"] else b)
        alpha, beta = number(attrs, "alpha"), number(attrs, "beta")
        out = out if alpha == 1.0 else out * out.dtype.type(alpha)
        for c in bias:
            out = out + (c if beta == 1.0 else c * c.dtype.type(beta))
    return (np.asarray(out).astype(dtype),)


register(
    Operator(
        name="Gemm",
        kind=Kind.CONTRACTION,
        arity=(2, 3),
        laws=Law.INTEGER_PRESERVING,
        infer=_gemm_infer,
        evaluate=_gemm,
        mapping=MANY,
        flops=_gemm_flops,
        attrs=(
            Attr("alpha", "float", 1.0),
            Attr("beta", "float", 1.0),
            switch("transA"),
            switch("transB"),
        ),
        keeps_rank=True,
    )
)


def einsum_terms(equation: str, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """Return operand and result subscripts with the ellipsis spelt out in digits-free letters.

    Raises TypeRuleError if the equation does not fit the operands' ranks.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(ranks):
        raise TypeRuleError(f"Einsum: {equation!r} has {len(operands)} terms, not {len(ranks)}")
    used = {c for c in equation if c.isalpha()}
    spare = [c for c in _LETTERS if c not in used]
    wide = 0
    for term, rank in zip(operands, ranks, strict=True):
        named = len(term.replace("...", ""))
        if named > rank or ("..." not in term and named != rank):
            raise TypeRuleError(f"Einsum: term {term!r} does not fit an operand of rank {rank}")
        wide = max(wide, rank - named)
    expanded: list[str] = []
    for term, rank in zip(operands, ranks, strict=True):
        missing = rank - len(term.replace("...", ""))
        expanded.append(term.replace("...", "".join(spare[wide - missing : wide])))
    if arrow:
        return tuple(expanded), right.replace("...", "".join(spare[:wide]))
    letters = "".join(operands).replace(".", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return tuple(expanded), "".join(spare[:wide]) + once


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _einsum_sizes(types: Types, attrs: Attrs) -> tuple[dict[str, Dim], str, int] | None:
    """Return the size of each subscript, the result's subscripts and the number of operands."""
    shapes = [t.shape for t in present(types)]
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    operands, result = einsum_terms(str(attrs["equation"]), [len(s) for s in known])
    sizes: dict[str, Dim] = {}
    for term, shape in zip(operands, known, strict=True):
        for letter, d in zip(term, shape, strict=True):
            seen = sizes.get(letter, 1)
            sizes[letter] = d if seen == 1 else seen if d == 1 else agree(seen, d, "Einsum: sizes")
    if any(c not in sizes for c in result):
        raise TypeRuleError(f"Einsum: {attrs['equation']!r} has a result axis that no term has")
    return sizes, result, len(known)


def _einsum_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    dtype, found = same_dtype(types), _einsum_sizes(types, attrs)
    if found is None:
        return (TensorType(dtype, None),)
    sizes, result, _ = found
    return (TensorType(dtype, tuple(sizes[c] for c in result)),)


def _einsum_flops(ins: Types, outs: Sequence[TensorType], attrs: Attrs) -> Dim:
    """Two per multiply-add; without a summed axis only the multiplications."""
    found = _einsum_sizes(ins, attrs)
    if found is None:
        return 0
    sizes, result, operands = found
    terms = product(sizes.values())
    if set(sizes) == set(result):
        return terms * (operands - 1)
    return terms * operands if operands > 1 else terms - (outs[0].size or 0)


def _einsum(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    operands: list[Any] = widened(values)
    dtype = next(v.dtype for v in values if v is not None)
    with np.errstate(all="ignore"):
        out = np.einsum(str(attrs["equation"]), *operands, optimize=len(operands) > 2)
    return (np.asarray(out).astype(dtype),)


register(
    Operator(
        name="Einsum",
        kind=Kind.CONTRACTION,
        arity=(1, None),
        infer=_einsum_infer,
        evaluate=_einsum,
        mapping=MANY,
        flops=_einsum_flops,
        attrs=(Attr("equation", "str"),),
        laws=Law.INTEGER_PRESERVING,
    )
)
