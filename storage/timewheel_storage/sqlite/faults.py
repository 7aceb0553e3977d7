"""SQLite's errors and the system's as timewheel's: each message says what happened, to which file, and the way out."""

from __future__ import annotations

import errno
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from timewheel.errors import (
    JournalBusy,
    JournalCorrupt,
    JournalError,
    JournalFull,
    JournalUnavailable,
    JournalUnknown,
)
from timewheel_storage.sqlite.codes import Nonsense

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
UNAVAILABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code; SQLITE_ERROR when the error did not come from SQLite itself."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def translate(error: sqlite3.Error, path: str) -> JournalError:
    """The error to raise when nothing was written, or when a read failed."""
    code = code_of(error)
    if code in CORRUPT:
        return JournalCorrupt(
            f"{path} is damaged or is not a timewheel journal ({error}): it was left as it is; restore a backup, or "
            "move it away to begin with an empty one",
            path=path,
        )
    if code in BUSY:
        return JournalBusy(
            f"another program holds the write lock of {path} ({error}): nothing was written; end that program's "
            "transaction, then try again",
            path=path,
        )
    if code == sqlite3.SQLITE_FULL:
        return JournalFull(f"no space left for {path} ({error}): nothing was written; free some space", path=path)
    if code in UNAVAILABLE:
        return JournalUnavailable(
            f"{path} cannot be opened or written ({error}): check that it exists, its owner and its permissions",
            path=path,
        )
    if code == sqlite3.SQLITE_IOERR:
        return JournalUnavailable(f"reading {path} failed ({error}): check the disk and the system's log", path=path)
    return JournalError(f"SQLite refused a statement on {path} ({error}): nothing was written", path=path)


def in_doubt(error: sqlite3.Error | JournalCorrupt) -> bool:
    """Whether only opening the journal again can tell what is wrong with it.

    SQLite calls a database damaged when a read fails (EIO), too. Opening checks the pages, but not what stands in them.
    """
    if isinstance(error, JournalCorrupt):
        return not isinstance(error.__cause__, Nonsense)
    return code_of(error) in (sqlite3.SQLITE_IOERR, *CORRUPT) and not isinstance(error, Nonsense)


def unknown(error: sqlite3.Error | JournalCorrupt, path: str) -> JournalUnknown:
    """The error to raise when a transaction may or may not have been written."""
    return JournalUnknown(
        f"an I/O error while writing {path} ({error}): whether the last batch was written is unknown; the journal must "
        "be reopened, and what was not acknowledged tried again with the same idempotency key",
        path=path,
    )


def translate_os(error: OSError, path: str) -> JournalError:
    """An error of the system around the file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return JournalFull(f"no space left for {path} ({error}): free some space", path=path)
    if error.errno == errno.ENOENT:
        return JournalUnavailable(f"{path} cannot be created ({error}): make its folder first", path=path)
    return JournalUnavailable(
        f"{path} cannot be opened ({error}): check the path, its owner and its permissions", path=path
    )


def transaction(connection: sqlite3.Connection, path: str, work: Callable[[], T]) -> T:
    """Run `work` in one transaction. When it returns, the transaction is committed.

    An error before COMMIT is rolled back, and nothing was written. An I/O error, an error from COMMIT itself or a
    failed rollback is JournalUnknown: the connection must not be used again.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        answer = work()
    except sqlite3.Error as error:
        _roll_back(connection, path)
        if code_of(error) == sqlite3.SQLITE_IOERR:
            raise unknown(error, path) from error
        raise translate(error, path) from error
    except BaseException:
        _roll_back(connection, path)
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if code_of(error) not in (*BUSY, sqlite3.SQLITE_FULL):
            raise unknown(error, path) from error
        _roll_back(connection, path)
        raise translate(error, path) from error
    return answer


def _roll_back(connection: sqlite3.Connection, path: str) -> None:
    if not connection.in_transaction:
        return  # SQLite has done so itself, or never began
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise unknown(error, path) from error
