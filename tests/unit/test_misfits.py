"""Calls that do not fit: the error is one of timewheel, names the argument, and says what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from timewheel import Calendar, Civil, Cron, Every, InvalidOption, InvalidRule, Overlap, Scheduler
from timewheel.misfits import told

ANCHOR = datetime(2026, 1, 9, 9, 0)
scheduler: Any = Scheduler("memory://")
cron: Any = Cron
every: Any = Every
civil: Any = Civil
calendar: Any = Calendar
overlap: Any = Overlap


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: overlap.ALLOW(3), "write Overlap.ALLOW(limit=3)"),
        (lambda: overlap.QUEUE_ALL(max=7), "write Overlap.QUEUE_ALL(limit=7)"),
        (lambda: overlap.ALLOW(), "write Overlap.ALLOW(limit=5), or Overlap.ALLOW for 100"),
        (lambda: overlap.SKIP(), "Overlap.SKIP is a value, not a call: write overlap=Overlap.SKIP"),
        (lambda: overlap.SERIALIZE("k")("l"), "Overlap.SERIALIZE('k') is a value, not a call"),
        (lambda: overlap.SERIALIZE(), 'write Overlap.SERIALIZE("key")'),
        (lambda: overlap.SERIALIZE(key="k"), 'write Overlap.SERIALIZE("key")'),
        (lambda: overlap("SKIP"), "Overlap('SKIP'): write one of its members, like Overlap.SKIP"),
        (lambda: scheduler.recurring(overlap=Overlap.SERIALIZE), 'needs a key: write Overlap.SERIALIZE("key")'),
        (lambda: scheduler.schedules(stat="ACTIVE"), "schedules() takes no stat; did you mean state?"),
        (lambda: scheduler.schedules(colour=1), "available: page_size, page_token, queue, state, task"),
        (lambda: scheduler.schedules("ACTIVE"), "schedules() does not take 'ACTIVE' there: give it by its name"),
        (lambda: scheduler.schedules(id="x"), "get_schedule(id)"),
        (lambda: scheduler.blocking.schedules(stat="ACTIVE"), "did you mean state?"),
        (lambda: scheduler.jobs(tasks="x"), "jobs() takes no tasks; did you mean task"),
        (lambda: scheduler.dead_letters(state="DEAD"), "every one of them is DEAD"),
    ],
)
def test_options_and_lists_say_what_was_meant(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        call()
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("call", "field", "words"),
    [
        (lambda: civil(weeks=1), "anchor", "Civil needs anchor=, its first slot"),
        (lambda: civil(months=1, anchor=ANCHOR), "months", 'Cron("0 9 1 * *")'),
        (lambda: civil(1, anchor=ANCHOR), "", "Civil does not take 1 there: give it by its name, one of days, weeks"),
        (lambda: cron(), "expr", 'write Cron("0 9 * * mon")'),
        (lambda: cron("@daily", timezone="UTC"), "timezone", "Cron takes no timezone; did you mean tz?"),
        (lambda: cron("@daily", calender="x"), "calender", "did you mean calendar?"),
        (lambda: cron("@daily", "UTC"), "", "Cron does not take 'UTC' there"),
        (lambda: every(), "interval", "Every(60)"),
        (lambda: every(minutes=5), "minutes", "write Every(timedelta(minutes=...))"),
        (lambda: every(60, tz="UTC"), "tz", "elapsed time knows no zone"),
        (lambda: calendar(), "name", 'write Calendar("bank"'),
        (lambda: calendar("x", holidays=[]), "holidays", "did you mean exclude?"),
    ],
)
def test_rules_say_what_was_meant(call: Callable[[], object], field: str, words: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        call()
    assert words in str(refused.value)
    assert refused.value.field == field


def test_an_error_from_within_stays_what_it_is() -> None:
    @told("inner", InvalidOption)
    def inner(a: int, *, b: int = 0) -> int:
        return a + b

    assert inner(1, b=2) == 3
    wrong: Any = inner
    with pytest.raises(TypeError, match="unsupported operand") as raised:
        wrong(1, b="x")
    assert not isinstance(raised.value, InvalidOption)


def test_signatures_stay_what_they_are() -> None:
    assert list(inspect.signature(Civil).parameters)[:3] == ["days", "weeks", "anchor"]
    assert list(inspect.signature(Overlap.ALLOW).parameters) == ["limit"]
    assert Overlap.ALLOW(limit=3).policy.limit == 3
    assert Cron("@daily").next_after(datetime(2026, 1, 5, tzinfo=UTC)) == datetime(2026, 1, 6, tzinfo=UTC)
