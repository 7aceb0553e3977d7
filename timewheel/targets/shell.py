"""`shell.run`: the built-in task that runs a shell command, so that what cron does can be scheduled.

    the command                     becomes
    ends with exit code 0           success; the result holds the code and the output
    ends with another, by a signal  a retry; the error holds the code and the end of the output
    cannot be started               dead when it never could be (no such shell, folder or user), else a retry

It is off until the operator starts `serve` with `--allow-shell`: whoever may make jobs may then run commands as the
user that serve runs as. Commands get a small environment like cron's, not serve's, which may hold secrets. They run in
a process group of their own: a timeout or a cancel ends all of it, and so does the end of serve (see
`timewheel.targets.process`). When serve itself is killed, commands that run go on, and their jobs are run again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import signal
import threading
from collections.abc import Callable
from typing import Any

from timewheel.targets.command import SHELL, Account, Wanted, environment_of, fault_of_command
from timewheel.targets.process import Ended, Launch, Process
from timewheel.work.context import current
from timewheel.work.signals import Permanent, Transient

NAME = "shell.run"
CLOSE_S = 2.0  # for the threads of killed commands
_NEVER = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOEXEC}
)


class ShellTarget:
    """Runs commands, each in a thread of its own, and remembers which run."""

    def __init__(self) -> None:
        self._running: dict[Process, asyncio.Future[Ended]] = {}
        self._own = _account(os.geteuid())

    async def run(
        self,
        command: str,
        *,
        env: dict[str, str] | None = None,
        shell: str = SHELL,
        stdin: str | None = None,
        user: str | None = None,
        cwd: str | None = None,
    ) -> dict[str, Any]:
        """Run `command` with `shell` and answer {"exit_code": 0, "output": ...}, both its outputs in one.

        Of a long output the beginning and the end are kept: "output", "output_end" and, between them,
        "output_cut_bytes". `env` is added to the environment; `stdin` is what it reads (nothing without it); `user`
        whose rights it gets (ours without one; root alone may take another's); `cwd` its folder (without one: its
        home, or / where that is missing). Raises Permanent and Transient as the module's table says.
        """
        wanted = Wanted(command, env or {}, shell, stdin, user, cwd)
        fault = fault_of_command(wanted) or self._fault_of_user(user)
        if fault is not None:
            raise Permanent(fault)
        context = current()
        process = Process(lambda: _launch(wanted, self._own, context.job_id, context.attempt))
        try:
            ended = await self._follow(process)
        except OSError as error:
            text = f"the command cannot be started: {error}"
            raise (Permanent(text) if error.errno in _NEVER else Transient(text)) from error
        except RuntimeError as error:  # no thread
            raise Transient(f"the command cannot be started: {error}") from error
        return _judge(ended)

    def fault_of(
        self,
        command: Any,
        *,
        env: Any = None,
        shell: Any = SHELL,
        stdin: Any = None,
        user: Any = None,
        cwd: Any = None,
    ) -> str | None:
        """What is wrong with these arguments, or None. Whether the user exists is seen when it runs."""
        wanted = Wanted(command, {} if env is None else env, shell, stdin, user, cwd)
        return fault_of_command(wanted) or self._fault_of_user(user)

    async def close(self) -> None:
        """Kill what still runs, and wait until it is reaped, at most CLOSE_S."""
        for process in self._running:
            process.stop(0.0)
        if self._running:
            await asyncio.wait(set(self._running.values()), timeout=CLOSE_S)

    def _fault_of_user(self, user: str | None) -> str | None:
        if user is None or user == self._own.name or self._own.uid == 0:
            return None
        return f"user={user!r}: only root may run commands as another user, and serve runs as {self._own.name}"

    async def _follow(self, process: Process) -> Ended:
        """How it ended. A cancel of ours ends all of it first, and no further cancel keeps us from that."""
        ended = _in_thread(process.run)
        self._running[process] = ended
        ended.add_done_callback(lambda _: self._running.pop(process, None))
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            process.stop()
            await _done(ended)
            raise


async def _done(future: asyncio.Future[Ended]) -> None:
    """Wait for it, whoever asks us to stop meanwhile: the command was told so already."""
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            continue  # the first one is on its way to our caller
    future.exception()  # nobody asks any more


def _in_thread(work: Callable[[], Ended]) -> asyncio.Future[Ended]:
    """A future of what `work` returns or raises in a thread of its own. Raises RuntimeError when there is none."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Ended] = loop.create_future()

    def tell(result: Ended | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def run() -> None:
        result: Ended | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the job that waits
            failure = error
        if not loop.is_closed():  # else the job was given back or will be found LOST
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, name="timewheel-shell", daemon=True).start()
    return future


def _launch(wanted: Wanted, own: Account, job_id: str, attempt: int) -> Launch:
    """What to start. In the command's thread, since asking for a user may take its time. Raises OSError."""
    other = wanted.user is not None and wanted.user != own.name
    account = own
    if other:
        try:
            account = _account(wanted.user)
        except KeyError:
            raise PermissionError(errno.EPERM, f"there is no user {wanted.user!r} here") from None
    env = environment_of(wanted, account, os.environ, job_id, attempt)
    cwd = wanted.cwd
    if cwd is None:
        cwd = env["HOME"] if os.path.isdir(env["HOME"]) else "/"
    return Launch([wanted.shell, "-c", wanted.command], env, cwd, wanted.stdin, account if other else None)


def _account(who: int | str | None) -> Account:
    """An account by number or name. Raises KeyError for a name that there is not."""
    if isinstance(who, str):
        entry = pwd.getpwnam(who)
    else:
        try:
            entry = pwd.getpwuid(who or 0)
        except KeyError:  # a container may run as a number that nobody has
            return Account(str(who), who or 0, os.getegid(), "/")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def _judge(ended: Ended) -> dict[str, Any]:
    """The result of a command that succeeded; raises what one that failed means."""
    output = ended.output
    if ended.code == 0:
        if not output.cut_bytes:
            return {"exit_code": 0, "output": output.head}
        cut = {"output_cut_bytes": output.cut_bytes, "output_end": output.tail}
        return {"exit_code": 0, "output": output.head, **cut}
    how = f"exit code {ended.code}" if ended.code > 0 else f"ended by {_signal_name(-ended.code)}"
    ending = output.ending()
    raise Transient(f"{how}: {ending}" if ending else f"{how}, without output")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
