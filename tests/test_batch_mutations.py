"""Damaged files in a batch: every one gets its result, and nothing else happens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
from batch_folders import contents, half, quantised, rewritable, saved_to
from mutations import MUTATIONS, mutated
from small_models import dense, with_opaque

import egraph_fusion as ef

COUNT = 40


def originals() -> list[bytes]:
    models: list[onnx.ModelProto] = [rewritable(), half(), quantised(), dense(), with_opaque()]
    return [m.SerializeToString(deterministic=True) for m in models]


def test_mutations_are_the_same_on_every_machine_and_change_something() -> None:
    whole = originals()
    first = [mutated(whole, n) for n in range(COUNT)]
    assert first == [mutated(whole, n) for n in range(COUNT)]
    assert {name for name, _ in first} == {m.__name__ for m in MUTATIONS}
    assert sum(data in whole for _, data in first) < COUNT // 4
    assert first != [mutated(whole, n, seed=1) for n in range(COUNT)]


def test_damaged_files_are_refused_or_converted_and_nothing_else(tmp_path: Path) -> None:
    models, out = tmp_path / "models", tmp_path / "out"
    models.mkdir()
    for n in range(COUNT):
        name, data = mutated(originals(), n)
        (models / f"{n:03}_{name}.onnx").write_bytes(data)
    saved_to(models / "whole.onnx", rewritable())
    before = contents(tmp_path)
    results = list(ef.batch(models, out, jobs=2, timeout=60.0, memory="2G"))
    assert len(results) == COUNT + 1
    failures = Counter(r.failure for r in results)
    bad = [r for r in results if r.failure not in ("", "refused")]
    assert not bad, [(r.source, r.reason) for r in bad]
    assert 10 < failures["refused"] < COUNT
    assert all(r.reason for r in results if not r.ok)
    after = contents(tmp_path)
    assert {k: v for k, v in after.items() if not k.startswith("out/")} == before
    assert {p.name for p in tmp_path.iterdir()} == {"models", "out"}
