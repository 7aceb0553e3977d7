"""A process that was paused (SIGSTOP) and continued: it goes on where it was, and nobody takes its journal."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.e2e.children import Child

WORKS = """
    import json, logging, time

    scheduler = Scheduler("sqlite:///jobs.db")
    starts, lines = [], []

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    @scheduler.task(name="note")
    async def note(what):
        starts.append(what)

    @scheduler.task(name="long")
    async def long():
        starts.append("long")
        await asyncio.sleep(1)
        return "went on"

    async def main():
        logging.getLogger("timewheel").addHandler(Lines())
        async with scheduler:
            running = await scheduler.now("long")
            due = [await scheduler.after(0.5 + number / 50, "note", number) for number in range(50)]
            due.append(await scheduler.at(time.time() + 1, "note", "wall"))
            strict = await scheduler.options(misfire_grace_s=0.2).after(0.6, "note", "strict")
            far = await scheduler.after(3600, "note", "far")
            while "long" not in starts:
                await asyncio.sleep(0.01)
            say("ready", scheduler.trouble)
            await asyncio.to_thread(hear)
            for job in [*due, running, strict]:
                await job.wait(60)
            attempts = [[attempt.state for attempt in await job.attempts()] for job in [*due, running]]
            lags = [(await job.attempts())[0].start_lag_s for job in due]
            say(json.dumps({
                "starts": starts, "attempts": attempts, "lag_s": max(lags), "lines": lines,
                "strict": [(await strict.refresh()).state, (await strict.refresh()).reason],
                "far": (await far.refresh()).state, "result": await running.result(),
            }))

    asyncio.run(main())
"""

OTHER = """
    async def main():
        try:
            async with Scheduler("sqlite:///jobs.db"):
                say("owner")
        except JournalOwned as owned:
            say("refused", owned.owner["pid"])

    asyncio.run(main())
"""


def _wait_until_stopped(pid: int) -> None:
    """Until the kernel says that every thread of it is stopped."""
    waited_pid, status = os.waitpid(pid, os.WUNTRACED)
    assert waited_pid == pid
    assert os.WIFSTOPPED(status)


@pytest.mark.slow
@pytest.mark.parametrize("paused_s", [4.0])
def test_a_process_that_was_paused_goes_on_where_it_was(tmp_path, paused_s):
    with Child(tmp_path, WORKS) as child:
        assert child.line() == "ready None"
        os.kill(child.pid, signal.SIGSTOP)
        _wait_until_stopped(child.pid)
        stopped = time.monotonic()
        with Child(tmp_path, OTHER, name="other") as other:  # the owner only sleeps: it owns
            assert other.rest() == [f"refused {child.pid}"]
        time.sleep(max(0.0, paused_s - (time.monotonic() - stopped)))
        os.kill(child.pid, signal.SIGCONT)
        child.tell("go on")
        seen = json.loads(child.line())
        assert child.end() == 0
    assert sorted(map(str, seen["starts"])) == sorted(map(str, ["long", *range(50), "wall", *_strict(seen)]))
    assert seen["attempts"] == [["SUCCEEDED"]] * 52  # nothing ran twice, nothing was found LOST
    assert seen["result"] == "went on"
    assert seen["far"] == "SCHEDULED"
    assert seen["lag_s"] > paused_s - 2.5  # what fell due meanwhile ran late, and says so
    blocked = [line for line in seen["lines"] if "the event loop was blocked for" in line]
    assert blocked, seen["lines"]


def _strict(seen: dict) -> list[str]:
    """A job with a grace of 0.2 s: a paused process has been watching all the time, so its lateness is waiting."""
    assert seen["strict"] == ["COMPLETED", None]
    return ["strict"]
