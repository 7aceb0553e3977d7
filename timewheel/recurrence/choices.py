"""The named choices of a rule, and how callers name them: a member, or its name as text.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeVar

from timewheel.checks import shown
from timewheel.errors import InvalidRule

Choice = TypeVar("Choice", bound=StrEnum)


class Gap(StrEnum):
    """What becomes of a wall time that the clocks skip (02:30 on the night when 02:00 is followed by 03:00).

    AUTO: SKIP for a cron rule whose minute or hour begins with `*`, FIRE_AFTER for any other rule.
    SKIP: it does not run. FIRE_AFTER: it runs once, at the first instant after the gap (03:00), however many of its
    times are skipped. KEEP_OFFSET: it runs as if the clocks had not changed yet (03:30).
    """

    AUTO = "AUTO"
    SKIP = "SKIP"
    FIRE_AFTER = "FIRE_AFTER"
    KEEP_OFFSET = "KEEP_OFFSET"


class Fold(StrEnum):
    """What becomes of a wall time that occurs twice (02:30 on the night when 03:00 is followed by 02:00).

    AUTO: BOTH for a cron rule whose minute or hour begins with `*`, FIRST for any other rule.
    FIRST, SECOND: it runs once, the first or the second time. BOTH: it runs both times.
    """

    AUTO = "AUTO"
    FIRST = "FIRST"
    SECOND = "SECOND"
    BOTH = "BOTH"


class Roll(StrEnum):
    """Where a date goes that is no business day.

    following, preceding: to the next or the previous business day. modified_following: to the next, unless that lies
    in another month, then to the previous.
    """

    FOLLOWING = "following"
    PRECEDING = "preceding"
    MODIFIED_FOLLOWING = "modified_following"


GapName = Gap | Literal["AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"]
FoldName = Fold | Literal["AUTO", "FIRST", "SECOND", "BOTH"]
RollName = Roll | Literal["following", "preceding", "modified_following", "modified following"]


def choice(kind: type[Choice], field: str, value: object) -> Choice:
    """The member of `kind` that `value` is or names. Raises InvalidRule naming the field and what it may be."""
    if isinstance(value, str):
        for member in kind:
            if value == member:
                return member
    names = ", ".join(kind)
    near = _near(kind, value)
    raise InvalidRule(f"{field}={shown(value)}: it must be one of {names}{near}", field=field)


def roll_choice(value: object) -> Roll | None:
    """The Roll that `value` is or names ("modified following" as well), or None. Raises InvalidRule."""
    if value is None:
        return None
    return choice(Roll, "roll", "modified_following" if value == "modified following" else value)


def _near(kind: type[Choice], value: object) -> str:
    if not isinstance(value, str) or len(value) > 40:
        return ""
    plain = value.strip().lower().replace("-", "_").replace(" ", "_")
    same = [member for member in kind if member.lower() == plain]
    return f": did you mean {same[0].value!r}?" if same else ""
