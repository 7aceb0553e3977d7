"""The part of a Scheduler for operators: dead letters, the operations on them, the audit, alerts and retention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from timewheel import guidance
from timewheel.audits import AuditEntry
from timewheel.errand import Surroundings
from timewheel.errors import InvalidOption
from timewheel.handles import Pages
from timewheel.hooks import Hook, LetterWatch
from timewheel.letters import DeadLetters, letter_filter
from timewheel.misfits import told
from timewheel.model import ClockKind, Now, SchedulerState
from timewheel.operation import Operation
from timewheel.operations import Operations
from timewheel.queue_states import QueueState, queue_states
from timewheel.repairs import Repairs
from timewheel.requests import make_submit
from timewheel.retention import Pruner
from timewheel.timetable import Timetable

if TYPE_CHECKING:
    from timewheel.alerting import DeadLetterAlert
    from timewheel.desk import Desk
    from timewheel.engine import Engine
    from timewheel.retention_rules import Retention

WEBHOOK_TASK = "http.request"
MOST_LETTERS = 10**9


class Mending(Timetable):
    """See the module."""

    def _open_repairs(self, desk: Desk, retention: Retention | None) -> None:
        self._desk = desk
        desk.registry = self._registry
        self._repairs = Repairs(desk, self._store, self._system.clock, self._guard)
        self._retention = retention
        self._watches: list[LetterWatch] = []

    # ---- queues ------------------------------------------------------------------------------------------------------

    async def queues(self) -> list[QueueState]:
        """Every queue that is declared, was set at run time or has jobs, by name: its limits, and how it stands.

        Takes time in proportion to the journal.
        """
        self._guard(False)
        engine, wall_us = self._engine, self._system.clock.wall_us()
        now = Now(wall_us, wall_us) if engine is None else engine.now()

        def running(queue: str) -> int:
            limit = None if engine is None else engine.dispatcher.limits.of(queue)
            return 0 if limit is None else limit.used - limit.promised

        depths, saved = await self._store.depths(now), await self._store.queues()
        return queue_states(depths, saved, self._settings.queues, running, now)

    # ---- dead letters and operations ---------------------------------------------------------------------------------

    @told("dead_letters()", InvalidOption, elsewhere={"state": "every one of them is DEAD"})
    def dead_letters(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        fingerprint: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> DeadLetters:
        """Jobs that are DEAD and not discarded, newest first: a list that can be replayed or discarded as a whole.

        `since` and `until`, both included, are instants of when they died (aware datetimes, or Unix seconds). `await`
        it for one Page, `async for` for all; each is a Job, whose `attempts()` have every error. Raises InvalidOption,
        InvalidTime.
        """
        which = letter_filter(queue=queue, task=task, tag=tag, fingerprint=fingerprint, since=since, until=until)
        return self._repairs.letters(which, page_size, page_token)

    async def operation(self, operation_id: str) -> Operation:
        """The operation of this id. Raises OperationNotFound."""
        return await self._repairs.by_id(operation_id)

    def operations(self, *, page_size: int = 100, page_token: str | None = None) -> Pages[Operation]:
        """All operations, newest first: `await` for one Page, `async for` for all. Raises InvalidOption."""
        return self._repairs.all(page_size, page_token)

    @property
    def operations_running(self) -> int:
        """How many operations run here at present."""
        return 0 if self._repairs.operations is None else len(self._repairs.operations)

    def audit(self, *, page_size: int = 100, page_token: str | None = None) -> Pages[AuditEntry]:
        """What operators did, and why, newest first: `await` for one Page, `async for` for all. Raises InvalidOption.

        Each entry was written in the transaction of what it tells of, and is never changed.
        """
        return self._repairs.audit(page_size, page_token)

    # ---- alerts ------------------------------------------------------------------------------------------------------

    def on_dead_letters(
        self,
        callback: Callable[[DeadLetterAlert], Any] | None = None,
        *,
        rate_per_min: int | None = 10,
        size: int | None = 1000,
        webhook: str | None = None,
    ) -> Callable[[], None]:
        """Call `callback(alert)` when too many jobs die; returns what ends that.

        An alarm is raised when `rate_per_min` jobs or more died in the last minute, or when there are `size` dead
        letters or more (None: not watched); it ends when the number has fallen to four fifths of that or below, and
        only then can it be raised again. Both are told (`alert.raised`), within about five seconds. The callback may be
        sync or async, and runs on the scheduler's loop; what it raises is logged and hurts nobody. `webhook`: a URL
        that gets the alert as JSON, by a job of the task http.request, which must be registered. Raises
        InvalidOption.
        """
        if callback is not None and not callable(callback):
            raise InvalidOption(f"callback={callback!r}: it must be a function that takes the alert")
        if callback is None and webhook is None:
            raise InvalidOption("give a callback, or a webhook=URL: otherwise nobody hears the alarm")
        if webhook is not None:
            self._check_webhook(webhook)
        for name, bound in (("rate_per_min", rate_per_min), ("size", size)):
            if bound is not None:
                guidance.whole(name, bound, MOST_LETTERS)
        hooks: list[Hook] = [] if callback is None else [callback]
        if webhook is not None:
            hooks.append(partial(self._call_webhook, webhook))
        watch = LetterWatch(hooks, rate_per_min=rate_per_min, size=size)
        self._watches.append(watch)
        engine, loop = self._engine, self.loop
        if engine is not None and loop is not None and self._state is SchedulerState.RUNNING:
            loop.call_soon_threadsafe(self._begin_watch, engine, watch)
        return watch.end

    def _check_webhook(self, url: str) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InvalidOption(f"webhook={url!r}: it must be a URL, like https://example.org/alerts")
        if self._registry.find(WEBHOOK_TASK) is None:
            raise InvalidOption(
                f"webhook={url!r} needs the task {WEBHOOK_TASK}, which is not registered here: call "
                f'timewheel.targets.register(scheduler, allow_http=["its host"]) first, or give a callback'
            )

    async def _call_webhook(self, url: str, alert: DeadLetterAlert) -> None:
        body = {
            "type": "dead_letters",
            "watched": alert.watched,
            "raised": alert.raised,
            "value": alert.value,
            "bound": alert.bound,
            "at": alert.at.isoformat(),
            "text": alert.text,
        }
        submit = make_submit(self._registry, (ClockKind.STEADY, 0), WEBHOOK_TASK, (url,), {"json": body}, None)
        await self._desk.submit(submit)

    def _begin_watch(self, engine: Engine, watch: LetterWatch) -> None:
        engine.spawn("watch of dead letters", lambda: watch.run(self._store, self._system.clock))

    # ---- with the engine ---------------------------------------------------------------------------------------------

    async def engine_ready(self) -> None:
        """The journal is recovered and nothing runs yet: have done what goes on beside the jobs."""
        await super().engine_ready()
        engine = self._engine
        assert engine is not None, "an engine starts"
        clock = self._system.clock
        around = Surroundings(self._store, engine.committer, engine.waiters, engine.now, clock, engine.worker.has)
        self._repairs.operations = Operations(around, engine.new_id, engine.spawn)
        engine.spawn("operations", self._repairs.operations.resume)
        if self._retention is not None and not self._retention.keeps_all:
            pruner = Pruner(self._retention, self._store, engine.committer, engine.now, clock, self.notices)
            engine.spawn("retention", pruner.run)
        self._watches = [watch for watch in self._watches if not watch.ended]
        for watch in self._watches:
            self._begin_watch(engine, watch)

    async def _stop(self, grace_s: float) -> None:
        operations, self._repairs.operations = self._repairs.operations, None
        if operations is not None:
            operations.end()
        await super()._stop(grace_s)
