"""What `/metrics` says of failures, in virtual time: classes, Retry-After, attempts a job, breakers, retry budgets."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from lives import Lives
from prometheus_client.parser import text_string_to_metric_families

from timewheel import Breaker, Dependency, Permanent, Queue, Retry, RetryBudget, Snooze, Throttled
from timewheel.model import JobState
from timewheel.serve.metrics import Metrics

FLAT = Retry(max_attempts=3, base_s=10, factor=1, cap_s=10, jitter=0)
STATES = ("CLOSED", "OPEN", "HALF_OPEN", "FORCED_OPEN", "FORCED_CLOSED")


class Refused(Exception):
    """An answer of a server."""

    status = 429

    def __init__(self, retry_after):
        super().__init__("429")
        self.headers = {"Retry-After": retry_after}


class Hospital(Lives):
    """Lives whose tasks raise what they are told, one an attempt, and then succeed; and their metrics.

    `call` depends on "target", `other` on "quiet", which nobody declared; `free` on nothing.
    """

    def __init__(self, **options):
        super().__init__()
        self.options = {"dependencies": {"target": Dependency(breaker=Breaker(closes_after=1))}, **options}
        self.raises = {}

    def scheduler(self, tasks=None, **options):
        scheduler = super().scheduler(tasks, **self.options)
        for name, dependency in (("call", "target"), ("other", "quiet"), ("free", None)):
            scheduler.task(name=name, dependency=dependency, retry=FLAT)(self.does)
        self.metrics = Metrics(scheduler)
        return scheduler

    async def does(self, who):
        if self.raises.get(who):
            raise self.raises[who].pop(0)

    async def run(self, scheduler, task, *errors):
        """A job of this task that fails so, to its end; its final state."""
        job = await self.begin(scheduler, task, *errors)
        return (await job.wait(3600)).state

    async def begin(self, scheduler, task, *errors):
        who = len(self.raises)
        self.raises[who] = list(errors)
        return await scheduler.now(task, who)

    async def read(self, name):
        """The samples of this name, by the values of their labels."""
        await self.machine.sleep(60)  # an answer is kept for a while
        families = text_string_to_metric_families((await self.metrics.text()).decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return {tuple(sample.labels.values()): sample.value for sample in samples}


def test_failures_are_counted_by_class_and_dependency_and_attempts_by_job():
    hospital = Hospital()

    async def scene(scheduler):
        assert (
            await hospital.run(scheduler, "call", Throttled("slower", retry_after_s=20), Refused("30")) == "COMPLETED"
        )
        assert await hospital.run(scheduler, "call", Throttled("slower")) == "COMPLETED"  # for how long, it did not say
        assert await hospital.run(scheduler, "other", Refused("7"), OSError("down")) == "COMPLETED"
        assert await hospital.run(scheduler, "other", Permanent("no")) == "DEAD"
        assert await hospital.run(scheduler, "free", *[ConnectionError("gone")] * 3) == "DEAD"
        assert await hospital.run(scheduler, "free", Snooze(5), Snooze(5), TimeoutError("late")) == "COMPLETED"
        assert await hospital.read("timewheel_attempt_failures_total") == {
            ("THROTTLED", "target"): 3,
            ("THROTTLED", "quiet"): 1,
            ("TRANSIENT", "quiet"): 1,
            ("PERMANENT", "quiet"): 1,
            ("TRANSIENT", ""): 4,
        }
        assert await hospital.read("timewheel_retry_after_seconds_sum") == {("target",): 50, ("quiet",): 7}
        assert await hospital.read("timewheel_retry_after_seconds_count") == {("target",): 2, ("quiet",): 1}
        buckets = await hospital.read("timewheel_retry_after_seconds_bucket")
        assert (buckets["target", "10.0"], buckets["target", "20.0"], buckets["target", "30.0"]) == (0, 1, 2)
        assert await hospital.read("timewheel_job_attempts_sum") == {(): 3 + 2 + 3 + 1 + 3 + 2}  # a snooze is none
        assert await hospital.read("timewheel_job_attempts_count") == {(): 6}
        buckets = await hospital.read("timewheel_job_attempts_bucket")
        assert (buckets["1.0",], buckets["2.0",], buckets["3.0",]) == (1, 3, 6)

    hospital.live(scene)


def test_a_replay_begins_its_count_of_attempts_anew():
    hospital = Hospital()

    async def scene(scheduler):
        job = await hospital.begin(scheduler, "free", Permanent("no"), OSError("down"))
        assert (await job.wait(60)).state is JobState.DEAD
        await job.replay(actor="test", reason="it is there again", cause_fixed=True)
        assert (await job.wait(60)).state is JobState.COMPLETED
        assert (await hospital.read("timewheel_job_attempts_sum"), len(await job.attempts())) == ({(): 3}, 3)
        assert await hospital.read("timewheel_job_attempts_count") == {(): 2}

    hospital.live(scene)


def test_a_job_that_was_cancelled_counts_what_it_spent_and_none_that_spent_nothing():
    hospital = Hospital()

    async def scene(scheduler):
        entered = asyncio.Event()

        @scheduler.task(name="hang", retry=FLAT)
        async def hang() -> None:
            if not entered.is_set():
                entered.set()
                raise OSError("down")
            await asyncio.Event().wait()

        job = await scheduler.now("hang")
        await hospital.machine.sleep(15)  # in its second attempt
        await job.cancel()
        await job.wait(60)
        await (await scheduler.after(60, "hang")).cancel()
        assert await hospital.read("timewheel_job_attempts_sum") == {(): 2}
        assert await hospital.read("timewheel_job_attempts_count") == {(): 1}

    hospital.live(scene)


def test_what_was_given_back_counts_only_where_it_is_not_tried_again():
    hospital = Hospital()

    async def scene(scheduler):
        limited = scheduler.options(deadline=hospital.machine.now() + timedelta(seconds=60))
        hospital.raises["snoozer"] = [Snooze(600)]
        job = await limited.now("free", "snoozer")
        assert ((await job.wait(60)).state, await hospital.read("timewheel_job_attempts_count")) == ("DEAD", {(): 0})
        for idempotent in (False, True):
            scheduler.task(name=f"hang {idempotent}", idempotent=idempotent)(_forever)
            await scheduler.now(f"hang {idempotent}", 0)
        await hospital.machine.sleep(5)

    hospital.live(scene)  # and its end gives both back

    async def after():
        assert await hospital.read("timewheel_job_attempts_sum") == {(): 1}
        assert await hospital.read("timewheel_attempt_failures_total") == {("AMBIGUOUS", ""): 1}

    hospital.machine.run(after())


def test_breakers_show_where_they_stand_and_who_waits():
    hospital = Hospital()

    async def scene(scheduler):
        async def states(dependency):
            shown = await hospital.read("timewheel_breaker_state")
            assert {key[0] for key in shown} == {"quiet", "target"}, "whether or not anything happened to them"
            assert [key[1] for key in shown if key[0] == dependency] == list(STATES)
            return [key[1] for key, value in shown.items() if key[0] == dependency and value]

        assert await states("target") == ["CLOSED"]
        throttled = await hospital.begin(scheduler, "call", Throttled("slower", retry_after_s=600))
        held = [await hospital.begin(scheduler, "call") for _ in range(3)]
        assert await states("target") == ["OPEN"]
        assert await states("quiet") == ["CLOSED"]
        assert await hospital.read("timewheel_breaker_waiting") == {("target",): 3, ("quiet",): 0}
        for job in (throttled, *held):
            assert (await job.wait(3600)).state is JobState.COMPLETED
        assert await states("target") == ["CLOSED"]
        assert await hospital.read("timewheel_breaker_waiting") == {("target",): 0, ("quiet",): 0}
        await scheduler.dependency("target").force_open("upkeep")
        assert await states("target") == ["FORCED_OPEN"]
        scheduler.dependency("nobody's").state()
        assert await states("quiet") == ["CLOSED"], "and whom somebody asked for is not shown"
        await scheduler.dependency("nobody's").force_open("upkeep")
        assert (await hospital.read("timewheel_breaker_state"))["nobody's", "FORCED_OPEN"] == 1

    hospital.live(scene)


def test_retry_budgets_show_what_they_let_start_and_who_waits():
    budget = RetryBudget(share=0, at_least=1, window_s=3600)
    hospital = Hospital(
        dependencies={"target": Dependency(breaker=None, retry_budget=budget)},
        queues={"default": Queue(retry_budget=RetryBudget(share=0, at_least=2, window_s=3600)), "bare": Queue()},
    )

    async def scene(scheduler):
        for _ in range(3):
            await hospital.begin(scheduler, "call", OSError("down"))
        await hospital.begin(scheduler, "free", OSError("down"))
        await hospital.machine.sleep(30)
        assert await hospital.read("timewheel_retry_budget_starts") == {("target", ""): 4, ("", "default"): 6}
        assert await hospital.read("timewheel_retry_budget_retries") == {("target", ""): 1, ("", "default"): 2}
        assert await hospital.read("timewheel_retry_budget_waiting") == {("target", ""): 2, ("", "default"): 0}
        assert {key[0] for key in await hospital.read("timewheel_breaker_state")} == {"quiet"}

    hospital.live(scene)


def test_an_attempt_that_was_lost_counts_for_its_dependency_and_queue():
    hospital = Hospital()

    async def begin(scheduler):
        await scheduler.options(queue="slow").now("call", 0)
        await hospital.machine.sleep(5)

    hospital.does = _forever
    hospital.die(begin)
    del hospital.does

    async def scene(scheduler):
        assert await hospital.read("timewheel_attempt_failures_total") == {("AMBIGUOUS", "target"): 1}
        attempts = await hospital.read("timewheel_attempts_total")
        assert attempts == {("slow", "LOST"): 1, ("slow", "SUCCEEDED"): 1}
        assert await hospital.read("timewheel_job_attempts_sum") == {(): 2}

    hospital.live(scene)


async def _forever(who):
    await asyncio.Event().wait()
