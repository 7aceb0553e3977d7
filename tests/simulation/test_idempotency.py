"""I4: one idempotency key is one job, concurrently and across restarts, for as long as it is kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from helpers import STORES, SlowStore
from lives import Lives

from timewheel import IdempotencyConflict, InvalidOption, JobDead, PartlyScheduled, Permanent, current
from timewheel.model import JobState

DAY_S = 24 * 3600


@pytest.fixture(params=sorted(STORES))
def lives(request):
    return Lives(store=STORES[request.param]())


class Counting:
    def __init__(self):
        self.runs = []

    async def __call__(self, *args, **kwargs):
        self.runs.append((args, kwargs))
        return len(self.runs)


def test_i4_the_same_request_again_is_the_same_job_whatever_its_state(lives):
    handler = Counting()

    async def scene(scheduler):
        keyed = scheduler.options(idempotency_key="order-7")
        first = await keyed.after(60, "handler", 1)
        for state in (JobState.SCHEDULED, JobState.COMPLETED):
            again = await keyed.after(60, "handler", 1)
            assert (again.id, again.created, again.state) == (first.id, False, state)
            assert again.idempotency_key == "order-7"
            await first.wait(120)
        assert first.created
        assert await again.result() == 1
        assert [job.id for job in await scheduler.jobs(idempotency_key="order-7")] == [first.id]

    lives.live(scene, {"handler": handler})
    assert len(handler.runs) == 1


def test_i4_a_hundred_callers_at_once_make_one_job():
    lives = Lives(shuffle=True, store=SlowStore(STORES["memory"](), commit_s=0.02))
    handler = Counting()

    async def caller(scheduler):
        await asyncio.sleep(lives.machine.random.uniform(0, 0.1))  # virtual
        job = await scheduler.options(idempotency_key="k").now("handler", 1)
        return job.id, job.created, await job.result(60)

    async def scene(scheduler):
        answers = await asyncio.gather(*(caller(scheduler) for _ in range(100)))
        assert len({(job_id, result) for job_id, _, result in answers}) == 1
        assert sum(created for _, created, _ in answers) == 1

    lives.live(scene, {"handler": handler})
    assert len(handler.runs) == 1


def test_i4_a_key_survives_restarts_and_crashes(lives):
    handler = Counting()

    async def ask(scheduler):
        job = await scheduler.options(idempotency_key="k").after(3600, "handler", 1)
        return job.id, job.created

    answers = [lives.die(ask, {"handler": handler}), lives.live(ask, {"handler": handler})]
    answers.append(lives.live(ask, {"handler": handler}))
    assert {job_id for job_id, _ in answers} == {answers[0][0]}
    assert [created for _, created in answers] == [True, False, False]


@pytest.mark.parametrize(
    "other",
    [
        lambda scheduler, key: scheduler.options(idempotency_key=key).after(60, "handler", 2),
        lambda scheduler, key: scheduler.options(idempotency_key=key).after(61, "handler", 1),
        lambda scheduler, key: scheduler.options(idempotency_key=key).now("handler", 1),
        lambda scheduler, key: scheduler.options(idempotency_key=key, priority=1).after(60, "handler", 1),
        lambda scheduler, key: scheduler.options(idempotency_key=key, retry=2).after(60, "handler", 1),
    ],
    ids=["arguments", "delay", "no delay", "priority", "retry"],
)
def test_i4_another_request_under_the_same_key_is_refused_and_names_the_job(lives, other):
    async def scene(scheduler):
        job = await scheduler.options(idempotency_key="k").after(60, "handler", 1)
        with pytest.raises(IdempotencyConflict, match=f"belongs to {job.id}") as conflict:
            await other(scheduler, "k")
        assert (conflict.value.job_id, conflict.value.key) == (job.id, "k")
        assert await scheduler.jobs().count() == 1
        assert (await other(scheduler, "another key")).created

    lives.live(scene, {"handler": Counting()})


def test_a_key_belongs_to_one_task(lives):
    async def scene(scheduler):
        keyed = scheduler.options(idempotency_key="k")
        one, two = await keyed.now("one"), await keyed.now("two")
        assert (one.created, two.created, one.id != two.id) == (True, True, True)

    lives.live(scene, {"one": Counting(), "two": Counting()})


def test_the_body_is_the_request_as_given_not_the_instant_computed_from_it(lives):
    """A delay is the same request a minute later; an instant is another one."""

    async def scene(scheduler):
        keyed = scheduler.options(idempotency_key="k")
        first = await keyed.after(timedelta(hours=2), "handler")
        await asyncio.sleep(60)  # virtual
        assert not (await keyed.after(7200, "handler")).created
        with pytest.raises(IdempotencyConflict):
            await keyed.at(first.scheduled_at, "handler")
        at = scheduler.options(idempotency_key="at")
        assert [(await at.at(when, "handler")).created for when in [first.scheduled_at] * 2] == [True, False]

    lives.live(scene, {"handler": Counting()})


@pytest.mark.parametrize("end", ["completed", "dead", "cancelled"])
def test_i4_a_key_is_kept_for_seven_days_after_its_job_is_final(lives, end):
    async def handler():
        if end == "dead":
            raise Permanent

    async def ask(scheduler):
        return await scheduler.options(idempotency_key="k").after(3600, "handler")

    async def scene(scheduler):
        job = await ask(scheduler)
        if end == "cancelled":
            await asyncio.sleep(3500)  # virtual
            await job.cancel()
        job = await job.wait(7200)
        assert job.state == end.upper()
        return job.id

    first = lives.live(scene, {"handler": handler})
    lives.machine.reboot(down_s=6.95 * DAY_S)

    async def still(scheduler):
        again = await ask(scheduler)
        assert (again.id, again.created) == (first, False)

    lives.live(still, {"handler": handler})
    lives.machine.reboot(down_s=0.06 * DAY_S)

    async def over(scheduler):
        fresh = await ask(scheduler)
        assert fresh.created
        assert fresh.id != first
        assert (await scheduler.get_job(first)).state == end.upper()

    lives.live(over, {"handler": handler})


def test_keys_in_one_at_many(lives):
    async def scene(scheduler):
        keyed = scheduler.options(idempotency_key="k")
        soon = timedelta(seconds=1)
        same = [keyed.new(soon, "handler", 1), keyed.new(soon, "handler", 1), scheduler.new(soon, "handler", 1)]
        one, two, other = await scheduler.at_many(same)
        assert (one.id == two.id, one.created, two.created, other.created) == (True, True, False, True)
        with pytest.raises(PartlyScheduled) as partly:
            await scheduler.at_many([scheduler.new(soon, "handler", 3), keyed.new(soon, "handler", 2)])
        assert [job.args for job in partly.value.jobs] == [(3,)]
        assert isinstance(partly.value.cause, IdempotencyConflict)
        with pytest.raises(IdempotencyConflict):
            await scheduler.at_many([keyed.new(soon, "handler", 2)])
        draft = scheduler.new(soon, "handler", 4)
        await scheduler.at_many([draft])
        with pytest.raises(InvalidOption, match="scheduled already"):
            await scheduler.at_many([draft])

    lives.live(scene, {"handler": Counting()})


def test_current_gives_handlers_a_key_that_is_the_same_for_every_attempt():
    seen = []

    async def handler():
        seen.append(current().idempotency_key)
        raise ValueError

    async def scene(scheduler):
        for _ in range(2):
            with pytest.raises(JobDead):
                await (await scheduler.options(retry=3).now("handler")).result(600)

    Lives().live(scene, {"handler": handler})
    assert len(seen) == 6
    assert len(set(seen)) == 2
    assert len(set(seen[:3])) == 1
