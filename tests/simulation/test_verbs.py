"""Cancel and reschedule: the answer is the truth, in every interleaving; and what `wait` and `result` say."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from helpers import SlowStore
from lives import FaultyStore, Lives, nothing, states

from timewheel import (
    CancelAnswer,
    InvalidTime,
    JobCancelled,
    JobDead,
    JobNotFound,
    JobSkipped,
    JournalFull,
    NotStarted,
    Permanent,
    RescheduleAnswer,
    ResultOmitted,
    Retry,
    Transient,
    WaitTimeout,
    current,
)
from timewheel.model import AttemptState, JobState, WaitingReason
from timewheel.store.changes import Cancel, Claim, Settle
from timewheel_storage.memory import MemoryStore

CANCELLED, REQUESTED, TOO_LATE = CancelAnswer
QUICK = Retry(max_attempts=4, base_s=0.02, factor=1, cap_s=0.02, jitter=0)


# ---- each state by itself --------------------------------------------------------------------------------------------


async def cancel_after(scheduler, delay_s, task="slow"):
    """Cancel a job due in a second, `delay_s` after it was made: (answer, final job)."""
    job = await scheduler.after(1, task)
    await asyncio.sleep(delay_s)  # virtual
    answer = await job.cancel("why not")
    return answer, await job.wait(60)


async def slow():
    await asyncio.sleep(5)  # virtual
    return "done"


@pytest.mark.parametrize(
    ("delay_s", "answer", "state", "attempts"),
    [
        (0.5, CANCELLED, JobState.CANCELLED, []),
        (0.99, CANCELLED, JobState.CANCELLED, [AttemptState.CANCELLED]),  # claimed, at the gate
        (3, REQUESTED, JobState.CANCELLED, [AttemptState.CANCELLED]),
        (7, TOO_LATE, JobState.COMPLETED, [AttemptState.SUCCEEDED]),
    ],
    ids=["pending", "claimed", "running", "finished"],
)
def test_b81_cancel_tells_the_truth_in_each_state(delay_s, answer, state, attempts):
    async def scene(scheduler):
        given, job = await cancel_after(scheduler, delay_s)
        assert (given, bool(given), job.state) == (answer, answer is not TOO_LATE, state)
        assert await states(job) == attempts
        assert job.reason == ("why not" if state is JobState.CANCELLED else None)
        assert await job.cancel() is TOO_LATE

    Lives().live(scene, {"slow": slow})


def test_b81_a_handler_that_succeeds_all_the_same_stays_completed():
    async def clinging():
        try:
            await asyncio.sleep(5)  # virtual
        except asyncio.CancelledError:
            return current().cancel_requested

    async def scene(scheduler):
        given, job = await cancel_after(scheduler, 3, "clinging")
        assert (given, job.state, await job.result()) == (REQUESTED, JobState.COMPLETED, True)

    Lives().live(scene, {"clinging": clinging})


def test_a_cancelled_job_that_fails_is_not_retried():
    async def spiteful():
        try:
            await asyncio.sleep(5)  # virtual
        except asyncio.CancelledError:
            raise Transient("again, please") from None

    async def scene(scheduler):
        given, job = await cancel_after(scheduler, 3, "spiteful")
        assert (given, job.state, job.reason) == (REQUESTED, JobState.CANCELLED, "why not")
        assert await states(job) == [AttemptState.FAILED_RETRYABLE]

    Lives().live(scene, {"spiteful": spiteful})


def test_a_job_that_waits_for_its_task_is_cancelled_and_moved_like_any_other():
    lives = Lives()

    async def make(scheduler):
        return [(await scheduler.now("gone")).id for _ in range(2)]

    async def scene(scheduler):
        await asyncio.sleep(1)  # virtual
        cancelled, moved = [await scheduler.get_job(each) for each in ids]
        assert {cancelled.reason, moved.reason} == {WaitingReason.UNRESOLVABLE}
        assert await cancelled.cancel() is CANCELLED
        assert await moved.reschedule(timedelta(hours=1)) is RescheduleAnswer.MOVED
        assert (await moved.refresh()).state is JobState.SCHEDULED

    ids = lives.die(make, {"gone": slow})
    lives.live(scene)


@pytest.mark.parametrize(
    ("delay_s", "answer", "runs"),
    [(0.5, "moved", [10.5]), (0.99, "moved", [10.99]), (3, "too_late", [1.0]), (7, "too_late", [1.0])],
    ids=["pending", "claimed", "running", "finished"],
)
def test_b81_reschedule_tells_the_truth_in_each_state(delay_s, answer, runs):
    lives = Lives()
    began = []

    async def note():
        began.append(lives.machine.awake_us / 1e6)
        await slow()

    async def scene(scheduler):
        job = await scheduler.after(1, "note")
        await asyncio.sleep(delay_s)  # virtual
        given = await job.reschedule(timedelta(seconds=10))
        assert (given.value, bool(given)) == (answer, answer == "moved")
        job = await job.wait(60)
        assert job.version == (2 if answer == "moved" else 1)
        assert (await states(job))[-1] is AttemptState.SUCCEEDED

    lives.live(scene, {"note": note})
    assert began == pytest.approx(runs, abs=0.002)


def test_reschedule_takes_what_at_takes():
    lives = Lives()

    async def scene(scheduler):
        job = await scheduler.after(1, "slow")
        target = lives.machine.now() + timedelta(hours=2)
        assert await job.reschedule(target)
        assert (await job.refresh()).scheduled_at == target
        assert await job.reschedule(target.timestamp() + 5)
        assert (await job.refresh()).scheduled_at == target + timedelta(seconds=5)
        for wrong in (5, lives.machine.now().replace(tzinfo=None), True):
            with pytest.raises(InvalidTime):
                await job.reschedule(wrong)

    lives.live(scene, {"slow": slow})


# ---- every interleaving ----------------------------------------------------------------------------------------------


class LateThreads:
    """Threads that take a while to come: a sync handler waits for one, and then runs in one turn of the loop."""

    def __init__(self, chance):
        self.chance = chance

    def start(self, call):
        asyncio.get_running_loop().call_later(self.chance.uniform(0, 0.05), call)

    def close(self):
        pass

    def busy(self):
        return 0


class Interleaving:
    """Some jobs, and actors that cancel and move them around the moment they start. `log` is what really happened."""

    JOBS = 12

    def __init__(self, seed):
        self.random = random.Random(seed)
        store = SlowStore(MemoryStore(), seed, commit_s=self.random.choice([0, 0.01, 0.05]))
        self.lives = Lives(seed=seed, shuffle=True, store=store)
        machine = self.lives.machine
        machine.system = replace(machine.system, threads=lambda limit: LateThreads(self.random))
        self.log = []  # (what, job id, detail, steady us)

    def note(self, what, job_id, detail=None):
        self.log.append((what, job_id, detail, self.lives.machine.clock.boot_us()))

    async def on_loop(self, fails):
        self.note("start", current().job_id)
        await asyncio.sleep(self.random.uniform(0, 0.15))  # virtual
        if current().attempt <= fails:
            raise Transient
        self.note("success", current().job_id)

    def in_thread(self, fails):
        self.note("start", current().job_id)
        if current().attempt <= fails:
            raise Transient
        self.note("success", current().job_id)

    async def act(self, job):
        await asyncio.sleep(self.random.uniform(0, 0.25))  # virtual
        if self.random.random() < 0.6:
            self.note("cancel", job.id, await job.cancel())
        else:
            delay = self.random.choice([0, 0.03, 0.3])
            due = self.lives.machine.clock.boot_us() + round(delay * 1e6)
            answer = await job.reschedule(timedelta(seconds=delay))
            self.note("move", job.id, due if answer else None)

    async def scene(self, scheduler):
        verbs = scheduler.options(retry=QUICK)
        actors = []
        for _ in range(self.JOBS):
            task, fails = self.random.choice(["on_loop", "in_thread"]), self.random.choice([0, 0, 1])
            job = await verbs.after(self.random.uniform(0.05, 0.15), task, fails)
            actors += [asyncio.create_task(self.act(job)) for _ in range(self.random.choice([1, 1, 2, 3]))]
        await asyncio.gather(*actors)
        return [await job.wait(600) async for job in scheduler.jobs()]

    def play(self):
        tasks = {"on_loop": self.on_loop, "in_thread": self.in_thread}
        jobs = self.lives.live(self.scene, tasks, concurrency=self.random.choice([2, 100]))
        return {job.id: job for job in jobs}


def judge(job, events):
    """Hold a job's history against the promises of the verbs."""
    verdicts = Counter()
    forbidden_until = 0
    for place, (what, _, detail, moment) in enumerate(events):
        before, after = events[:place], events[place + 1 :]
        if what == "start":
            assert moment >= forbidden_until, "started before the time it was moved to"
        elif what == "move" and detail is not None:
            forbidden_until = detail
        if what == "cancel":
            verdicts[detail] += 1
            if detail is CANCELLED:
                assert job.state is JobState.CANCELLED
                assert not any(other[0] == "start" for other in after), "started after its cancel was confirmed"
            elif detail is REQUESTED:
                succeeded = any(other[0] == "success" for other in events)
                assert job.state is (JobState.COMPLETED if succeeded else JobState.CANCELLED)
            else:
                assert any(other[0] == "success" or other[2] in (CANCELLED, REQUESTED) for other in before), "not final"
    successes = sum(event[0] == "success" for event in events)
    assert successes == (job.state is JobState.COMPLETED)
    return verdicts


