"""Both planners partition any graph into convex blocks; the paper's example is reproduced."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egraph_fusion.fusion.dnnfusion import plan_dnnfusion
from egraph_fusion.fusion.extended import plan_extended
from egraph_fusion.fusion.plan import Plan, PlanError, order_blocks
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.dims import symbol
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.ops.operator import MappingType
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.pipeline import plan

PLANNERS: dict[str, Callable[[Graph], Plan]] = {
    "extended": plan_extended,
    "dnnfusion": plan_dnnfusion,
}
SQUARE = TensorType(DType.FLOAT32, (4, 4))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Square matrices through elementwise, movement, reduction and contraction operators."""
    b = GraphBuilder("random")
    values = [b.add_input("x", SQUARE), b.add_input("y", SQUARE)]
    for _ in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from(["Add", "Mul", "Exp", "Relu", "Transpose", "Softmax", "MatMul"]))
        one, two = (draw(st.sampled_from(values)) for _ in range(2))
        match op:
            case "Transpose":
                values.append(b.op(op, one, perm=(1, 0)))
            case "Softmax":
                values.append(b.op(op, one, axis=1))
            case "Exp" | "Relu":
                values.append(b.op(op, one))
            case _:
                values.append(b.op(op, one, two))
    for v in {values[-1], draw(st.sampled_from(values[2:]))}:
        b.output(v)
    return b.build()


@settings(max_examples=60)
@given(graph=graphs(), planner=st.sampled_from(sorted(PLANNERS)))
def test_a_plan_is_a_partition_that_can_run(graph: Graph, planner: str) -> None:
    plan = PLANNERS[planner](graph)
    plan.check()
    assert len(plan.blocks) <= len(graph.nodes)
    assert plan.intermediate_bytes_after <= plan.intermediate_bytes_before


@settings(max_examples=30)
@given(graph=graphs(), planner=st.sampled_from(sorted(PLANNERS)))
def test_planning_twice_gives_the_same_text(graph: Graph, planner: str) -> None:
    assert PLANNERS[planner](graph).to_text() == PLANNERS[planner](graph).to_text()


@settings(max_examples=40)
@given(graph=graphs())
def test_two_products_share_a_block_only_around_a_softmax(graph: Graph) -> None:
    for block in plan_extended(graph).blocks:
        products = sum(n.op == "MatMul" for n in block.nodes)
        assert products <= 1 or (products == 2 and any(n.op == "Softmax" for n in block.nodes))


def figure_3() -> Graph:
    """GEMM -> Add -> Conv -> {Relu, Mul} -> Sub (DNNFusion, Figure 3)."""
    b = GraphBuilder("figure 3")
    x = b.add_input("x", TensorType(DType.FLOAT32, (1, 4, 8, 8)))
    y = b.add_input("y", TensorType(DType.FLOAT32, (1, 4, 8, 8)))
    weight = b.const(np.ones((4, 4, 1, 1), np.float32))
    g = b.op("MatMul", x, y, out="gemm")
    a = b.op("Add", g, y, out="add")
    c = b.op("Conv", a, weight, out="conv", kernel_shape=(1, 1))
    r = b.op("Relu", c, out="relu")
    m = b.op("Mul", c, y, out="mul")
    b.output(b.op("Sub", r, m, out="sub"))
    return b.build()


def test_the_literal_planner_reproduces_figure_3() -> None:
    plan = plan_dnnfusion(figure_3())
    assert [[n.op for n in b.nodes] for b in plan.blocks] == [
        ["MatMul"],
        ["Add", "Conv", "Relu", "Mul", "Sub"],
    ]
    assert plan.blocks[1].mapping_type is MappingType.MANY_TO_MANY


def test_why_not_names_the_red_cell() -> None:
    plan = plan_dnnfusion(figure_3())
    assert "Many-to-Many after Many-to-Many breaks fusion" in plan.why_not("gemm", "add")
    assert "in one block" in plan.why_not("relu", "sub")
    with pytest.raises(PlanError, match="nothing_like_it"):
        plan.why_not("nothing_like_it", "add")


