"""The supervisor keeps the doers' tasks running and ends them all together; the keeper sees that they are stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from timewheel.alarm import Alarm
from timewheel.errors import JournalError
from timewheel.events import Notices, StorageTrouble
from timewheel.model import SECOND_US

if TYPE_CHECKING:
    from timewheel.ports import Clock

_log = logging.getLogger("timewheel")
_ended_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()  # whose runner has cancelled every task
RETRY_S = 1.0
MOST_READ_FAULTS = 10  # of one doer, in a row: with no minute between two of them
CALM_US = 60 * SECOND_US


class Supervisor:
    """Holds every task, so that none is lost to garbage collection. `failed(cause)` hears what no doer survives."""

    def __init__(self, clock: Clock, notices: Notices, failed: Callable[[BaseException], None]) -> None:
        self._clock = clock
        self._notices = notices
        self._failed = failed
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of beginning
        self._ending = False

    def spawn(self, name: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run a doer until it returns, or until `end`."""
        task = asyncio.get_running_loop().create_task(self._supervise(name, run), name=f"timewheel {name}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def end(self) -> None:
        """Cancel every doer and wait until all have ended."""
        self._ending = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _supervise(self, name: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Go on through cancellations by strangers, and for a while without a readable journal."""
        faults = 0
        while not self._ending:
            began = self._clock.boot_us()
            try:
                await run()
            except asyncio.CancelledError:
                if self._ending:
                    raise
                if asyncio.get_running_loop() in _ended_loops:
                    continue  # only until the keeper ends it
                _log.warning("somebody cancelled the %s of timewheel; it goes on", name)
            except JournalError as error:
                faults = faults + 1 if self._clock.boot_us() - began < CALM_US else 1
                if faults > MOST_READ_FAULTS:
                    self._failed(error)
                    return
                self._notices.emit(StorageTrouble(f"{name}: {error}"))
                await Alarm(self._clock).wait(RETRY_S)
            except Exception as fault:  # noqa: BLE001  a fault of timewheel: stop in view rather than go on half
                self._failed(fault)
                return
            else:
                return


class Keeper:
    """Stops what its owner did not: `asyncio.run` ends by cancelling all tasks, and waits until they have ended."""

    def __init__(self, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._stop = stop
        _ended_loops.discard(asyncio.get_running_loop())
        self._watch = _Watch()
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="timewheel keeper")

    @property
    def loop_ended(self) -> bool:
        """Whether the loop's runner has cancelled every task."""
        return self._watch.loop_ended

    def over(self) -> None:
        """It was stopped: nothing is left to be kept."""
        if not self._watch.done():
            self._watch.set_result(None)

    async def _keep(self) -> None:
        while True:
            try:
                await self._watch
            except asyncio.CancelledError:
                if self._watch.loop_ended:
                    _log.error("the event loop ended before the scheduler was stopped: use `async with scheduler:`")
                    await self._stop()
                    return
                self._watch = _Watch()
            else:
                return


class _Watch(asyncio.Future[None]):
    """Notices who cancels the task that awaits it: somebody on the loop, or, while nothing runs on it, its runner."""

    loop_ended = False

    def cancel(self, msg: Any = None) -> bool:
        """Called by the task that is cancelled."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.loop_ended = True
            _ended_loops.add(self.get_loop())
        return super().cancel(msg)
