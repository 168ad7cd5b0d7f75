"""The arena: lifetimes that meet never share a byte, and little is wasted."""

from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion.codegen.memory import ALIGNMENT, Lifetime, largest_live, place

LIFETIMES = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 20), st.integers(0, 6)).map(
        lambda t: Lifetime(t[0], t[1], t[1] + t[2])
    ),
    max_size=25,
)


@given(LIFETIMES)
def test_lifetimes_that_meet_do_not_overlap_in_memory(lifetimes: list[Lifetime]) -> None:
    offsets, total = place(lifetimes)
    for i, a in enumerate(lifetimes):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.size <= total
        for j, b in enumerate(lifetimes[:i]):
            if a.first <= b.last and b.first <= a.last:
                apart = offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
                assert apart


@given(LIFETIMES)
def test_the_arena_holds_at_least_the_largest_live_set(lifetimes: list[Lifetime]) -> None:
    _, total = place(lifetimes)
    assert largest_live(lifetimes) <= total <= sum(t.size + ALIGNMENT for t in lifetimes)


def test_a_chain_needs_two_neighbours_only() -> None:
    chain = [Lifetime(64, i, i + 1) for i in range(10)]
    assert place(chain)[1] == 2 * ALIGNMENT
