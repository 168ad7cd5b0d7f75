"""Memory that groups of processes hold: what the system would have to find if they all stayed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def machine_memory() -> int:
    """Return the bytes of memory of this machine (or of its control group, if that has less)."""
    whole = os.sysconf("SC_PHYS_PAGES") * _PAGE
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return whole
    return min(whole, int(text)) if text.isdigit() else whole


def held_by_groups(groups: Collection[int]) -> dict[int, int]:
    """Return the bytes held by all processes of each process group.

    Pages of mapped files are not counted where the system tells them apart (Linux): they can go.
    """
    return _from_proc(groups) if _PROC.is_dir() else _from_ps(groups)


def _from_proc(groups: Collection[int]) -> dict[int, int]:
    held = dict.fromkeys(groups, 0)
    for name in os.listdir(_PROC):
        if not name.isdigit():
            continue
        try:
            # The name of the program, in brackets, may hold anything.
            stat = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
            group = int(stat[2])
            if group in held:
                _, resident, shared, *_ = (_PROC / name / "statm").read_bytes().split()
                held[group] += (int(resident) - int(shared)) * _PAGE
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
    return held


def _from_ps(groups: Collection[int]) -> dict[int, int]:
    held = dict.fromkeys(groups, 0)
    done = subprocess.run(
        ["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        group, kilobytes = (int(word) for word in line.split())
        if group in held:
            held[group] += kilobytes << 10
    return held
