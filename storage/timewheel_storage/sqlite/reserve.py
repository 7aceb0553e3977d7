"""Space that is set aside on the journal's file system, so that outcomes can be recorded when there is no other.

    <db>.reserve stands         anything is written
    a batch meets a full disk   the log is written back into the database, so that it begins anew without growing, and
                                the batch tried once more. If it ends things (settlements) and begins none, the reserve
                                is given back to the file system before that
    the reserve is gone         batches that begin nothing are written as long as there is space, the log written back
                                before each; any other first sets the reserve aside again, and is refused when it
                                cannot

So what runs when a disk fills can end in the journal, and nothing new begins before there is that much space again.
The file's presence is all there is to know: after a crash the next owner goes by the same rules, and a reserve that a
power cut took is simply set aside anew. Other programs may take what was given back: it is a help, no promise.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

from timewheel.errors import JournalFull
from timewheel_storage.sqlite.faults import BUSY, code_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel_storage.sqlite.batch import Batch
    from timewheel_storage.sqlite.files import Files

RESERVE_BYTES = 1024 * 1024  # 250 pages: outcomes dirty a few each, and new ones only when rows outgrow their page
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """The file `name`. What it does when the system cannot set space aside: nothing, and everything is written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = False

    @property
    def held(self) -> bool:
        """Whether it stands, or cannot be had at all."""
        return self._held

    def hold(self) -> bool:
        """Set the space aside, unless it is already; False when there is not enough."""
        if not self._held:
            try:
                self._set_aside()
            except OSError as error:
                with suppress(OSError):
                    os.unlink(self._name)
                if error.errno in _NO_SPACE:
                    return False
            self._held = True
        return True

    def _set_aside(self) -> None:
        descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):  # not everywhere; a mere length would set nothing aside
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Give the space back to the file system; whether there was any."""
        self._held = False
        try:
            os.unlink(self._name)
        except OSError:
            return False
        return True


def write_within(files: Files, batch: Batch, connection: sqlite3.Connection, write: Callable[[], None]) -> None:
    """Write a batch as the rules of the module say. Raises JournalFull, and what `write` raises."""
    if batch.begins_something:
        if not files.hold_reserve():
            raise JournalFull(
                f"no space left for {files.path}: nothing was written; free some space (the last "
                f"{RESERVE_BYTES >> 20} MiB is kept for the outcomes of what runs)",
                path=files.path,
            )
    elif not files.has_reserve():
        _write_back(connection)  # space is dear: the log is to be used again, not to grow
    try:
        write()
    except JournalFull:
        if batch.ends_something:
            files.spend_reserve()
        _write_back(connection)
        write()


def _write_back(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
    except sqlite3.Error as error:
        if code_of(error) not in (*BUSY, sqlite3.SQLITE_FULL):
            raise
