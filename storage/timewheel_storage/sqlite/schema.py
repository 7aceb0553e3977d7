"""The journal's schema: numbered migrations, how a new file comes to be, and what is refused.

A new journal is made under a side name, initialised, synced, and linked into place, so that no crash leaves half of
one. An existing file is only read here, except by `migrate`, which the owner calls. Files are never read but through
SQLite: closing any other descriptor of a database drops the locks that SQLite holds on it in this process.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

from timewheel.errors import JournalCorrupt, JournalNewer, JournalUnavailable
from timewheel_storage.sqlite.codes import ask
from timewheel_storage.sqlite.faults import code_of, translate, translate_os

if TYPE_CHECKING:
    from typing import Literal

APPLICATION_ID = 0x74776A6C  # "twjl"
NO_HARD_LINKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}  # beside a PermissionError
OLDEST_SQLITE = (3, 38)  # the operator ->> of its JSON functions
QUICK_CHECK_BYTES = 64 * 1024 * 1024  # a larger file is not checked page by page when it is opened


@cache
def migrations() -> tuple[str, ...]:
    """The scripts in their order; `user_version` is how many of them a journal has seen."""
    folder = files("timewheel_storage.sqlite") / "migrations"
    scripts = sorted((one for one in folder.iterdir() if one.name.endswith(".sql")), key=lambda one: one.name)
    for number, script in enumerate(scripts, 1):
        if int(script.name[:4]) != number:
            raise AssertionError(f"migrations are numbered without gaps: {script.name}")
    return tuple(script.read_text(encoding="utf-8") for script in scripts)


def connect(path: str, mode: Literal["ro", "rw"], timeout_s: float = 5.0) -> sqlite3.Connection:
    """A connection to an existing file, without Python's own transaction control."""
    uri = f"file:{quote(os.path.abspath(path))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s)
    for pragma in ("mmap_size = 0", "temp_store = MEMORY", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}").close()
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a journal (or an empty database) to the newest schema; each step happens wholly or not at all."""
    (seen,) = ask(connection, "PRAGMA user_version")
    for number, script in enumerate(migrations()[seen:], seen + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\n;PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {number};COMMIT;"
            )
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def make_if_absent(path: str) -> None:
    """Make an empty journal, readable by its owner only, unless the file exists.

    Raises JournalUnavailable when it cannot be made, JournalFull when there is no space, JournalCorrupt when there was
    one: its log is still there.
    """
    if os.path.lexists(path):
        return
    if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        raise JournalCorrupt(
            f"{path} is gone, but its log {path}-wal is there, which may hold the newest jobs: put the journal back in "
            f"its place, or move {path}-wal, {path}-shm and {path}.mark away to begin with an empty one",
            path=path,
        )
    side = f"{path}.new.{os.getpid()}.{threading.get_native_id()}"
    try:
        _make(side, path)
        _put_into_place(side, path)
    except (FileNotFoundError, NotADirectoryError) as error:
        folder = os.path.dirname(path) or "."
        raise JournalUnavailable(
            f"{path} cannot be created: there is no folder {folder}; make it, or name another place",
            path=path,
        ) from error
    except OSError as error:
        error.filename, error.filename2 = path, None  # the side name means nothing to people
        raise translate_os(error, path) from error
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        for rest in (side, f"{side}-wal", f"{side}-shm", f"{side}-journal"):
            with suppress(OSError):  # what remains lies there under a name that nobody looks for
                os.unlink(rest)


def _make(side: str, path: str) -> None:
    if os.path.lexists(side):
        os.unlink(side)  # a process of the same number died here
    os.close(os.open(side, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = connect(side, "rw")
    try:
        (mode,) = ask(connection, "PRAGMA journal_mode = WAL")
        if mode != "wal":  # an error of the disk makes it stay, without a word
            raise JournalUnavailable(f"{path} cannot be kept in WAL mode here (it stays {mode})", path=path)
        migrate(connection)
        ask(connection, "PRAGMA wal_checkpoint(TRUNCATE)")  # closing would only try to
    finally:
        connection.close()
    _sync(side)


def _put_into_place(side: str, path: str) -> None:
    try:
        os.link(side, path)  # unlike a rename, this never replaces a journal that another process made meanwhile
    except FileExistsError:
        return
    except OSError as error:
        if not isinstance(error, PermissionError) and error.errno not in NO_HARD_LINKS:
            raise
        os.rename(side, path)
    _sync(os.path.dirname(os.path.abspath(path)))


def make_names_certain(path: str) -> None:
    """Sync the folder of a journal that is open for writing and so has its log; SQLite overlooks it when that fails.

    Otherwise a power cut could take the names away, and with them all that was synced under them. Raises JournalError.
    """
    try:
        _sync(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise translate_os(error, path) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_at_sight(path: str) -> None:
    """Refuse what needs no look inside: a folder, a device, a file of length zero; or an SQLite that is too old."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise JournalUnavailable(
            f"timewheel needs SQLite {needed} or newer, this Python has {sqlite3.sqlite_version}: use another build of "
            f"Python",
            path=path,
        )
    try:
        status = os.stat(path)
    except OSError as error:
        raise translate_os(error, path) from error
    refuse_if_denied(path, os.R_OK)
    if not os.path.isfile(path):
        raise JournalUnavailable(f"{path} is not a file: name the file that is to hold the journal", path=path)
    if status.st_size == 0:
        raise JournalCorrupt(
            f"{path} has length zero, so whatever it held is lost (timewheel never leaves such a file behind): restore "
            "a backup, or delete the file to begin with an empty journal",
            path=path,
        )


