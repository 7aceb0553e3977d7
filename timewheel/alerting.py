"""When too many jobs die: what raises an alarm, and what ends it. Pure.

Two things are watched: how many dead letters there are (size), and how many came in the last minute (rate). An alarm
is raised when the number reaches its bound, and ends when it has fallen to four fifths of it or below: a number that
goes up and down around its bound raises one alarm, not many.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from timewheel.checks import counted
from timewheel.model import SECOND_US

WINDOW_US = 60 * SECOND_US
Watched = Literal["rate", "size"]


@dataclass(frozen=True, slots=True)
class DeadLetterAlert:
    """An alarm about dead letters. `raised`: it begins; otherwise it is over.

    `watched`: "rate" (`value` is how many came in the last minute) or "size" (how many there are); `bound` is the
    number that raises it. `at` is in UTC.
    """

    watched: Watched
    raised: bool
    value: int
    bound: int
    at: datetime

    @property
    def text(self) -> str:
        """In words."""
        died = f"{counted(self.value, 'job')} died in the last minute"
        what = died if self.watched == "rate" else counted(self.value, "dead letter")
        return f"{what}: {'' if self.raised else 'no longer '}at the bound of {self.bound}"


class Hysteresis:
    """One bound; see the module."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.raised = False

    def look(self, value: int) -> bool | None:
        """Whether an alarm begins (True) or ends (False) with this value; None: neither."""
        if self.raised == (value >= self.bound if not self.raised else 5 * value > 4 * self.bound):
            return None
        self.raised = not self.raised
        return self.raised
