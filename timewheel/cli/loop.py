"""The event loop of `serve`, which ends with the process whatever the handlers on it do.

asyncio waits without end for a task that swallows its cancellation, and for a thread that a handler began with
`asyncio.to_thread`. By then every outcome is durable, and such handlers were named and given back: nobody needs them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from timewheel.cli import exits

LEAVE_S = 0.25  # `stop` has waited for them already
_PREFIX = "timewheel-default"


class ServeLoop:
    """Runs a coroutine on a loop of its own; see the module."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        self._runner = asyncio.Runner(loop_factory=factory)
        self._threads = ThreadPoolExecutor(thread_name_prefix=_PREFIX)

    def __enter__(self) -> ServeLoop:
        self._runner.get_loop().set_default_executor(self._threads)
        return self

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run it to its end."""
        self._runner.run(main)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the loop; or, if something on it will not end, ask `main` to end the process without it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._runner.run(_end_tasks()) and _threads_end():
            self._runner.close()
        else:
            exits.LEAVING.at_once = True


async def _end_tasks() -> bool:
    """Cancel what still runs; whether all of it ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=LEAVE_S)
    return all(task.done() for task in others)


def _threads_end() -> bool:
    """Whether the threads that handlers began on the loop's own pool end; those without work do at once."""
    until = time.monotonic() + LEAVE_S
    for thread in threading.enumerate():
        if thread.name.startswith(_PREFIX):
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                return False
    return True
