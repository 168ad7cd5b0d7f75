"""The loop IR: text and parser are inverse, and check refuses what must not reach the emitter."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_strategies import DTYPES, expressions

from egraph_fusion.codegen.loop_check import check
from egraph_fusion.codegen.loop_parse import parse
from egraph_fusion.codegen.loop_text import text
from egraph_fusion.codegen.loop_walk import rewrite, subexpressions, substitute
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
    Load,
    LoopKind,
    MicroKernel,
    Pointer,
    PointerTable,
    Role,
    SetPointer,
    Stmt,
    Store,
    Table,
    Var,
    call,
    dtype_of,
)
from egraph_fusion.codegen.nests import nests
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

BUFFERS = (
    Buffer("x", DType.FLOAT32, Role.IN, Var("n") * 8),
    Buffer("w", DType.FLOAT32, Role.CONST, Const(64)),
    Buffer("y", DType.FLOAT32, Role.OUT, Var("n") * 8),
)
EVERYTHING = """\
kernel everything(n, m)  # "names */ and\\nlines stay comments"
  in x: float32[n * 8]
  const w: float32[64]
  scratch s: float32[n]
  out y: float32[n * 8]
  let half = n // 2
  parallel i < half grain 4:  # "conv + relu"
    alloc tile: float32[96]
    pointers rows[6]
    unroll r < 6:
      point rows[r] = x[i * 8 + r]
    point rows[5] = zeros[0]
    call igemm[6, 2](table(rows[0]), 1, 8, pointer(w[0]), 32, pointer(tile[0]), 32, 0)
    var peak: float32 = float32(-inf)
    var total: float32 = float32(0.0)
    vector j < 8 reduce max peak, add total:
      peak = max(peak, tile[j])
      total = total + exp(tile[j] - float32(1.0))
    for k < m:
      if k < i and_else:
        y[i * 8 + k] = select(x[k] > peak, peak, cast(float32, k))
      else:
        y[(i - 1) * 8] = x[i] - (peak - total)
  y[0] = float32(-0.0)
