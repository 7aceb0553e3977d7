"""Whether a journal's files are still those that were opened, and as long as they were.

SQLite does not look: it writes on into a file that was deleted, moved or cut, and every commit seems to succeed.
"""

from __future__ import annotations

import os

from timewheel.errors import JournalUnavailable


class Watched:
    """The database at `path` and its -wal."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = (path, f"{path}-wal")
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._lengths: dict[str, int] = {}

    def watch(self) -> None:
        """Remember which files were opened; their lengths are unknown again."""
        self._identities = {name: _identity(name) for name in self._names}
        self._lengths = {}

    def refuse_if_changed(self, *, log: bool) -> None:
        """Raises JournalUnavailable when a file is no longer the one that was opened. `log`: look at the -wal too."""
        for name, identity in self._identities.items():
            if identity is None or _identity(name) == identity or (name != self._path and not log):
                continue
            raise self._gone(name, "is no longer the file that was opened (deleted, moved or replaced)")

    def note_lengths(self) -> None:
        """Remember how long the files are."""
        self._lengths = {name: _length(name) for name in self._names}

    def refuse_if_shorter(self) -> None:
        """Raises JournalUnavailable when a file is shorter than it was."""
        for name, length in self._lengths.items():
            if (found := _length(name)) < length:
                raise self._gone(name, f"was cut by another program, from {length} to {found} bytes")

    def _gone(self, name: str, what: str) -> JournalUnavailable:
        message = (
            f"{name} {what}: what is written now would be lost; put the journal {self._path} back in its place and "
            "start again"
        )
        return JournalUnavailable(message, path=self._path)


def _identity(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _length(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0
