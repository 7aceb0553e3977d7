"""The journal as one SQLite file: `open_sqlite(path)`, and `verify(path)` to audit a file that nobody has open."""

from timewheel_storage.sqlite.audit import verify
from timewheel_storage.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite", "verify"]
