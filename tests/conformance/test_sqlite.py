"""The conformance suite on SQLite: in a file with its two threads, and on one synchronous connection in memory."""

from tests.conformance.factories import InMemoryHooks, SqliteHooks
from timewheel.testing.conformance import StoreConformance


class TestSqliteStore(SqliteHooks, StoreConformance):
    """Every topic of the suite."""


class TestSqliteInMemory(InMemoryHooks, StoreConformance):
    """Every topic of the suite."""
