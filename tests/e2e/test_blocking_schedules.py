"""The recurring verbs without a loop, and from sync handlers: each does what its asynchronous twin does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from timewheel import (
    Calendar,
    Cron,
    Every,
    NotStarted,
    ScheduleNotFound,
    Scheduler,
    VersionConflict,
    WrongThread,
    current,
)
from timewheel.recurring import Recurring
from timewheel.schedule import Schedule

LONG_S = 60
FAR = datetime(2099, 1, 1, tzinfo=UTC)


def add(a=1, b=1):
    return a + b


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"])
def scheduler(request, tmp_path):
    scheduler = Scheduler(request.param.format(tmp_path), tz="Europe/Berlin")
    scheduler.task(name="add")(add)
    return scheduler


def test_schedules_without_a_loop(scheduler):
    with scheduler.blocking as blocking:
        made = blocking.recurring(id="sum", queue="q").cron("0 9 1 1 *", "add", 1, b=2)
        assert (made.id, made.args, made.kwargs, made.rule.tz) == ("sum", (1,), {"b": 2}, "Europe/Berlin")
        job = made.trigger()
        assert (job.result(LONG_S), job.schedule_id) == (3, "sum")
        edited = made.update(Every(3600), priority=1, if_version=1)
        assert (edited.version, made.refresh().rule, edited.queue) == (2, Every(3600), "q")
        with pytest.raises(VersionConflict):
            made.update(priority=2, if_version=1)
        paused = edited.pause("audit", until=FAR)
        assert (paused.state, paused.reason, paused.paused_until) == ("PAUSED", "audit", FAR)
        assert paused.resume().state == "ACTIVE"
        assert len(paused.preview(3)) == 3
        (row,) = paused.occurrences(page_size=1)
        assert (row.kind, row.job_id, row.job_state) == ("manual", job.id, "COMPLETED")
        bank = Calendar("bank", [date(2026, 12, 25)])
        blocking.save_calendar(bank)
        assert made.update(Cron("@daily", calendar="bank")).rule.calendar == bank
        made.delete()
        with pytest.raises(ScheduleNotFound):
            blocking.get_schedule("sum")


def test_each_recurring_verb_and_list_has_its_twin(scheduler):
    with scheduler.blocking as blocking:
        blocking.cron("@daily", "add")
        blocking.recurring(id="b").every(timedelta(hours=1), "add")
        blocking.recurring(id="c").schedule(Every(60), "add", 5)
        assert [one.id for one in blocking.schedules(page_size=2)] == ["add", "b", "c"]
        assert (blocking.schedules(task="add").count(), len(blocking.schedules(page_size=2).page())) == (3, 2)
        assert blocking.schedules(state="PAUSED").page().items == ()
        started = datetime.now(UTC)
        counted = blocking.get_schedule("c").backfill(started - timedelta(minutes=5), started)
        done = blocking.get_schedule("c").backfill(started - timedelta(minutes=5), started, dry_run=False)
        assert counted.made == done.made == len(done.jobs) == 5
        assert [job.result(LONG_S) for job in done.jobs] == [6] * 5


def test_every_verb_of_a_schedule_is_there():
    from timewheel.blocking import Blocking
    from timewheel.blocking_recurring import BlockingSchedule

    verbs = {name for name in vars(Schedule) if not name.startswith("_")}
    assert verbs <= set(dir(BlockingSchedule))
    assert {name for name in vars(Recurring) if not name.startswith("_")} <= set(dir(Blocking))


def test_a_sync_handler_makes_a_schedule(scheduler):
    @scheduler.task(name="set up")
    def set_up():
        return current().scheduler.blocking.recurring(id="made").every(3600, "add").id

    with scheduler.blocking as blocking:
        assert blocking.now("set up").result(LONG_S) == "made"
        assert blocking.get_schedule("made").state == "ACTIVE"


async def test_on_the_loop_itself_they_say_so(scheduler):
    with pytest.raises(NotStarted):
        scheduler.blocking.cron("@daily", "add")
    async with scheduler:
        schedule = await scheduler.cron("@daily", "add")
        for call in (lambda: scheduler.blocking.every(60, "add"), lambda: scheduler.blocking.get_schedule(schedule.id)):
            with pytest.raises(WrongThread):
                call()
