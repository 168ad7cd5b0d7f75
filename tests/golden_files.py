"""Expected texts kept as files under tests/golden: compared, or rewritten on demand."""

from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """The expected text of one test; call it with the text that the test got."""

    path: Path
    update: bool

    def __call__(self, text: str) -> None:
        """Fail unless `text` (one closing newline aside) equals the file's content."""
        __tracebackhide__ = True
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text.rstrip("\n") + "\n")
            return
        name = self.path.relative_to(FOLDER.parent.parent)
        if not self.path.exists():
            pytest.fail(
                f"no golden text {name}: read what pytest --update-golden writes, commit it"
            )
        expected = self.path.read_text()
        assert text.rstrip("\n") + "\n" == expected, (
            f"differs from {name} (--update-golden rewrites)"
        )


def file_of(module: str, test: str) -> Path:
    """The golden file of a test: tests/golden/MODULE/TEST.txt, brackets and slashes flattened."""
    plain = "".join(c if c.isalnum() or c in "-_.+" else "_" for c in test).strip("_")
    return FOLDER / module.removeprefix("test_") / f"{plain.removeprefix('test_')}.txt"
