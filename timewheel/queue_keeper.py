"""The keeper of what is set of queues at run time: it holds at once, in the journal, and again after a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from timewheel.audits import Word
from timewheel.errors import InvalidOption, JournalFull
from timewheel.policies import Queue
from timewheel.queue_settings import QueueSettings
from timewheel.store.changes import PutQueue

if TYPE_CHECKING:
    from timewheel.dispatch.dispatcher import Dispatcher
    from timewheel.model import Now
    from timewheel.store.committer import Committer

_log = logging.getLogger("timewheel")
NOBODY = Word()


class QueueKeeper:
    """See the module. `declared`: what the code says of each queue."""

    def __init__(
        self, dispatcher: Dispatcher, committer: Committer, declared: Mapping[str, Queue], now: Callable[[], Now]
    ) -> None:
        self._dispatcher = dispatcher
        self._committer = committer
        self._declared = declared
        self._now = now
        self._kept: dict[str, QueueSettings] = {}
        self._overtaken: list[str] = []
        self._one_by_one = asyncio.Lock()

    def of(self, queue: str) -> QueueSettings:
        """What is set of a queue at present."""
        return self._kept.get(queue, QueueSettings())

    def restore(self, saved: Mapping[str, str]) -> None:
        """Let what the journal holds hold again, where the code declares what it declared then; else the code wins."""
        for queue, text in saved.items():
            try:
                settings = QueueSettings.read(text)
            except InvalidOption as error:
                _log.warning("queue %s: what was set at run time cannot be read and is left out: %s", queue, error)
                continue
            if settings.update is not None and settings.over != self._declared.get(queue):
                _log.warning("queue %s: the code declares other limits than it did: those set at run time end", queue)
                settings = QueueSettings(settings.paused)
                self._overtaken.append(queue)
            self._hold(queue, settings)

    async def forget_overtaken(self) -> None:
        """Take out of the journal what the code has overtaken, so that it never comes back."""
        while self._overtaken:
            queue = self._overtaken.pop()
            await self._committer.housekeep(PutQueue(queue, self.of(queue).text()))

    async def set(
        self, queue: str, *, paused: bool | None = None, limits: Queue | None = None, who: Word = NOBODY
    ) -> None:
        """Pause or resume a queue, or give it other limits; once this returns, that holds and is durable.

        A pause holds at once. The audit tells of it, in the same transaction. Raises JournalFull, and then nothing has
        changed.
        """
        async with self._one_by_one:
            before = settings = self.of(queue)
            if paused is not None:
                settings = settings._replace(paused=paused)
            if limits is not None:
                settings = settings._replace(update=limits, over=self._declared.get(queue))
            if paused:
                self._pause(queue)
            try:
                audit = self._told(queue, paused, limits, who)
                await self._committer.housekeep(PutQueue(queue, settings.text(), audit))
            except JournalFull:  # nothing was written, so nothing holds
                self._dispatcher.limits.of(queue).paused = before.paused
                self._dispatcher.kick()
                raise
            except BaseException:  # it may be written, or will be: a caller that is cancelled takes nothing back
                self._hold(queue, settings)
                raise
            self._hold(queue, settings)

    def _told(self, queue: str, paused: bool | None, limits: Queue | None, who: Word) -> str:
        """What the audit is to say of a change."""
        if limits is None:
            return who.entry("pause" if paused else "resume", queue=queue)
        present = asdict(self.of(queue).update or self._declared.get(queue) or Queue())
        after = {name: value for name, value in asdict(limits).items() if value != present[name]}
        return who.entry("update", queue=queue, before={name: present[name] for name in after}, after=after)

    def _pause(self, queue: str) -> None:
        self._dispatcher.limits.of(queue).paused = True
        self._dispatcher.give_back("paused", queue=queue)

    def _hold(self, queue: str, settings: QueueSettings) -> None:
        limits = self._dispatcher.limits
        if settings.update is not None and settings.update != self.of(queue).update:
            limits.shape(queue, settings.update, self._now().steady_us)
        limits.of(queue).paused = settings.paused
        self._kept[queue] = settings
        self._dispatcher.kick()
