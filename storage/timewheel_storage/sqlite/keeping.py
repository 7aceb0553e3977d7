"""What an owner does beside its commits: take over, keep the high-water mark, write the log back into the file.

The mark tells of commits that were made and are gone: SQLite drops the frames after a damaged one in silence.

    mark 120, journal 117: the commits 118 to 120 are missing
    durability "power":     never the fault of a power cut: JournalTruncated
    durability "process":   after a power cut (another boot) so agreed: noted in the journal; else JournalTruncated
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import orjson

from timewheel.errors import JournalTruncated
from timewheel.model import Anchor
from timewheel.store.port import Owner, Ownership
from timewheel_storage.sqlite.codes import ask, do
from timewheel_storage.sqlite.faults import BUSY, code_of, transaction, unknown
from timewheel_storage.sqlite.files import Mark
from timewheel_storage.sqlite.reserve import RESERVE_BYTES

if TYPE_CHECKING:
    from timewheel_storage.sqlite.connection import Durability
    from timewheel_storage.sqlite.files import Files

META = "SELECT epoch, commits, journal_id, boot_id, boot_us, wall_us, steady_us FROM meta WHERE one = 1"
NEW_EPOCH = "UPDATE meta SET epoch = epoch + 1, commits = commits + 1 WHERE one = 1"
NOTE_LOSS = "INSERT INTO entries (wall_us, kind, data) VALUES (?1, 'commits_lost', ?2)"

WAL_LIMIT_BYTES = 64 * 1024 * 1024  # above it, the log is cut to length zero as soon as no reader needs it
COMMITS_A_CHECKPOINT = 100
CHECKS_A_CHECKPOINT = 30


def missing_commits(connection: sqlite3.Connection, files: Files, durability: Durability) -> tuple[int, int] | None:
    """The first and the last commit that a power cut took, as "process" allows; None when none is missing.

    Raises JournalTruncated when commits are missing that could not go.
    """
    mark = files.read_mark()  # before the journal: another process may be writing both
    commits, journal_id = ask(connection, "SELECT commits, journal_id FROM meta WHERE one = 1")
    if mark is None or mark.journal_id != journal_id or mark.commits <= commits:
        return None
    missing = (commits + 1, mark.commits)
    if durability == "process" and mark.boot_id != files.boot_id():
        return missing
    raise JournalTruncated(
        f"{files.path} lacks the commits {missing[0]} to {missing[1]}, which were made: the file or its -wal was "
        f"damaged, or an old copy was put in its place. To restore the newest backup, put it in the place of "
        f"{files.path} (its -wal and -shm moved away) and delete {files.path}.mark, which remembers commits that the "
        f"backup lacks; to go on without them, delete {files.path}.mark alone",
        path=files.path,
        missing=missing,
    )


class Keeper:
    """The owner's housekeeping. Its methods run in the writing connection's thread, and may raise SQLite's errors."""

    def __init__(self, files: Files, durability: Durability) -> None:
        self._files = files
        self._durability = durability
        self._marked = 0  # commits: when the mark was written,
        self._written_back = 0  # at the last checkpoint,
        self._seen = 0  # and at the last check
        self._checks = 0  # since the last checkpoint

    def take_over(self, connection: sqlite3.Connection, owner: Owner) -> Ownership:
        """Begin a new epoch."""
        files = self._files
        files.refuse_if_changed()
        files.hold_reserve()
        lost = missing_commits(connection, files, self._durability)

        def work() -> None:
            connection.execute(NEW_EPOCH)
            if lost is not None:
                data = orjson.dumps({"first": lost[0], "last": lost[1]}).decode()
                do(connection, NOTE_LOSS, (owner.wall_us, data))

        transaction(connection, files.path, work)
        epoch, _, _, boot_id, *clocks = ask(connection, META)
        files.sign(owner, epoch)
        files.watch()
        self.mark(connection)
        return Ownership(epoch, None if boot_id is None else Anchor(boot_id, *clocks))

    def check(self, connection: sqlite3.Connection) -> None:
        """The duties of every second. Raises JournalUnavailable when the files are not those that were opened."""
        self._files.refuse_if_changed()
        self._files.refuse_if_shorter()
        (commits,) = ask(connection, "SELECT commits FROM meta WHERE one = 1")
        self._checks += 1
        idle = commits == self._seen and commits != self._written_back
        limit = WAL_LIMIT_BYTES if self._files.has_reserve() else RESERVE_BYTES
        if idle or self._files.wal_bytes() > limit:  # without a reserve: what the log has is enough to set one aside
            self._checkpoint(connection, "TRUNCATE", commits)
        elif commits - self._written_back >= COMMITS_A_CHECKPOINT or self._checks >= CHECKS_A_CHECKPOINT:
            self._checkpoint(connection, "PASSIVE", commits)
        self._files.note_lengths()
        self._seen = commits
        self.mark(connection)

    def mark(self, connection: sqlite3.Connection) -> None:
        """Write the high-water mark, if commits were made since the last time."""
        commits, journal_id = ask(connection, "SELECT commits, journal_id FROM meta WHERE one = 1")
        if commits != self._marked:
            self._files.write_mark(Mark(commits, journal_id, self._files.boot_id()))
            self._marked = commits

    def _checkpoint(self, connection: sqlite3.Connection, kind: str, commits: int) -> None:
        """Write the log back. A reader in its way, or a full disk, only puts it off."""
        if commits == self._written_back and kind == "PASSIVE":
            return
        self._checks = 0
        try:
            connection.execute("PRAGMA busy_timeout = 0")
            if self._write_back(connection, kind):
                self._written_back = commits
        except sqlite3.Error as error:
            if code_of(error) == sqlite3.SQLITE_IOERR:
                raise unknown(error, self._files.path) from error
            if code_of(error) not in (*BUSY, sqlite3.SQLITE_FULL):
                raise
        finally:
            self._files.hold_reserve()  # at once, before others take the space
            connection.execute("PRAGMA busy_timeout = 5000")

    def _write_back(self, connection: sqlite3.Connection, kind: str) -> bool:
        """Whether it was done. A long log can fill a small disk, and only the reserve lets the database grow then."""
        try:
            (busy, *_) = ask(connection, f"PRAGMA wal_checkpoint({kind})")
        except sqlite3.Error as error:
            if code_of(error) != sqlite3.SQLITE_FULL or not self._files.spend_reserve():
                raise
            (busy, *_) = ask(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy
