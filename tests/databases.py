"""SQLite databases in memory for tests; those that a test opened are closed when it ends (tests/conftest.py)."""

from __future__ import annotations

import sqlite3

_opened: list[sqlite3.Connection] = []


def in_memory() -> sqlite3.Connection:
    """A new, empty database in memory, without Python's own transaction control."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _opened.append(connection)
    return connection


def close_all() -> None:
    """Close every one that is still open."""
    while _opened:
        _opened.pop().close()
