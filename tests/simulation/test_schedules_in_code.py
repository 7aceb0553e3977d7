"""Schedules that are declared in code, over several processes: made, changed, ended when no longer declared."""

from __future__ import annotations

import logging
from datetime import date

import pytest
from helpers import STORES
from lives import FaultyStore, nothing
from test_schedules_api import DAY, HOUR, Diary, t0

from timewheel import Calendar, Cron, Every, InvalidRule, JournalFull, ScheduleIdRequired, current, standing
from timewheel.store.changes import PutSchedule


@pytest.fixture(params=STORES)
def diary(request):
    return Diary(request.param)


def declaring(*declarations):
    """What the modules of a process declare: (id, rule, options) of a task that writes the id down."""

    def declare(scheduler):
        for schedule, rule, options in declarations:

            async def run():
                slot = current().nominal_at
                scheduler.standing.diary.append((current().schedule_id, (slot - t0()).total_seconds() / HOUR))

            scheduler.standing.diary = LINES
            scheduler.task(name=f"{schedule}.task")(run)
            scheduler.periodic(rule, id=schedule, **options)(run)

    return declare


LINES = []


@pytest.fixture(autouse=True)
def _fresh():
    LINES.clear()


async def states(scheduler):
    return {one.id: (str(one.state), one.reason) async for one in scheduler.schedules()}


def test_they_are_made_at_the_start_kept_where_equal_and_updated_where_they_differ(diary):
    async def first(scheduler):
        made = await scheduler.get_schedule("sweep")
        assert (made.version, made.rule, made.task, made.next_at) == (1, Every(2 * HOUR), "sweep.task", t0(2))
        await diary.sleep(HOUR)

    async def same(scheduler):
        made = await scheduler.get_schedule("sweep")
        assert (made.version, made.next_at) == (1, t0(2))
        await diary.sleep(2 * HOUR)

    async def other(scheduler):
        made = await scheduler.get_schedule("sweep")
        assert (made.version, made.queue, made.next_at) == (2, "q", t0(4))  # the same slots
        await diary.sleep(HOUR + 1)

    diary.live(first, declare=declaring(("sweep", Every(2 * HOUR), {})))
    diary.live(same, declare=declaring(("sweep", Every(2 * HOUR), {})))
    diary.live(other, declare=declaring(("sweep", Every(2 * HOUR), {"queue": "q"})))
    assert LINES == [("sweep", 2), ("sweep", 4)]


def test_b33_an_overdue_slot_of_an_unchanged_one_stays_due(diary):
    declare = declaring(("sweep", Every(5 * HOUR), {}))
    diary.live(lambda _: diary.sleep(HOUR), declare=declare)
    diary.machine.reboot(5 * HOUR)
    diary.live(lambda _: diary.sleep(1), declare=declare)
    assert LINES == [("sweep", 5)]


def test_what_is_no_longer_declared_goes_on_unless_the_start_prunes(diary):
    both = declaring(("a", Every(HOUR), {}), ("b", Every(HOUR), {}))
    only_a = declaring(("a", Every(HOUR), {}))

    async def by_call(scheduler):
        await scheduler.recurring(id="called").every(DAY, "plain")

    diary.live(by_call, declare=both)
    everything = dict.fromkeys(("a", "b", "called"), ("ACTIVE", None))
    assert diary.live(states, declare=only_a) == everything
    ended = everything | {"b": ("ENDED", "no longer declared")}
    assert diary.live(states, declare=only_a, prune=True) == ended
    assert diary.live(states, declare=only_a) == ended


def test_one_that_was_ended_so_begins_anew_when_it_is_declared_again(diary):
    both = declaring(("a", Every(HOUR), {}), ("b", Every(HOUR), {}))
    diary.live(lambda _: diary.sleep(1.5 * HOUR), declare=both)
    diary.live(lambda _: diary.sleep(2 * HOUR), declare=declaring(("a", Every(HOUR), {})), prune=True)

    async def again(scheduler):
        made = await scheduler.get_schedule("b")
        assert (made.state, made.reason, made.next_at) == ("ACTIVE", None, t0(4.5))
        await diary.sleep(1.5 * HOUR)

    diary.live(again, declare=both, prune=True)
    assert [at for schedule, at in LINES if schedule == "b"] == [1, 4.5]  # nothing of the time between is missed


def test_a_paused_one_is_pruned_too(diary):
    async def pause(scheduler):
        await (await scheduler.get_schedule("a")).pause("audit")

    diary.live(pause, declare=declaring(("a", Every(HOUR), {}), ("b", Every(HOUR), {})))
    found = diary.live(states, prune=True)
    assert found == dict.fromkeys(("a", "b"), ("ENDED", "no longer declared"))


def test_if_exists_keep_leaves_what_a_person_edited(diary):
    async def edit(scheduler):
        await (await scheduler.get_schedule("a")).update(priority=1)

    async def priority(scheduler):
        return (await scheduler.get_schedule("a")).definition.priority

    kept = declaring(("a", Every(HOUR), {"if_exists": "keep"}))
    diary.live(edit, declare=kept)
    assert diary.live(priority, declare=kept) == 1
    assert diary.live(priority, declare=declaring(("a", Every(HOUR), {}))) == 5


