"""The intake of the committer: how a change comes into the queue of its kind, and who hears of its outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.errors import JournalFull, Overloaded
from timewheel.store.aftermath import ignore, reply_to, submit_all
from timewheel.store.backlog import Backlog, Entry, Receiver
from timewheel.store.changes import Change, Claim, Defer, PlanOccurrences, Rest, SaveLimits, Settle, Submit, TakeOver
from timewheel.store.heirs import Heirs
from timewheel.store.room import Room

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.changes import Cancel, Reschedule, Standing
    from timewheel.store.key_limits import KeyHolder, KeyLimits
    from timewheel.store.letters import Discard, Replay

QUEUE_LIMIT = 20_000
RETRY_S = 1.0


class Intake:
    """See the module. Everything raises the cause when the committer has ended."""

    def __init__(self, clock: Clock) -> None:
        self._backlog = Backlog()
        self.heirs = Heirs()
        self.settling = self._backlog.settling
        self._alarm = Alarm(clock)
        self._room = Room(self._vacancies)
        self._idle = asyncio.Event()
        self._idle.set()
        self._full: JournalFull | None = None
        self._failed: BaseException | None = None

    async def submit(self, change: Submit) -> Any:
        """Write a submission and return its outcome; waits for room in the queue.

        Raises JournalFull, JournalUnknown, or the cause when the committer has ended.
        """
        if self._vacancies() <= 0:
            await self._room.wait()
        future = asyncio.get_running_loop().create_future()
        self.submit_soon(change, reply_to(future))
        return await future

    async def submit_many(self, changes: Iterable[Submit], each: Callable[[Submit, Any], None]) -> None:
        """Write submissions over as many batches as needed; `each(change, outcome or exception)` as they come back."""
        await submit_all(changes, each, self._room, self.submit_soon)

    def submit_soon(self, change: Submit, receive: Receiver) -> None:
        """Queue a submission without waiting for room. Raises JournalFull while there is no space."""
        if self._full is not None:
            raise self._full
        self._post(self._backlog.submits, change, receive)

    def check_room(self, jobs: int) -> None:
        """Raise Overloaded when `jobs` more submissions would not fit: for callers that must not wait."""
        if jobs > self._vacancies():
            message = f"{QUEUE_LIMIT} submissions may wait for the journal, and {jobs} more would not fit: try again"
            raise Overloaded(message, retry_after_s=RETRY_S)

    def verb(self, change: Cancel | Reschedule | Replay | Discard, receive: Receiver) -> None:
        """Queue a verb of one job."""
        self._post(self._backlog.verbs, change, receive)

    def standing(self, change: Standing, receive: Receiver) -> None:
        """Queue what a schedule or a calendar is to be. `receive` may get JournalUnknown: read it again.

        Raises JournalFull while there is no space.
        """
        if self._full is not None:
            raise self._full
        self._post(self._backlog.standing, change, receive)

    def plan(self, change: PlanOccurrences, receive: Receiver) -> None:
        """Queue what becomes of a schedule's slots; otherwise as `standing`."""
        if self._full is not None:
            raise self._full
        self._post(self._backlog.plans, change, receive)

    async def housekeep(self, change: Rest | TakeOver) -> Any:
        """Write one of the rest and return its outcome."""
        future = asyncio.get_running_loop().create_future()
        self._post(self._backlog.rest, change, reply_to(future))
        return await future

    def settle(self, change: Settle, receive: Receiver) -> None:
        """Queue a settlement; it is repeated until it is written or the committer ends."""
        self._post(self._backlog.settles, change, receive)

    def claim(self, change: Claim, receive: Receiver) -> None:
        """Queue a claim. On JournalUnknown `receive` gets the exception: some of the hints may be claimed."""
        self._post(self._backlog.claims, change, receive)

    def defer(self, change: Defer, receive: Receiver) -> None:
        """Queue a deferral of candidates. On JournalUnknown and JournalFull `receive` gets the exception."""
        self._post(self._backlog.defers, change, receive)

    def let_go(self, tasks: Mapping[str, int], receive: Callable[[Mapping[str, int], Any], None]) -> None:
        """Let so many that wait for a slot of each task go on with the next batch; see Heirs.want."""
        if self._failed is None:
            self.heirs.want(tasks, receive)
            self._wake()

    def limit_keys(self, limits: KeyLimits) -> None:
        """So many jobs with one concurrency key may run from now on: those that wait are looked at once more."""
        self.heirs.key_limits = limits
        if self.heirs.may_wait and self._failed is None:
            self.heirs.want_everything()
            self._wake()

    def overruns(self, job_id: int, holder: KeyHolder) -> None:
        """The handler of this job cannot be stopped: its key is held until `overrun_ended`, whatever becomes of it.

        Tell this before the job's Settle: no batch that has the Settle lets another take the key.
        """
        self.heirs.overruns(job_id, holder)

    def overrun_ended(self, job_id: int) -> None:
        """Its handler has ended at last: who waits for its key goes on with the next batch."""
        if self.heirs.overrun_ended(job_id) and self._failed is None:
            self._wake()

    def note(self, change: Rest) -> None:
        """Queue one of the rest without waiting for its outcome."""
        self._post(self._backlog.rest, change, ignore)

    def save_limits(self, change: SaveLimits, receive: Receiver) -> None:
        """Write limits with the next batch, together with any that still wait: of those nobody hears."""
        if self._failed is None:
            self._backlog.put_limits(change, receive)
            self._wake()

    def _post(self, queue: deque[Entry], change: Change, receive: Receiver) -> None:
        if self._failed is not None:
            raise self._failed
        queue.append((change, receive))
        if self._idle.is_set():  # otherwise it looks again by itself when its commit returns
            self._wake()

    def _vacancies(self) -> int:
        return QUEUE_LIMIT - len(self._backlog.submits)

    def _wake(self) -> None:
        self._idle.clear()
        self._alarm.ring()
