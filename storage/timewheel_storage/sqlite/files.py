"""What lies around the database file: the owner's lock, the high-water mark, and whether the place and file are sound.

`Files` is what a store asks for; `DiskFiles` is the real thing, `MemoryFiles` stands in for it in a simulation. None of
this is called on the event loop.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson

from timewheel.errors import JournalOwned, JournalUnsafe
from timewheel_storage.sqlite.lock import OwnerLock
from timewheel_storage.sqlite.mounts import network_type
from timewheel_storage.sqlite.reserve import Reserve
from timewheel_storage.sqlite.watched import Watched

if TYPE_CHECKING:
    from timewheel.store.port import Owner


class Mark(NamedTuple):
    """The high-water mark: at least so many commits were made to this journal, seen during this boot."""

    commits: int
    journal_id: str
    boot_id: str


class Files(Protocol):
    """The port to the file system."""

    path: str

    def guard(self) -> None:
        """Raises JournalUnsafe where SQLite's locks cannot be trusted."""

    def lock(self, owner: Owner) -> None:
        """Become the owner's process. Raises JournalOwned when another one is. The lock ends with the process."""

    def sign(self, owner: Owner, epoch: int) -> None:
        """Write the epoch into the lock's file, for people who look."""

    def unlock(self) -> None:
        """Give the lock back; harmless when it is not held."""

    def boot_id(self) -> str:
        """What tells this boot of the machine from others."""

    def read_mark(self) -> Mark | None:
        """The mark, or None when there is none that can be read."""

    def write_mark(self, mark: Mark) -> None:
        """Replace the mark. Not synced: after a power cut it may be older than the journal, never newer."""

    def watch(self) -> None:
        """Remember which files were opened."""

    def refuse_if_changed(self, *, log: bool = True) -> None:
        """Raises JournalUnavailable when a file is no longer the one that was opened. `log`: look at the -wal too."""

    def refuse_if_shorter(self) -> None:
        """Raises JournalUnavailable when a file lost a part since `note_lengths`. For the owner alone."""

    def note_lengths(self) -> None:
        """Remember how long the files are."""

    def wal_bytes(self) -> int:
        """The length of SQLite's write-ahead log."""

    def hold_reserve(self) -> bool:
        """Set some space aside, unless it is already; False when there is not enough. See `reserve`."""

    def has_reserve(self) -> bool:
        """Whether it is set aside."""

    def spend_reserve(self) -> bool:
        """Give that space back to the file system; whether there was any."""


class DiskFiles:
    """The files beside a real journal: `<path>.lock`, `<path>.mark` and `<path>.reserve`."""

    def __init__(self, path: str, *, unsafe: bool = False) -> None:
        self.path = path
        self._unsafe = unsafe
        self._lock = OwnerLock(f"{path}.lock", path)
        self._mark = f"{path}.mark"
        self._reserve = Reserve(f"{path}.reserve")
        self._watched = Watched(path)

    def guard(self) -> None:
        """See Files."""
        found = None if self._unsafe else network_type(self.path)
        if found is not None:
            raise JournalUnsafe(
                f"{self.path} lies on a file system ({found}) whose locks SQLite cannot trust: put the journal on a "
                "local disk, or append ?unsafe=1 to its URL if you know that only one machine uses it",
                path=self.path,
            )

    def lock(self, owner: Owner) -> None:
        """See Files."""
        self._lock.take(owner.wall_us)

    def sign(self, owner: Owner, epoch: int) -> None:
        """See Files."""
        self._lock.sign(owner.wall_us, epoch)

    def unlock(self) -> None:
        """See Files."""
        self._lock.release()

    def boot_id(self) -> str:
        """See Files."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""  # another system: every start counts as the same boot, which refuses more, never less

    def read_mark(self) -> Mark | None:
        """See Files."""
        try:
            with open(self._mark, "rb") as file:
                found = orjson.loads(file.read())
            return Mark(int(found["commits"]), str(found["journal"]), str(found["boot"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it is a help, not a record: after a power cut it may be torn or gone

    def write_mark(self, mark: Mark) -> None:
        """See Files."""
        content = orjson.dumps({"commits": mark.commits, "journal": mark.journal_id, "boot": mark.boot_id})
        side = f"{self._mark}.new"
        with suppress(OSError):  # it may lag
            descriptor = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, content)
            finally:
                os.close(descriptor)
            os.replace(side, self._mark)

    def watch(self) -> None:
        """See Files."""
        self._watched.watch()

    def refuse_if_changed(self, *, log: bool = True) -> None:
        """See Files."""
        self._watched.refuse_if_changed(log=log)

    def refuse_if_shorter(self) -> None:
        """See Files."""
        self._watched.refuse_if_shorter()

    def note_lengths(self) -> None:
        """See Files."""
        self._watched.note_lengths()

    def wal_bytes(self) -> int:
        """See Files."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def hold_reserve(self) -> bool:
        """See Files."""
        return self._reserve.hold()

    def has_reserve(self) -> bool:
        """See Files."""
        return self._reserve.held

    def spend_reserve(self) -> bool:
        """See Files."""
        return self._reserve.spend()


class MemoryFiles:
    """Stands in for the disk in a simulation. What survives a crash of the process is handed to the next one."""

    def __init__(self, path: str = "memory", boot: str = "boot-1", mark: Mark | None = None) -> None:
        self.path = path
        self.boot = boot
        self.mark = mark
        self.locked: Owner | None = None

    def guard(self) -> None:
        """Memory is safe."""

    def lock(self, owner: Owner) -> None:
        """See Files."""
        if self.locked is not None:
            since = {"pid": None, "host": None, "since": self.locked.wall_us}
            raise JournalOwned("another scheduler owns this journal: stop that one first", path=self.path, owner=since)
        self.locked = owner

    def sign(self, owner: Owner, epoch: int) -> None:
        """Nobody looks."""

    def unlock(self) -> None:
        """See Files."""
        self.locked = None

    def boot_id(self) -> str:
        """See Files."""
        return self.boot

    def read_mark(self) -> Mark | None:
        """See Files."""
        return self.mark

    def write_mark(self, mark: Mark) -> None:
        """See Files."""
        self.mark = mark

    def watch(self) -> None:
        """Memory stays."""

    def refuse_if_changed(self, *, log: bool = True) -> None:
        """Memory stays."""

    def refuse_if_shorter(self) -> None:
        """Memory stays."""

    def note_lengths(self) -> None:
        """Memory stays."""

    def wal_bytes(self) -> int:
        """See Files."""
        return 0

    def hold_reserve(self) -> bool:
        """Memory has no end."""
        return True

    def has_reserve(self) -> bool:
        """See Files."""
        return True

    def spend_reserve(self) -> bool:
        """See Files."""
        return False
