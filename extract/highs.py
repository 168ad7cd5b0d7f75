"""Solving an integer program with HiGHS: one thread, fixed seed, no gaps allowed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from egraph_fusion.extract.milp import Program
from egraph_fusion.extract.stdout import without_leftover

if TYPE_CHECKING:
    import highspy  # type: ignore[import-untyped]

NODE_LIMIT = 200_000
"""Branch-and-bound nodes that one solve may visit."""


@dataclass(frozen=True)
class Solved:
    """Column values of the best solution (None: none found), a lower bound, why it stopped."""

    values: list[float] | None
    bound: float | None
    stop_reason: str
    infeasible: bool = False


def solve(
    program: Program, costs: list[int], time_limit: float, node_limit: int = NODE_LIMIT
) -> Solved:
    """Minimise `costs` (integers that doubles hold exactly) over the program's rows.

    The clock (seconds) and `node_limit` end the search; only the latter is deterministic.  A known
    solution is passed neither as a start (later HiGHS releases then gave wrong answers) nor as a
    cutoff row (dense, it slowed the largest e-graph tried more than threefold).
    """
    import highspy

    solver = highspy.Highs()
    for name, value in _options(time_limit, node_limit).items():
        solver.setOptionValue(name, value)
    solver.passModel(_linear_program(program, costs))
    with without_leftover():
        solver.run()
    status, info, statuses = solver.getModelStatus(), solver.getInfo(), highspy.HighsModelStatus
    if status == statuses.kInfeasible:
        return Solved(None, None, "done", infeasible=True)
    reason = {statuses.kOptimal: "done", statuses.kTimeLimit: "time"}.get(status, "work")
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = list(solver.getSolution().col_value) if found else None
    bound = float(info.mip_dual_bound)
    return Solved(values, bound if isfinite(bound) else None, reason)


def _options(time_limit: float, node_limit: int) -> dict[str, bool | int | float]:
    return {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
        "mip_max_nodes": node_limit,
        "time_limit": max(time_limit, 0.01),
    }


def _linear_program(program: Program, costs: list[int]) -> highspy.HighsLp:
    import highspy

    rows = program.rows
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), len(rows)
    lp.col_cost_ = np.array(costs, np.float64)
    lp.col_lower_ = program.lower
    lp.col_upper_ = program.upper
    lp.row_lower_ = [low for _, low, _ in rows]
    lp.row_upper_ = [high for _, _, high in rows]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = list(accumulate((len(r[0]) for r in rows), initial=0))
    lp.a_matrix_.index_ = [column for r in rows for column in r[0]]
    lp.a_matrix_.value_ = [value for r in rows for value in r[0].values()]
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in program.integral]
    return lp
