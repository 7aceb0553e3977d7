"""Schedules through the public verbs, in virtual time: made, declared again, edited, paused, triggered, looked at."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest
from helpers import STORES

from timewheel import (
    Calendar,
    Cron,
    Every,
    InvalidOption,
    InvalidRule,
    InvalidTask,
    InvalidTime,
    JournalFull,
    NotOwner,
    Overlap,
    ScheduleExists,
    ScheduleIdRequired,
    ScheduleNotFound,
    Scheduler,
    ScheduleState,
    VersionConflict,
    current,
)
from timewheel.testing.virtual import T0, VirtualMachine

HOUR, DAY = 3600, 86_400


def t0(hours=0.0):
    return T0 + timedelta(hours=hours)


class Diary:
    """Tasks that write down when they ran, and what they were told of their slot."""

    def __init__(self, store="memory"):
        self.machine = VirtualMachine(quiet=True)
        self.store = STORES[store]()
        self.lines = []

    async def note(self, tag="", seconds=0.0):
        this = current()
        self.lines.append((tag, this.nominal_at, this.missed))
        if seconds:
            await asyncio.sleep(seconds)  # virtual
        return tag

    def plain(self):
        self.lines.append(("plain", current().nominal_at, current().missed))

    def live(self, scene, *, known=True, declare=None, **options):
        """A life of a process; `declare(scheduler)` stands for the modules that it imports."""

        async def life():
            scheduler = Scheduler(self.store, system=self.machine.system, **options)
            for name, fn in (("note", self.note), ("plain", self.plain)) if known else ():
                scheduler.task(name=name)(fn)
            if declare is not None:
                declare(scheduler)
            async with asyncio.timeout(100 * DAY), scheduler:
                return await scene(scheduler)

        return self.machine.run(life())

    async def sleep(self, seconds):
        await self.machine.sleep(seconds)

    def slots(self, tag=None):
        """Nominal instants of what ran, as hours since T0."""
        return [(at - T0) / timedelta(hours=1) for name, at, _ in self.lines if tag is None or name == tag]


@pytest.fixture(params=STORES)
def diary(request):
    return Diary(request.param)


# ---- making ----------------------------------------------------------------------------------------------------------


def test_cron_runs_at_its_slots_in_the_zone_of_the_scheduler_and_tells_what_it_is(diary):
    async def scene(scheduler):
        made = await scheduler.cron("0 9 * * *", "note", "a")
        assert (made.id, made.task, made.state, made.version) == ("note", "note", ScheduleState.ACTIVE, 1)
        assert made.next_at == t0(8)
        assert made.rule == Cron("0 9 * * *", tz="Europe/Berlin")
        assert (made.args, made.kwargs, made.queue, made.reason, made.paused_until) == (
            ("a",),
            {},
            "default",
            None,
            None,
        )
        assert made.created_at == made.updated_at == t0()
        await diary.sleep(2 * DAY)
        (newer, older) = await scheduler.jobs(schedule="note")
        assert [(job.schedule_id, job.nominal_at, job.missed, job.state) for job in (older, newer)] == [
            ("note", t0(8), None, "COMPLETED"),
            ("note", t0(32), None, "COMPLETED"),
        ]
        one_shot = await scheduler.now("note")
        assert (one_shot.schedule_id, one_shot.nominal_at, one_shot.missed) == (None, None, None)
        assert await scheduler.jobs(schedule="other").count() == 0

    diary.live(scene, tz="Europe/Berlin")
    assert diary.slots("a") == [8, 32]


def test_every_runs_first_after_one_interval_and_a_rule_object_by_schedule(diary):
    async def scene(scheduler):
        await scheduler.every(timedelta(hours=5), "note", "a")
        await scheduler.recurring(id="b").schedule(Every(7 * HOUR), "note", "b")
        await scheduler.recurring(id="c").schedule("0 */6 * * *", "plain")
        await diary.sleep(16 * HOUR)

    diary.live(scene)
    assert (diary.slots("a"), diary.slots("b"), diary.slots("plain")) == ([5, 10, 15], [7, 14], [6, 12])


def test_what_is_declared_survives_and_is_planned_by_the_next_process(diary):
    async def made(scheduler):
        await scheduler.recurring(misfire="COALESCE").every(6 * HOUR, "note", "a")
        await diary.sleep(7 * HOUR)

    async def later(scheduler):
        await diary.sleep(1)
        assert (await scheduler.get_schedule("note")).next_at == t0(36)

    diary.live(made)
    diary.machine.reboot(24 * HOUR)
    diary.live(later)
    assert diary.slots() == [6, 30]
    _, _, missed = diary.lines[-1]
    assert missed == (t0(12), t0(30), 4)  # the newest was missed itself, and is counted


# ---- declaring again -------------------------------------------------------------------------------------------------


def test_declared_again_and_equal_nothing_changes_and_different_only_the_next_time(diary):
    async def scene(scheduler):
        first = await scheduler.recurring(id="x").every(2 * HOUR, "note", "a")
        await diary.sleep(HOUR)
        assert await scheduler.recurring(id="x").every(2 * HOUR, "note", "a") == first
        options = await scheduler.recurring(id="x", priority=1).every(2 * HOUR, "note", "a")
        assert (options.version, options.next_at) == (2, t0(2))  # the same slots
        faster = await scheduler.recurring(id="x", priority=1).every(HOUR, "note", "b")
        assert (faster.version, faster.next_at, faster.created_at, faster.updated_at) == (3, t0(2), t0(), t0(1))
        await diary.sleep(HOUR + 1)

    diary.live(scene)
    assert diary.lines[0][:2] == ("b", t0(2))


def test_if_exists_keeps_or_fails(diary):
    async def scene(scheduler):
        first = await scheduler.recurring(id="x", if_exists="fail").every(60, "note")
        assert await scheduler.recurring(id="x", if_exists="keep").every(5, "note") == first
        with pytest.raises(ScheduleExists) as caught:
            await scheduler.recurring(id="x", if_exists="fail").every(60, "note")
        assert caught.value.schedule == "x"
        assert await scheduler.get_schedule("x") == first

    diary.live(scene)


def test_a_second_and_different_one_without_an_id_is_refused_until_the_next_start(diary):
    async def first(scheduler):
        await scheduler.cron("@daily", "note", 1)
        await scheduler.cron("@daily", "note", 1)
        with pytest.raises(ScheduleIdRequired):
            await scheduler.cron("@daily", "note", 2)
        answers = await asyncio.gather(
            *(scheduler.cron("@daily", "plain") for _ in range(2)),
            scheduler.cron("@hourly", "plain"),
            return_exceptions=True,
        )
        assert [type(answer).__name__ for answer in answers] == ["Schedule", "Schedule", "ScheduleIdRequired"]
        await (await scheduler.get_schedule("note")).delete()
        assert (await scheduler.cron("@daily", "note", 2)).args == (2,)

    async def second(scheduler):
        assert (await scheduler.cron("@daily", "note", 3)).version == 2

    diary.live(first)
    diary.live(second)


def test_a_refused_declaration_leaves_its_name_free(diary):
    async def scene(scheduler):
        with pytest.raises(InvalidRule):
            await scheduler.schedule(Cron("@daily", calendar="unknown"), "note")
        await scheduler.cron("@daily", "note")

    diary.live(scene)


def test_b33_an_interval_longer_than_the_uptime_runs_though_it_is_declared_at_each_start(diary):
    async def daily(scheduler):
        await scheduler.recurring(id="weekly").every(timedelta(days=7), "note")
        await diary.sleep(DAY / 2)

    for _ in range(32):  # half of each day it runs, half of it is down
        diary.live(daily)
        diary.machine.reboot(DAY / 2)
    assert diary.slots() == [7 * 24, 14 * 24, 21 * 24, 28 * 24]


# ---- targets ---------------------------------------------------------------------------------------------------------


async def importable():
    importable.runs += 1


importable.runs = 0


def test_b68_only_what_a_new_process_can_find_is_accepted_and_it_finds_it(diary):
    importable.runs = 0

    async def scene(scheduler):
        def nested():
            return None

        for wrong in (lambda: None, nested, Diary().note, "nobody"):
            with pytest.raises(InvalidTask):
                await scheduler.cron("@daily", wrong)
        made = await scheduler.every(HOUR, importable)
        assert made.task == f"{__name__}:importable"
        assert await scheduler.schedules().count() == 1

    diary.live(scene)
    diary.live(lambda _: diary.sleep(90 * 60), known=False)
    assert importable.runs == 1


# ---- edits -----------------------------------------------------------------------------------------------------------


def test_update_changes_what_is_named_and_counts_a_new_rule_from_now(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(queue="q", misfire="ALL").every(2 * HOUR, "note", "a")
        await diary.sleep(3 * HOUR)
        made = await made.update(priority=1, tags=["t"])
        assert (made.version, made.queue, made.next_at) == (2, "q", t0(4))
        made = await made.update(Every(HOUR / 2), queue="p")
        assert (made.version, made.queue, made.next_at, made.definition.priority) == (3, "p", t0(3.5), 1)
        assert await made.update() == made  # nothing to change
        made = await made.update("0 12 * * *", tz="Asia/Tokyo")
        assert (made.next_at, made.definition.misfire.kind, made.rule.tz) == (t0(27), "ALL", "Asia/Tokyo")
        made = await made.update(fold="BOTH")
        made = await made.update("0 13 * * *")  # the options that were given stay, also those of the rule
        assert made.rule == Cron("0 13 * * *", tz="Asia/Tokyo", fold="BOTH")
        made = await made.update("CRON_TZ=Europe/Paris 0 13 * * *", fold="FIRST")
        assert made.rule == Cron("0 13 * * *", tz="Europe/Paris", fold="FIRST")
        made = await made.update(Cron("0 13 * * *"))  # an object says all of it
        assert made.rule == Cron("0 13 * * *", tz="UTC")
        for wrong in ({"id": "y"}, {"if_exists": "keep"}, {"idempotency_key": "k"}):
            with pytest.raises(InvalidOption):
                await made.update(**wrong)
        with pytest.raises(InvalidRule):
            await made.update("61 * * * *")

    diary.live(scene)
    assert diary.slots() == [2]


def test_if_version_lets_only_the_edit_of_what_was_seen_through(diary):
    async def scene(scheduler):
        seen = await scheduler.every(HOUR, "note")
        await seen.update(priority=1)
        for edit in (
            lambda: seen.update(priority=2, if_version=seen.version),
            lambda: seen.pause(if_version=1),
            lambda: seen.resume(if_version=1),
            lambda: seen.delete(if_version=1),
        ):
            with pytest.raises(VersionConflict) as caught:
                await edit()
            assert (caught.value.schedule, caught.value.version) == ("note", 2)
        now = await seen.refresh()
        assert (now.version, now.state, now.definition.priority) == (2, "ACTIVE", 1)
        await now.update(priority=2, if_version=2)
        with pytest.raises(InvalidOption, match="if_version"):
            await now.update(priority=2, if_version="2")

    diary.live(scene)


def test_a_pause_makes_nothing_and_its_slots_are_missed_then(diary):
    async def scene(scheduler):
        made = await scheduler.every(HOUR, "note")
        paused = await made.pause("audit")
        assert (paused.state, paused.reason, paused.next_at, paused.version) == ("PAUSED", "audit", None, 2)
        await diary.sleep(3.5 * HOUR)
        assert diary.lines == []
        assert (await paused.update(priority=1)).state == "PAUSED"  # editing does not resume
        resumed = await paused.resume()
        assert (resumed.state, resumed.reason, resumed.next_at) == ("ACTIVE", None, t0(4))
        assert (await resumed.resume()) == resumed
        await diary.sleep(0.1)
        (job, skipped) = [one async for one in resumed.occurrences()]
        assert (job.fate, job.nominal_at, job.job_state) == ("job", t0(3), "COMPLETED")
        assert (skipped.fate, skipped.reason, skipped.count) == ("skipped", "paused", 2)
        assert (skipped.nominal_at, skipped.last_at, skipped.job_id) == (t0(1), t0(2), None)

    diary.live(scene)
    assert [(at, missed) for _, at, missed in diary.lines] == [(t0(3), (t0(1), t0(3), 3))]


def test_a_pause_may_end_by_itself(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(misfire="SKIP").every(HOUR, "note")
        paused = await made.pause(until=t0(2.5))
        assert paused.paused_until == t0(2.5)
        with pytest.raises(InvalidTime, match="is past already"):
            await made.pause(until=t0(-1))
        with pytest.raises(InvalidTime, match="is naive"):
            await made.pause(until=datetime(2030, 1, 1))
        with pytest.raises(InvalidOption, match="note"):
            await made.pause("x" * 2000)
        await diary.sleep(3.5 * HOUR)
        assert (await made.refresh()).state == "ACTIVE"

    diary.live(scene)
    assert diary.slots() == [3]


def test_delete_forgets_the_schedule_and_keeps_its_ledger_and_jobs(diary):
    async def scene(scheduler):
        made = await scheduler.every(HOUR, "note")
        await diary.sleep(1.5 * HOUR)
        await made.delete()
        for gone in (made.refresh, made.delete, made.pause, made.resume, made.trigger, made.preview, made.update):
            with pytest.raises(ScheduleNotFound) as caught:
                await gone()
            assert caught.value.schedule == "note"
        assert [one.nominal_at async for one in made.occurrences()] == [t0(1)]
        assert await scheduler.jobs(schedule="note").count() == 1
        await diary.sleep(2 * HOUR)

    diary.live(scene)
    assert diary.slots() == [1]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_trigger_runs_now_as_the_overlap_policy_lets_it(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(overlap="SKIP").every(DAY, "note", "a", seconds=60)
        job = await made.trigger()
        assert (job.schedule_id, job.nominal_at, job.state) == ("note", t0(), "SCHEDULED")
        assert await made.trigger() is None
        forced = await made.trigger(force=True)
        assert [await one.result() for one in (job, forced)] == ["a", "a"]
        rows = [(one.kind, one.fate, one.reason, one.job_id) async for one in made.occurrences()]
        assert rows == [
            ("manual", "job", None, forced.id),
            ("manual", "skipped", "overlap", None),
            ("manual", "job", None, job.id),
        ]
        assert (await made.refresh()) == made  # the rule goes on as it did
        with pytest.raises(InvalidOption, match="force=1"):
            await made.trigger(force=1)

    diary.live(scene)


def test_a_paused_schedule_can_be_triggered_and_stays_paused(diary):
    async def scene(scheduler):
        made = await (await scheduler.every(DAY, "note", "a")).pause()
        assert await (await made.trigger()).result() == "a"
        assert (await made.refresh()).state == "PAUSED"

    diary.live(scene)


def test_backfill_counts_first_and_makes_up_for_what_did_not_run(diary):
    async def scene(scheduler):
        made = await scheduler.every(HOUR, "note")
        await diary.sleep(1.5 * HOUR)
        await made.pause()
        await diary.sleep(4 * HOUR)
        await (await made.update(misfire="SKIP")).resume()
        counted = await made.backfill(t0(0.5), t0(5))
        assert (counted.slots, counted.already_ran, counted.made, counted.jobs, counted.dry_run) == (4, 1, 3, (), True)
        few = await made.backfill(t0(0.5), t0(5), most=2)
        assert (few.made, few.left_out) == (2, 1)
        done = await made.backfill(t0(0.5), t0(5), dry_run=False)
        assert (done.made, [job.nominal_at for job in done.jobs]) == (3, [t0(2), t0(3), t0(4)])
        for job in done.jobs:
            await job.wait()
        assert (await made.backfill(t0(0.5), t0(5))).made == 0
        for wrong in ((t0(5), t0(5)), (t0(5), t0(4))):
            with pytest.raises(InvalidTime, match="not after"):
                await made.backfill(*wrong)
        for option in ({"dry_run": 0}, {"at_once": 0}, {"most": 1_001}):
            with pytest.raises(InvalidOption):
                await made.backfill(t0(), t0(5), **option)

    diary.live(scene)
    assert diary.slots() == [1, 2, 3, 4]


# ---- views -----------------------------------------------------------------------------------------------------------


def test_preview_shows_instants_local_time_offset_and_why(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(jitter_s=60).schedule(
            Cron("30 2 * * *", tz="Europe/Berlin", gap="FIRE_AFTER"), "note"
        )
        before, night, after = await made.preview(3, after=datetime(2026, 3, 28, tzinfo=UTC))
        assert (before.at, before.local, before.utc_offset, before.notes) == (
            datetime(2026, 3, 28, 1, 30, tzinfo=UTC), datetime(2026, 3, 28, 2, 30), timedelta(hours=1), (),
        )  # fmt: skip
        assert (night.at, night.local, night.nominal, night.notes) == (
            datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 3, 29, 3), datetime(2026, 3, 29, 2, 30), ("gap",),
        )  # fmt: skip
        assert after.utc_offset == timedelta(hours=2)
        assert all(
            timedelta() <= line.scheduled_at - line.at < timedelta(seconds=60) for line in (before, night, after)
        )
        skipping = await made.update(gap="SKIP")
        lines = await skipping.preview(2, after=datetime(2026, 3, 28, 12, tzinfo=UTC))
        assert [(line.reason, line.count, line.scheduled_at is None) for line in lines] == [
            ("gap", 1, True), (None, 1, False), (None, 1, False),
        ]  # fmt: skip
        assert (await made.preview())[0].at == t0(1.5)
        earlier = await made.preview(3, after=t0(-24))
        assert [(line.at, line.reason) for line in earlier] == [
            (t0(-22.5), "past"), (t0(1.5), None), (t0(25.5), None),
        ]  # fmt: skip
        assert len(await made.preview()) == 10
        with pytest.raises(InvalidOption, match="n=0"):
            await made.preview(0)
        await made.update(end=t0(2))
        assert len(await made.preview()) == 1

    diary.live(scene)


def test_the_preview_comes_true(diary):
    async def scene(scheduler):
        rule = Cron("7 */5 * * *", tz="Asia/Kathmandu")
        made = await scheduler.recurring(jitter_s=600).schedule(rule, "note")
        promised = [(line.at, line.scheduled_at) for line in await made.preview(20)]
        await diary.sleep(5 * DAY)
        jobs = [job async for job in scheduler.jobs(schedule="note")][::-1][:20]
        assert [(job.nominal_at, job.scheduled_at) for job in jobs] == promised

    diary.live(scene)


def test_the_ledger_is_read_newest_first_in_pages(diary):
    async def scene(scheduler):
        made = await scheduler.every(60, "note")
        await diary.sleep(60 * 25 + 1)
        times = [one.nominal_at async for one in made.occurrences(page_size=4)]
        assert times == sorted(times, reverse=True)
        assert len(times) == 25
        page = await made.occurrences(page_size=10)
        rest = await made.occurrences(page_size=100, page_token=page.next_page_token)
        assert ([one.nominal_at for one in (*page, *rest)], rest.next_page_token) == (times, None)
        for wrong in ({"page_size": 0}, {"page_token": "?"}):
            with pytest.raises(InvalidOption):
                made.occurrences(**wrong)
        with pytest.raises(ScheduleNotFound):
            await scheduler.standing.occurrences("nobody")
        fresh = await scheduler.recurring(id="fresh").cron("@yearly", "note")
        assert (await fresh.occurrences()).items == ()

    diary.live(scene)


def test_schedules_are_listed_by_id_and_filtered(diary):
    async def scene(scheduler):
        for number in range(7):
            await scheduler.recurring(id=f"s{number}", queue=f"q{number % 2}").every(60 + number, "note")
        await scheduler.cron("@daily", "plain")
        await (await scheduler.get_schedule("s3")).pause()

        async def ids(**which):
            return [one.id async for one in scheduler.schedules(page_size=2, **which)]

        everything = ["plain", *(f"s{number}" for number in range(7))]
        assert await ids() == everything
        assert await ids(state="PAUSED") == ["s3"]
        assert await ids(state=[ScheduleState.ACTIVE, "PAUSED"], task="note", queue="q1") == ["s1", "s3", "s5"]
        assert await scheduler.schedules(task="note").count() == 7
        page = await scheduler.schedules(page_size=3)
        more = await scheduler.schedules(page_token=page.next_page_token)
        assert [one.id for one in (*page, *more)] == everything
        for wrong in ({"state": "RUNNING"}, {"page_size": 1_001}, {"page_token": "%"}):
            with pytest.raises(InvalidOption):
                scheduler.schedules(**wrong)
        for unknown in ("nobody", "", None, 5):
            with pytest.raises(ScheduleNotFound):
                await scheduler.get_schedule(unknown)

    diary.live(scene)


def test_the_times_of_an_interval_are_shown_as_the_clocks_stand_now(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(misfire="COALESCE").every(HOUR, "note")
        await diary.sleep(1.5 * HOUR)
        diary.machine.step(10 * HOUR)
        await diary.sleep(60)
        assert made.next_at == t0(11)
        assert (await made.refresh()).next_at == t0(12)
        assert [one.nominal_at async for one in made.occurrences()] == [t0(11)]
        (job,) = await scheduler.jobs(schedule="note")
        assert (job.nominal_at, job.scheduled_at) == (t0(11), t0(11))
        paused = await made.pause()
        await diary.sleep(3 * HOUR)
        await paused.resume()
        await diary.sleep(1)
        (job, _) = await scheduler.jobs(schedule="note")
        assert job.missed == diary.lines[-1][2] == (t0(12), t0(14), 3)

    diary.live(scene)


def test_one_that_has_ended_has_nothing_to_come(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(max_runs=1).every(HOUR, "note")
        assert len(await made.preview()) == 1
        await diary.sleep(2 * HOUR)
        made = await made.refresh()
        assert (made.state, made.next_at, await made.preview()) == ("ENDED", None, [])
        assert (await made.pause()).state == "ENDED"

    diary.live(scene)
    assert diary.slots() == [1]


# ---- calendars -------------------------------------------------------------------------------------------------------


def test_a_calendar_is_saved_under_its_name_and_found_by_it(diary):
    bank = Calendar("bank", [date(2026, 1, 6)])

    async def first(scheduler):
        with pytest.raises(InvalidRule, match=r"no calendar is saved as 'bank' \(saved: none\)") as caught:
            await scheduler.schedule(Cron("0 9 * * *", calendar="bank"), "note")
        assert caught.value.field == "calendar"
        await scheduler.recurring(id="object").schedule(Cron("0 9 * * *", calendar=bank), "note")
        await scheduler.recurring(id="name").schedule(Cron("0 9 * * *", calendar="bank"), "note")
        updated = await (await scheduler.recurring(id="later").every(DAY, "note")).update(
            Cron("@daily", calendar="bank")
        )
        assert updated.rule.calendar == bank

    async def second(scheduler):
        assert [one.rule.calendar async for one in scheduler.schedules()] == [bank] * 3
        assert await scheduler.standing.calendars() == {"bank": bank}
        lines = await (await scheduler.get_schedule("name")).preview(2)
        assert [(line.local.day, line.reason) for line in lines] == [(5, None), (6, "calendar"), (7, None)]
        changed = Calendar("bank", [date(2026, 1, 7)])
        await scheduler.recurring(id="object").schedule(Cron("0 9 * * *", calendar=changed), "note")
        lines = await (await scheduler.get_schedule("name")).preview(2)  # shared by all that name it
        assert [(line.local.day, line.reason) for line in lines] == [(5, None), (6, None)]

    async def third(scheduler):
        found = await scheduler.get_schedule("name")
        assert found.rule.next_after(t0(24)).day == 6

    diary.live(first)
    diary.live(second)
    diary.live(third)


def test_two_calendars_of_one_name_are_a_mistake_and_a_change_is_said_as_one(diary):
    uk, us = Calendar("bank", [date(2026, 1, 6)]), Calendar("bank", [date(2026, 1, 7)])

    async def days(scheduler):
        return [one.rule.calendar async for one in scheduler.schedules()]

    async def first(scheduler):
        made = await scheduler.recurring(id="a").schedule(Cron("0 9 * * *", calendar=uk), "note")
        for attempt in (
            scheduler.recurring(id="b").schedule(Cron("@daily", calendar=us), "note"),
            made.update(Cron("@daily", calendar=us)),
        ):
            with pytest.raises(InvalidRule, match=r"called 'bank'.*another name.*save_calendar") as caught:
                await attempt
            assert caught.value.field == "calendar"
        assert await days(scheduler) == [uk]
        again = Calendar("bank", [date(2026, 1, 6)])  # an equal one is the same
        await scheduler.recurring(id="b").schedule(Cron("@daily", calendar=again), "note")
        assert (await made.refresh()).version == 1
        await scheduler.save_calendar(us)
        assert await days(scheduler) == [us, us]
        with pytest.raises(InvalidRule, match="called 'bank'"):  # that it is saved meanwhile does not bring it back
            await scheduler.recurring(id="c").schedule(Cron("@daily", calendar=uk), "note")
        await scheduler.recurring(id="c").schedule(Cron("@daily", calendar=us), "note")
        with pytest.raises(InvalidRule, match="'bank' is no Calendar"):
            await scheduler.save_calendar("bank")

    async def second(scheduler):
        await scheduler.recurring(id="a").schedule(Cron("0 9 * * *", calendar=uk), "note")
        assert await days(scheduler) == [uk] * 3  # another process may bring another one: that is a new release

    diary.live(first)
    diary.live(second)


def test_a_calendar_that_could_not_be_saved_does_not_take_the_name(diary):
    bank, other = Calendar("bank", [date(2026, 1, 6)]), Calendar("bank", [date(2026, 1, 7)])

    async def scene(scheduler):
        put = scheduler._engine.planner.put_calendar

        async def full(calendar):
            raise JournalFull("no space", path="x")

        scheduler._engine.planner.put_calendar = full
        with pytest.raises(JournalFull):
            await scheduler.schedule(Cron("@daily", calendar=bank), "note")
        scheduler._engine.planner.put_calendar = put
        made = await scheduler.schedule(Cron("@daily", calendar=other), "note")
        assert made.rule.calendar == other

    diary.live(scene)


# ---- other places ----------------------------------------------------------------------------------------------------


def test_a_process_that_stands_by_can_look_and_not_change(tmp_path, diary):
    async def scene(scheduler):
        made = await scheduler.recurring(id="x").every(HOUR, "note", 1)
        standby = Scheduler(scheduler._store, system=diary.machine.system, when_owned="wait")
        standby._state, standby._place = type(scheduler.state).STANDBY, scheduler._place
        seen = await standby.get_schedule("x")
        assert (seen.id, seen.rule, seen.args) == ("x", made.rule, (1,))
        assert [one.id async for one in standby.schedules()] == ["x"]
        assert len(await seen.preview(2)) == 2
        for change in (seen.pause, seen.resume, seen.trigger, seen.delete, lambda: seen.update(priority=1)):
            with pytest.raises(NotOwner):
                await change()
        with pytest.raises(NotOwner):
            await standby.cron("@daily", importable)

    diary.live(scene)


def test_overlap_and_concurrency_options_reach_the_jobs(diary):
    async def scene(scheduler):
        made = await scheduler.recurring(overlap=Overlap.SERIALIZE("db"), priority=2, tags=["t"], queue="q").every(
            HOUR, "note"
        )
        job = await made.trigger()
        assert (job.record.concurrency_key, job.priority, job.tags, job.queue) == ("db", 2, ("t",), "q")

    diary.live(scene)
