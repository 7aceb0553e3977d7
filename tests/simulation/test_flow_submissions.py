"""Submissions with flow control, as callers see them: which job they get, in which state, and which error instead."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from helpers import STORES, T0_S
from lives import Lives

from timewheel import (
    InvalidOption,
    JobCancelled,
    JobNotFound,
    PartlyScheduled,
    Permanent,
    Rate,
    Unique,
    UniqueConflict,
)
from timewheel.model import JobState

SOON = timedelta(seconds=1)


@pytest.fixture(params=sorted(STORES))
def lives(request):
    return Lives(store=STORES[request.param]())


async def handler(*args, **kwargs):
    return [*args]


async def fail(*args):
    raise Permanent("no")


def unique(scheduler, **more):
    return scheduler.options(unique=Unique(**more))


def test_a_second_job_of_a_kind_is_the_first_one_as_long_as_that_is_not_final(lives):
    async def scene(scheduler):
        first = await unique(scheduler).after(60, "handler", 1)
        again = await unique(scheduler, on_conflict="keep").now("handler", 1)
        assert (first.created, again.created, again.id) == (True, False, first.id)
        assert again == await first.refresh()
        assert (await unique(scheduler).now("handler", 2)).created
        assert (await unique(scheduler).now("other", 1)).created
        assert (await scheduler.now("handler", 1)).created  # who does not ask is not stopped
        await first.wait(120)
        assert (await unique(scheduler).now("handler", 1)).created

    lives.live(scene, {"handler": handler, "other": handler})


def test_a_conflict_is_an_error_where_it_is_asked_for(lives):
    async def scene(scheduler):
        first = await scheduler.options(unique=Unique(by=("key",), key="sync")).after(60, "handler", 1)
        failing = scheduler.options(unique=Unique(by=("key",), key="sync", on_conflict="fail"))
        with pytest.raises(UniqueConflict, match=f"{first.id} stands in the way .*'other'") as caught:
            await failing.now("other", 2)
        assert caught.value.job_id == first.id
        draft, free = failing.new(SOON, "other", 2), scheduler.new(SOON, "handler", 3)
        with pytest.raises(PartlyScheduled) as partly:
            await scheduler.at_many([free, draft])
        assert isinstance(partly.value.cause, UniqueConflict)
        assert [job.args for job in partly.value.jobs] == [(3,)]
        assert await scheduler.jobs().count() == 2
        await first.cancel()
        [made] = await scheduler.at_many([draft])  # it was refused, so it may be given again
        assert made.created

    lives.live(scene, {"handler": handler, "other": handler})


def test_replace_cancels_the_one_that_is_there_and_has_not_begun(lives):
    async def scene(scheduler):
        replacing = unique(scheduler, on_conflict="replace")
        first = await replacing.after(60, "handler", 1)
        second = await replacing.after(30, "handler", 1)
        assert second.created
        assert second.id != first.id
        first = await first.wait(1)
        assert (first.state, first.reason) == (JobState.CANCELLED, "replaced")
        assert await second.result(60) == [1]

    lives.live(scene, {"handler": handler})


def test_reschedule_moves_the_one_that_is_there_and_has_not_begun(lives):
    async def scene(scheduler):
        moving = unique(scheduler, on_conflict="reschedule")
        first = await moving.after(3600, "handler", 1)
        again = await moving.after(30, "handler", 1)
        assert (again.id, again.created) == (first.id, False)
        assert first.scheduled_at - again.scheduled_at == timedelta(seconds=3570)
        assert await first.result(60) == [1]

    lives.live(scene, {"handler": handler})


def test_with_a_period_a_finished_job_stands_in_the_way_until_it_is_over(lives):
    async def scene(scheduler):
        hourly = unique(scheduler, period_s=3600)
        first = await hourly.now("handler", 1)
        await first.wait(60)
        await asyncio.sleep(3000)  # virtual
        again = await hourly.now("handler", 1)
        assert (again.id, again.created, again.state) == (first.id, False, JobState.COMPLETED)
        await asyncio.sleep(700)  # virtual
        assert (await hourly.now("handler", 1)).created

    lives.live(scene, {"handler": handler})


def test_equal_drafts_of_one_at_many_are_one_job(lives):
    async def scene(scheduler):
        drafts = [unique(scheduler).new(SOON, "handler", n % 3) for n in range(9)]
        jobs = await scheduler.at_many(drafts)
        assert len({job.id for job in jobs}) == 3
        assert [job.created for job in jobs] == [True] * 3 + [False] * 6
        assert [job.args for job in jobs] == [(n % 3,) for n in range(9)]

    lives.live(scene, {"handler": handler})


# ---- dependencies ----------------------------------------------------------------------------------------------------


def test_a_job_that_waits_for_others_says_so_when_it_is_made(lives):
    async def scene(scheduler):
        first, second = await scheduler.after(5, "handler", 1), await scheduler.after(9, "handler", 2)
        job = await scheduler.options(wait_for=[first, second.id]).now("handler", 3)
        assert (job.created, job.state, job.reason) == (True, JobState.WAITING, "dependency")
        assert job.wait_for == (first.id, second.id)
        [other] = await scheduler.at_many([scheduler.options(wait_for=[second]).new(SOON, "handler", 4)])
        assert (other.created, other.state, other.reason) == (True, JobState.WAITING, "dependency")
        await second.wait(60)
        ready = await scheduler.options(wait_for=[first, second]).after(60, "handler", 5)
        assert (ready.created, ready.state) == (True, JobState.SCHEDULED)

    lives.live(scene, {"handler": handler})


def test_a_job_whose_dependency_failed_before_is_cancelled_at_once(lives):
    async def scene(scheduler):
        dead = await (await scheduler.now("fail")).wait(5)
        assert dead.state == JobState.DEAD
        job = await scheduler.options(wait_for=[dead]).now("handler", 1)
        assert (job.created, job.state, job.reason) == (True, JobState.CANCELLED, "dependency")
        with pytest.raises(JobCancelled):
            await job.result(1)
        runs = await scheduler.options(wait_for=[dead], if_dependency_fails="RUN").now("handler", 1)
        assert await runs.result(5) == [1]
        waits = await scheduler.options(wait_for=[dead], if_dependency_fails="WAIT").now("handler", 1)
        assert (waits.created, waits.state) == (True, JobState.WAITING)

    lives.live(scene, {"handler": handler, "fail": fail})


def test_a_job_that_is_not_there_cannot_be_waited_for_and_nothing_is_made(lives):
    async def scene(scheduler):
        waiting = scheduler.options(wait_for=["job-0000100009999"], idempotency_key="k")
        with pytest.raises(JobNotFound, match="wait_for names job-0000100009999") as caught:
            await waiting.now("handler")
        assert caught.value.job_id == "job-0000100009999"
        with pytest.raises(JobNotFound):
            await scheduler.at_many([waiting.new(SOON, "handler")])
        assert await scheduler.jobs().count() == 0
        assert (await scheduler.options(idempotency_key="k").now("handler")).created  # the key stayed free

    lives.live(scene, {"handler": handler})


# ---- what a job says of itself ---------------------------------------------------------------------------------------


def test_expiry_and_deadline_are_instants_of_the_wall(lives):
    async def scene(scheduler):
        job = await scheduler.options(expires_after_s=60, deadline_after_s=timedelta(hours=1)).after(10, "handler")
        assert (job.expires_at, job.deadline) == (
            job.scheduled_at + timedelta(minutes=1),
            job.scheduled_at + timedelta(hours=1),
        )
        again = await scheduler.get_job(job.id)
        assert (again.expires_at, again.deadline) == (job.expires_at, job.deadline)
        at = T0_S + 3600
        job = await scheduler.options(expires_at=at + 1, deadline=at + 2.5).at(at, "handler")
        assert (job.deadline - job.expires_at, job.expires_at - job.scheduled_at) == (timedelta(seconds=1.5), SOON)
        plain = await scheduler.now("handler")
        assert (plain.expires_at, plain.deadline, plain.wait_for) == (None, None, ())

    lives.live(scene, {"handler": handler})


def test_an_option_that_does_not_fit_the_call_is_refused_before_anything_is_made(lives):
    async def scene(scheduler):
        scheduler.task(name="keyed", key_rate=Rate(10, burst=2))(handler)
        with pytest.raises(InvalidOption, match="deadline="):
            await scheduler.options(deadline=T0_S + 5).at(T0_S + 5, "handler")
        with pytest.raises(InvalidOption, match="cost=3"):
            await scheduler.options(rate_key="k", cost=3).now("keyed")
        assert await scheduler.jobs().count() == 0

    lives.live(scene, {"handler": handler})


def test_a_job_that_failed_says_when_it_is_tried_again(lives):
    async def flaky():
        raise ValueError("no")

    async def scene(scheduler):
        job = await scheduler.now("flaky")
        assert (job.next_retry_at, job.first_failed_at, job.last_fault) == (None, None, None)
        await asyncio.sleep(0.5)  # virtual
        job = await job.refresh()
        assert job.state == JobState.SCHEDULED
        assert job.next_retry_at == job.due_at > job.first_failed_at
        assert job.last_fault == "TRANSIENT"
        [attempt] = await job.attempts()
        assert attempt.fault == "TRANSIENT"
        job = await job.wait(3600)
        assert (job.state, job.next_retry_at) == (JobState.DEAD, None)

    lives.live(scene, {"flaky": flaky})


# ---- jobs of schedules -----------------------------------------------------------------------------------------------


def test_jobs_of_a_schedule_have_its_flow_control_and_its_tasks(lives):
    async def scene(scheduler):
        scheduler.task(name="once", idempotent=False, heartbeat_timeout_s=9)(handler)
        recurring = scheduler.recurring(id="s", expires_after_s=60, deadline_after_s=3600, partition_key="p")
        schedule = await recurring.every(600, "once", 1)
        await asyncio.sleep(1201)  # virtual
        jobs = [job async for job in scheduler.jobs(schedule="s")]
        jobs.append(await schedule.trigger())
        for job in jobs:
            flow = job.record.flow
            assert (flow.idempotent, flow.heartbeat_timeout_us, flow.partition_key) == (False, 9_000_000, "p")
            assert job.expires_at - job.scheduled_at == timedelta(seconds=60)
            assert job.deadline - job.scheduled_at == timedelta(seconds=3600)
        assert len(jobs) == 3
        schedule = await schedule.update(expires_after_s=None, rate_key="k", cost=2)
        flow = (await schedule.trigger()).record.flow
        assert (flow.expires_at, flow.rate_key, flow.cost, flow.idempotent) == (None, "k", 2, False)

    lives.live(scene, {"handler": handler})
