"""Hypothesis strategies for index expressions and loop IR kernels, and a Python reading of both."""

from collections.abc import Mapping

from hypothesis import strategies as st

from egraph_fusion.codegen.loops import Call, Cast, Const, Expr, Load, Select, Var, call, constant
from egraph_fusion.codegen.scalars import SCALARS, Class, class_of
from egraph_fusion.ir.tensors import DType

INT_OPS = ("add", "sub", "mul", "floordiv", "floormod", "min", "max")
DTYPES = (DType.BOOL, DType.INT32, DType.INT64, DType.UINT8, DType.FLOAT32, DType.FLOAT64)


def value_of(expr: Expr, values: Mapping[str, int]) -> int | bool:
    """Evaluate an integer or bool index expression exactly."""
    match expr:
        case Const(value):
            return int(value)
        case Var(name):
            return values[name]
        case Select(cond, yes, no):
            return value_of(yes if value_of(cond, values) else no, values)
        case Call(op, (left, right)):
            a, b = value_of(left, values), value_of(right, values)
            return _apply(op, a, b)
        case _:
            raise NotImplementedError(str(expr))


def _apply(op: str, a: int, b: int) -> int | bool:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b
        case "floormod":
            return a % b
        case "div":
            return int(a / b)
        case "min" | "max":
            return min(a, b) if op == "min" else max(a, b)
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "eq":
            return a == b
        case _:
            raise NotImplementedError(op)


def index_expressions(names: tuple[str, ...], depth: int = 4) -> st.SearchStrategy[Expr]:
    """Int64 expressions over `names`; divisors are positive constants or names."""
    leaf: st.SearchStrategy[Expr] = st.sampled_from(names).map(Var) | st.integers(-9, 20).map(Const)
    divisor = st.sampled_from((1, 2, 3, 4, 6, 8, 12, 24)).map(Const)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        ring = st.builds(call, st.sampled_from(("add", "sub", "mul", "min", "max")), inner, inner)
        division = st.builds(call, st.sampled_from(("floordiv", "floormod")), inner, divisor)
        guard = st.builds(call, st.sampled_from(("lt", "le", "eq")), inner, inner)
        return ring | division | division | st.builds(Select, guard, inner, inner)

    return st.recursive(leaf, grow, max_leaves=3 * depth)


@st.composite
def expressions(draw: st.DrawFn, dtype: DType, names: Mapping[str, DType], depth: int = 3) -> Expr:
    """Well-typed expressions of `dtype` over variables `names` and a buffer `x` of float32."""
    if depth == 0 or draw(st.booleans()):
        return draw(_leaves(dtype, names))
    if dtype is DType.FLOAT32 and draw(st.integers(0, 3)) == 0:
        return Load("x", draw(expressions(DType.INT64, names, depth - 1)), dtype)
    if draw(st.integers(0, 5)) == 0:
        return Cast(dtype, draw(expressions(draw(st.sampled_from(DTYPES)), names, depth - 1)))
    if draw(st.integers(0, 5)) == 0:
        cond = draw(expressions(DType.BOOL, names, depth - 1))
        sides = [draw(expressions(dtype, names, depth - 1)) for _ in range(2)]
        return Select(cond, *sides)
    op = draw(
        st.sampled_from([s for s in SCALARS.values() if _gives(s.accepts, s.predicate, dtype)])
    )
    inner = dtype if not op.predicate else _operand_dtype(op.accepts)
    return Call(op.name, tuple(draw(expressions(inner, names, depth - 1)) for _ in range(op.arity)))


def _gives(accepts: Class, predicate: bool, dtype: DType) -> bool:
    return dtype is DType.BOOL if predicate else bool(class_of(dtype) & accepts)


def _operand_dtype(accepts: Class) -> DType:
    if accepts is Class.BOOL:
        return DType.BOOL
    return DType.FLOAT32 if accepts & Class.FLOAT else DType.INT64


def _leaves(dtype: DType, names: Mapping[str, DType]) -> st.SearchStrategy[Expr]:
    known = [Var(n, d) for n, d in names.items() if d is dtype]
    constants: st.SearchStrategy[Expr] = constants_of(dtype)
    return constants | st.sampled_from(known) if known else constants


def constants_of(dtype: DType) -> st.SearchStrategy[Const]:
    """Constants of `dtype`, special values included."""
    if dtype is DType.BOOL:
        return st.booleans().map(lambda v: Const(v, DType.BOOL))
    if dtype.is_float:
        return st.floats(width=32).map(lambda v: constant(v, dtype))
    low = 0 if dtype.value.startswith("u") else -100
    return st.integers(low, 100).map(lambda v: Const(v, dtype))
