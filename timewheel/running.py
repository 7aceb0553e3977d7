"""The ways to run a scheduler: `async with`, run_forever(), a framework's lifespan; and waiting for its failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from timewheel.errors import NotStarted
from timewheel.life import Life
from timewheel.model import SchedulerState


class Running(Life):
    """The part of a Scheduler that applications run it by."""

    async def run_forever(self) -> None:
        """Start if need be, run until somebody stops the scheduler, and stop it when this call is cancelled.

        Raises SchedulerFailed after a fault, and KeyboardInterrupt when a handler raised that. Installs no signal
        handlers: those are the application's.
        """
        if self._state in (SchedulerState.NEW, SchedulerState.STOPPED):
            await self.start()
        assert self._changed is not None, "a scheduler that was started has an event"
        try:
            while self._state in (SchedulerState.STANDBY, SchedulerState.RUNNING, SchedulerState.DRAINING):
                await self._changed.wait()
                self._changed.clear()
        finally:
            await self.stop()
        self.raise_if_failed()
        if self._interrupted:
            raise KeyboardInterrupt

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:  # noqa: ARG002  the signature that frameworks call
        """For FastAPI(lifespan=scheduler.lifespan) and Starlette: runs with the application."""
        async with self:
            yield

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None:
            self.raise_if_failed()

    async def wait_failed(self) -> BaseException:
        """Wait until the scheduler fails; returns the cause."""
        while self._cause is None:
            if self._changed is None:
                raise NotStarted("wait_failed() before start()")
            await self._changed.wait()
            self._changed.clear()
        return self._cause
