"""Faults that users of other schedulers had to report, each as the kind of fault it is; instants worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from timewheel import zones
from timewheel.errors import InvalidRule, InvalidTime
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule, Skipped


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp()) * 10**6


def runs(rule: Rule, start: str, count: int) -> list[str]:
    """The next instants in UTC, as text."""
    found = []
    moment: datetime | None = datetime.fromisoformat(start)
    while len(found) < count:
        assert moment is not None
        moment = rule.next_after(moment)
        found.append("none" if moment is None else moment.strftime("%Y-%m-%dT%H:%MZ"))
    return found


def check(expr: str, tz: str, start: str, *wanted: str, **options: str) -> None:
    assert runs(Cron(expr, tz=tz, **options), start, len(wanted)) == list(wanted)  # type: ignore[arg-type]


def test_a_job_in_the_spring_gap_runs_or_is_told_to_be_lost() -> None:
    check("0 2 * * *", "America/Los_Angeles", "2025-03-08T12:00-08:00", "2025-03-09T10:00Z", "2025-03-10T09:00Z")
    skip = Cron("0,30 2 * * *", tz="America/Los_Angeles", gap="SKIP")
    assert runs(skip, "2025-03-08T12:00-08:00", 1) == ["2025-03-10T09:00Z"]
    lost = [Skipped(us("2025-03-09T10:00Z"), datetime(2025, 3, 9, 2, 0), 2)]
    assert skip.skipped(us("2025-03-08T20:00Z"), us("2025-03-10T09:00Z")) == lost
    assert skip.skipped(us("2025-03-09T10:00Z"), us("2025-11-30T00:00Z")) == [], "strictly after, up to and with"
    assert skip.skipped(us("2025-03-09T09:59Z"), us("2025-03-09T10:00Z")) == lost
    assert Cron("0 5 * * *", tz="America/Los_Angeles", gap="SKIP").skipped(0, us("2037-01-01T00:00Z")) == []
    for whole in (
        Cron("0 2 * * *", tz="America/Los_Angeles"),
        Cron("*/5 * * * *", tz="America/Los_Angeles"),
        Every(60),
    ):
        assert whole.skipped(0, us("2037-01-01T00:00Z")) == []
    daily = Cron("30 12 * * *", tz="Pacific/Apia", gap="SKIP").skipped(0, us("2037-01-01T00:00Z"))
    assert daily == [Skipped(us("2011-12-30T10:00Z"), datetime(2011, 12, 30, 12, 30), 1)]
    over_midnight = Cron("15,45 23,0 * * *", tz="America/Nuuk", gap="SKIP")
    assert over_midnight.skipped(us("2024-03-01T00:00Z"), us("2024-04-01T00:00Z")) == [
        Skipped(us("2024-03-31T01:00Z"), datetime(2024, 3, 30, 23, 15), 2)
    ]


def test_a_job_in_the_repeated_hour_runs_once_also_after_a_restart_in_it() -> None:
    first = ("2026-11-01T05:30Z", "2026-11-02T06:30Z")
    check("30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00", *first)
    check("30 1 * * *", "America/New_York", "2026-11-01T05:29Z", *first)
    check("30 1 * * *", "America/New_York", "2026-11-01T06:10Z", first[1])
    check("30 1 * * *", "America/New_York", "2026-11-01T06:30Z", first[1])


def test_frequent_jobs_keep_their_real_spacing() -> None:
    check(
        "0 * * * *",
        "America/Los_Angeles",
        "2026-11-01T07:30Z",
        "2026-11-01T08:00Z",
        "2026-11-01T09:00Z",
        "2026-11-01T10:00Z",
    )
    check(
        "*/30 * * * *", "Australia/Melbourne", "2024-04-06T14:59Z", "2024-04-06T15:00Z", "2024-04-06T15:30Z",
        "2024-04-06T16:00Z", "2024-04-06T16:30Z", "2024-04-06T17:00Z", "2024-04-06T17:30Z",
    )  # fmt: skip


def test_shifts_of_30_45_and_120_minutes() -> None:
    check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00+11:00", "2026-04-04T14:45Z", "2026-04-05T15:15Z")
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", "2026-10-03T15:30Z", "2026-10-04T15:15Z")
    check("50 3 * * *", "Pacific/Chatham", "2026-09-26T03:50+12:45", "2026-09-26T14:05Z", "2026-09-27T14:05Z")
    check("30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00Z", "2026-03-29T01:00Z", "2026-03-29T23:30Z")


def test_a_midnight_that_does_not_exist() -> None:
    check("0 1 4 11 *", "America/Sao_Paulo", "2018-11-03T23:00-03:00", "2018-11-04T03:00Z")
    check("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00+02:00", "2026-04-23T22:00Z", "2026-04-24T21:00Z")
    check("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00+02:00", "2026-03-28T22:00Z")
    check("0 0 * * *", "America/Santiago", "2022-09-10T12:00-04:00", "2022-09-11T04:00Z")


def test_a_saturday_moved_to_sunday_is_still_saturdays() -> None:
    rule = Cron("30 22 * * SAT", tz="America/Nuuk")
    found = rule.following(us("2024-03-30T12:00Z"))
    assert found is not None
    assert found.nominal.strftime("%a %H:%M") == "Sat 22:30"
    moved = Cron("30 23 * * SAT", tz="America/Nuuk", gap="KEEP_OFFSET").following(us("2024-03-30T12:00Z"))
    assert moved is not None
    assert (moved.nominal, moved.local) == (datetime(2024, 3, 30, 23, 30), datetime(2024, 3, 31, 0, 30))


def test_next_is_never_now_or_the_past() -> None:
    check("0 1 30 3 *", "Europe/Lisbon", "2024-11-15T00:00Z", "2025-03-30T01:00Z")
    rule = Cron("*/7 * * * 5", tz="Pacific/Apia")
    began = time.process_time()
    found = rule.next_after(datetime(2011, 12, 30, 9, 59, tzinfo=UTC))
    assert time.process_time() - began < 0.05
    assert found == datetime(2012, 1, 5, 10, 0, tzinfo=UTC), "30 December, a Friday, is missing there"


def test_a_moved_time_does_not_stick() -> None:
    check("30 1 * * *", "Europe/London", "2025-03-29T12:00Z", "2025-03-30T01:00Z", "2025-03-31T00:30Z")


def test_daily_at_noon_is_no_interval() -> None:
    check("0 12 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", "2026-10-25T11:00Z")
    assert runs(Every(86_400, anchor=datetime(2026, 10, 24, 10, tzinfo=UTC)), "2026-10-24T10:00Z", 1) == [
        "2026-10-25T10:00Z"
    ]


def test_the_processes_zone_does_not_leak(process_zone: str) -> None:
    check("30 1 * * *", "UTC", "2022-10-29T12:00Z", "2022-10-30T01:30Z", "2022-10-31T01:30Z")
    check("30 2 * * *", "UTC", "2022-04-02T12:00Z", "2022-04-03T02:30Z")


def test_naive_datetimes_are_refused() -> None:
    with pytest.raises(InvalidTime, match="naive"):
        Cron("0 9 * * *").next_after(datetime(2026, 1, 5, 12))


def test_weekdays_are_crons() -> None:
    check("30 7 * * 4", "UTC", "2018-02-12T00:00Z", "2018-02-15T07:30Z")


def test_both_day_fields_or_either() -> None:
    check("0 0 */2 * 1", "UTC", "2024-12-31T23:59Z", "2025-01-13T00:00Z", "2025-01-27T00:00Z")
    check("0 9 1-31 * 1", "UTC", "2025-01-01T00:00Z", "2025-01-01T09:00Z", "2025-01-02T09:00Z", "2025-01-03T09:00Z")
    first_mondays = (
        "2024-02-01T00:00Z",
        "2024-02-05T00:00Z",
        "2024-03-01T00:00Z",
        "2024-03-04T00:00Z",
        "2024-04-01T00:00Z",
    )
    check("0 0 1 * 1#1", "UTC", "2024-01-15T00:00Z", *first_mondays)


def test_dates_that_are_rare_but_come() -> None:
    check("0 0 31 2 1", "UTC", "2026-01-01T00:00Z", "2026-02-02T00:00Z", "2026-02-09T00:00Z")
    check("0 0 29 2 */7", "UTC", "2016-03-01T00:00Z", "2032-02-29T00:00Z", "2060-02-29T00:00Z")
    check("0 0 * * 5L", "UTC", "2024-07-11T00:00Z", "2024-07-26T00:00Z")
    check("0 0 * * 0,7", "UTC", "2024-07-11T00:00Z", "2024-07-14T00:00Z", "2024-07-21T00:00Z")
    check("0 0 15W * *", "UTC", "2026-02-01T00:00Z", "2026-02-16T00:00Z", "2026-03-16T00:00Z", "2026-04-15T00:00Z")
    check("0 0 1W * *", "UTC", "2026-01-31T00:00Z", "2026-02-02T00:00Z", "2026-03-02T00:00Z")
    check("0 0 LW * *", "UTC", "2026-01-01T00:00Z", "2026-01-30T00:00Z", "2026-02-27T00:00Z")
    check("0 0 L-3 * *", "UTC", "2026-01-01T00:00Z", "2026-01-28T00:00Z", "2026-02-25T00:00Z")


ALONE = """
import importlib.resources as resources
from datetime import datetime, UTC
real = resources.files
def files(package):
    if str(package).startswith("tzdata"):
        raise ModuleNotFoundError(package)
    return real(package)
