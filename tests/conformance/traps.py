"""A writing connection that fails, or whose process dies, at its k-th statement."""

import sqlite3
from typing import NamedTuple


class Died(Exception):
    """Stands for the death of the process: nothing that happens after it counts."""


class Fault(NamedTuple):
    """What befalls the `number`-th statement (from 1; 0: the one that commits), instead of it or once it is done.

    `code` is the result code of SQLite's error; None: the process dies.
    """

    number: int
    after: bool = False
    code: int | None = None


class Trap:
    """What a store's statements pass through; harmless until it is `set`."""

    def __init__(self):
        self._fault = None
        self._look = None
        self._number = 0
        self.sprung = None  # the statement that was struck
        self.committed = False  # whether a transaction was committed since it was set
        self.image = None  # what the next process finds when this one dies at the strike

    def set(self, fault, look=None):
        """`look(connection)` tells what the disk holds; None when it cannot tell while a transaction is open."""
        self._fault, self._look, self._number = fault, look, 0
        self.sprung = self.image = None
        self.committed = False

    def clear(self):
        """Whatever was set does not happen any more."""
        self._fault = None

    def execute(self, connection, statement, parameters):
        """Run a statement, or strike."""
        if self._fault is None:
            return connection.execute(statement, *parameters)
        self._number += 1
        strikes = self.sprung is None and self._fault.number in (
            {0, self._number} if statement == "COMMIT" else {self._number}
        )
        if self._look is not None and self.sprung is None and (strikes or not connection.in_transaction):
            self._see(connection)
        if strikes:
            self.sprung = " ".join(statement.split())
            if not self._fault.after:
                raise self._strike()
        cursor = connection.execute(statement, *parameters)
        self.committed |= statement == "COMMIT"
        if strikes:
            cursor.close()
            self._see(connection)
            raise self._strike()
        return cursor

    def _see(self, connection):
        self.image = (self._look and self._look(connection)) or self.image

    def _strike(self):
        return Died() if self._fault.code is None else failure(self._fault.code)


class Trapped:
    """A connection all of whose statements pass through a trap."""

    def __init__(self, connection, trap):
        self._connection = connection
        self._trap = trap

    def execute(self, statement, *parameters):
        return self._trap.execute(self._connection, statement, parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def failure(code):
    """SQLite's own error of this code."""
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error
