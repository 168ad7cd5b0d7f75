"""Archives of a batch, each unpacked once, when the first of its models is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

from egraph_fusion.convert.batch.archives import BYTES, unpack, unpacked_path
from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.convert.batch.sources import Item

SHARE = 0.8
"""Of the free disk space that one archive may take."""


class Unpacked:
    """Where the members of archives lie, below `folder`."""

    def __init__(self, folder: Path) -> None:
        """Unpack nothing yet."""
        self.folder = folder
        self._done: dict[str, tuple[Path, FileState] | Exception] = {}

    def file_of(self, item: Item) -> Path:
        """Return the model file of an item; ArchiveError or OSError if its archive is unusable."""
        if not item.member:
            return Path(item.file)
        return unpacked_path(self._entry(item.file)[0], item.member)

    def state_of(self, archive: str) -> FileState:
        """Return the state of an archive before it was unpacked; errors as `file_of`."""
        return self._entry(archive)[1]

    def _entry(self, archive: str) -> tuple[Path, FileState]:
        if archive not in self._done:
            try:
                self._done[archive] = self._unpacked(archive)
            except Exception as error:  # of all its members
                self._done[archive] = error
        found = self._done[archive]
        if isinstance(found, Exception):
            raise found
        return found

    def _unpacked(self, archive: str) -> tuple[Path, FileState]:
        folder = self.folder / str(len(self._done))
        folder.mkdir(parents=True)
        state = FileState.of(archive)
        try:
            unpack(Path(archive), folder, min(BYTES, int(shutil.disk_usage(folder).free * SHARE)))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, state
