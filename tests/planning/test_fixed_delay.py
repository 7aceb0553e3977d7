"""Every(..., after_completion=True): each slot counts from the end of the run before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.worlds import TZDATA, World
from timewheel.model import Now, OriginKind
from timewheel.planning.definition import Definition
from timewheel.planning.plan import plan
from timewheel.planning.policies import Misfire, MisfirePolicy, Overlap
from timewheel.planning.position import wake_at
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import Fate, SkipReason

SECOND = 1_000_000
T0 = 1_767_571_200 * SECOND
DELAY = 60 * SECOND


def begun(**options):
    rule = Every(60, after_completion=True)
    return World(Definition(rule=rule, task="t", **options), T0)


def go_on(world, at, finished_at=None, because=SkipReason.MISFIRE):
    world.steady = at
    made = plan(
        world.definition, world.schedule, world.position, world.unfinished, world.now,
        because=because, tzdata=TZDATA, finished_at=finished_at,
    )  # fmt: skip
    world.carry_out(made)
    return made


def test_the_first_run_is_one_delay_after_it_is_made():
    world = begun()
    assert wake_at(world.position) == (1, T0 + DELAY)
    assert go_on(world, T0 + DELAY - 1).jobs == []
    made = go_on(world, T0 + DELAY)
    assert [job.origin.nominal_at for job in made.jobs] == [T0 + DELAY]
    assert (made.position.next_at, made.ended, wake_at(made.position)) == (None, False, None)


def test_while_the_run_is_not_final_there_is_no_next_one():
    world = begun()
    go_on(world, T0 + DELAY)
    made = go_on(world, T0 + 100 * DELAY)
    assert (made.rows, made.jobs, made.position.next_at, made.ended) == ([], [], None, False)


def test_the_next_run_counts_from_the_end_whenever_that_is_noticed():
    world = begun()
    go_on(world, T0 + DELAY)
    world.finish(0)
    ended = T0 + DELAY + 7 * SECOND
    made = go_on(world, ended + 3 * SECOND, finished_at=ended)
    assert (made.rows, made.position.next_at) == ([], ended + DELAY)
    assert len(go_on(world, ended + DELAY).jobs) == 1


def test_an_end_that_nobody_knows_is_now():
    world = begun()
    go_on(world, T0 + DELAY)
    world.finish(0)
    assert go_on(world, T0 + 90 * SECOND).position.next_at == T0 + 90 * SECOND + DELAY


def test_an_end_before_the_slot_that_was_served_does_not_serve_it_again():
    world = begun()
    go_on(world, T0 + DELAY)
    world.finish(0)
    made = go_on(world, T0 + DELAY + 1, finished_at=T0 - 5 * DELAY)
    assert [row.first_at for row in made.rows] == [T0 + DELAY + 1]


@pytest.mark.parametrize(
    ("misfire", "fate", "told"),
    [
        (Misfire.SKIP, Fate.SKIPPED, []),
        (Misfire.LATEST, Fate.JOB, [(True, (T0 + DELAY, T0 + DELAY, 1))]),
        (Misfire.COALESCE, Fate.JOB, [(True, (T0 + DELAY, T0 + DELAY, 1))]),
        (Misfire.ALL, Fate.JOB, [(True, (T0 + DELAY, T0 + DELAY, 1))]),
    ],
)
def test_downtime_misses_one_slot(misfire, fate, told):
    world = begun(misfire=MisfirePolicy(misfire))
    made = go_on(world, T0 + 1000 * DELAY, because=SkipReason.PAUSED)
    assert [(row.first_at, row.count, row.fate) for row in made.rows] == [(T0 + DELAY, 1, fate)]
    assert [(job.origin.catch_up, job.origin.missed) for job in made.jobs] == told
    if misfire is Misfire.SKIP:
        assert (made.rows[0].reason, made.position.next_at) == (SkipReason.PAUSED, T0 + 1001 * DELAY)
    else:
        assert made.position.next_at is None


def test_a_slot_within_the_grace_is_on_time():
    for late, catch_up in ((10 * SECOND, False), (10 * SECOND + 1, True)):
        made = go_on(begun(), T0 + DELAY + late)
        assert [job.origin.catch_up for job in made.jobs] == [catch_up]
        assert [job.origin.missed for job in made.jobs] == [(T0 + DELAY, T0 + DELAY, 1) if catch_up else None]


def test_a_slot_that_was_skipped_is_one_row_and_where_the_schedule_stands():
    made = go_on(begun(misfire=MisfirePolicy(Misfire.SKIP)), T0 + 10 * DELAY)
    assert [(row.first_at, row.last_at) for row in made.rows] == [(T0 + DELAY, T0 + DELAY)]
    assert made.position.at == T0 + DELAY


def test_a_job_that_somebody_triggered_is_an_overlap_and_no_predecessor():
    world = begun()
    go_on(world, T0 + DELAY)
    world.unfinished = [world.unfinished[0]._replace(kind=OriginKind.MANUAL)]
    assert go_on(world, T0 + 2 * DELAY).position.next_at == T0 + 3 * DELAY
    made = go_on(world, T0 + 3 * DELAY)
    assert [(row.fate, row.reason) for row in made.rows] == [(Fate.SKIPPED, SkipReason.OVERLAP)]
    assert made.position.next_at == T0 + 4 * DELAY
    queueing = begun(overlap=Overlap.QUEUE_ONE.policy)
    queueing.unfinished = world.unfinished
    made = go_on(queueing, T0 + DELAY)
    assert (made.hold, made.position.next_at) == (True, None)


def test_end_and_max_runs_end_it():
    world = begun(max_runs=1)
    assert go_on(world, T0 + DELAY).ended
    world = begun(end_us=T0 + 2 * DELAY)
    assert not go_on(world, T0 + DELAY).ended, "the run that was made has yet to end"
    world.finish(0)
    made = go_on(world, T0 + DELAY + 1)
    assert (made.ended, made.position.next_at, made.rows) == (True, None, [])
    world = begun(end_us=T0 + 2 * DELAY, misfire=MisfirePolicy(Misfire.SKIP))
    assert go_on(world, T0 + 1.5 * DELAY).ended


def test_a_start_to_come_is_the_first_slot():
    assert begun(start_us=T0 + 5 * DELAY).position.next_at == T0 + 5 * DELAY
    assert begun(start_us=T0 - 5 * DELAY).position.next_at == T0 + DELAY


def test_a_rule_that_becomes_a_fixed_delay_waits_for_the_run_that_goes_on():
    world = begun()
    other = World(Definition(rule=Every(60), task="t"), T0)
    other.steady = T0 + DELAY
    other.carry_out(other.look())
    world.unfinished = other.unfinished
    made = go_on(world, T0 + DELAY)
    assert (made.rows, made.position.next_at) == ([], None)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5 * DELAY), st.integers(0, 3 * DELAY), st.booleans()), max_size=12))
def test_between_the_end_of_a_run_and_the_next_lies_a_delay(moves):
    world, ended = begun(), T0
    for before, duration, known in moves:
        go_on(world, world.position.next_at + before)
        slot = world.jobs[-1][1].origin.nominal_at
        assert slot == ended + DELAY
        assert len(world.unfinished) == 1
        ended = world.steady + duration
        world.finish(0)
        go_on(world, ended, finished_at=ended if known else None)
        assert world.position.next_at == ended + DELAY
    assert [row.fate for row in world.rows] == [Fate.JOB] * len(world.jobs)
    assert world.now == Now(world.steady, world.steady)
