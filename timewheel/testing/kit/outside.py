"""What a takeover meets outside of time: sockets, threads of libraries, and loops that cannot be taken over."""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from timewheel.alarm import Alarm
from timewheel.errors import TimewheelError
from timewheel.pulse import Pulse
from timewheel_storage.sqlite.connection import Worker

_NEEDED = ("_selector", "_ssock", "_scheduled", "_ready", "_clock_resolution", "_run_once")


class NotVirtual(TimewheelError):
    """This cannot run in virtual time: the wrong kind of loop or thread, or the test is over. The message says what."""


def check_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raise NotVirtual for a loop that cannot be taken over."""
    if "_run_once" in getattr(loop, "__dict__", ()):
        raise NotVirtual("another clock has this event loop: use one clock a test")
    if not isinstance(loop, BaseSelectorEventLoop) or not all(hasattr(loop, name) for name in _NEEDED):
        raise NotVirtual(
            f"virtual time needs asyncio's own event loop, and this test runs on {type(loop).__module__}."
            f"{type(loop).__qualname__}: let the tests run on the default event loop policy"
        )
    if type(loop).__module__ == "timewheel.testing.virtual":
        raise NotVirtual("this loop is virtual already: VirtualMachine.run needs no clock of the test kit")


def listens(file: int) -> bool:
    """Whether a file descriptor is a socket that only listens."""
    try:
        with socket.socket(fileno=os.dup(file)) as one:
            return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # not a socket: a pipe, say
        return False


def count_aiosqlite(outside: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
    """Let connections of aiosqlite wait for their thread inside `outside()`; returns the way to end that."""
    library: Any = Worker.__base__  # so that connections of the application's own count, too
    kept = {name: getattr(library, name) for name in ("_connect", "_execute", "close") if hasattr(library, name)}

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            with outside():
                return await method(*args, **kwargs)

        return call

    def give_back() -> None:
        for name, method in kept.items():
            setattr(library, name, method)

    for name, method in kept.items():
        setattr(library, name, counted(method))
    return give_back


def keeps_house(timer: Any) -> bool:
    """Whether a timer only wakes a doer of a scheduler, to look whether there is anything to do."""
    return isinstance(getattr(timer._callback, "__self__", None), Alarm)


def is_pulse(timer: Any) -> bool:
    """Whether a timer is the pulse of a scheduler in real time: one in virtual time has none."""
    return isinstance(getattr(timer._callback, "__self__", None), Pulse)
