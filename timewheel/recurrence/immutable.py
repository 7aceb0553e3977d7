"""The base of rules and calendars: made once, never changed, compared by what they say.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self


class Immutable(ABC):
    """A value: equal to another of its class with the same key, hashable, and its own copy."""

    __slots__ = ()

    @abstractmethod
    def _key(self) -> tuple[object, ...]:
        """What makes two of them equal."""

    def _set(self, **values: Any) -> None:
        """Fill the slots; only `__init__` does."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} never changes; make another one instead of setting .{name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} never changes; .{name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Immutable):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
