"""What users of other schedulers had to report of recurring jobs, through the public verbs."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from helpers import STORES
from test_schedules_api import DAY, HOUR, Diary, t0

from timewheel import Cron, Every, InvalidRule, zones
from timewheel.events import OccurrencesRecorded


@pytest.fixture(params=STORES)
def diary(request):
    return Diary(request.param)


def test_b13_a_zone_that_cannot_be_loaded_parks_its_schedule_and_no_other(diary, monkeypatch, caplog):
    async def make(scheduler):
        await scheduler.recurring(id="berlin").schedule(Cron("0 */6 * * *", tz="Europe/Berlin"), "note", "berlin")
        await scheduler.recurring(id="utc").schedule(Cron("0 */6 * * *", tz="UTC"), "note", "utc")
        await scheduler.recurring(id="interval").every(6 * HOUR, "note", "interval")

    async def without(scheduler):
        await diary.sleep(DAY + 60)
        parked = await scheduler.get_schedule("berlin")
        assert (parked.state, parked.next_at) == ("PARKED", None)
        assert "Europe/Berlin" in parked.reason
        with pytest.raises(InvalidRule):
            _ = parked.rule
        assert [one.id async for one in scheduler.schedules()] == ["berlin", "interval", "utc"]  # nothing is deleted
        with pytest.raises(InvalidRule):
            await scheduler.cron("CRON_TZ=Europe/Paris @daily", "plain")

    async def again(scheduler):
        await diary.sleep(1)
        made = await scheduler.get_schedule("berlin")
        assert (made.state, made.reason, made.rule.tz) == ("ACTIVE", None, "Europe/Berlin")

    diary.live(make)
    monkeypatch.setattr(zones, "zone", _only_utc)
    with caplog.at_level(logging.WARNING, "timewheel"):
        diary.live(without)
    assert diary.slots("utc") == [6, 12, 18, 24]
    assert diary.slots("interval") == [6, 12, 18, 24]
    assert diary.slots("berlin") == []
    monkeypatch.undo()
    diary.live(again)
    assert diary.slots("berlin") == [23]  # the newest of those it missed


def _only_utc(name):
    if name == "UTC":
        return zones.UTC
    raise InvalidRule(f"tz={name!r} is not a time zone of tzdata", field="tz")


def test_b41_every_skip_has_its_row_with_a_reason_and_is_counted(diary):
    counted = {}

    def count(notice):
        if isinstance(notice, OccurrencesRecorded):
            for (fate, reason), number in notice.fates.items():
                counted[str(fate), reason] = counted.get((str(fate), reason), 0) + number

    async def scene(scheduler):
        scheduler.notices.subscribe(count)
        slow = await scheduler.recurring(id="slow").every(HOUR, "note", "slow", seconds=2.5 * HOUR)
        await diary.sleep(3.2 * HOUR)  # 1 runs; 2 and 3 are left out
        paused = await (await scheduler.recurring(id="p", misfire="SKIP").every(HOUR, "plain")).pause()
        await diary.sleep(2.1 * HOUR)
        await paused.resume()
        await diary.sleep(1)
        gap = await scheduler.recurring(id="gap").schedule(Cron("30 2 * * *", tz="Europe/Berlin", gap="SKIP"), "plain")
        await slow.delete()
        await (await scheduler.get_schedule("p")).delete()
        await diary.sleep((t0(85 * 24) - diary.machine.now()) / timedelta(seconds=1))
        rows = {
            one.id: [(str(row.fate), row.reason, row.count) async for row in one.occurrences() if row.fate != "job"]
            for one in (slow, paused, gap)
        }
        assert rows == {
            "slow": [("skipped", "overlap", 1)] * 3,
            "p": [("skipped", "paused", 2)],
            "gap": [("skipped", "gap", 1)],
        }

    diary.live(scene)
    skipped = {reason: number for (fate, reason), number in counted.items() if fate == "skipped"}
    assert skipped == {"overlap": 3, "paused": 2, "gap": 1}


def test_b15_a_weekday_is_crons_wherever_it_is_written(diary):
    async def scene(scheduler):
        made = await scheduler.cron("30 7 * * 4", "note")
        assert made.next_at.strftime("%A") == "Thursday"
        made = await made.update("0 2 * * 0")
        assert made.next_at.strftime("%A") == "Sunday"
        assert "Sunday" in made.rule.explain()

    diary.live(scene)


def test_b42_every_and_cron_go_on_when_the_wall_clock_is_set_back(diary):
    async def scene(scheduler):
        at = []

        @scheduler.task(name="elapsed")
        async def elapsed(name):
            at.append((name, diary.machine.clock.boot_us() // 1_000_000))

        await scheduler.recurring(id="every").every(10, "elapsed", "every")
        await scheduler.recurring(id="wild").cron("*/10 * * * * *", "elapsed", "wild")
        await scheduler.recurring(id="fixed").cron("0 0 0 * * *", "elapsed", "fixed")  # served a day ago, and at 120 s
        await diary.sleep(30.5)
        diary.machine.step(-120)
        await diary.sleep(30)
        assert [when for name, when in at if name == "every"] == [10, 20, 30, 40, 50, 60]
        wild = [when for name, when in at if name == "wild"]
        assert wild[:3] == [10, 20, 30]
        assert wild[3] - 30 <= 11  # within one period by the new clock
        await diary.sleep(100)
        assert [when for name, when in at if name == "fixed"] == []  # midnight was served; it is not passed twice

    diary.live(scene)


def test_b43_ten_years_forward_are_one_run_of_a_cron_and_none_of_an_interval(diary):
    async def scene(scheduler):
        cron = await scheduler.recurring(id="cron").cron("* * * * * *", "note", "cron")
        await scheduler.recurring(id="every").schedule(Every(1), "plain")
        await diary.sleep(5.5)
        diary.machine.step(3652 * DAY)
        await diary.sleep(3)
        assert [str(one.fate) async for one in cron.occurrences()].count("skipped") == 1
        ranges = [one.count async for one in cron.occurrences() if one.fate == "skipped"]
        assert ranges[0] > 315_000_000
        assert len(diary.slots("plain")) == 8
        assert 8 <= len(diary.slots("cron")) <= 10

    diary.live(scene)
