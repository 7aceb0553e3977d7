"""Agreement with cronsim, another reading of Debian's cron, wherever both mean the same.

Where they differ, on purpose:

- asked between the passes of a repeated hour, cronsim answers a fixed-time rule with the first pass, which is in the
  past; ours had its run (D61);
- a wildcard rule over a skipped midnight: cronsim stops at the midnight that does not exist; ours goes on in real time;
- a wildcard rule over a change of half an hour: cronsim steps by whole hours and loses half an hour's runs;
- with a seconds field cronsim leaves Debian's rules for changes of offset aside; ours are the same for 5 and 6 fields;
- `2-2/3`: cronsim takes it for `2/3` (2, 5, ...); ours is 2 alone, as a range says;
- cronsim knows no `?`, `L-3`, `15W`, `FRIL`, `L5`, and takes numbers and steps of any size;
- days that never come: ours refuses the rule when it is made, cronsim refuses some and searches 50 years for others.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.recurrence import tzif
from tests.recurrence.drawn import length, plain
from timewheel import zones
from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron

SEEDS = st.integers(0, 2**32)


def text(rng: random.Random, wanted: datetime, *, seconds: bool) -> str:
    """A cron text that both understand."""
    days = [plain(rng, 1, 31, wanted.day, 0.5)[0], "L", "LW"]
    number = rng.randint(0, 7)
    weekdays = [plain(rng, 0, 7, wanted.isoweekday(), 0.5)[0], f"{number}L", f"{number}#{rng.randint(1, 5)}"]
    fields = [
        plain(rng, 0, 59, wanted.minute, 0.4)[0],
        plain(rng, 0, 23, wanted.hour, 0.4)[0],
        rng.choice([days[0], *days]),
        plain(rng, 1, 12, wanted.month, 0.7)[0],
        rng.choice([weekdays[0], *weekdays]),
    ]
    written = " ".join([plain(rng, 0, 59, 0, 0.4)[0], *fields] if seconds else fields)
    return re.sub(r"\b(\d+)-\1/\d+", r"\1", written)  # 2-2/3


def compare(expr: str, tz: str, start: datetime, count: int) -> None:
    try:
        rule = Cron(expr, tz=tz)
    except InvalidRule as error:
        assume("never runs" not in str(error))
        raise
    other = CronSim(expr, start.astimezone(zones.zone(tz)))
    moment: datetime | None = start
    for _ in range(count):
        assert moment is not None
        moment = rule.next_after(moment)
        wanted = next(other, None)
        assert moment == (wanted.astimezone(UTC) if wanted else None), expr


@given(SEEDS, st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)), st.booleans())
def test_in_utc(seed: int, start: datetime, seconds: bool) -> None:
    rng = random.Random(seed)
    compare(text(rng, start, seconds=seconds), "UTC", start.replace(tzinfo=UTC), 8)


FIXED_ONLY = ("Africa/Cairo", "America/Santiago", "Pacific/Apia", "Australia/Lord_Howe")
NAMES = ("Europe/Berlin", "America/New_York", "Europe/London", "Australia/Sydney", *FIXED_ONLY)
CHANGES = [(name, one) for name in NAMES for one in tzif.changes(name) if one.at_s > 946_684_800]


@given(SEEDS, st.sampled_from(CHANGES))
def test_around_changes_of_offset(seed: int, chosen: tuple[str, tzif.Change]) -> None:
    name, change = chosen
    rng = random.Random(seed)
    first, last = sorted((change.at_s + change.before_s, change.at_s + change.after_s))
    wanted = datetime(1970, 1, 1) + timedelta(seconds=rng.randint(first - 3600, last + 3600))
    start = datetime.fromtimestamp(change.at_s - rng.randint(25, 50) * 3600, UTC).replace(second=0)
    expr = text(rng, wanted, seconds=False)
    minute, hour = expr.split()[:2]
    assume(name not in FIXED_ONLY or "*" not in minute[0] + hour[0])
    compare(expr, name, start, 12)


def test_the_known_difference_inside_a_repeated_hour() -> None:
    start = datetime(2026, 11, 1, 6, 10, tzinfo=UTC)  # 01:10 in New York, for the second time
    assert Cron("30 1 * * *", tz="America/New_York").next_after(start) == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    theirs = next(CronSim("30 1 * * *", start.astimezone(zones.zone("America/New_York"))))
    assert theirs.astimezone(UTC) <= start


@pytest.mark.parametrize("expr", ["99999999999999999999/1 * * * *", "*/99999999999999999999 * * * *"])
def test_huge_numbers_are_refused_here(expr: str) -> None:
    with pytest.raises(InvalidRule):
        Cron(expr)


def test_lengths() -> None:
    assert [length(datetime(2026, month, 1)) for month in (1, 2, 4)] == [31, 28, 30]
