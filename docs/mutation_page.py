"""The part of docs/verification.md that tells how the last run of mutants went."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from egraph_fusion.rulesets.mutation import FATES, Outcome, kill_rate

FOLDER = Path(__file__).parent
RECORD = FOLDER / "mutation.json"
START = "<!-- from mutation.json -->"
END = "<!-- to here -->"
WIDTH = 104


def told(outcomes: Sequence[Outcome], available: int, seed: int) -> str:
    """Say what became of the mutants."""
    by_fate = {f: [o for o in outcomes if o.fate == f] for f in FATES}
    counts = {f: len(found) for f, found in by_fate.items()}
    errors = f", and the verifier failed on {counts['error']}" if counts["error"] else ""
    first = (
        f"Of {len(outcomes):,} mutants (seed {seed}; {available:,} can be made), "
        f"{counts['refuted']} were refuted and {counts['missed']} missed{errors}: a kill rate of "
        f"{100 * kill_rate(outcomes):.1f} %. {counts['equivalent']} were called equivalent "
        f"({_kinds(by_fate['equivalent'])}), {counts['void']} void."
    )
    missed = [_name(o) for o in (*by_fate["missed"], *by_fate["error"])]
    second = f" Missed: {', '.join(missed)}." if missed else ""
    return "\n".join(textwrap.wrap(first + second, WIDTH, break_on_hyphens=False))


def _kinds(outcomes: Iterable[Outcome]) -> str:
    """Count mutants by what was changed, the most frequent first."""
    found = Counter(o.kind for o in outcomes).most_common()
    return ", ".join(f"{kind} {n}" for kind, n in found) or "none"


def _name(o: Outcome) -> str:
    """Return the rule that was changed, and what was changed in it."""
    return f"`{o.rule.partition('~')[0]}` ({o.kind})"


def verification_page() -> str:
    """The page on verification, with what the last run of mutants gave."""
    record = json.loads(RECORD.read_text())
    outcomes = [Outcome(**o) for o in record["outcomes"]]
    page = (FOLDER / "verification.md").read_text()
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    text = told(outcomes, record["available"], record["seed"])
    return f"{before}{START}\n{text}\n{END}{after}"
