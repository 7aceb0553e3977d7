"""What happens when it fails: classes, deadlines, silence, a cancel's grace, and what must run once only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta

import pytest
from lives import Lives, states

from timewheel import Ambiguous, JobDead, Permanent, Retry, Snooze, Throttled, current
from timewheel.model import AttemptState, CancelAnswer, JobState, RetryPolicy
from timewheel.testing.virtual import VirtualMachine

ONCE = {"retry": None}
FLAT = Retry(max_attempts=3, base_s=10, factor=1, cap_s=10, jitter=0)
PLAIN = Retry(max_attempts=9, base_s=1, factor=2, cap_s=300, jitter=0)
RETRYABLE, TIMED_OUT = AttemptState.FAILED_RETRYABLE, AttemptState.TIMED_OUT


class Refused(Exception):
    """An answer of a server."""

    def __init__(self, status, **headers):
        super().__init__(f"{status}")
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Task:
    """A task under test: notes when it was entered, and then does what it is told."""

    def __init__(self, lives, does):
        self.machine = lives.machine
        self.does = does
        self.entered = []
        self.ended = []

    async def __call__(self):
        self.entered.append(self.machine.awake_us / 1e6)
        try:
            return await self.does()
        finally:
            self.ended.append(self.machine.awake_us / 1e6)

    def gaps(self):
        """Seconds from one entry to the next."""
        return [later - sooner for sooner, later in zip(self.entered, self.entered[1:], strict=False)]


def raising(*errors):
    """Raises these, one an attempt, and then succeeds."""
    left = list(errors)

    async def does():
        if left:
            raise left.pop(0)
        return "done"

    return does


async def hang():
    await asyncio.Event().wait()


def play(does, scene, *, lives=None, task=None, **options):
    """Plays `scene(scheduler, job)` for a job of a task that does this; returns (what the scene returns, the task)."""
    lives = lives or Lives()
    handler = Task(lives, does)

    async def whole(scheduler):
        scheduler.task(name="task", **(task or {}))(handler)
        job = await scheduler.options(**options).now("task")
        return await scene(scheduler, job)

    return lives.live(whole), handler


async def to_the_end(scheduler, job):
    """The job when it is final, and its attempts."""
    job = await job.wait()
    return job, await job.attempts()


# ---- classes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "fault", "reason"),
    [
        (ValueError("x"), "transient", "exhausted"),
        (KeyError("x"), "permanent", "permanent"),
        (OSError("x"), "ambiguous", "exhausted"),
        (Refused(404), "permanent", "permanent"),
        (Refused(429), "throttled", "exhausted"),
        (Permanent("x"), "permanent", "permanent"),
        (Throttled("x"), "throttled", "exhausted"),
        (Ambiguous("x"), "ambiguous", "exhausted"),
    ],
    ids=repr,
)
def test_a_failure_has_a_class_which_its_records_tell(error, fault, reason):
    classify = {KeyError: "PERMANENT", OSError: "AMBIGUOUS", 404: "PERMANENT"}
    (job, [attempt]), _ = play(raising(error), to_the_end, task={"classify": classify}, **ONCE)
    assert (job.state, job.reason) == (JobState.DEAD, reason)
    assert (attempt.fault, job.record.fault) == (fault.upper(), fault)
    assert len(job.record.fingerprint) == 16
    assert job.record.first_failed_at is not None


def test_the_last_class_stays_with_a_job_that_succeeds_later():
    (job, attempts), _ = play(raising(ValueError("x"), Throttled("y")), to_the_end, retry=FLAT)
    assert job.state is JobState.COMPLETED
    assert [attempt.fault for attempt in attempts] == ["TRANSIENT", "THROTTLED", None]
    assert (job.record.fault, job.record.failures) == ("throttled", 2)


def test_a_permanent_failure_by_classify_is_never_tried_again():
    (job, _), handler = play(raising(*[KeyError("x")] * 9), to_the_end, task={"classify": lambda _: "PERMANENT"})
    assert (job.state, job.reason, len(handler.entered)) == (JobState.DEAD, "permanent", 1)


def test_a_throttled_job_backs_off_harder_than_another():
    _, throttled = play(raising(*[Throttled("x")] * 3), to_the_end, retry=PLAIN)
    _, other = play(raising(*[ValueError("x")] * 3), to_the_end, retry=PLAIN)
    assert throttled.gaps() == pytest.approx([2, 8, 32], abs=0.1)
    assert other.gaps() == pytest.approx([1, 2, 4], abs=0.1)


def test_a_job_made_under_the_first_version_is_judged_by_it_for_ever():
    old = RetryPolicy(max_attempts=9, jitter=0.0, version=1)
    (_, attempts), handler = play(raising(*[Throttled("x")] * 3), to_the_end, retry=old)
    assert handler.gaps() == pytest.approx([1, 2, 4], abs=0.1)
    assert {attempt.policy for attempt in attempts} == {"exponential/1"}
    (_, attempts), _ = play(raising(Throttled("x")), to_the_end, retry=PLAIN)
    assert {attempt.policy for attempt in attempts} == {"exponential/2"}


@pytest.mark.parametrize(
    "asks",
    [
        Throttled("x", retry_after_s=60),
        Refused(503, Retry_After="60"),
        Refused(429, Retry_After="Mon, 05 Jan 2026 00:01:00 GMT"),
        Refused(503, Retry_After="Mon, 05 Jan 2026 09:01:00 GMT", Date="Mon, 05 Jan 2026 09:00:00 GMT"),
    ],
    ids=["Throttled", "seconds", "date", "date by another clock"],
)
def test_a_retry_after_is_honoured_and_those_who_got_the_same_one_do_not_come_back_together(asks):
    gaps = [play(raising(asks), to_the_end, lives=Lives(seed=seed))[1].gaps() for seed in range(20)]
    assert all(len(each) == 1 and 60 <= each[0] <= 62.1 for each in gaps)
    assert len({round(gap, 2) for [gap] in gaps}) > 10


def test_a_classify_that_breaks_is_told_of_once_and_the_job_is_tried_again(caplog):
    def broken(error):
        raise RuntimeError("what?")

    with caplog.at_level(logging.WARNING, "timewheel"):
        (job, attempts), _ = play(raising(*[KeyError("x")] * 2), to_the_end, task={"classify": broken}, retry=FLAT)
    assert job.state is JobState.COMPLETED
    assert [attempt.fault for attempt in attempts] == ["TRANSIENT", "TRANSIENT", None]
    assert len([record for record in caplog.records if "classify" in record.getMessage()]) == 1


def test_equal_failures_have_equal_fingerprints_and_others_do_not():
    async def first():
        raise ValueError("one")

    async def second():
        raise ValueError("two")

    async def inner():
        if current().attempt == 1:
            raise KeyError("a")
        raise KeyError("b")

    def print_of(does, **options):
        (job, _), _ = play(does, to_the_end, **(options or ONCE))
        return job.record.fingerprint

    assert print_of(first) == print_of(first) != print_of(second)
    assert print_of(raising(ValueError("one"))) == print_of(raising(ValueError("a second")))
    assert print_of(raising(ValueError("one"))) != print_of(raising(TypeError("one")))
    assert print_of(inner) == print_of(inner, retry=Retry(max_attempts=2)), "line and message do not count"
    assert print_of(hang, timeout_s=5, **ONCE) == print_of(hang, timeout_s=9, **ONCE) != print_of(first)


# ---- what must not run twice -----------------------------------------------------------------------------------------

HARMFUL = {"idempotent": False}


def test_an_ambiguous_failure_is_tried_again_unless_that_would_harm():
    (job, attempts), _ = play(raising(Ambiguous("x")), to_the_end)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 2)
    (job, [attempt]), _ = play(raising(Ambiguous("x")), to_the_end, task=HARMFUL)
    assert (job.state, job.reason, attempt.state) == (JobState.DEAD, "ambiguous", RETRYABLE)
    (job, attempts), _ = play(raising(ValueError("x")), to_the_end, task=HARMFUL)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 2)


def test_a_timeout_of_what_must_not_run_twice_makes_it_dead():
    (job, [attempt]), handler = play(hang, to_the_end, task=HARMFUL, timeout_s=5)
    assert (job.state, job.reason, attempt.state, len(handler.entered)) == (JobState.DEAD, "ambiguous", TIMED_OUT, 1)
    assert (job.record.fault, job.error.splitlines()[0]) == ("ambiguous", "timed out after 5 s")


@pytest.mark.parametrize("harmful", [False, True])
def test_what_was_running_when_its_process_died(harmful):
    lives = Lives()
    handler = Task(lives, hang)

    async def begin(scheduler):
        scheduler.task(name="task", idempotent=not harmful)(handler)
        job = await scheduler.now("task")
        await asyncio.sleep(1)  # virtual
        return job.id

    async def later(scheduler):
        await asyncio.sleep(1)  # virtual
        job = await scheduler.get_job(job_id)
        return job, await job.attempts()

    job_id = lives.die(begin)
    handler.does = raising()
    for _ in range(2):  # a second recovery finds the same
        job, attempts = lives.live(later, {"task": handler})
        if harmful:
            assert (job.state, job.reason, len(handler.entered)) == (JobState.DEAD, "ambiguous", 1)
            assert [attempt.state for attempt in attempts] == [AttemptState.LOST]
        else:
            assert (job.state, len(handler.entered)) == (JobState.COMPLETED, 2)
        assert (attempts[0].fault, job.record.losses) == ("AMBIGUOUS", 1)


@pytest.mark.parametrize("harmful", [False, True])
@pytest.mark.parametrize("clings", [False, True])
def test_what_a_stop_interrupts(harmful, clings):
    lives = Lives()

    async def does():
        try:
            await hang()
        except asyncio.CancelledError:
            if not clings:
                raise
            await asyncio.sleep(60)  # virtual

    handler = Task(lives, does)

    async def scene(scheduler):
        scheduler.task(name="task", idempotent=not harmful)(handler)
        running = await scheduler.now("task")
        await asyncio.sleep(1)  # virtual
        waiting = await scheduler.now("task")
        await asyncio.sleep(1)  # virtual
        await scheduler.stop(grace_s=1)
        dump = await lives.store.dump()
        return [dump["jobs"][job.number] for job in (running, waiting)], dump["attempts"][running.number, 1]

    (running, waiting), attempt = lives.live(scene, concurrency=1)
    assert (attempt.state, running.failures) == (AttemptState.RELEASED, 0)
    if harmful:
        assert (running.state, running.reason, running.fault) == (JobState.DEAD, "ambiguous", "ambiguous")
        assert running.error.startswith("stopped at the end of the grace, and not tried again: it is not idempotent")
    else:
        assert (running.state, running.fault) == (JobState.SCHEDULED, None)
    assert waiting.state is JobState.SCHEDULED, "it had not begun"


# ---- deadlines -------------------------------------------------------------------------------------------------------


def test_a_retry_that_would_come_at_the_deadline_is_not_made():
    (job, _), handler = play(raising(*[ValueError("x")] * 9), to_the_end, retry=FLAT, deadline_after_s=15)
    assert (job.state, job.reason, len(handler.entered)) == (JobState.DEAD, "deadline", 2)
    assert handler.entered[-1] < 12, "it is dead as soon as that is known"
    assert job.record.failures == 2


def test_a_running_attempt_is_stopped_at_the_deadline():
    async def does():
        assert current().deadline == current().scheduled_at.replace(second=7)
        await hang()

    (job, [attempt]), handler = play(does, to_the_end, deadline_after_s=7)
    assert (job.state, job.reason, attempt.state) == (JobState.DEAD, "deadline", TIMED_OUT)
    assert handler.ended == pytest.approx([7], abs=0.01)
    assert (attempt.error_kind, job.error.splitlines()[0]) == ("TimeoutError", "its deadline came while it ran")


def test_without_a_deadline_there_is_none():
    async def does():
        return current().deadline

    assert play(does, lambda _, job: job.result())[0] is None


def test_a_snooze_beyond_the_deadline_gives_the_job_up():
    (job, [attempt]), _ = play(raising(Snooze(60)), to_the_end, deadline_after_s=30)
    assert (job.state, job.reason, attempt.state) == (JobState.DEAD, "deadline", AttemptState.RELEASED)
    (job, attempts), _ = play(raising(Snooze(60)), to_the_end, deadline_after_s=90)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 2)


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize(("step_s", "ends_at"), [(3600, 10), (50, 50), (-1000, 1100)])
def test_a_deadline_follows_the_wall_clock_wherever_that_is_set(step_s, ends_at, quiet):
    lives = Lives()
    lives.machine = VirtualMachine(quiet=quiet)

    async def scene(scheduler, job):
        await asyncio.sleep(10)  # virtual
        lives.machine.step(step_s)
        return await to_the_end(scheduler, job)

    (job, [attempt]), handler = play(hang, scene, lives=lives, deadline_after_s=100)
    assert (job.state, job.reason, attempt.state) == (JobState.DEAD, "deadline", TIMED_OUT)
    assert ends_at <= handler.ended[0] <= ends_at + (0.01 if quiet else 1.01)


def test_each_of_many_ends_at_its_own_deadline():
    lives = Lives()
    ended = {}

    async def does(seconds):
        try:
            await asyncio.sleep(20)  # virtual
        finally:
            ended[seconds] = lives.machine.awake_us / 1e6

    async def scene(scheduler):
        jobs = {s: await scheduler.options(deadline_after_s=s).now("task", s) for s in deadlines}
        return {s: (await job.wait()).state for s, job in jobs.items()}

    deadlines = (30, 3, 9, 1, 40, 5, 9.5, 2.5, 6.5)
    found = lives.live(scene, {"task": does})
    assert found == {s: JobState.COMPLETED if s > 20 else JobState.DEAD for s in deadlines}
    assert ended == {s: pytest.approx(min(s, 20), abs=0.1) for s in deadlines}


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize(
    ("option", "state", "reason"),
    [("deadline_after_s", JobState.DEAD, "deadline"), ("expires_after_s", JobState.SKIPPED, "expired")],
)
def test_whose_turn_or_thread_comes_too_late_is_not_entered(option, state, reason, sync):
    lives = Lives()
    entered = []

    def blocks():
        lives.machine.block(10)

    async def on_loop():
        entered.append("on loop")

    def in_thread():
        entered.append("in thread")

    async def scene(scheduler):
        when = lives.machine.now() + timedelta(seconds=1)
        await scheduler.at(when, "blocks")
        job = await scheduler.options(**{option: 5}).at(when, "late")
        job = await job.wait()
        return job, await job.attempts()

    tasks = {"blocks": blocks, "late": in_thread if sync else on_loop}
    job, [attempt] = lives.live(scene, tasks)
    assert (job.state, job.reason, attempt.state) == (state, reason, AttemptState.RELEASED)
    assert (job.record.failures, entered) == (0, [])


# ---- silence ---------------------------------------------------------------------------------------------------------


def beating(machine, every_s, times, then=0.0):
    async def does():
        for _ in range(times):
            await asyncio.sleep(every_s)  # virtual
            current().heartbeat()
        await asyncio.sleep(then)  # virtual
        return "done"

    return does


def test_a_handler_that_says_it_is_alive_may_run_for_ever():
    lives = Lives()
    (job, _), handler = play(beating(lives.machine, 4.9, 100), to_the_end, lives=lives, heartbeat_timeout_s=5)
    assert (job.state, len(handler.entered)) == (JobState.COMPLETED, 1)


def test_a_silent_handler_is_ended_as_timed_out():
    lives = Lives()
    does = beating(lives.machine, 3, 4, then=1000)
    (job, [attempt]), handler = play(does, to_the_end, lives=lives, heartbeat_timeout_s=5, **ONCE)
    assert (job.state, job.reason, attempt.state) == (JobState.DEAD, "exhausted", TIMED_OUT)
    assert handler.ended == pytest.approx([12 + 5], abs=0.01)
    assert (job.error.splitlines()[0], attempt.error_kind) == ("no heartbeat for 5 s", "TimeoutError")
    assert "test_failures.py" in job.error, "it says where it hung"
    assert job.record.fault == "ambiguous"


def test_progress_is_a_heartbeat_and_can_be_seen_while_it_runs():
    lives = Lives()

    async def does():
        for done in range(5):
            current().progress({"done": done, "of": 5})
            await asyncio.sleep(4)  # virtual

    async def scene(scheduler, job):
        await asyncio.sleep(9)  # virtual
        [running] = await job.attempts()
        state = (await job.wait()).state
        [ended] = await job.attempts()
        return running.progress, state, ended.progress

    seen, _ = play(does, scene, lives=lives, heartbeat_timeout_s=5)
    assert seen == ({"done": 2, "of": 5}, JobState.COMPLETED, None)


def test_heartbeats_may_come_from_any_thread_and_cost_nothing_where_nobody_listens():
    async def does():
        current().heartbeat()
        return "done"

    assert play(does, lambda _, job: job.result())[0] == "done"


def test_a_suspend_is_no_silence():
    lives = Lives()

    async def scene(scheduler, job):
        await asyncio.sleep(7)  # virtual
        lives.machine.suspend(3600)
        return await to_the_end(scheduler, job)

    (job, attempts), _ = play(beating(lives.machine, 4, 5), scene, lives=lives, heartbeat_timeout_s=5)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 1)


def test_a_blocked_loop_is_no_silence_of_those_it_kept_from_speaking():
    lives = Lives()

    async def scene(scheduler, job):
        await asyncio.sleep(7)  # virtual
        lives.machine.block(30)
        return await to_the_end(scheduler, job)

    (job, attempts), _ = play(beating(lives.machine, 4, 5), scene, lives=lives, heartbeat_timeout_s=5)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 1)


def test_a_loop_that_is_blocked_again_is_an_excuse_again_for_those_who_spoke_in_between():
    lives = Lives()

    async def scene(scheduler, job):
        await asyncio.sleep(7)  # virtual
        lives.machine.block(30)
        await asyncio.sleep(1)  # virtual; it has been heard
        lives.machine.block(30)
        return await to_the_end(scheduler, job)

    (job, attempts), _ = play(beating(lives.machine, 4, 5), scene, lives=lives, heartbeat_timeout_s=5)
    assert (job.state, len(attempts)) == (JobState.COMPLETED, 1)


def test_a_handler_that_hangs_in_a_blocked_loop_is_ended_all_the_same():
    lives = Lives()

    async def scene(scheduler, job):
        await asyncio.sleep(3)  # virtual
        lives.machine.block(30)
        return await to_the_end(scheduler, job)

    (job, _), handler = play(hang, scene, lives=lives, heartbeat_timeout_s=5, **ONCE)
    assert job.error.splitlines()[0] == "no heartbeat for 5 s"
    assert handler.ended[0] <= 33 + 5 + 0.1


def test_the_first_limit_counts_and_the_others_are_forgotten():
    limits = {"timeout_s": 20, "heartbeat_timeout_s": 9, "deadline_after_s": 30}

    def ends(**changed):
        (job, [attempt]), handler = play(hang, to_the_end, **{**limits, **changed}, **ONCE)
        assert attempt.state is TIMED_OUT
        return handler.ended[0], job.error.splitlines()[0], job.reason

    assert ends() == (pytest.approx(9, abs=0.01), "no heartbeat for 9 s", "exhausted")
    assert ends(timeout_s=5) == (pytest.approx(5, abs=0.01), "timed out after 5 s", "exhausted")
    assert ends(deadline_after_s=3) == (pytest.approx(3, abs=0.01), "its deadline came while it ran", "deadline")


def test_a_handler_that_clings_is_recorded_once_whatever_other_limits_pass():
    async def clings():
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(20)  # virtual

    async def scene(scheduler, job):
        await asyncio.sleep(15)  # virtual
        waiting = await job.refresh()
        assert (waiting.state, waiting.reason) == (JobState.WAITING, "overrun")
        assert await states(job) == [TIMED_OUT]
        return await to_the_end(scheduler, job)

    options = {"timeout_s": 5, "heartbeat_timeout_s": 5.5, "deadline_after_s": 200, "retry": Retry(max_attempts=2)}
    (job, attempts), handler = play(clings, scene, **options)
    assert [attempt.state for attempt in attempts] == [TIMED_OUT, TIMED_OUT]
    assert (job.state, len(handler.entered)) == (JobState.DEAD, 2)


# ---- a cancel's grace ------------------------------------------------------------------------------------------------

GRACE = {"cancel_grace_s": 10}


async def looks():
    while not current().cancel_requested:
        await asyncio.sleep(1)  # virtual
    return "tidied up"


async def cancel_at_5(scheduler, job):
    await asyncio.sleep(5)  # virtual
    assert await job.cancel("enough") is CancelAnswer.REQUESTED
    return await to_the_end(scheduler, job)


def test_without_a_grace_an_async_handler_is_interrupted_at_once():
    (job, [attempt]), handler = play(hang, cancel_at_5)
    assert (job.state, attempt.state) == (JobState.CANCELLED, AttemptState.CANCELLED)
    assert handler.ended == pytest.approx([5], abs=0.01)


def test_one_that_looks_ends_by_itself_and_has_succeeded():
    (job, [attempt]), handler = play(looks, cancel_at_5, task=GRACE)
    assert (job.state, attempt.state) == (JobState.COMPLETED, AttemptState.SUCCEEDED)
    assert 5 <= handler.ended[0] <= 6.1


def test_one_that_does_not_look_is_interrupted_when_the_grace_ends():
    (job, [attempt]), handler = play(hang, cancel_at_5, task=GRACE)
    assert (job.state, job.reason, attempt.state) == (JobState.CANCELLED, "enough", AttemptState.CANCELLED)
    assert handler.ended == pytest.approx([15], abs=0.01)


def test_one_that_fails_within_the_grace_is_cancelled_all_the_same():
    async def does():
        await looks()
        raise ValueError("half done")

    (job, [attempt]), _ = play(does, cancel_at_5, task=GRACE)
    assert (job.state, attempt.state) == (JobState.CANCELLED, RETRYABLE)


def test_a_second_cancel_does_not_shorten_the_grace():
    async def scene(scheduler, job):
        first = asyncio.create_task(cancel_at_5(scheduler, job))
        await asyncio.sleep(9)  # virtual
        assert await job.cancel("now!") is CancelAnswer.REQUESTED
        return await first

    (job, _), handler = play(hang, scene, task=GRACE)
    assert job.state is JobState.CANCELLED
    assert handler.ended == pytest.approx([15], abs=0.01)


@pytest.mark.parametrize("limit", ["timeout_s", "heartbeat_timeout_s", "deadline_after_s"])
def test_a_limit_of_the_attempt_ends_the_grace(limit):
    (job, [attempt]), handler = play(hang, cancel_at_5, task=GRACE, **{limit: 8})
    assert (job.state, attempt.state) == (JobState.CANCELLED, AttemptState.CANCELLED)
    assert handler.ended == pytest.approx([8], abs=0.01)


def test_a_stop_ends_the_grace():
    lives = Lives()

    async def scene(scheduler, job):
        await asyncio.sleep(5)  # virtual
        assert await job.cancel("enough") is CancelAnswer.REQUESTED
        await scheduler.stop(grace_s=2)
        return (await lives.store.dump())["jobs"][job.number].state

    state, handler = play(hang, scene, lives=lives, task=GRACE)
    assert state is JobState.CANCELLED
    assert handler.ended == pytest.approx([7], abs=0.01)


def test_a_dead_job_tells_the_reason_when_its_result_is_asked_for():
    async def scene(scheduler, job):
        with pytest.raises(JobDead, match=r"\(deadline\)"):
            await job.result()

    play(hang, scene, deadline_after_s=3)
