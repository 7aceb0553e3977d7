"""The real machine: clocks, randomness, threads and the watchdog, as one record `System`.

Simulation and tests pass their own System; nothing else in timewheel reads a clock, draws a random number or starts a
thread (the SQLite adapter's own thread excepted).
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from timewheel.ports import Clock, Threads, Timer, Watchdog
from timewheel.timeline import Reading

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLOCK_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:  # not Linux: no way to tell one boot from another, so every process is one of its own
        return f"process-{uuid.uuid4()}"


class SystemClock:
    """The machine's clocks: CLOCK_BOOTTIME on Linux, so that a suspend counts as elapsed; elsewhere monotonic."""

    longest_sleep_s = 1.0

    def __init__(self) -> None:
        self.boot_id = _read_boot_id()

    def wall_us(self) -> int:
        """The wall clock, microseconds since the Unix epoch."""
        return time.time_ns() // 1000

    def boot_us(self) -> int:
        """Microseconds since boot, suspends included."""
        return time.clock_gettime_ns(_CLOCK_BOOTTIME) // 1000

    def read(self) -> Reading:
        """All clocks at one moment."""
        return Reading(self.wall_us(), self.boot_us(), time.monotonic_ns() // 1000)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        """A timer of the running event loop."""
        return asyncio.get_running_loop().call_later(delay_s, callback)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002  see below
        """Nobody tells a process that a clock was set: whoever must know looks at least every `longest_sleep_s`."""
        return lambda: None


class DaemonThreads:
    """At most `limit` daemon threads of our own, made when needed.

    Not concurrent.futures: that one joins its threads at interpreter exit, so one stuck handler would keep a process
    alive for ever.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: deque[Callable[[], Any]] = deque()
        self._more = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def start(self, call: Callable[[], Any]) -> None:
        """Run `call` in a thread as soon as one is free. Raises RuntimeError when no thread at all can be made."""
        with self._more:
            self._calls.append(call)
            if self._idle >= len(self._calls) or self._threads >= self._limit:
                self._more.notify()
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name="timewheel-worker", daemon=True).start()
        except RuntimeError:  # the system has no thread left: those we have will take the call
            with self._more:
                self._threads -= 1
                if not self._threads:
                    self._calls.remove(call)
                    raise

    def close(self) -> None:
        """Take no more calls; idle threads end now, busy ones after their call."""
        with self._more:
            self._closed = True
            self._more.notify_all()

    def _run(self) -> None:
        while True:
            with self._more:
                self._idle += 1
                while not self._calls and not self._closed:
                    self._more.wait()
                self._idle -= 1
                if not self._calls:
                    self._threads -= 1
                    return
                call = self._calls.popleft()
            call()


class LoopWatchdog:
    """A daemon thread that looks at an event loop which has not beaten for `patience_s` and notes what it is doing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, patience_s: float = 0.25) -> None:
        """`loop` is the loop of the calling thread."""
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._patience_s = patience_s
        self._beaten = threading.Event()
        self._stopped = False
        self._seen: str | None = None
        threading.Thread(target=self._watch, name="timewheel-watchdog", daemon=True).start()

    def beat(self) -> None:
        """The loop says that it is alive."""
        self._beaten.set()

    def culprit(self) -> str | None:
        """What the loop did when it last failed to beat in time; asked once, then forgotten."""
        seen, self._seen = self._seen, None
        return seen

    def stop(self) -> None:
        """End the thread at its next look."""
        self._stopped = True
        self._beaten.set()

    def _watch(self) -> None:
        while not self._stopped:
            if self._beaten.wait(self._patience_s):
                self._beaten.clear()
                time.sleep(self._patience_s / 4)  # a real thread beside a real loop: no virtual time comes here
            elif self._seen is None:
                self._seen = self._look()

    def _look(self) -> str | None:
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return None
        stack = traceback.extract_stack(frame)
        places = " < ".join(f"{entry.name} ({entry.filename}:{entry.lineno})" for entry in reversed(stack[-4:]))
        task = asyncio.current_task(self._loop)
        return places if task is None else f"{task.get_name()}: {places}"


def _watch_this_thread() -> Watchdog:
    return LoopWatchdog(asyncio.get_running_loop())


@dataclass(slots=True, frozen=True)
class System:
    """Everything of the machine that a scheduler uses."""

    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = random.random  # in [0, 1): spreads retries, decides nothing that must be secret
    threads: Callable[[int], Threads] = DaemonThreads
    watchdog: Callable[[], Watchdog | None] = _watch_this_thread