@pytest.mark.parametrize("block", range(8))
def test_b81_i9_the_answer_is_the_truth_in_every_interleaving(block):
    verdicts = Counter()
    for seed in range(block * 50, block * 50 + 50):
        play = Interleaving(seed)
        for job_id, job in play.play().items():
            try:
                verdicts += judge(job, [event for event in play.log if event[1] == job_id])
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}, {job}: {wrong}") from wrong
    assert min(verdicts[answer] for answer in CancelAnswer) > 20, verdicts


# ---- B82: verbs and crashes ------------------------------------------------------------------------------------------


def test_b82_a_confirmed_cancel_survives_a_crash():
    lives = Lives()
    ran = []

    async def never():
        ran.append(current().job_id)

    async def scene(scheduler):
        job = await scheduler.after(1, "never")
        assert await job.cancel() is CANCELLED
        return job.id

    job_id = lives.die(scene, {"never": never})

    async def later(scheduler):
        await asyncio.sleep(60)  # virtual
        assert (await scheduler.get_job(job_id)).state is JobState.CANCELLED

    lives.live(later, {"never": never})
    assert ran == []


def test_b82_a_requested_cancel_survives_a_crash_and_the_lost_attempt_is_not_retried():
    lives = Lives()
    ran = []

    async def stubborn():
        ran.append(current().attempt)
        while True:
            try:
                await asyncio.sleep(60)  # virtual
            except asyncio.CancelledError:
                ran.append("asked")

    async def scene(scheduler):
        job = await scheduler.now("stubborn")
        await asyncio.sleep(1)  # virtual
        assert await job.cancel("enough") is REQUESTED
        return job.id

    job_id = lives.die(scene, {"stubborn": stubborn})

    async def later(scheduler):
        job = await (await scheduler.get_job(job_id)).wait(60)
        assert (job.state, job.reason) == (JobState.CANCELLED, "enough")
        assert await states(job) == [AttemptState.LOST]

    lives.live(later, {"stubborn": stubborn})
    assert ran[:1] == [1]
    assert 2 not in ran


