"""B57: fork after start. The child's copy of the scheduler refuses to work, and does not keep a dead owner's lock."""

from __future__ import annotations

import os
import signal

from children import Child

FORKS = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: that is what is tested here

    scheduler = Scheduler("sqlite:///jobs.db")

    @scheduler.task(name="work")
    async def work():
        return "done"

    def name_of_error(call):
        try:
            call()
        except TimewheelError as error:
            return type(error).__name__
        return "nothing"

    def on_a_loop(call):
        async def run():
            await call()
        return name_of_error(lambda: asyncio.new_event_loop().run_until_complete(run()))

    def child(job, parent):
        verbs = (lambda: scheduler.now(work), job.refresh, job.cancel, scheduler.jobs().count)
        say(*[on_a_loop(call) for call in (*verbs, scheduler.stop, scheduler.start)])
        say(*[name_of_error(call) for call in (
            lambda: scheduler.blocking.now(work), scheduler.blocking.jobs().count, scheduler.blocking.stop,
        )])
        try:
            asyncio.new_event_loop().run_until_complete(Scheduler("sqlite:///jobs.db").start())
        except JournalOwned as owned:
            say("owned by the parent" if owned.owner["pid"] == parent else "owned by somebody")
        hear()
        os._exit(0)

    async def main():
        async with scheduler:
            job = await scheduler.after(3600, work)
            parent = os.getpid()
            pid = os.fork()
            if not pid:
                child(job, parent)
            say("parent", pid)
            say(await (await scheduler.now(work)).result())
            await forever()

    asyncio.run(main())
"""

OWNS = """
    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            say(scheduler.state)
            say(await scheduler.jobs().count())

    asyncio.run(main())
"""


def test_b57_a_forked_child_refuses_every_call_and_holds_no_lock(tmp_path):
    with Child(tmp_path, FORKS) as parent:
        lines = sorted(parent.line() for _ in range(5))
        pid = int(next(line for line in lines if line.startswith("parent")).split()[1])
        assert lines == sorted(
            [
                " ".join(["ForkedScheduler"] * 6),
                " ".join(["ForkedScheduler"] * 3),
                "owned by the parent",
                f"parent {pid}",
                "done",
            ]
        )
        try:
            parent.process.kill()
            parent.process.wait()
            os.kill(pid, 0)  # the child lives on
            with Child(tmp_path, OWNS, name="owns") as next_owner:
                assert next_owner.rest() == ["RUNNING", "2"]
                assert next_owner.end() == 0
        finally:
            os.kill(pid, signal.SIGKILL)
