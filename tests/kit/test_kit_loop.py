"""The loop that is taken over: what is outside is waited for, a deadlock is told, and the loop is given back."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
import time
from datetime import timedelta

import pytest

from timewheel import Scheduler
from timewheel.testing import Clock, Deadlock, NotVirtual, VirtualMachine
from timewheel.testing.kit import takeover

PATCHED = (
    *("time", "run_in_executor", "shutdown_default_executor", "call_soon_threadsafe", "_run_once"),
    *("_selector", "_clock_resolution"),
)


def state_of(loop):
    return {name: vars(loop).get(name) for name in PATCHED}


async def test_the_loop_is_given_back_as_it_was():
    loop = asyncio.get_running_loop()
    before, begun = state_of(loop), loop.time()
    rung = asyncio.Event()
    timer = loop.call_later(3600, rung.set)
    async with Clock() as clock:
        assert state_of(loop) != before
        await clock.advance("59m")
        assert not rung.is_set()
    assert state_of(loop) == before
    assert 0 <= loop.time() - begun < 60
    assert timer.when() - loop.time() == pytest.approx(60, abs=5)  # what was left of it is still left
    timer.cancel()


async def test_a_timer_from_before_belongs_to_virtual_time():
    rung = asyncio.Event()
    asyncio.get_running_loop().call_later(3600, rung.set)
    async with Clock() as clock:
        await rung.wait()
        assert abs(clock.passed - timedelta(hours=1)) < timedelta(seconds=30)


async def test_the_loop_is_given_back_when_the_test_fails():
    before = state_of(asyncio.get_running_loop())
    with pytest.raises(ZeroDivisionError):
        async with Clock():
            raise ZeroDivisionError
    assert state_of(asyncio.get_running_loop()) == before


async def test_time_stands_still_for_a_call_in_a_thread():
    async with Clock() as clock:
        go, begun = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(begun.set)
            return go.wait(60)

        pending = asyncio.create_task(asyncio.to_thread(work))
        timeout = asyncio.create_task(asyncio.wait_for(asyncio.shield(pending), 30))
        await begun.wait()
        go.set()
        assert await timeout
        assert clock.jumps == 0


async def test_a_call_in_a_thread_that_never_ends_does_not_stop_time_for_ever(monkeypatch):
    monkeypatch.setattr(takeover, "CALL_PATIENCE_S", 0.05)
    async with Clock() as clock:
        go = threading.Event()
        pending = asyncio.create_task(asyncio.to_thread(go.wait, 300))
        await clock.advance("1h")
        go.set()
        assert await pending


async def test_the_end_of_the_executor_is_waited_for():
    async with Clock() as clock:
        loop = asyncio.get_running_loop()
        go = threading.Event()
        pending = loop.run_in_executor(None, go.wait, 60)
        threading.Timer(0.2, go.set).start()
        await loop.shutdown_default_executor()
        assert await pending
        assert clock.jumps == 0


async def test_bytes_of_a_socket_come_before_a_timeout():
    async with Clock() as clock:

        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        jumps = clock.jumps
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        assert clock.jumps == jumps
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()


async def test_a_socket_that_only_listens_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(takeover, "SOCKET_PATIENCE_S", 300)
    async with Clock() as clock:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        await clock.advance("1h")
        server.close()
        await server.wait_closed()


async def test_an_idle_connection_does_not_stop_time():
    async with Clock() as clock:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        _, writer = await asyncio.open_connection(sock=ours)
        await clock.advance("1h")
        writer.close()
        await writer.wait_closed()
        theirs.close()


async def test_a_journal_in_sqlite_is_waited_for(tmp_path):
    async with Clock() as clock, Scheduler(f"sqlite:///{tmp_path}/jobs.db", system=clock.system) as scheduler:
        starts = []

        @scheduler.task
        async def note():
            starts.append(clock.passed)

        for minute in range(1, 11):
            await scheduler.after(60 * minute, note)
        assert clock.jumps == 0
        await clock.advance("1h")
        assert starts == [timedelta(minutes=minute) for minute in range(1, 11)]
        assert [job.state async for job in scheduler.jobs()] == ["COMPLETED"] * 10


async def test_ones_own_aiosqlite_is_waited_for(tmp_path):
    import aiosqlite

    execute = aiosqlite.Connection._execute
    async with Clock() as clock:
        timer = asyncio.create_task(asyncio.sleep(1))  # virtual
        async with aiosqlite.connect(tmp_path / "own.db") as connection:
            await connection.create_function("slow", 0, lambda: threading.Event().wait(0.2))
            assert await (await connection.execute("SELECT slow()")).fetchone() == (0,)
        assert clock.jumps == 0
        await timer
    assert aiosqlite.Connection._execute is execute
    assert sqlite3.connect(tmp_path / "own.db").close() is None


# ---- deadlocks -------------------------------------------------------------------------------------------------------


async def wait_for_ever():
    await asyncio.Event().wait()


async def test_a_deadlock_is_told_with_what_waits():
    with pytest.raises(Deadlock) as caught:
        async with Clock():
            await asyncio.gather(asyncio.create_task(wait_for_ever(), name="the other one"), wait_for_ever())
    message = str(caught.value)
    assert "no timer is set" in message
    assert "the other one: Event.wait" in message
    assert "2026-01-05 00:00:00" in message
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert not asyncio.current_task().cancelling()


async def test_a_deadlock_is_told_though_the_scheduler_keeps_house():
    with pytest.raises(Deadlock, match=r"(?s)will never come.*wait_for_ever|Event\.wait"):
        async with Clock() as clock, clock.scheduler():
            await wait_for_ever()


async def test_a_job_that_waits_for_its_task_is_a_deadlock_for_who_waits_for_it():
    async with Clock() as clock, clock.scheduler() as scheduler:

        @scheduler.task(name="here")
        def here():
            return 1

        job = await scheduler.after(10, "here")
        del scheduler._registry._registered["here"]
        with pytest.raises(Deadlock), clock.watching():
            await job.wait()
        assert (await job.refresh()).state == "WAITING"


async def test_what_never_comes_while_jobs_go_on_is_told_as_well(monkeypatch):
    monkeypatch.setattr(takeover, "MOST_JUMPS", 500)
    monkeypatch.setattr(takeover, "LONGEST_WAIT_S", 0)

    async def play():
        async with Clock() as clock, clock.scheduler() as scheduler:

            @scheduler.task
            async def daily():
                await scheduler.after(86_400, daily)

            await scheduler.now(daily)
            await wait_for_ever()

    with pytest.raises(Deadlock, match="501 times"):
        await play()


async def test_a_far_job_is_no_deadlock():
    async with Clock() as clock, clock.scheduler() as scheduler:
        job = await scheduler.after(timedelta(days=2000), time.perf_counter)
        assert (await job.wait()).state == "COMPLETED"
        waiting = asyncio.create_task(asyncio.sleep(2000 * 86_400))  # virtual
        await waiting
        assert clock.passed == timedelta(days=4000)


async def test_a_thread_that_nobody_told_of_is_no_deadlock():
    async with Clock():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        thread = threading.Timer(0.1, lambda: loop.call_soon_threadsafe(done.set))
        thread.start()
        await done.wait()
        thread.join()


def test_a_deadlock_that_nobody_can_be_told_of_ends_the_run():
    clock = Clock()

    async def main():
        clock._hold()
        await wait_for_ever()

    loop = asyncio.new_event_loop()
    with pytest.raises(Deadlock):
        loop.run_until_complete(main())
    clock.close()
    for task in asyncio.all_tasks(loop):
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


# ---- unfit loops -----------------------------------------------------------------------------------------------------


async def test_a_loop_has_one_clock():
    async with Clock():
        with pytest.raises(NotVirtual, match="another clock"):
            await Clock().advance("1s")


def test_a_virtual_machine_needs_no_clock():
    async def main():
        await Clock().advance("1s")

    with pytest.raises(NotVirtual, match="virtual already"):
        VirtualMachine().run(main())


def test_uvloop_is_refused_with_the_way_out():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        await Clock().advance("1s")

    loop = uvloop.new_event_loop()
    try:
        with pytest.raises(NotVirtual, match=r"uvloop.*default event loop policy"):
            loop.run_until_complete(main())
    finally:
        loop.close()


async def test_two_open_loops_at_once_are_refused():
    async with Clock() as clock:
        other = asyncio.new_event_loop()
        caught = []

        async def main():
            with pytest.raises(NotVirtual) as refused:
                await clock.advance("1s")
            caught.append(str(refused.value))

        thread = threading.Thread(target=lambda: other.run_until_complete(main()))
        thread.start()
        thread.join(60)
        other.close()
        assert "another thread" in caught[0]
