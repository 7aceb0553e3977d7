"""B67: a handler that is renamed or gone. Its jobs are kept, in view with the reason, and run once the name is back."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading

import pytest
from lives import Lives, states

from timewheel.model import AttemptState, JobState, WaitingReason

RELEASED, SUCCEEDED = AttemptState.RELEASED, AttemptState.SUCCEEDED


async def old(number=0):
    return number


async def journal_some(scheduler, count=3):
    """Jobs of the task `old`, due in a minute, which the next release does not know."""
    return [(await scheduler.after(60, "old", number)).id for number in range(count)]


async def wait_all(scheduler, job_ids):
    return [await (await scheduler.get_job(job_id)).wait(600) for job_id in job_ids]


async def waiting(scheduler):
    return await scheduler.jobs(state="WAITING").count()


def left_behind(**options):
    lives = Lives(**options)
    return lives, lives.live(journal_some, {"old": old})


def test_b67_jobs_of_an_unknown_task_are_kept_and_shown_with_the_reason():
    lives, job_ids = left_behind()

    async def scene(scheduler):
        assert await scheduler.jobs().count() == 3  # listing them changes nothing
        await asyncio.sleep(120)  # virtual
        jobs = [job async for job in scheduler.jobs(state="WAITING")]
        assert sorted(job.id for job in jobs) == job_ids
        for job in jobs:
            assert (job.reason, job.task) == (WaitingReason.UNRESOLVABLE, "old")
            assert job.error == "no task is registered as 'old', and it may not be imported"
            assert await states(job) == [RELEASED]
            assert (job.record.failures, job.record.losses) == (0, 0)

    for _ in range(3):
        lives.live(scene)  # each restart finds them as they were


@pytest.mark.parametrize("how", ["restart", "alias", "while running"])
def test_b67_they_run_once_the_name_is_back(how):
    lives, job_ids = left_behind()

    async def wait_a_while(scheduler):
        await asyncio.sleep(120)  # virtual
        assert await waiting(scheduler) == 3

    async def renamed(number=0):
        return -number

    async def scene(scheduler):
        if how == "while running":
            await wait_a_while(scheduler)
            scheduler.task(name="old")(renamed)
        elif how == "alias":
            scheduler.task(name="new")(renamed)
        results = [await job.result() for job in await wait_all(scheduler, job_ids)]
        assert results == ([0, 1, 2] if how == "restart" else [0, -1, -2])
        for job_id in job_ids:
            assert await states(await scheduler.get_job(job_id)) == [RELEASED, SUCCEEDED]

    if how != "while running":
        lives.live(wait_a_while)
    lives.live(scene, {"restart": {"old": old}, "alias": {"old": renamed}, "while running": {}}[how])


def test_b67_all_of_them_run_however_many_there_are():
    lives = Lives()
    lives.live(lambda scheduler: journal_some(scheduler, 1_500), {"old": old})

    async def scene(scheduler):
        await asyncio.sleep(120)  # virtual
        assert await waiting(scheduler) == 1_500
        scheduler.task(name="old")(old)
        await asyncio.sleep(60)  # virtual
        assert await waiting(scheduler) == 0
        assert await scheduler.jobs(state="COMPLETED").count() == 1_500

    lives.live(scene)


def test_a_task_may_be_registered_from_another_thread():
    """A sync handler that imports a module with tasks registers them in its thread."""
    lives, job_ids = left_behind()

    async def scene(scheduler):
        await asyncio.sleep(120)  # virtual
        loop, touched = asyncio.get_running_loop(), []
        call_soon = loop.call_soon
        loop.call_soon = lambda *args, **kwargs: (
            touched.append(threading.current_thread()) or call_soon(*args, **kwargs)
        )
        loop.call_soon_threadsafe = lambda callback, *args: call_soon(callback, *args)
        thread = threading.Thread(target=lambda: scheduler.task(name="old")(old))
        thread.start()
        thread.join()
        assert thread not in touched
        assert [job.state for job in await wait_all(scheduler, job_ids)] == [JobState.COMPLETED] * 3

    lives.live(scene)


def test_only_jobs_of_that_task_are_let_go():
    lives, job_ids = left_behind()

    async def scene(scheduler):
        await asyncio.sleep(120)  # virtual
        scheduler.task(name="another")(old)
        await asyncio.sleep(60)  # virtual
        assert await waiting(scheduler) == len(job_ids)

    lives.live(scene)


def test_b67_arguments_that_no_longer_load_are_the_same_case():
    lives = Lives()

    async def scene(scheduler):
        job = await scheduler.after(60, "old", 1)
        lives.store._journal.jobs[job.number].arguments = '[{"$tw:from the future":1}]'
        await asyncio.sleep(120)  # virtual
        job = await job.refresh()
        assert (job.state, job.reason) == (JobState.WAITING, WaitingReason.UNRESOLVABLE)
        assert "stored arguments do not load" in job.error
        assert await (await scheduler.now("old", 2)).result(60) == 2

    lives.live(scene, {"old": old})


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the application."""
    (tmp_path / "releases.py").write_text("async def send(number):\n    return number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("releases")
    del sys.modules["releases"]


def test_an_unregistered_function_is_imported_by_its_name_and_its_absence_is_told(module):
    lives = Lives()

    async def make(scheduler):
        return [(await scheduler.after(60 * minute, module.send, minute)).id for minute in (1, 10)]

    first, second = lives.live(make)

    async def scene(scheduler):
        assert await (await scheduler.get_job(first)).result(600) == 1
        del module.send
        await asyncio.sleep(1)  # virtual

    async def gone(scheduler):
        await asyncio.sleep(1200)  # virtual
        job = await scheduler.get_job(second)
        assert (job.state, job.reason) == (JobState.WAITING, WaitingReason.UNRESOLVABLE)
        assert "releases has no send" in job.error

    send = module.send
    lives.live(scene)
    lives.live(gone)
    module.send = send

    async def back(scheduler):
        assert await (await scheduler.get_job(second)).result(600) == 10

    lives.live(back)
