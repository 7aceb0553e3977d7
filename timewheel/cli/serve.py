"""`serve`: the engine standalone. Puts together what the options say, and turns faults into exit codes."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from timewheel.cli import logs
from timewheel.cli.exits import OK, PERMISSION, SOFTWARE, SYSTEM, UNAVAILABLE, USAGE, Exit, code_of
from timewheel.errors import JournalOwned
from timewheel.model import SchedulerState

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from timewheel.cli.loop import ServeLoop
    from timewheel.scheduler import Scheduler
    from timewheel.targets import Targets

DEFAULT_DB = "timewheel.db"
DEFAULT_DURABILITY: Literal["power"] = "power"
_OWN_OPTIONS = ("db", "rate", "concurrency", "durability", "forget")  # of the Scheduler that serve makes itself

_log = logging.getLogger("timewheel.serve")


def serve(options: Namespace) -> int:
    """Serve until a signal. 0 when every outcome is durable; else raises Exit with the code of the fault."""
    from timewheel.serve.runner import is_loopback

    if not is_loopback(options.host):
        why = "there is no authentication yet, so only this machine may connect"
        raise Exit(USAGE, f"--host {options.host}: {why}; use 127.0.0.1, ::1 or localhost")
    logs.configure()
    scheduler = _application(options) if options.app else _own(options)
    targets = _register(scheduler, options)
    listener = _bind(options.host, options.port)
    state = _Progress()
    try:
        with _loop() as loop:
            loop.run(_serve(scheduler, targets, listener, options, state))
    except Exception as error:
        code = code_of(error, starting=not state.started)
        if code == SOFTWARE:
            raise
        raise Exit(code, _said(error, options)) from error
    _log.info("stopped; every outcome is durable")
    return OK


def _said(error: Exception, options: Namespace) -> str:
    """An error's message; of an owned journal with the ways on that the command line has."""
    if not isinstance(error, JournalOwned) or options.app:  # an application's own Scheduler may have when_owned="wait"
        return str(error)
    facts = str(error).rpartition(": ")[0]
    return f"{facts}: stop that process, or name another journal with --db"


def tune_process() -> None:
    """Settings of the whole process, for the application that serve is; an embedded scheduler leaves them alone.

    What was made until now stays for good, so collections need not walk it again: full ones paused the loop for 50 to
    200 ms. And the thread that writes waits less long for the interpreter's lock, at each statement, when the loop is
    busy.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(0.001)


class _Progress:
    """How far it came."""

    started = False


async def _serve(
    scheduler: Scheduler, targets: Targets, listener: socket.socket, options: Namespace, state: _Progress
) -> None:
    from timewheel.serve.app import create_app
    from timewheel.serve.runner import run

    host = f"[{options.host}]" if ":" in options.host else options.host
    app = create_app(scheduler, hosts=(host,), faults=targets.faults, absent=targets.absent)
    tune_process()
    port = listener.getsockname()[1]

    def ready() -> None:
        state.started = True
        _announce(scheduler, options, f"http://{host}:{port}")

    try:
        await run(scheduler, app, listener, grace_s=options.grace, ready=ready)
    finally:
        await targets.close()


def _announce(scheduler: Scheduler, options: Namespace, address: str) -> None:
    _log.info("serving %s (API: %s/openapi.json)", address, address)
    durability = "as the application says" if options.app else options.durability or DEFAULT_DURABILITY
    _log.info("journal %s, durability %s", scheduler.path, durability)
    if options.allow_shell:
        whose = "root" if os.geteuid() == 0 else "this user"
        _log.warning("shell.run is on: whoever can open a socket on this machine can run commands as %s", whose)
    _log.info("tasks: %s", ", ".join(scheduler.task_names()) or "none")
    if scheduler.state is SchedulerState.STANDBY:
        _log.warning("standing by: another process owns the journal; writes answer 503 until it ends")


def _own(options: Namespace) -> Scheduler:
    """A scheduler made of the options."""
    from timewheel.errors import InvalidOption
    from timewheel.options import Rate
    from timewheel.retention_rules import Retention
    from timewheel.scheduler import Scheduler

    path = quote(os.fspath(options.db or DEFAULT_DB))
    try:
        return Scheduler(
            f"sqlite:///{path}",
            rate=None if options.rate is None else Rate(options.rate),
            concurrency=options.concurrency or 100,
            durability=options.durability or DEFAULT_DURABILITY,
            retention=Retention(**dict(options.forget)) if options.forget else None,
        )
    except InvalidOption as error:
        raise Exit(USAGE, str(error)) from None


def _application(options: Namespace) -> Scheduler:
    """The scheduler that `--app module:name` names. Importing it runs the application's code."""
    from timewheel.scheduler import Scheduler

    given = [f"--{name}" for name in _OWN_OPTIONS if getattr(options, name) is not None]
    if given:
        raise Exit(USAGE, f"{' and '.join(given)}: with --app the application's own Scheduler(...) says that")
    module, colon, name = options.app.partition(":")
    if not colon or not module or not name:
        raise Exit(USAGE, f"--app {options.app}: write module:scheduler, the name of a Scheduler in a module")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise Exit(UNAVAILABLE, f"--app {options.app} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, Scheduler):
        raise Exit(USAGE, f"--app {options.app} is a {type(found).__name__}, not a Scheduler")
    return found


def _register(scheduler: Scheduler, options: Namespace) -> Targets:
    """The built-in tasks, where the application has not taken their names."""
    from timewheel.targets import register

    try:
        targets = register(
            scheduler,
            allow_http=options.allow_http or (),
            allow_shell=options.allow_shell,
            taken=scheduler.task_names(),
        )
    except ValueError as error:
        raise Exit(USAGE, f"--allow-http: {error}") from None
    if targets.shell is not None:
        # Whoever started us may have had it ignored: then the system would not tell how a command ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return targets


def _bind(host: str, port: int) -> socket.socket:
    from timewheel.serve.runner import bind

    try:
        return bind(host, port)
    except PermissionError as error:
        raise Exit(PERMISSION, f"port {port} cannot be used: {error.strerror}; take one above 1023") from None
    except OSError as error:
        raise Exit(SYSTEM, f"{host} port {port} cannot be used: {error.strerror}; choose another with --port") from None


def _loop() -> ServeLoop:
    """An event loop to serve on: uvloop's where there is one."""
    from timewheel.cli.loop import ServeLoop

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    try:
        import uvloop
    except ImportError:
        _log.debug("uvloop is not installed; asyncio's own loop will do")
    else:
        factory = uvloop.new_event_loop
    return ServeLoop(factory)