""".replace("k < i and_else", "logical_and(k < i, k != 2)")


def kernel(*body: Stmt, sizes: tuple[str, ...] = ("n",)) -> Kernel:
    return Kernel("k", BUFFERS, sizes, body)


def test_every_statement_prints_and_parses() -> None:
    assert text(parse(EVERYTHING)) == EVERYTHING


def test_the_kernel_with_every_statement_is_well_formed() -> None:
    check(parse(EVERYTHING))


@settings(max_examples=150)
@given(st.data())
def test_expressions_print_and_parse(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    names = {"n": DType.INT64, "v": DType.FLOAT32}
    before = Let("v", Const(0.5, DType.FLOAT32))
    built = kernel(before, Let("value", data.draw(expressions(dtype, names))))
    check(built)
    assert parse(text(built)) == built


@given(st.lists(st.sampled_from(["for", "if", "vector", "unroll"]), max_size=4), st.text())
def test_nesting_and_notes_print_and_parse(shape: list[str], note: str) -> None:
    body: tuple[Stmt, ...] = (Store("y", Const(0), Const(1.0, DType.FLOAT32)),)
    for depth, word in enumerate(shape):
        if word == "if":
            body = (If(Var("n") < 3, body, body),)
        else:
            body = (For(f"i{depth}", Const(3), body, LoopKind(word), note=note),)
    built = replace(kernel(*body), note=note)
    assert parse(text(built)) == built


def test_negative_zero_and_nan_constants_are_told_apart() -> None:
    assert Const(0.0, DType.FLOAT32) != Const(-0.0, DType.FLOAT32)
    assert Const(float("nan"), DType.FLOAT32) == Const(float("-nan"), DType.FLOAT32)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "expected `kernel"),
        ("colonel k():", "line 1"),
        ("kernel k()\n  y[0] = 1 +", "line 2"),
        ("kernel k()\n  let a = b", "line 2"),
        ("kernel k()\n  let a = frobnicate(1)", "no scalar operator"),
        ("kernel k()\n      let a = 1", "indentation"),
        ("kernel k()\n  in x: float99[1]", "no element type"),
        ("kernel k()\n  let a = 'text'", "expected a number"),
        ("kernel k()\n  let a = 1; b = 2", "line 2"),
    ],
)
def test_parser_names_the_line_it_can_not_read(source: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        parse(source)


ONE = Const(1.0, DType.FLOAT32)
N = Var("n")
STORE = Store("y", Const(0), ONE)
SUM = Assign("acc", Var("acc", DType.FLOAT32) + Load("x", Var("j"), DType.FLOAT32))
ACC = Declare("acc", DType.FLOAT32, ONE)
BAD: dict[str, tuple[tuple[Stmt, ...], str]] = {
    "unknown variable": ((Let("a", Var("b")),), "not visible"),
    "variable of another dtype": ((Let("a", Var("n", DType.INT32)),), "not int32"),
    "unknown buffer": ((Let("a", Load("q", N, DType.FLOAT32)),), "not declared"),
    "buffer of another dtype": ((Let("a", Load("x", N, DType.INT8)),), "does not hold"),
    "float index": ((Let("a", Load("x", ONE, DType.FLOAT32)),), "not int64"),
    "store to an input": ((Store("x", N, ONE),), "read only"),
    "store to a constant": ((Store("w", N, ONE),), "read only"),
    "store of another dtype": ((Store("y", N, N),), "expected float32"),
    "mixed operands": ((Let("a", call("add", N, ONE)),), "share one dtype"),
    "unknown operator": ((Let("a", call("frobnicate", N)),), "unknown"),
    "wrong arity": ((Let("a", call("neg", N, N)),), "expected 1"),
    "integer exp": ((Let("a", call("exp", N)),), "FLOAT"),
    "name twice": ((Let("n", N),), "already visible"),
    "python word": ((Let("class", N),), "no usable name"),
    "word of the text form as name": ((Let("alloc", N),), "no usable name"),
    "comment as name": ((Let("a*/b", N),), "no usable name"),
    "assignment to a let": ((Let("a", N), Assign("a", N)), "not assignable"),
    "inner parallel": ((For("i", N, (For("j", N, (STORE,), LoopKind.PARALLEL),)),), "outermost"),
    "vector in vector": (
        (For("i", N, (For("j", N, (STORE,), LoopKind.VECTOR),), LoopKind.VECTOR),),
        "do not nest",
    ),
    "symbolic unroll": ((For("i", N, (STORE,), LoopKind.UNROLL),), "constant extent"),
    "reductions of a serial loop": (
        (ACC, For("j", N, (SUM,), reductions=(("acc", "add"),))),
        "only vector",
    ),
    "unlisted reduction": ((ACC, For("j", N, (SUM,), LoopKind.VECTOR)), "list it as a reduction"),
    "reduction by another operator": (
        (ACC, For("j", N, (SUM,), LoopKind.VECTOR, (("acc", "mul"),))),
        "no reduction",
    ),
    "unknown reduction": (
        (ACC, For("j", N, (SUM,), LoopKind.VECTOR, (("acc", "sub"),))),
        "expected one of",
    ),
    "reduction read inside": (
        (
            ACC,
            For(
                "j",
                N,
                (SUM, Store("y", Var("j"), Var("acc", DType.FLOAT32))),
                LoopKind.VECTOR,
                (("acc", "add"),),
            ),
        ),
        "is read inside",
    ),
    "state carried over parallel iterations": (
        (ACC, For("j", N, (SUM,), LoopKind.PARALLEL)),
        "not",
    ),
    "scratch in a vector loop": (
        (For("i", N, (Alloc("t", DType.FLOAT32, N),), LoopKind.VECTOR),),
        "no scratch",
    ),
    "micro-kernel in a vector loop": (
        (For("i", N, (MicroKernel("igemm", (6, 2), ()),), LoopKind.VECTOR),),
        "micro-kernel",
    ),
    "unknown table": ((SetPointer("rows", N, "x"),), "not declared"),
    "pointer into nothing": (
        (PointerTable("rows", 4), SetPointer("rows", N, "q")),
        "not declared",
    ),
    "operand table unknown": ((MicroKernel("igemm", (6, 2), (Table("rows"),)),), "not declared"),
    "operand pointer unknown": ((MicroKernel("igemm", (6,), (Pointer("q"),)),), "not declared"),
    "bool constant as number": ((Let("a", Const(True)),), "constant"),
    "constant out of range": ((Let("a", Const(300, DType.UINT8)),), "constant"),
    "string element": ((Alloc("t", DType.STRING, N),), "kernels compute"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_check_refuses(name: str) -> None:
    body, message = BAD[name]
    with pytest.raises(CompileError, match=message):
        check(kernel(*body))


def test_check_refuses_duplicate_buffers() -> None:
    with pytest.raises(CompileError, match="declared twice"):
        check(Kernel("k", BUFFERS + BUFFERS[:1], ("n",), (STORE,)))


def test_check_names_kernel_and_statement() -> None:
    with pytest.raises(CompileError, match=r"kernel k: for i < n: store x: .*read only"):
        check(kernel(For("i", N, (Store("x", N, ONE),))))


def test_nests_repeat_the_lets_that_read_sizes_only() -> None:
    first, second = nests(parse(EVERYTHING))
    assert [let.name for let in first.shared] == ["half"]
    assert first.parallel is not None
    assert second.parallel is None
    assert second.body == (Store("y", Const(0), Const(-0.0, DType.FLOAT32)),)


def test_substitute_replaces_variables() -> None:
    assert substitute(N * 2 + Var("m"), {"n": Const(3)}) == Const(3) * 2 + Var("m")


@given(st.data())
def test_rewriting_nothing_gives_the_same_expression(data: st.DataObject) -> None:
    expr: Expr = data.draw(expressions(DType.FLOAT32, {"n": DType.INT64}))
    assert rewrite(expr, lambda e: e) == expr
    assert dtype_of(expr) is DType.FLOAT32
    assert expr in list(subexpressions(expr))
