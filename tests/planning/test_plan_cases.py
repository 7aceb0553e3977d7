"""What users of other schedulers had to report, as cases of plan(); numbers are those of the list of reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.planning.worlds import TZDATA, World
from timewheel.model import JobState, Now, OriginKind
from timewheel.planning.definition import Definition
from timewheel.planning.jitter import jittered
from timewheel.planning.overlap import Admission
from timewheel.planning.plan import MOST_AT_ONCE, plan
from timewheel.planning.policies import Misfire, MisfirePolicy, Overlap
from timewheel.planning.position import first_position, wake_at
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule
from timewheel.schedule_records import Fate, SkipReason

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
ALL_AT_ONCE = MisfirePolicy(Misfire.ALL, catch_up_max=1000, catch_up_per_s=None)


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


T0 = us("2026-01-05T00:00")


def made_at(text: str, rule: Rule, **options) -> World:
    options = {name: getattr(value, "policy", value) for name, value in options.items()}
    return World(Definition(rule=rule, task="t", **options), us(text))


def go_on(world: World, at: int, *, wall: int | None = None):
    """The plan at an instant of steady time; the wall clock shows the same unless it was set."""
    world.steady = at
    world.offset = world.offset if wall is None else wall - at
    made = world.look()
    world.carry_out(made)
    return made


def told(made):
    return [(row.first_at, row.last_at, row.count, row.fate, row.reason) for row in made.rows]


def slots(made):
    return [job.origin.nominal_at for job in made.jobs]


class Watched(Rule):
    """A rule that counts what it is asked."""

    __slots__ = ("asked", "rule")

    def __init__(self, rule):
        self._set(rule=rule, asked=[])

    def _key(self):
        return (id(self),)  # no other's answers are remembered for it, so it is asked

    def explain(self):
        return self.rule.explain()

    def to_data(self):
        return self.rule.to_data()

    def following(self, after_us):
        self.asked.append("following")
        return self.rule.following(after_us)

    def latest(self, after_us, until_us):
        self.asked.append("latest")
        return self.rule.latest(after_us, until_us)

    def count(self, after_us, until_us):
        self.asked.append("count")
        return self.rule.count(after_us, until_us)


# ---- misfire ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("misfire", list(Misfire))
def test_b29_too_many_missed_slots_never_stop_a_schedule(misfire):
    policy = MisfirePolicy(misfire, catch_up_max=1000, catch_up_per_s=None)
    world = made_at("2026-01-05T08:28:30", Cron("* * * * *"), misfire=policy)
    assert slots(go_on(world, us("2026-01-05T08:29"))) == [us("2026-01-05T08:29")]
    world.finish(0)
    made = go_on(world, us("2026-01-05T10:20:30"))
    while world.position.catch_up_at == world.steady:  # in portions, so that nothing else is held up
        assert len(made.jobs) <= MOST_AT_ONCE
        made = replace(more := world.look(), rows=made.rows + more.rows, jobs=made.jobs + more.jobs)
        world.carry_out(more)
    first, last = us("2026-01-05T08:30"), us("2026-01-05T10:20")
    assert sum(row.count for row in made.rows) == 111
    expected = {
        Misfire.SKIP: ([], None),
        Misfire.LATEST: ([last], (first, last, 111)),
        Misfire.COALESCE: ([last], (first, last, 111)),
        Misfire.ALL: ([first + n * MINUTE for n in range(111)], None),
    }[misfire]
    assert slots(made) == expected[0]
    assert all(job.origin.catch_up and job.origin.missed == expected[1] for job in made.jobs)
    assert made.position.next_at == us("2026-01-05T10:21")
    assert not made.ended


def test_the_rows_of_latest_and_coalesce_say_what_became_of_the_older_slots():
    first, last = T0 + HOUR, T0 + 3 * HOUR
    for misfire, fate in ((Misfire.LATEST, Fate.SKIPPED), (Misfire.COALESCE, Fate.COALESCED)):
        world = made_at("2026-01-05T00:30", Cron("0 * * * *"), misfire=MisfirePolicy(misfire))
        made = go_on(world, last + MINUTE)
        assert told(made) == [
            (first, last - HOUR, 2, fate, SkipReason.MISFIRE),
            (last, last, 1, Fate.JOB, None),
        ]
        assert [row.job_id for row in made.with_ids([77])] == [None if fate is Fate.SKIPPED else 77, 77]


def test_a_slot_within_the_grace_is_on_time_and_a_microsecond_later_it_is_missed():
    for late, catch_up in ((10 * SECOND, False), (10 * SECOND + 1, True)):
        world = made_at("2026-01-05T00:30", Cron("0 * * * *"))
        made = go_on(world, T0 + HOUR + late)
        assert [job.origin.catch_up for job in made.jobs] == [catch_up]
        assert [job.origin.missed for job in made.jobs] == [(T0 + HOUR, T0 + HOUR, 1) if catch_up else None]


def test_a_slot_on_time_stands_for_the_missed_ones_before_it_and_is_no_catch_up():
    world = made_at("2026-01-05T00:30", Cron("0 * * * *"))
    made = go_on(world, T0 + 3 * HOUR + 5 * SECOND)
    assert [job.origin for job in made.jobs] == [
        ("nightly", 0, T0 + 3 * HOUR, 0, OriginKind.RULE, False, (T0 + HOUR, T0 + 2 * HOUR, 2))
    ]


def test_the_reason_of_a_pause_is_that_of_what_it_skipped():
    world = made_at("2026-01-05T00:30", Cron("0 * * * *"), misfire=MisfirePolicy(Misfire.SKIP))
    world.steady = T0 + 5 * HOUR + MINUTE
    made = world.look(SkipReason.PAUSED)
    assert told(made) == [(T0 + HOUR, T0 + 5 * HOUR, 5, Fate.SKIPPED, SkipReason.PAUSED)]


def test_b30_two_weeks_of_a_five_second_schedule_are_two_rows():
    for misfire, jobs in ((Misfire.LATEST, 1), (Misfire.COALESCE, 1), (Misfire.SKIP, 0)):
        watched = Watched(Cron("*/5 * * * * *"))
        world = made_at("2026-01-05T00:00", watched, misfire=MisfirePolicy(misfire))
        made = go_on(world, T0 + 14 * DAY + 30 * SECOND)
        assert sum(row.count for row in made.rows) == 241_926
        assert len(made.rows) <= 4
        assert (sum(job.origin.catch_up for job in made.jobs), len(watched.asked) < 20) == (0, True)
        assert len(slots(made)) == jobs or misfire is Misfire.SKIP


def test_b30_all_obeys_its_cap_and_says_how_many_it_left_out():
    watched = Watched(Cron("*/5 * * * * *"))
    world = made_at("2026-01-05T00:00", watched, misfire=MisfirePolicy(Misfire.ALL))
    made = go_on(world, T0 + 14 * DAY + 30 * SECOND)
    kept = T0 + 14 * DAY + 15 * SECOND - 99 * 5 * SECOND  # the newest missed slot is that of 15 s, 15 s ago
    assert told(made) == [
        (T0 + 5 * SECOND, kept - 5 * SECOND, 241_923 - 100, Fate.SKIPPED, SkipReason.CATCH_UP),
        (kept, kept, 1, Fate.JOB, None),
    ]
    assert len(watched.asked) < 200
    assert wake_at(made.position) == (1, world.steady + SECOND)


def test_catching_up_goes_at_its_pace_oldest_first_and_newer_slots_wait_behind_it():
    world = made_at("2026-01-05T00:00", Every(10), misfire=MisfirePolicy(Misfire.ALL), overlap=Overlap.ALLOW)
    made = go_on(world, T0 + 35 * SECOND)
    assert slots(made) == [T0 + 10 * SECOND]
    assert slots(go_on(world, T0 + 36 * SECOND - 1)) == []
    assert slots(go_on(world, T0 + 36 * SECOND)) == [T0 + 20 * SECOND]
    assert world.position.catch_up_until is None
    made = go_on(world, T0 + 36 * SECOND)
    assert slots(made) == [T0 + 30 * SECOND]
    assert [job.origin.catch_up for job in made.jobs] == [False]


def test_a_long_sleep_does_not_let_a_catch_up_make_everything_at_once():
    world = made_at("2026-01-05T00:00", Every(10), misfire=MisfirePolicy(Misfire.ALL), overlap=Overlap.ALLOW)
    go_on(world, T0 + HOUR)
    assert len(go_on(world, T0 + 2 * HOUR).jobs) == 1
    assert wake_at(world.position) == (1, T0 + 2 * HOUR + SECOND)


def test_another_misfire_policy_ends_a_catch_up_and_judges_what_is_left_of_it():
    world = made_at("2026-01-05T00:00", Every(10), misfire=MisfirePolicy(Misfire.ALL), overlap=Overlap.ALLOW)
    go_on(world, T0 + HOUR)
    world.definition = replace(world.definition, misfire=MisfirePolicy(Misfire.LATEST))
    made = go_on(world, T0 + HOUR)
    position = made.position
    assert (position.catch_up_until, position.catch_up_at, position.at) == (None, None, T0 + HOUR)
    assert (slots(made), made.rows[0].count) == ([T0 + HOUR], 99 + 1), "and the one within the grace"


@pytest.mark.parametrize("per_s", [1.0, None])
def test_a_lower_cap_drops_the_older_of_what_is_left_of_a_catch_up(per_s):
    misfire = MisfirePolicy(Misfire.ALL, catch_up_max=12, catch_up_per_s=1.0)
    world = made_at("2026-01-05T00:00", Every(10), misfire=misfire, overlap=Overlap.ALLOW)
    newest = T0 + HOUR - 20 * SECOND  # the two after it are within the grace
    assert slots(go_on(world, T0 + HOUR)) == [newest - 110 * SECOND]
    world.definition = replace(world.definition, misfire=misfire._replace(catch_up_max=3, catch_up_per_s=per_s))
    assert go_on(world, T0 + HOUR + SECOND - 1).rows == [], "not before it is its time"
    made = go_on(world, T0 + HOUR + SECOND)
    dropped = (newest - 100 * SECOND, newest - 30 * SECOND, 8, Fate.SKIPPED, SkipReason.CATCH_UP)
    left = [newest - 20 * SECOND, newest - 10 * SECOND, newest]
    assert (told(made)[0], slots(made)) == (dropped, left if per_s is None else left[:1])


def test_a_fast_catch_up_makes_several_jobs_ten_times_a_second():
    policy = MisfirePolicy(Misfire.ALL, catch_up_per_s=45)
    world = made_at("2026-01-05T00:00", Every(10), misfire=policy, overlap=Overlap.ALLOW(limit=1000))
    assert len(go_on(world, T0 + HOUR).jobs) == 5
    assert wake_at(world.position) == (1, T0 + HOUR + 111_112)


def test_b31_late_runs_know_their_slots():
    world = made_at("2026-01-06T12:00", Cron("1 0 * * *"), misfire=ALL_AT_ONCE)
    made = go_on(world, us("2026-01-09T10:00"))
    assert slots(made) == [us(f"2026-01-0{day}T00:01") for day in (7, 8, 9)]
    assert made.hold, "with overlap SKIP they run one after the other"


# ---- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "fates"),
    [
        (Overlap.SKIP, {("skipped", "overlap"): 59}),
        (Overlap.QUEUE_ONE, {("job", None): 1, ("coalesced", "overlap"): 58}),
        (Overlap.QUEUE_ALL(limit=5), {("job", None): 5, ("skipped", "overlap_limit"): 54}),
        (Overlap.ALLOW, {("job", None): 59}),
        (Overlap.ALLOW(limit=10), {("job", None): 9, ("skipped", "overlap_limit"): 50}),
        (Overlap.REPLACE, {("job", None): 59}),
        (Overlap.SERIALIZE("k"), {("job", None): 59}),
    ],
)
def test_b39_one_run_takes_an_hour_of_a_schedule_of_every_minute(overlap, fates):
    world = made_at("2026-01-05T00:00", Every(60), overlap=overlap)
    go_on(world, T0 + MINUTE)
    for minute in range(2, 61):
        go_on(world, T0 + minute * MINUTE)
    counted: dict[tuple[str, str | None], int] = {}
    for row in world.rows[1:]:
        counted[(row.fate, row.reason)] = counted.get((row.fate, row.reason), 0) + row.count
    assert counted == fates
    if overlap is Overlap.REPLACE:
        assert [job.cancel_requested for job in world.unfinished] == [True, False]
        assert [job.reason for job in world.unfinished] == [None, "overlap"]


def test_replace_asks_the_running_jobs_to_end_once_and_leaves_the_overrun():
    world = made_at("2026-01-05T00:00", Every(60), overlap=Overlap.REPLACE)
    go_on(world, T0 + MINUTE)
    made = go_on(world, T0 + 2 * MINUTE)
    assert (made.cancel, made.supersede, made.hold) == ((1,), True, True)
    assert go_on(world, T0 + 3 * MINUTE).cancel == ()
    job = world.unfinished[0]
    world.unfinished[0] = job._replace(cancel_requested=False, state=JobState.WAITING, reason="overrun")
    assert go_on(world, T0 + 4 * MINUTE).cancel == ()
    world.unfinished[0] = job._replace(cancel_requested=False, state=JobState.WAITING, reason="unresolvable")
    assert go_on(world, T0 + 5 * MINUTE).cancel == (1,)


def test_jobs_that_somebody_triggered_count_for_the_overlap():
    world = made_at("2026-01-05T00:00", Every(60))
    go_on(world, T0 + MINUTE)
    world.unfinished = [world.unfinished[0]._replace(kind=OriginKind.MANUAL)]
    assert [row.reason for row in go_on(world, T0 + 2 * MINUTE).rows] == [SkipReason.OVERLAP]


def test_catch_up_jobs_wait_for_one_another_but_no_more_than_the_cap():
    policy = MisfirePolicy(Misfire.ALL, catch_up_max=3, catch_up_per_s=None)
    for overlap in (Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.REPLACE):
        world = made_at("2026-01-05T00:00", Every(60), overlap=overlap, misfire=policy)
        made = go_on(world, T0 + HOUR + 30 * SECOND)
        assert (len(made.jobs), made.hold, made.supersede, made.cancel) == (3, True, False, ())
        assert [job.reason for job in world.unfinished] == [None, "overlap", "overlap"]
        made = go_on(world, T0 + 2 * HOUR + 30 * SECOND)
        fates = [(row.fate, row.reason) for row in made.rows if row.count == 1]
        assert fates == [("job", None), ("skipped", "overlap_limit"), ("skipped", "overlap_limit")]


def test_what_one_job_of_a_plan_needs_holds_for_all_of_it():
    admission = Admission(Overlap.REPLACE.policy, [], 100)
    for in_turn, replaces in ((True, False), (False, True), (True, True)):
        assert admission.admit(in_turn=in_turn).fate is Fate.JOB
        assert (admission.hold, admission.replaces) == (True, replaces)
    allowing = Admission(Overlap.ALLOW.policy, [], 100)
    allowing.admit()
    assert (allowing.hold, allowing.replaces) == (False, False)


# ---- clocks ----------------------------------------------------------------------------------------------------------


def test_b42_the_wall_clock_is_set_back_two_minutes():
    every = made_at("2026-01-05T00:00", Every(10))
    fixed = made_at("2026-01-04T23:59:59", Cron("0 0 5 1 *"))
    wild = made_at("2026-01-04T23:59:59", Cron("* * * * *"))
    for world in (every, fixed, wild):
        go_on(world, T0 + 30 * SECOND)
        world.finish(0)
    back = T0 + 31 * SECOND - 120 * SECOND
    assert go_on(every, T0 + 31 * SECOND, wall=back).position.next_at == T0 + 40 * SECOND
    made = go_on(fixed, T0 + 31 * SECOND, wall=back)
    assert (made.rows, made.position.turn) == ([], 0), "it served that slot"
    assert made.position.next_at == us("2027-01-05T00:00")
    made = go_on(wild, T0 + 31 * SECOND, wall=back)
    assert (made.rows, made.position.turn) == ([], 1)
    assert 0 < made.position.next_at - back <= MINUTE
    assert slots(go_on(wild, T0 + 62 * SECOND)) == [T0 - MINUTE]


def test_a_clock_that_was_three_hours_fast_makes_every_schedule_begin_anew():
    for less, turn in ((1, 0), (0, 1)):
        world = made_at("2026-01-05T00:00", Cron("30 2 * * *"))
        go_on(world, T0 + 3 * HOUR)
        world.finish(0)
        made = go_on(world, T0 + 3 * HOUR, wall=T0 + less)
        assert made.position.turn == turn
        assert made.position.next_at == T0 + (150 * MINUTE if turn else DAY + 150 * MINUTE)
    made = go_on(world, T0 + 6 * HOUR)
    assert [(job.origin.nominal_at, job.origin.turn) for job in made.jobs] == [(T0 + 150 * MINUTE, 1)]


def test_several_small_steps_back_are_one_great_one():
    world = made_at("2026-01-05T00:00", Cron("30 2 * * *"))
    go_on(world, T0 + 4 * HOUR)
    assert go_on(world, T0 + 4 * HOUR, wall=T0 + 2 * HOUR).position.turn == 0
    assert go_on(world, T0 + 4 * HOUR, wall=T0 + HOUR).position.turn == 1


def test_a_clock_that_is_adjusted_by_a_quarter_of_a_second_is_no_step():
    for back, turn in ((250_000, 0), (250_001, 1)):
        world = made_at("2026-01-05T00:00", Cron("* * * * *"))
        go_on(world, T0 + MINUTE)
        assert go_on(world, T0 + MINUTE, wall=T0 + MINUTE - back).position.turn == turn


def test_a_catch_up_never_runs_a_slot_before_the_clock_shows_it():
    policy = MisfirePolicy(Misfire.ALL)
    world = made_at("2026-01-05T00:00", Cron("0 0,1,2,3,4 * * *"), misfire=policy, overlap=Overlap.ALLOW)
    assert slots(go_on(world, T0 + 4 * HOUR + MINUTE)) == [T0 + HOUR]
    made = go_on(world, T0 + 4 * HOUR + 2 * MINUTE, wall=T0 + 2 * HOUR + MINUTE)
    assert slots(made) == [T0 + 2 * HOUR]
    assert (made.position.catch_up_until, made.position.next_at) == (None, T0 + 3 * HOUR)


def test_a_step_back_ends_a_catch_up_of_what_the_clock_has_yet_to_show():
    world = made_at("2026-01-05T00:00", Cron("*/30 * * * *"), misfire=MisfirePolicy(Misfire.ALL), overlap=Overlap.ALLOW)
    go_on(world, T0 + 10 * HOUR + MINUTE)
    made = go_on(world, T0 + 10 * HOUR + 2 * MINUTE, wall=T0)
    assert (made.jobs, made.position.catch_up_at, made.position.catch_up_until) == ([], None, None)
    assert made.position.next_at == T0 + 30 * MINUTE


@pytest.mark.parametrize("misfire", list(Misfire))
def test_b43_a_wall_clock_far_ahead_is_bounded_work(misfire):
    for ahead in (3652 * DAY, us("2200-01-01T00:00") - T0):
        watched = Watched(Cron("* * * * * *"))
        world = made_at("2026-01-05T00:00", watched, misfire=MisfirePolicy(misfire))
        made = go_on(world, T0 + SECOND, wall=T0 + ahead)
        slots_to_come = 99 + 11 if misfire is Misfire.ALL else 0  # the rest of the catch-up, and those within the grace
        assert sum(row.count for row in made.rows) + slots_to_come == ahead // SECOND
        assert len(made.rows) <= 12
        assert len(watched.asked) < 200
        every = made_at("2026-01-05T00:00", Every(1))
        assert slots(go_on(every, T0 + SECOND, wall=T0 + ahead)) == [T0 + SECOND]


def test_an_ordinary_slot_takes_one_question_to_its_rule():
    watched = Watched(Cron("* * * * *"))
    world = made_at("2026-01-05T00:00", watched)
    watched.asked.clear()
    assert len(go_on(world, T0 + MINUTE).jobs) == 1
    assert watched.asked == ["following"]


def test_jobs_of_two_schedules_are_due_at_times_of_their_own():
    world = made_at("2026-01-05T00:00", Cron("* * * * *"), jitter_us=30 * SECOND)
    world.steady = T0 + MINUTE
    due = {}
    for world.schedule in ("a", "b"):
        due[world.schedule] = world.look().jobs[0].scheduled_at
        assert due[world.schedule] == jittered(world.schedule, T0 + MINUTE, 0, 30 * SECOND)
    assert due["a"] != due["b"]


def test_many_slots_within_the_grace_are_planned_in_portions():
    world = made_at("2026-01-05T00:00", Every(0.05), overlap=Overlap.SERIALIZE("k"))
    made = go_on(world, T0 + 9 * SECOND)
    assert (len(made.jobs), made.position.next_at) == (MOST_AT_ONCE, T0 + 101 * 50_000)
    assert len(go_on(world, T0 + 9 * SECOND).jobs) == 80
    assert wake_at(world.position) == (1, T0 + 9 * SECOND + 50_000)


# ---- gaps, start, end, max_runs --------------------------------------------------------------------------------------


def test_b01_a_slot_that_a_gap_swallowed_has_its_row():
    rule = Cron("0 2 * * *", tz="America/Los_Angeles", gap="SKIP")
    world = made_at("2025-03-08T20:00", rule)
    made = go_on(world, us("2025-03-10T09:00"))
    gap = us("2025-03-09T10:00") - 1
    assert told(made) == [
        (gap, gap, 1, Fate.SKIPPED, SkipReason.GAP),
        (us("2025-03-10T09:00"),) * 2 + (1, Fate.JOB, None),
    ]


def test_the_row_of_a_gap_never_takes_the_name_of_a_slot_at_its_end():
    rule = Cron("0,30 2,3 * * *", tz="Europe/Berlin", gap="SKIP")
    world = made_at("2026-03-28T12:00", rule)
    made = go_on(world, us("2026-03-29T01:00:05"))
    change = us("2026-03-29T01:00")
    assert told(made) == [
        (change - 1, change - 1, 2, Fate.SKIPPED, SkipReason.GAP),
        (change, change, 1, Fate.JOB, None),
    ]


def test_a_fold_loses_nothing():
    world = made_at("2026-10-24T12:00", Cron("30 2 * * *", tz="Europe/Berlin", gap="SKIP"))
    assert [row.fate for row in go_on(world, us("2026-10-25T00:30")).rows] == [Fate.JOB]
    assert go_on(world, us("2026-10-25T12:00")).rows == []


def test_nothing_runs_before_the_start_or_at_the_end():
    options = {"start_us": T0 + 2 * HOUR, "end_us": T0 + 4 * HOUR}
    world = made_at("2026-01-05T00:00", Cron("0 * * * *"), overlap=Overlap.ALLOW, **options)
    assert world.position.next_at == T0 + 2 * HOUR
    assert slots(go_on(world, T0 + 2 * HOUR)) == [T0 + 2 * HOUR]
    made = go_on(world, T0 + 3 * HOUR)
    assert (slots(made), made.ended, made.position.next_at) == ([T0 + 3 * HOUR], True, None)


def test_an_end_that_was_moved_before_the_next_slot_ends_it_there():
    for rule in (Cron("0 * * * *"), Every(3600)):
        world = made_at("2026-01-05T00:00", rule)
        world.definition = replace(world.definition, end_us=T0 + HOUR)
        made = go_on(world, T0 + HOUR)
        assert (made.rows, made.ended) == ([], True)


def test_the_end_looks_at_the_slot_and_not_at_the_moment_it_is_reached():
    world = made_at("2026-01-05T00:00", Cron("0 * * * *"), end_us=T0 + HOUR + 1)
    made = go_on(world, T0 + DAY)
    assert (slots(made), made.ended) == ([T0 + HOUR], True)


def test_the_end_of_an_interval_is_taken_as_the_clocks_stand():
    for ahead, ended in ((0, False), (HOUR, True)):
        world = made_at("2026-01-05T00:00", Every(3600), end_us=T0 + 2 * HOUR + 1)
        made = go_on(world, T0 + HOUR, wall=T0 + HOUR + ahead)
        assert made.ended is ended


def test_max_runs_counts_jobs_and_what_comes_after_the_last_is_no_slot():
    world = made_at("2026-01-05T00:00", Every(1), max_runs=2, overlap=Overlap.ALLOW)
    made = go_on(world, T0 + 5 * SECOND)
    assert (slots(made), made.ended, len(made.rows)) == ([T0 + SECOND, T0 + 2 * SECOND], True, 2)
    assert wake_at(made.position) is None
    assert (go_on(world, T0 + 9 * SECOND).rows, world.ended) == ([], True)


def test_skipped_slots_do_not_count_as_runs():
    world = made_at("2026-01-05T00:00", Every(60), max_runs=2)
    for minute in (1, 2, 3):
        go_on(world, T0 + minute * MINUTE)
    assert (world.position.made, world.ended) == (1, False)


def test_max_runs_ends_a_catch_up():
    policy = MisfirePolicy(Misfire.ALL, catch_up_per_s=None)
    world = made_at("2026-01-05T00:00", Every(60), max_runs=3, misfire=policy, overlap=Overlap.ALLOW)
    made = go_on(world, T0 + HOUR)
    assert (len(made.jobs), made.ended, made.position.catch_up_until) == (3, True, None)


def test_b33_a_week_counts_through_daily_restarts_and_clock_changes():
    world = made_at("2026-01-05T00:00", Every(timedelta(days=7)), overlap=Overlap.ALLOW)
    served = []
    for day in range(1, 16):
        served += slots(go_on(world, T0 + day * DAY, wall=T0 + day * DAY + (day % 3) * HOUR))
    assert served == [T0 + 7 * DAY, T0 + 14 * DAY]


def test_a_rule_without_its_calendar_is_refused_and_nothing_else_is_touched():
    from timewheel.errors import InvalidRule

    definition = Definition(rule=Cron("0 9 * * *", calendar="holidays"), task="t")
    now = Now(T0, T0)
    with pytest.raises(InvalidRule, match="only the name of its calendar"):
        first_position(definition, now, TZDATA)
    position = first_position(Definition(rule=Cron("0 9 * * *"), task="t"), now, TZDATA)
    with pytest.raises(InvalidRule, match="only the name of its calendar"):
        plan(definition, "s", position, [], Now(T0 + DAY, T0 + DAY), tzdata=TZDATA)