@pytest.mark.parametrize("moment", ["before", "after"])
def test_i3_an_unconfirmed_cancel_happens_completely_or_not_at_all(moment):
    """The process dies inside the commit of a cancel, before and after the journal has it."""
    store = FaultyStore()
    lives = Lives(store=store)

    async def hang(changes):
        if any(isinstance(change, Cancel) for change in changes):
            await asyncio.Event().wait()

    async def scene(scheduler):
        job = await scheduler.after(1, "slow")
        setattr(store, moment, hang)
        unanswered = asyncio.ensure_future(job.cancel())
        await asyncio.sleep(10)  # virtual
        assert not unanswered.done()
        return job.id

    job_id = lives.die(scene, {"slow": slow})
    lives.store = store.inner

    async def later(scheduler):
        return await (await scheduler.get_job(job_id)).wait(60)

    expected = JobState.CANCELLED if moment == "after" else JobState.COMPLETED
    assert lives.live(later, {"slow": slow}).state is expected


@pytest.mark.parametrize("kind", [Claim, Settle], ids=["claim", "settle"])
def test_a_caller_who_stops_waiting_changes_nothing(kind):
    """The caller of cancel is cancelled while its verb is being committed: the verb happens, the gate is not stuck."""
    lives = Lives(store=SlowStore(MemoryStore(), commit_s=0.2))

    async def scene(scheduler):
        job = await scheduler.after(1, "slow")
        await asyncio.sleep(0.95 if kind is Claim else 3)  # virtual
        caller = asyncio.ensure_future(job.cancel())
        await asyncio.sleep(0.01)  # virtual
        caller.cancel()
        assert (await job.wait(60)).state is JobState.CANCELLED
        assert await (await scheduler.now("slow")).result(60) == "done"

    lives.live(scene, {"slow": slow}, concurrency=1)


