"""What every rule of recurrence can do. Occurrences are instants of wall time; rules know nothing of what ran.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from timewheel.checks import shown
from timewheel.errors import InvalidTime
from timewheel.recurrence.immutable import Immutable
from timewheel.times import utc_datetime, when_us


class Note(StrEnum):
    """Why an occurrence is not simply the time that the rule names."""

    GAP = "gap"  # the clocks skip that time: it was moved
    FOLD_FIRST = "fold_first"  # that time occurs twice: this is the first
    FOLD_SECOND = "fold_second"  # ... the second
    ROLL = "roll"  # that date is no business day: it was moved to one


class Occurrence(NamedTuple):
    """One nominal instant of a rule, and how it came about.

    instant_us: wall microseconds, what identifies it. local: the wall time that clocks in the rule's zone show then.
    offset_s: their distance from UTC. nominal: the wall time that the rule names, before a gap or a roll moved it;
    equal to `local` for most. Both are naive.
    """

    instant_us: int
    local: datetime
    offset_s: int
    nominal: datetime
    notes: tuple[Note, ...] = ()


class Skipped(NamedTuple):
    """Times of a rule that did not run because the clocks skipped them and its policy is SKIP.

    instant_us: when the clocks changed. nominal: the first of these times, naive. times: how many they were.
    """

    instant_us: int
    nominal: datetime
    times: int


class Rule(Immutable, ABC):
    """When something recurs: a value without state, usable without a scheduler.

    A rule is compared by what it says, never changes, and has a form as plain data (`to_data`).
    """

    __slots__ = ()

    kind: ClassVar[str] = ""

    @property
    def wild(self) -> bool:
        """Whether it runs in real elapsed time, though it names wall times: `*/5 * * * *`.

        When the wall clock is set back, such a rule goes on from the new time at once.
        """
        return False

    def next_after(self, when: datetime, /) -> datetime | None:
        """The first occurrence strictly after the aware datetime, in UTC; None when there is none.

        None means: none within 100 years, or none before 9999-12-29. Raises InvalidTime for a naive datetime, for
        anything else, and for an instant before 1970; InvalidRule when the rule lacks its calendar.
        """
        if not isinstance(when, datetime):
            raise InvalidTime(f"{shown(when)} is not a datetime: next_after takes an aware datetime")
        found = self.following(when_us(when))
        return None if found is None else utc_datetime(found.instant_us)

    @abstractmethod
    def explain(self) -> str:
        """The rule in words."""

    @abstractmethod
    def following(self, after_us: int) -> Occurrence | None:
        """The first occurrence after the instant (wall microseconds)."""

    @abstractmethod
    def latest(self, after_us: int, until_us: int) -> Occurrence | None:
        """The last occurrence with after_us < instant_us <= until_us, found without visiting the others."""

    @abstractmethod
    def count(self, after_us: int, until_us: int) -> int:
        """How many occurrences have after_us < instant_us <= until_us, counted without visiting them."""

    def skipped(self, after_us: int, until_us: int) -> list[Skipped]:  # noqa: ARG002 - for those that know wall time
        """What was lost in gaps at changes of the clocks with after_us < instant_us <= until_us, in order.

        A rule of elapsed time, and one that AUTO takes for such, loses nothing: it goes on in real time.
        """
        return []

    def occurrences(self, after_us: int) -> Iterator[Occurrence]:
        """The occurrences after the instant, strictly rising, each worked out when it is asked for."""
        found = self.following(after_us)
        while found is not None:
            yield found
            found = self.following(found.instant_us)

    @abstractmethod
    def to_data(self) -> dict[str, Any]:
        """The rule as plain data (kind, version, fields), which `stored.rule_from_data` reads back."""