def test_one_that_cannot_be_made_is_logged_and_holds_up_no_other(diary, caplog):
    declare = declaring(("a", Cron("@daily", calendar="unknown"), {}), ("b", Every(HOUR), {}))
    with caplog.at_level(logging.ERROR, "timewheel"):
        found = diary.live(states, declare=declare)
    assert found == {"b": ("ACTIVE", None)}
    (line,) = [record.getMessage() for record in caplog.records if record.name == "timewheel"]
    assert line.startswith("the schedule a, declared in code, is not applied: no calendar is saved as 'unknown'")


def test_a_calendar_that_one_brings_is_there_for_the_next(diary):
    bank = Calendar("bank", [date(2026, 1, 6)])
    declare = declaring(
        ("a", Cron("@daily", calendar="bank"), {}), ("b", Cron("@daily", calendar=bank), {}), ("c", Every(HOUR), {})
    )
    assert set(diary.live(states, declare=declare)) == {"a", "b", "c"}


def test_two_calendars_of_one_name_in_code_are_refused_where_they_stand(diary):
    bank, other = Calendar("bank", [date(2026, 1, 6)]), Calendar("bank", [date(2026, 1, 7)])
    same = Calendar("bank", [date(2026, 1, 6)])

    def declare(scheduler):
        declaring(("a", Cron("@daily", calendar=bank), {}), ("b", Cron("@daily", calendar=same), {}))(scheduler)
        with pytest.raises(InvalidRule, match="called 'bank'"):
            declaring(("c", Cron("@daily", calendar=other), {}))(scheduler)

    async def scene(scheduler):
        with pytest.raises(InvalidRule, match="called 'bank'"):
            await scheduler.recurring(id="d").schedule(Cron("@daily", calendar=other), "note")
        return await states(scheduler)

    assert set(diary.live(scene, declare=declare)) == {"a", "b"}
    released = declaring(("a", Cron("@daily", calendar=other), {}), ("b", Cron("@daily", calendar=other), {}))
    assert set(diary.live(states, declare=released)) == {"a", "b"}


def test_declared_after_the_start_it_is_made_in_the_background(diary, caplog):
    async def scene(scheduler):
        declaring(("late", Every(HOUR), {}))(scheduler)
        assert await scheduler.schedules().count() == 0
        await diary.sleep(1)
        assert (await scheduler.get_schedule("late")).next_at == t0(1)
        with caplog.at_level(logging.ERROR, "timewheel"):
            declaring(("wrong", Cron("@daily", calendar="unknown"), {}))(scheduler)
            await diary.sleep(1)
        assert "the schedule wrong, declared in code, is not applied" in caplog.text
        assert scheduler.state == "RUNNING"
        await diary.sleep(HOUR)

    diary.live(scene)
    assert LINES == [("late", 1)]


def test_code_and_a_call_share_the_rule_about_ids(diary):
    def declare(scheduler):
        scheduler.periodic("@daily")(plain)

    async def scene(scheduler):
        (name,) = await states(scheduler)
        assert (await scheduler.cron("@daily", plain)).id == name
        with pytest.raises(ScheduleIdRequired):
            await scheduler.cron("@hourly", plain)

    diary.live(scene, declare=declare)
    diary.live(scene, declare=declare)


def test_pruning_looks_at_every_page_and_previews_nothing_of_what_it_ended(diary, monkeypatch):
    monkeypatch.setattr(standing, "_PAGE", 2)
    names = [f"s{number}" for number in range(7)]
    diary.live(states, declare=declaring(*((name, Every(HOUR), {}) for name in names)))

    async def scene(scheduler):
        assert {state for state, _ in (await states(scheduler)).values()} == {"ENDED"}
        assert await (await scheduler.get_schedule("s3")).preview() == []

    diary.live(scene, prune=True)


def test_a_task_that_is_registered_so_frees_the_jobs_that_waited_for_it(diary):
    async def first(scheduler):
        scheduler.task(plain)
        await scheduler.after(60, plain)

    async def second(scheduler):
        await diary.sleep(120)
        (job,) = await scheduler.jobs()
        assert (job.state, job.reason) == ("WAITING", "unresolvable")
        scheduler.periodic("@yearly")(plain)
        assert (await job.wait(60)).state == "COMPLETED"

    diary.live(first)
    diary.live(second)


def test_a_journal_that_takes_nothing_is_told_by_the_start():
    store = FaultyStore()
    diary = Diary()
    diary.store = store

    async def full(changes):
        if any(isinstance(change, PutSchedule) for change in changes):
            raise JournalFull("no space left", path="memory")

    store.before = full
    with pytest.raises(JournalFull):
        diary.live(states, declare=declaring(("a", Every(HOUR), {})))
    store.before = nothing
    assert set(diary.live(states, declare=declaring(("a", Every(HOUR), {})))) == {"a"}


def plain():
    return None
