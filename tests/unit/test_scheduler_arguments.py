"""What Scheduler(...) takes, and how it refuses the rest: at once, naming argument, value and what is allowed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from timewheel import InvalidOption, InvalidTask, Queue, Rate, Scheduler
from timewheel.model import SchedulerState


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"when_owned": "submit"}, 'when_owned=\'submit\': it must be "raise" or "wait"'),
        ({"when_owned": None}, "when_owned=None"),
        ({"durability": "eventually"}, 'durability must be "power"'),
        ({"concurrency": 0}, "concurrency=0: it must be a whole number from 1 to 100,000"),
        ({"concurrency": 1.5}, "concurrency=1.5"),
        ({"concurrency": True}, "concurrency=True"),
        ({"threads": 1_001}, "threads=1001: it must be a whole number from 1 to 1,000"),
        ({"rate": 10}, "rate=10: it must be a Rate, like Rate(10, per_s=1)"),
        ({"queues": ["mail"]}, "it must map names to Queue"),
        ({"queues": {"mail": 3}}, "must be a name and a Queue"),
        ({"queues": {7: Queue()}}, "must be a name and a Queue"),
        ({"imports": "app.tasks"}, "it must be a list of module names"),
        ({"imports": [7]}, "it must be a list of module names"),
        ({"on_failure": "log"}, "it must be a function that takes the cause"),
    ],
)
def test_a_bad_argument_is_refused_at_once(arguments, words):
    with pytest.raises(InvalidOption) as caught:
        Scheduler("memory://", **arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://db", "no store is known for 'postgresql://db': write sqlite:///jobs.db"),
        ("jobs.db", "no store is known for 'jobs.db'"),
        ("", "no store is known"),
        ("sqlite://jobs.db", "a relative path takes three slashes"),
        ("sqlite:///", "names no file"),
        ("sqlite:///jobs.db?mode=ro", "the only parameter is unsafe=1"),
        ("sqlite:///jobs.db?unsafe=yes", "the only parameter is unsafe=1"),
    ],
)
def test_a_url_that_names_no_store_is_refused_at_once(url, words):
    with pytest.raises(InvalidOption) as caught:
        Scheduler(url)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("memory://", "memory"),
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///with%20blank.db", "with blank.db"),
        ("sqlite:///jobs.db?unsafe=1", "jobs.db"),
    ],
)
def test_urls(url, path):
    scheduler = Scheduler(url)
    assert (scheduler.path, scheduler.state, scheduler.loop) == (path, SchedulerState.NEW, None)
    assert repr(scheduler) == f"<Scheduler {path} NEW>"


def test_everything_that_is_allowed():
    Scheduler(
        "memory://",
        when_owned="wait",
        durability="process",
        rate=Rate(10, per_s=1, burst=5),
        concurrency=100_000,
        threads=1_000,
        queues={"mail": Queue(rate=Rate(1), concurrency=2)},
        imports=("json",),
        on_failure=print,
    )


def test_misspelt_arguments_are_no_silent_wish():
    with pytest.raises(TypeError, match="concurency"):
        Scheduler("memory://", concurency=3)


def test_the_queues_are_copied():
    queues = {"mail": Queue(concurrency=1)}
    scheduler = Scheduler("memory://", queues=queues)
    queues.clear()
    assert scheduler._settings.queues == {"mail": Queue(concurrency=1)}


def test_imports_are_made_at_start_so_that_their_tasks_are_known(tmp_path, monkeypatch):
    (tmp_path / "scheduler_argument_tasks.py").write_text("import json\nLOADED = json.dumps(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    scheduler = Scheduler("memory://", imports=["scheduler_argument_tasks"])
    assert "scheduler_argument_tasks" not in sys.modules

    async def main():
        async with scheduler:
            assert sys.modules["scheduler_argument_tasks"].LOADED == "1"

    asyncio.run(main())
    del sys.modules["scheduler_argument_tasks"]


def test_an_import_that_fails_is_raised_by_start_and_owns_nothing():
    scheduler = Scheduler("memory://", imports=["no_such_module_anywhere"])

    async def main():
        with pytest.raises(ImportError, match="no_such_module_anywhere"):
            await scheduler.start()
        assert scheduler.state is SchedulerState.NEW

    asyncio.run(main())


@pytest.mark.parametrize("page", [{"page_size": 0}, {"page_size": 1_001}, {"page_size": True}, {"page_token": "!"}])
def test_a_page_that_cannot_be_is_refused_before_it_is_awaited(page):
    with pytest.raises(InvalidOption, match=next(iter(page))):
        Scheduler("memory://").jobs(**page)


@pytest.mark.parametrize("state", ["RUNNING", ["SCHEDULED", "nope"], 7])
def test_states_of_a_list_are_judged(state):
    with pytest.raises(InvalidOption, match="one or several of SCHEDULED, WAITING, ACTIVE, COMPLETED"):
        Scheduler("memory://").jobs(state=state)


def test_a_queue_needs_a_name():
    with pytest.raises(InvalidOption, match="queue="):
        Scheduler("memory://").queue("")


def test_registering_needs_a_function_and_a_name():
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidTask, match="no name of its own"):
        scheduler.task(lambda: None)
    with pytest.raises(InvalidTask):
        scheduler.task(name="")(print)
    with pytest.raises(InvalidTask):
        scheduler.task(name="x")("no function")
