"""Tilings cover every contraction, fit registers and caches, and keep the threads busy."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion.codegen.tiling import VECTOR_REGISTERS, register_tiles, schedule_contraction

L1, L2 = 32 << 10, 512 << 10
PROBLEMS = st.fixed_dictionaries(
    {
        "m": st.integers(1, 20_000),
        "n": st.integers(1, 60_000),
        "k": st.integers(1, 5_000),
        "taps": st.sampled_from([1, 3, 9, 25, 49]),
        "threads": st.integers(1, 64),
        "vl": st.sampled_from([4, 8, 16]),
    }
)


@pytest.mark.parametrize("vl", VECTOR_REGISTERS)
def test_register_tiles_leave_room_for_a_panel_and_a_broadcast(vl: int) -> None:
    assert all(mr * nv + nv + 1 <= VECTOR_REGISTERS[vl] for mr, nv in register_tiles(vl))


@given(PROBLEMS)
def test_the_register_tile_is_one_of_the_table(problem: dict[str, int]) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    assert (tiling.mr, tiling.nv) in register_tiles(problem["vl"])


@given(PROBLEMS)
def test_blocks_are_whole_row_tiles_and_parts_of_the_reduction(problem: dict[str, int]) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    assert tiling.mc % tiling.mr == 0
    assert 1 <= tiling.kc <= problem["k"]
    assert 1 <= tiling.tc <= problem["taps"]


@given(PROBLEMS)
def test_a_reduction_is_cut_along_taps_or_along_k(problem: dict[str, int]) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    assert tiling.kc == problem["k"] or tiling.tc == 1 or problem["taps"] == 1


@given(PROBLEMS)
def test_scratch_of_a_unit_fits_in_the_second_cache(problem: dict[str, int]) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    assert tiling.mc * tiling.nv * problem["vl"] * 4 <= L2


@given(PROBLEMS)
def test_row_tiles_that_share_a_panel_share_a_part_that_stays_in_cache(
    problem: dict[str, int],
) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    part = tiling.tc * tiling.kc * tiling.nv * problem["vl"] * 4
    assert tiling.mc == tiling.mr or part <= L2


@given(PROBLEMS)
def test_units_number_blocks_times_panels(problem: dict[str, int]) -> None:
    tiling = schedule_contraction(**problem, l1=L1, l2=L2)
    panels = ceil(problem["n"] / (tiling.nv * problem["vl"]))
    blocks = ceil(problem["m"] / tiling.mc)
    expected = blocks if tiling.order == "m_outer" else blocks * panels
    assert tiling.units(problem["m"], problem["n"], problem["vl"]) == expected


@pytest.mark.parametrize(
    ("m", "n", "k", "taps"),
    [(3136, 64, 64, 9), (49, 512, 512, 9), (49, 320, 1280, 1), (128, 768, 768, 1)],
)
def test_big_contractions_give_both_threads_equal_work(m: int, n: int, k: int, taps: int) -> None:
    units = schedule_contraction(m, n, k, taps, 2, L1, L2, 16).units(m, n, 16)
    assert ceil(units / 2) * 2 <= 1.1 * units


@pytest.mark.parametrize("name", ["m", "n", "k", "taps", "threads"])
def test_an_empty_contraction_is_refused(name: str) -> None:
    sizes = {"m": 8, "n": 8, "k": 8, "taps": 1, "threads": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} = 0: expected at least 1"):
        schedule_contraction(**sizes, l1=L1, l2=L2, vl=16)
