"""Many programs built with few compiler calls: equal kernels once, one library for a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

from egraph_fusion.codegen import build
from egraph_fusion.codegen.native import NativeText, Segment
from egraph_fusion.errors import CompileError
from egraph_fusion.runtime.assemble import Assembly
from egraph_fusion.runtime.machine import needed_features, vector_floats
from egraph_fusion.runtime.program import NativeStep, Program

GROUP = 48
"""Programs in one library: enough to share the compiler's start, few enough to start early."""

UNIT_KERNELS = 24
"""Kernels in one translation unit; a unit costs a compiler's start and the common prelude."""

Built = Program | CompileError


def build_many(
    assemblies: Iterable[Assembly],
    march: str | None = None,
    flags: Sequence[str] = (),
    jobs: int = 2,
    group: int = GROUP,
) -> list[Built]:
    """Build C programs, `group` of them to a library, with up to `jobs` compilers at a time.

    `assemblies` may be a generator: compilers run while it makes the next group.  `flags` come
    after the usual ones ("-O1" where compile time matters more than speed).  An assembly that the
    compiler refuses gives its CompileError, the others their programs, in order.
    """
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures: list[Future[list[Built]]] = [
            pool.submit(_group, members, march, tuple(flags))
            for members in _grouped(assemblies, max(1, group))
        ]
        return [program for future in futures for program in future.result()]


def merged(texts: Sequence[NativeText]) -> tuple[NativeText, list[dict[str, str]]]:
    """Return one text of all kernels and segments, and each text's new names of its segments."""
    kernels = {k.name: k for text in texts for k in text.kernels}
    segments: list[Segment] = []
    renamed: list[dict[str, str]] = []
    for number, text in enumerate(texts):
        names = {s.entry: f"{s.entry}_of_{number}" for s in text.segments}
        segments += [Segment(names[s.entry], s.launches) for s in text.segments]
        renamed.append(names)
    return NativeText(tuple(kernels.values()), tuple(segments)), renamed


def _grouped(assemblies: Iterable[Assembly], size: int) -> Iterator[list[Assembly]]:
    left = iter(assemblies)
    while members := list(islice(left, size)):
        yield members


def _group(members: Sequence[Assembly], march: str | None, flags: tuple[str, ...]) -> list[Built]:
    try:
        return list(_together(members, march, flags))
    except CompileError as error:
        if len(members) == 1:
            return [error]
    # Halves, so that one bad kernel costs few compiler calls.
    middle = len(members) // 2
    return [p for half in (members[:middle], members[middle:]) for p in _group(half, march, flags)]


def _together(
    members: Sequence[Assembly], march: str | None, flags: tuple[str, ...]
) -> list[Program]:
    text, renamed = merged([m.text for m in members])
    sources = text.c_units(vector_floats(march), UNIT_KERNELS)
    units = [build.Unit(n, s, ("-ffp-contract=off", *flags)) for n, s in sources]
    library = build.shared_library(units, march, jobs=1).read_bytes()
    features = needed_features(march)
    return [
        replace(
            member.program,
            steps=tuple(
                replace(s, entry=names[s.entry]) if isinstance(s, NativeStep) else s
                for s in member.program.steps
            ),
            scratch_bytes=member.text.scratch_bytes(),
            sources=sources,
            library=library,
            features=features,
        )
        for member, names in zip(members, renamed, strict=True)
    ]
