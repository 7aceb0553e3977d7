"""A command in a process group of its own, from its start to the moment when nothing of it is left to reap.

Each command has a thread, which starts it, reads what it writes, waits for it and reaps it, whatever becomes of the
event loop: so it never stays a zombie, and however much it writes, the loop has no part in that. `stop` may be called
from any thread, at any time.

A command that left something in the background (`daemon &`) has ended when it has ended itself: what still holds its
output is not waited for longer than LINGER_S, and is left alone. Stopped commands are another matter: the whole group
gets SIGTERM, and whatever of it is left after KILL_AFTER_S gets SIGKILL. Until then its leader is not reaped, so that
the number of the group cannot have become another's.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from timewheel.targets.command import Account
from timewheel.targets.output import Kept, Output

KILL_AFTER_S = 2.0
LINGER_S = 0.5
READ_BYTES = 64 * 1024
_LOOK_S = 0.05  # how often to look whether a process has ended, where the system cannot tell us


class Launch(NamedTuple):
    """What to start. `account`: whose rights it gets; None: ours."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    stdin: str | None
    account: Account | None


class Ended(NamedTuple):
    """How it ended: the exit code, or minus the number of the signal that ended it."""

    code: int
    output: Output


class Process:
    """One command; see the module. `run` is for its thread, `stop` for others. `prepare` says what to start, there."""

    def __init__(self, prepare: Callable[[], Launch]) -> None:
        self._prepare = prepare
        self._kept = Kept()
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._kill_at: float | None = None  # set once it shall stop
        self._waking: tuple[int, int] | None = None  # while it runs: a pipe, to wake who follows it

    def run(self) -> Ended:
        """Start it, wait, and reap it. Raises OSError when it cannot be started."""
        with self._wakeable() as woken:
            return self._run(woken)

    @contextlib.contextmanager
    def _wakeable(self) -> Iterator[int]:
        """The descriptor that can be read once it shall stop."""
        with self._lock:
            woken, wake = self._waking = os.pipe()
        try:
            yield woken
        finally:
            with self._lock:
                self._waking = None
                os.close(woken)
                os.close(wake)

    def _run(self, woken: int) -> Ended:
        reading, writing = os.pipe()
        try:
            try:
                popen = self._start(writing)
            finally:
                os.close(writing)
            with _exit_notice(popen.pid) as notice:
                self._follow(popen, reading, woken, notice)
            with self._lock:  # nobody sends a signal to a group whose leader has been reaped
                if self._kill_at is not None:
                    _signal_group(popen.pid, signal.SIGKILL)
                code = popen.wait()
                self._popen = None
            return Ended(code, self._kept.output())
        finally:
            os.close(reading)

    def stop(self, kill_after_s: float = KILL_AFTER_S) -> None:
        """End it: SIGTERM to its group now, SIGKILL after `kill_after_s`. One that has not begun never does."""
        with self._lock:
            first = self._kill_at is None
            kill_at = time.monotonic() + kill_after_s
            self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
            if self._popen is not None and first:
                _signal_group(self._popen.pid, signal.SIGTERM)
            if self._waking is not None:
                os.write(self._waking[1], b"!")

    def _start(self, writing: int) -> subprocess.Popen[bytes]:
        launch = self._prepare()
        account = launch.account
        with _input(launch.stdin) as stdin, self._lock:
            if self._kill_at is not None:
                raise InterruptedError("it was stopped before it began")
            popen = subprocess.Popen(
                launch.arguments,
                stdin=stdin,
                stdout=writing,
                stderr=writing,
                cwd=launch.cwd,
                env=dict(launch.env),
                start_new_session=True,
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else os.getgrouplist(account.name, account.gid),
            )
            self._popen = popen
        return popen

    def _follow(self, popen: subprocess.Popen[bytes], reading: int, woken: int, notice: int | None) -> None:
        """Read its output until it has ended and that is complete, or is not worth waiting for any more."""
        poll = select.poll()
        for descriptor in (reading, woken, notice):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        reads, ended_at = True, None
        while True:
            if ended_at is None and _has_ended(popen.pid):
                ended_at = time.monotonic()
                if notice is not None:
                    poll.unregister(notice)
            left_s = self._left_s(popen.pid, ended_at, reads=reads)
            if left_s is not None and left_s <= 0:
                return
            blind = notice is None and ended_at is None
            waits_s = min(_LOOK_S if blind else 60.0, 60.0 if left_s is None else left_s)
            for descriptor, _ in poll.poll(waits_s * 1000 + 1):
                if descriptor == woken:
                    os.read(woken, 100)
                elif descriptor == reading:
                    data = os.read(reading, READ_BYTES)
                    self._kept.add(data)
                    if not data:
                        reads = False
                        poll.unregister(reading)

    def _left_s(self, pid: int, ended_at: float | None, *, reads: bool) -> float | None:
        """Seconds until there is nothing more to wait for; None: no limit. Sends SIGKILL when it is time for that."""
        now = time.monotonic()
        with self._lock:
            kill_at = self._kill_at
            if kill_at is not None and ended_at is None:
                if now < kill_at:
                    return kill_at - now
                _signal_group(pid, signal.SIGKILL)
                return _LOOK_S  # it is as good as dead
        if ended_at is None:
            return None
        if not reads:
            return 0
        return (ended_at + LINGER_S if kill_at is None else kill_at) - now


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left, or it took other rights
        os.killpg(group, number)


def _has_ended(pid: int) -> bool:
    """Whether our child has ended; it stays to be reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else reaped it
        return True


@contextlib.contextmanager
def _exit_notice(pid: int) -> Iterator[int | None]:
    """A descriptor that can be read once the process has ended; None where the system has none."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _input(text: str | None) -> Iterator[int | IO[bytes]]:
    """What it reads: a file without a name, so that nobody waits for it to read, or nothing."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file