resources.files = files
from timewheel.errors import InvalidRule
from timewheel.recurrence.stored import rule_from_data
fields = {"expr": "0 9 * * *", "gap": "AUTO", "fold": "AUTO", "calendar": None, "roll": None}
data = {"kind": "cron", "version": 1, **fields}
print(rule_from_data({**data, "tz": "UTC"}).next_after(datetime(2026, 1, 5, tzinfo=UTC)))
try:
    rule_from_data({**data, "tz": "Europe/Berlin"})
except InvalidRule as error:
    print(error.field, error)
"""


def test_a_zone_that_cannot_be_loaded_stops_its_rule_and_no_other() -> None:
    env = {**os.environ, "PYTHONTZPATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", ALONE], env=env, capture_output=True, text=True, check=True)
    utc, berlin = done.stdout.splitlines()
    assert utc == "2026-01-05 09:00:00+00:00"
    assert berlin.startswith("tz ")
    assert "tzdata" in berlin


def test_a_step_of_ten_years_is_counted_in_no_time() -> None:
    rule = Cron("* * * * * *", tz="Europe/Berlin")
    start = us("2026-01-05T00:00Z")
    rule.count(start, start + 315_532_800 * 10**6)  # the zone's table, once a process
    began = time.process_time()
    assert rule.count(start, start + 315_532_800 * 10**6) == 315_532_800
    latest = rule.latest(start, start + 315_532_800 * 10**6)
    assert time.process_time() - began < 0.05
    assert latest is not None
    assert latest.instant_us == start + 315_532_800 * 10**6


def test_a_misspelt_zone_is_never_utc() -> None:
    with pytest.raises(InvalidRule, match="did you mean Europe/Berlin"):
        Cron("0 0 * * *", tz="Europe/Berln")
    assert zones.zone("Etc/UTC") is not None