def softmax_by_hand() -> Graph:
    """Softmax written as max, subtract, exponential, sum, divide."""
    b = GraphBuilder("softmax")
    x = b.add_input("x", TensorType(DType.FLOAT32, (8, 32)))
    top = b.op("ReduceMax", x, axes=(1,), keepdims=1)
    e = b.op("Exp", b.op("Sub", x, top))
    b.output(b.op("Div", e, b.op("ReduceSum", e, axes=(1,), keepdims=1)))
    return b.build()


def test_the_extended_planner_fuses_a_softmax_that_the_table_forbids() -> None:
    assert len(plan_extended(softmax_by_hand()).blocks) == 1
    assert len(plan_dnnfusion(softmax_by_hand()).blocks) > 1


def test_a_value_used_outside_its_block_stays_an_output() -> None:
    b = GraphBuilder("outputs")
    x = b.add_input("x", SQUARE)
    r = b.op("Relu", x, out="r")
    b.output(b.op("Exp", r, out="e"))
    b.output(r)
    (block,) = plan_extended(b.build()).blocks
    assert block.outputs == ("r", "e")


def test_blocks_that_need_each_other_are_refused() -> None:
    graph = figure_3()
    gemm, add, conv, relu, mul, sub = graph.nodes
    with pytest.raises(PlanError, match="cycle"):
        order_blocks(graph, [[gemm, conv], [add], [relu, mul, sub]])


def test_the_boundary_of_a_plan_must_be_complete() -> None:
    graph = figure_3()
    blocks = order_blocks(graph, [[n] for n in graph.nodes])
    with pytest.raises(PlanError, match="partition"):
        Plan(graph, blocks[:-1], "by hand").check()


def attention(*, leak: bool) -> Graph:
    """Scores, softmax, context; with `leak` the scores are also an output."""
    b = GraphBuilder("attention")
    shape = TensorType(DType.FLOAT32, (2, 8, 4))
    q, k, v = (b.add_input(name, shape) for name in "qkv")
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=(0, 2, 1)))
    b.output(b.op("MatMul", b.op("Softmax", scores, axis=-1), v))
    if leak:
        b.output(scores)
    return b.build()


def test_attention_is_one_block() -> None:
    ops = [[n.op for n in b.nodes] for b in plan_extended(attention(leak=False)).blocks]
    assert ops == [["Transpose", "MatMul", "Softmax", "MatMul"]]


def test_scores_that_somebody_reads_keep_attention_apart() -> None:
    plan = plan_extended(attention(leak=True))
    assert all(sum(n.op == "MatMul" for n in b.nodes) <= 1 for b in plan.blocks)


def test_values_read_twice_again_and_again_do_not_become_one_expression() -> None:
    b = GraphBuilder("doubling")
    value = b.add_input("x", SQUARE)
    for _ in range(40):
        value = b.op("Mul", value, value)
    b.output(value)
    assert len(plan_extended(b.build()).blocks) > 1


def test_a_long_chain_falls_into_blocks_of_bounded_depth() -> None:
    b = GraphBuilder("chain")
    value = b.add_input("x", SQUARE)
    for _ in range(300):
        value = b.op("Sin", value)
    b.output(value)
    assert all(len(block.nodes) <= 60 for block in plan_extended(b.build()).blocks)


def test_a_symbol_that_another_operand_fixes_is_planned() -> None:
    b = GraphBuilder("symbols", opset=17)
    x = b.add_input("x", TensorType(DType.FLOAT32, (symbol("rows"), symbol("features"))))
    y = b.op("Gemm", x, b.const(np.ones((12, 4), np.float32)))
    b.output(b.op("Relu", y))
    nodes = [n.op for block in plan(b.build()).blocks for n in block.nodes]
    assert nodes == ["Gemm", "Relu"]
