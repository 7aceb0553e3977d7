"""Steady time: it goes on from what the journal saved, whatever the wall clock did, and never goes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.helpers import Stage
from timewheel.model import SECOND_US, Anchor, ClockKind, JobState, Now
from timewheel.testing.virtual import VirtualMachine
from timewheel.timeline import STEP_US, SUSPEND_US, Observed, Reading, Timeline

S = SECOND_US
SAVED = Anchor("boot-1", 50 * S, 1_000 * S, 990 * S)


def steady(anchor, boot_id, *, wall_s, boot_s):
    reading = Reading(wall_s * S, boot_s * S, boot_s * S)
    return Timeline(anchor, boot_id, reading).now(reading.wall_us, reading.boot_us).steady_us / S


@pytest.mark.parametrize(
    ("anchor", "boot_id", "wall_s", "boot_s", "expected"),
    [
        (None, "boot-1", 1_000, 7, 1_000),  # a new journal: equal to the wall clock
        (SAVED, "boot-1", 1_030, 80, 1_020),  # the same boot: the time that passed
        (SAVED, "boot-1", 500, 80, 1_020),  # ... whatever the wall clock was set to meanwhile
        (SAVED, "boot-1", 99_999, 80, 1_020),
        (SAVED, "boot-1", 1_000, 50, 990),
        (SAVED, "boot-2", 1_600, 5, 1_590),  # another boot: the wall clock serves once
        (SAVED, "boot-2", 1_000, 5, 990),
        (SAVED, "boot-2", 500, 5, 990),  # ... but steady time never goes back
        (SAVED, "boot-1", 1_600, 5, 1_590),  # the same name with less time since: another boot all the same
    ],
)
def test_steady_time_at_a_start(anchor, boot_id, wall_s, boot_s, expected):
    assert steady(anchor, boot_id, wall_s=wall_s, boot_s=boot_s) == expected


READINGS = st.lists(
    st.tuples(
        st.integers(0, 2 * S),  # awake time that passes
        st.one_of(st.just(0), st.integers(0, 100 * S)),  # sleep
        st.one_of(st.just(0), st.integers(-(10**9) * S, 10**9 * S)),  # the wall clock is set
    ),
    max_size=20,
)


@given(READINGS)
def test_within_one_boot_steady_time_is_the_elapsed_time_and_every_event_is_seen(events):
    wall, boot, awake = 10**10 * S, 100 * S, 90 * S
    timeline = Timeline(None, "boot-1", Reading(wall, boot, awake))
    now = timeline.reader(lambda: wall, lambda: boot)
    start, began = now().steady_us, boot
    for passed, slept, step in events:
        awake += passed
        boot += passed + slept
        wall += passed + slept + step
        stepped, suspended = timeline.observe(Reading(wall, boot, awake))
        assert stepped == (step if abs(step) > STEP_US else 0)
        assert suspended == (slept if slept > SUSPEND_US else 0)
        assert now() == timeline.now(wall, boot) == Now(wall, start + boot - began)
        assert timeline.observe(Reading(wall, boot, awake)) == Observed(0, 0), "an event is reported once"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.integers(-(10**6), 10**6)), max_size=12))
def test_over_restarts_and_boots_steady_time_never_goes_back(lives):
    wall, boot, boots, anchor, last = 10**9, 100, 1, None, 0
    for reboot, down, step in lives:
        wall = max(0, wall + down + step)
        boots += reboot
        boot = down // 2 if reboot else boot + down
        timeline = Timeline(anchor, f"boot-{boots}", Reading(wall, boot, boot))
        now = timeline.now(wall, boot)
        assert now.steady_us >= last
        if anchor is not None and not reboot:
            assert now.steady_us == last + down
        last = now.steady_us
        anchor = Anchor(f"boot-{boots}", boot, *now)


# ---- in lives of a scheduler ---------------------------------------------------------------------------------------


def after_a_restart(*, down_s, step_s=0.0, reboot=False):
    """after(100), 40 seconds of life, the end of it, and what the machine does meanwhile: when it ran (elapsed)."""
    stage = Stage(VirtualMachine())

    async def first(scheduler):
        await scheduler.after(100, "note", "after")
        await stage.machine.sleep(40)

    stage.play(first, crash_after=True)
    if reboot:
        stage.machine.reboot(down_s)
    else:
        stage.machine.block(down_s)
    stage.machine.step(step_s)
    stage.play(lambda _: stage.machine.sleep(200))
    return stage.when("after")


def test_a_delay_goes_on_while_nobody_is_there():
    assert after_a_restart(down_s=30) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_delay_does_not_care_that_the_clock_was_set_between_two_lives_of_one_boot(step_s):
    assert after_a_restart(down_s=30, step_s=step_s) == pytest.approx(100, abs=0.1)


def test_a_delay_over_a_reboot_counts_by_the_wall_clock():
    assert after_a_restart(down_s=30, reboot=True) == pytest.approx(100, abs=2)


def test_a_delay_over_a_reboot_with_the_clock_set_back_begins_again_where_it_was_saved():
    """Late rather than early: what was saved is at most a commit old, and the time that passed is not known."""
    assert after_a_restart(down_s=30, step_s=-3600, reboot=True) >= 100


def test_no_row_is_rewritten_when_the_wall_clock_steps():
    stage = Stage()

    async def scene(scheduler):
        job = await scheduler.after(100, "note", "after")
        before = (await job.refresh()).record
        stage.machine.step(-50_000)
        await stage.machine.sleep(5)
        assert (await job.refresh()).record == before

    stage.play(scene)
    [job] = stage.dump()["jobs"].values()
    assert (job.state, job.due_clock) == (JobState.SCHEDULED, ClockKind.STEADY)