def refuse_if_denied(path: str, mode: int) -> None:
    """Raises JournalUnavailable, because of a PermissionError, where SQLite would only say that it cannot open.

    Asked, not tried: to close a descriptor of the file would drop the locks of every connection of this process.
    """
    if not os.access(path, mode):
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        raise translate_os(denied, path) from denied


def admit(connection: sqlite3.Connection, path: str) -> None:
    """See that this is a journal of ours that this version can read.

    Raises JournalCorrupt (not a database, another program's, damaged) or JournalNewer. Nothing of the file changes.
    """
    try:
        (application_id,) = ask(connection, "PRAGMA application_id")
        (version,) = ask(connection, "PRAGMA user_version")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    if application_id != APPLICATION_ID:
        raise JournalCorrupt(
            f"{path} is the database of another program (application_id {application_id:#x}): it was left as it is; "
            "name another file",
            path=path,
        )
    if version > len(migrations()):
        raise JournalNewer(
            f"{path} was written by a newer timewheel (schema {version}, this one knows {len(migrations())}): it was "
            "left as it is; upgrade timewheel, or restore the backup made before the upgrade",
            path=path,
        )
    _check_pages(connection, path)


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    """Check every page of a small journal, and the way down to both ends of the tables of a large one."""
    try:
        size = ask(connection, "PRAGMA page_count")[0] * ask(connection, "PRAGMA page_size")[0]
        if size <= QUICK_CHECK_BYTES:
            (verdict,) = ask(connection, "PRAGMA quick_check(1)")
        else:
            verdict = "ok"
            for table in ("jobs", "attempts", "keys", "kinds"):
                for way in ("ASC", "DESC"):
                    ask(connection, f"SELECT * FROM {table} ORDER BY 1 {way} LIMIT 1")
        ask(connection, "SELECT epoch FROM meta WHERE one = 1")
    except sqlite3.Error as error:
        if code_of(error) != sqlite3.SQLITE_ERROR:
            raise translate(error, path) from error
        verdict = str(error)  # a table or a column that is not there
    if verdict != "ok":
        raise JournalCorrupt(
            f"{path} is damaged ({verdict}): it was left as it is; restore a backup, or save what can be read with "
            "sqlite3's .recover",
            path=path,
        )
