"""Lengths of time as tests like to write them: "2h", "1d 3h", "1.5s", seconds, or a timedelta.

>>> delay_of("1d 3h") == delay_of(27 * 3600) == delay_of(timedelta(hours=27))
True
>>> delay_of("500ms")
500000
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from timewheel.errors import InvalidTime
from timewheel.model import MAX_TIME_US
from timewheel.times import delay_us

UNITS_US = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
LONGEST_TEXT = 100
_PART = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([a-z]+)\s*", re.ASCII)
_HELP = 'write numbers with w, d, h, m, s, ms or us, as in "2h", "1d 3h" or "1.5s"; or give seconds, or a timedelta'


def delay_of(length: str | float | timedelta) -> int:
    """The microseconds of a length of time, at least 0. Raises InvalidTime with the way to write it."""
    return _text_us(length) if isinstance(length, str) else delay_us(length)


def difference_of(length: str | float | timedelta) -> int:
    """As `delay_of`, but it may be negative: "-1h", -3600, timedelta(hours=-1)."""
    if isinstance(length, str):
        text = length.strip()
        return -_text_us(text[1:]) if text.startswith("-") else _text_us(text.removeprefix("+"))
    if isinstance(length, bool):
        return delay_us(length)  # which refuses it
    negative = length < timedelta(0) if isinstance(length, timedelta) else length < 0
    return -delay_us(-length) if negative else delay_us(length)


def _text_us(text: str) -> int:
    rest = text.strip() if len(text) <= LONGEST_TEXT else ""
    total = Fraction(0)
    seen: set[str] = set()
    while rest or not seen:
        part = _PART.match(rest)
        if part is None or part[2] not in UNITS_US:
            raise InvalidTime(f"{_short(text)} is no length of time: {_HELP}")
        if part[2] in seen:
            raise InvalidTime(f"{_short(text)} says {part[2]} twice: {_HELP}")
        seen.add(part[2])
        total += Fraction(part[1]) * UNITS_US[part[2]]
        rest = rest[part.end() :]
    if total > MAX_TIME_US:
        raise InvalidTime(f"{_short(text)} is too long: nothing is due after the year 9999")
    return round(total)


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}...")