# ---- wait, result, attempts, and their errors ------------------------------------------------------------------------


def test_result_and_wait_say_why_there_is_no_result():
    lives = Lives()

    async def dies():
        raise Permanent("broken")

    async def odd():
        return object()

    async def scene(scheduler):
        with pytest.raises(WaitTimeout) as waited:
            await (await scheduler.now("slow")).wait(timeout_s=1)
        assert waited.value.job.state is JobState.ACTIVE
        assert isinstance(waited.value, TimeoutError)
        with pytest.raises(WaitTimeout):
            await (await scheduler.after(1, "slow")).wait(timeout_s=0)
        with pytest.raises(JobDead, match=r"dies failed for good \(permanent\): timewheel.*Permanent: broken") as dead:
            await (await scheduler.now("dies")).result()
        assert dead.value.job.state is JobState.DEAD
        job = await scheduler.after(60, "slow")
        await job.cancel("no need")
        with pytest.raises(JobCancelled, match=r"was cancelled \(no need\)") as cancelled:
            await job.result()
        assert cancelled.value.job.id == job.id
        with pytest.raises(ResultOmitted, match="object") as omitted:
            await (await scheduler.now("odd")).result()
        assert omitted.value.job.state is JobState.COMPLETED
        return await scheduler.options(misfire_grace_s=1).after(60, "slow")

    skipped = lives.die(scene, {"slow": slow, "dies": dies, "odd": odd})
    lives.machine.awake_us += 3600 * 1_000_000

    async def later(scheduler):
        job = await scheduler.get_job(skipped.id)
        with pytest.raises(JobSkipped, match=r"was skipped \(misfire\)") as error:
            await job.result(10)
        assert error.value.job.state is JobState.SKIPPED
        assert await job.attempts() == []

    lives.live(later, {"slow": slow})


def test_many_wait_for_one_job_and_a_stop_wakes_them_all():
    lives = Lives()

    async def scene(scheduler):
        job = await scheduler.after(3600, "slow")
        lives.waiting = [asyncio.ensure_future(job.wait(limit)) for limit in (None, 100, 7200)]
        await asyncio.sleep(1)  # virtual

    async def main():
        async with lives.scheduler({"slow": slow}) as scheduler:
            await scene(scheduler)
        return await asyncio.gather(*lives.waiting, return_exceptions=True)

    answers = lives.machine.run(main())
    assert [type(answer) for answer in answers] == [NotStarted] * 3


def test_attempts_show_the_running_one_and_their_instants():
    lives = Lives()

    async def scene(scheduler):
        job = await scheduler.after(1, "slow")
        await asyncio.sleep(3)  # virtual
        [running] = await job.attempts()
        assert (running.state, running.finished_at) == (AttemptState.RUNNING, None)
        await job.wait()
        [done] = await job.attempts()
        assert (done.started_at, done.number, done.scheduled_at) == (running.started_at, 1, running.scheduled_at)
        assert done.scheduled_at <= done.dispatched_at <= done.started_at < done.finished_at
        assert (done.finished_at - done.started_at).total_seconds() == pytest.approx(5, abs=0.01)
        assert done.start_lag_s == pytest.approx((done.started_at - done.scheduled_at).total_seconds(), abs=1e-6)

    lives.live(scene, {"slow": slow})


def test_ids_that_lead_nowhere():
    async def scene(scheduler):
        for wrong in ("job-0000100000007", "nonsense", "", 7, None):
            with pytest.raises(JobNotFound) as missing:
                await scheduler.get_job(wrong)
            assert missing.value.job_id == str(wrong)

    Lives().live(scene)


@pytest.mark.parametrize("paused", [True, False])
def test_what_a_full_disk_refused_to_pause_or_resume_stays_as_it_was(paused):
    store = FaultyStore()
    lives = Lives(store=store)

    async def full(changes):
        if changes:
            raise JournalFull("no space", path="simulated")

    async def scene(scheduler):
        queue = scheduler.queue("mail")
        await (queue.resume() if paused else queue.pause())
        store.before = full
        with pytest.raises(JournalFull):
            await (queue.pause() if paused else queue.resume())
        store.before = nothing
        assert scheduler._engine.dispatcher.limits.of("mail").paused is not paused

    lives.live(scene)
