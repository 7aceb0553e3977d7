"""Every so many days or weeks of the civil calendar, at a wall time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from timewheel.errors import InvalidRule
from timewheel.recurrence.choices import Gap
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Note

FRIDAY = datetime(2026, 1, 9, 9, 0)
BERLIN = "Europe/Berlin"


def next_of(rule: Civil, start: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    moment: datetime | None = start
    while len(found) < count and moment is not None:
        moment = rule.next_after(moment)
        if moment is not None:
            found.append(moment)
    return found


def test_every_second_friday_at_nine_whatever_the_offset() -> None:
    rule = Civil(weeks=2, anchor=FRIDAY, tz=BERLIN)
    assert next_of(rule, datetime(2026, 3, 1, tzinfo=UTC), 4) == [
        datetime(2026, 3, 6, 8, tzinfo=UTC), datetime(2026, 3, 20, 8, tzinfo=UTC), datetime(2026, 4, 3, 7, tzinfo=UTC),
        datetime(2026, 4, 17, 7, tzinfo=UTC),
    ]  # fmt: skip


def test_a_year_of_second_fridays() -> None:
    rule = Civil(weeks=2, anchor=FRIDAY, tz=BERLIN)
    local = [one.astimezone(ZoneInfo(BERLIN)) for one in next_of(rule, FRIDAY.replace(tzinfo=UTC), 26)]
    assert {(one.weekday(), one.hour, one.minute) for one in local} == {(4, 9, 0)}
    assert {later.date() - one.date() for one, later in pairwise(local)} == {timedelta(days=14)}


def test_the_anchor_is_the_first() -> None:
    rule = Civil(days=3, anchor=FRIDAY)
    assert rule.next_after(datetime(1999, 1, 1, tzinfo=UTC)) == FRIDAY.replace(tzinfo=UTC)
    assert rule.next_after(FRIDAY.replace(tzinfo=UTC)) == datetime(2026, 1, 12, 9, tzinfo=UTC)
    assert rule.count(0, round(datetime(2026, 1, 12, 9, tzinfo=UTC).timestamp()) * 10**6) == 2


def test_an_aware_anchor_names_its_zone() -> None:
    for anchor in (FRIDAY.replace(tzinfo=ZoneInfo(BERLIN)), datetime(2026, 1, 9, 8, tzinfo=UTC)):
        rule = Civil(weeks=2, anchor=anchor, tz=BERLIN)
        assert rule == Civil(weeks=2, anchor=FRIDAY, tz=BERLIN)
    assert Civil(weeks=2, anchor=FRIDAY.replace(tzinfo=ZoneInfo(BERLIN))).tz == BERLIN
    assert Civil(weeks=2, anchor=FRIDAY.replace(tzinfo=UTC)).tz == "UTC"
    with pytest.raises(InvalidRule, match="fixed offset") as caught:
        Civil(weeks=2, anchor=FRIDAY.replace(tzinfo=timezone(timedelta(hours=1))))
    assert caught.value.field == "tz"


def test_a_skipped_time_runs_after_the_gap_and_a_repeated_one_once() -> None:
    rule = Civil(days=1, anchor=datetime(2026, 1, 1, 2, 30), tz=BERLIN)
    assert rule.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert next_of(rule, datetime(2026, 10, 24, 12, tzinfo=UTC), 2) == [
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
    ]  # fmt: skip
    kept = Civil(days=1, anchor=datetime(2026, 1, 1, 2, 30), tz=BERLIN, gap="KEEP_OFFSET", fold="SECOND")
    assert kept.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    found = kept.following(round(datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp()) * 10**6)
    assert found is not None
    assert found.notes == (Note.FOLD_SECOND,)
    assert found.local == datetime(2026, 10, 25, 2, 30)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "days"),
        ({"days": 1, "weeks": 1}, "days"),
        ({"days": 0}, "days"),
        ({"days": -1}, "days"),
        ({"days": True}, "days"),
        ({"days": 1.0}, "days"),
        ({"days": 3661}, "days"),
        ({"weeks": 523}, "weeks"),
        ({"weeks": "2"}, "weeks"),
        ({"weeks": 2, "anchor": None}, "anchor"),
        ({"weeks": 2, "anchor": date(2026, 1, 9)}, "anchor"),
        ({"weeks": 2, "anchor": FRIDAY.replace(microsecond=1)}, "anchor"),
        ({"weeks": 2, "tz": "Berlin"}, "tz"),
        ({"weeks": 2, "gap": "skip"}, "gap"),
        ({"weeks": 2, "fold": "LAST"}, "fold"),
        ({"weeks": 2, "roll": "following"}, "roll"),
        ({"weeks": 2, "calendar": "x", "roll": "up"}, "roll"),
        ({"weeks": 2, "calendar": 5}, "calendar"),
    ],
)
def test_what_is_wrong_is_refused_naming_the_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Civil(**{"anchor": FRIDAY} | options)
    assert caught.value.field == field


def test_the_year_9999_ends_it() -> None:
    rule = Civil(days=1, anchor=FRIDAY)
    assert rule.next_after(datetime(9999, 12, 28, 9, tzinfo=UTC)) is None
    assert Civil(days=3, anchor=datetime(9999, 12, 31, 9)).next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None
    late = Civil(days=3, anchor=datetime(2400, 1, 1, 9))
    assert late.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None, "none within 100 years"
    assert late.next_after(datetime(2301, 1, 1, tzinfo=UTC)) == datetime(2400, 1, 1, 9, tzinfo=UTC)


def test_the_last_slot_is_that_of_the_search_forward_on_both_sides_of_a_gap() -> None:
    """The clocks of Berlin went from 02:00 to 03:00 at 01:00Z; some of these times are skipped, some are real."""
    change = round(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()) * 10**6
    for text in ("30 2 * * *", "0,30 2,3 * * *", "0 3 * * *", "30 1,2 * * *"):
        for gap in Gap:
            rule = Cron(text, tz=BERLIN, gap=gap)
            every = list(
                takewhile(
                    lambda one: one.instant_us < change + 86_400_000_000, rule.occurrences(change - 3 * 86_400_000_000)
                )
            )
            for until in (
                change - 1_000_000,
                change,
                change + 1_000_000,
                change + 1_800_000_000,
                change + 7_200_000_000,
            ):
                passed = [one for one in every if one.instant_us <= until]
                assert rule.latest(change - 86_400_000_000, until) == passed[-1]
