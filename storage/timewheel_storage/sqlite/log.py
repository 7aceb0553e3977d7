"""SQLite's write-ahead log after a failed sync: made certain before anything is built upon it.

A sync that fails may leave a hole in the log that nobody can see: the system goes on to show what it could not write,
takes it for written, and the next sync succeeds. At a power cut whatever came after the hole would be gone, and a
database that the log was being written back into would be a mixture of old and new pages. To write the same bytes over
themselves makes the system write them once more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from timewheel_storage.sqlite.faults import translate_os

if TYPE_CHECKING:
    import sqlite3

CHUNK_BYTES = 1024 * 1024


def make_certain(connection: sqlite3.Connection, path: str) -> None:
    """Write the log over itself and sync it. After a crash meanwhile it is as it was, or more of it is certain.

    Takes the write lock, so that nobody adds to the log or begins it anew. Raises SQLite's errors and JournalError.
    """
    log = f"{path}-wal"
    if not os.path.exists(log) or not os.path.getsize(log):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        _rewrite(log)
    except OSError as error:
        raise translate_os(error, path) from error
    finally:
        connection.execute("ROLLBACK")


def _rewrite(log: str) -> None:
    descriptor = os.open(log, os.O_RDWR | os.O_CLOEXEC)  # SQLite locks nothing on this file that closing could drop
    try:
        place = 0
        while chunk := os.pread(descriptor, CHUNK_BYTES, place):
            written = 0
            while written < len(chunk):
                written += os.pwrite(descriptor, chunk[written:], place + written)
            place += len(chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
