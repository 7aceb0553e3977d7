"""A round of planning: the schedules whose time has come, planned a portion at a time, each by itself.

What has to be known of the journal is read for the whole round; then each schedule is planned, and its change is queued
without waiting for the others. Who is planned is held until the outcome of its change is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from timewheel.errors import JournalFull, TimewheelError
from timewheel.model import Now
from timewheel.planning.carrier import Carrier, Drafted, rule_jobs
from timewheel.planning.carrying import changes_nothing, left_to_replace
from timewheel.planning.ends import last_end
from timewheel.planning.kept import Kept
from timewheel.planning.position import wake_at
from timewheel.planning.roster import Roster
from timewheel.schedule_records import ScheduleRecord, ScheduleState, UnfinishedJob
from timewheel.store.aftermath import let_others_run
from timewheel.store.changes import Planned

if TYPE_CHECKING:
    from timewheel.ports import Clock

MOST_IN_FLIGHT = 1_000  # plans that wait for the committer
TURN = 64  # schedules that are planned in one turn of the loop
TURN_US = 5_000  # or as many as can be in this time
_PLANNED = (ScheduleState.ACTIVE, ScheduleState.PARKED)  # the latter when what it lacked may be there
_log = logging.getLogger("timewheel")


class Rounds:
    """See the module. `resume(schedule, version)` ends a pause, `run` has it done; `heard` is told of each outcome."""

    def __init__(
        self,
        roster: Roster,
        carrier: Carrier,
        clock: Clock,
        resume: Callable[[str, int | None], Coroutine[Any, Any, ScheduleRecord]],
        run: Callable[[Coroutine[Any, Any, ScheduleRecord]], asyncio.Task[ScheduleRecord]],
        heard: Callable[[], None],
    ) -> None:
        self._roster = roster
        self._carrier = carrier
        self._clock = clock
        self._resume = resume
        self._run = run
        self._heard = heard
        self._in_flight = 0
        self._receive = self._written  # one bound method for all plans

    @property
    def crowded(self) -> bool:
        """Whether as many plans wait for the committer as may."""
        return self._in_flight >= MOST_IN_FLIGHT

    async def serve(self, names: list[str]) -> None:
        """Plan these schedules, but for those that somebody else holds: he will enter them again."""
        held: deque[tuple[str, Kept]] = deque()
        for name in names:
            kept = self._roster.find(name)
            if kept is not None and kept.custody.try_take():
                kept.rest_until, kept.look = None, False
                held.append((name, kept))
        try:
            unfinished = await self._learn(held)
            while held:
                self._plan_some(held, unfinished)
                if held:
                    await let_others_run()
        finally:
            for name, kept in held:
                self._roster.give(kept, name)

    async def _learn(self, held: Sequence[tuple[str, Kept]]) -> dict[str, list[UnfinishedJob]]:
        """What planning these has to know of the journal."""
        for name, kept in held:
            if kept.stale:
                await self._roster.read_again(kept, name)
        unfinished = await self._roster.store.unfinished([name for name, _ in held])
        for name, kept in held:
            record = kept.record
            if record is None or record.state not in _PLANNED or wake_at(record.position) is not None:
                continue
            if job_ids := rule_jobs(unfinished.get(name, [])):  # a fixed delay, after a start
                self._carrier.attend(kept, job_ids)
                unfinished |= await self._roster.store.unfinished([name]) or {
                    name: []
                }  # one may have ended before the watch
                kept.attending &= frozenset(rule_jobs(unfinished[name]))
            if not kept.attending and kept.finished_at is None:
                kept.finished_at = await last_end(self._roster.store, name, self._roster.now())
        return unfinished

    def _plan_some(self, held: deque[tuple[str, Kept]], unfinished: dict[str, list[UnfinishedJob]]) -> None:
        began, now = self._clock.boot_us(), self._roster.now()
        for _ in range(TURN):
            name, kept = held.popleft()
            self._plan(name, kept, unfinished.get(name, []), now)
            if not held or self._clock.boot_us() - began > TURN_US:
                return

    def _plan(self, name: str, kept: Kept, unfinished: list[UnfinishedJob], now: Now) -> None:
        """Plan one schedule; it is given back now, or when its change is written."""
        record, retry = kept.record, kept.retry
        kept.retry = False
        if record is not None and not kept.started:
            self._go_on(kept, unfinished)
        if record is None or record.state is ScheduleState.ENDED:
            self._roster.give(kept, name)
        elif record.state is ScheduleState.PAUSED:
            self._pause_may_be_over(name, kept, record)
        elif not retry and (_attends(kept, record) or record.state is ScheduleState.PARKED):
            self._roster.give(kept, name)
        else:
            self._carry_out(name, kept, self._carrier.draft_or_park(kept, unfinished, now), now)

    def _pause_may_be_over(self, name: str, kept: Kept, record: ScheduleRecord) -> None:
        if record.until is not None and record.until <= self._roster.now().wall_us:
            self._roster.rest(kept)  # should it fail
            self._run(self._resume(name, record.version)).add_done_callback(_log_failure)
        self._roster.give(kept, name)

    def _go_on(self, kept: Kept, unfinished: list[UnfinishedJob]) -> None:
        """What an earlier process began and did not end: jobs whose replacements wait are asked to end."""
        kept.started = True
        try:
            left = left_to_replace(self._roster.definition(kept), unfinished, kept.edited_at)
            self._carrier.replace_soon(left)
        except Exception as fault:  # noqa: BLE001  it is parked for the same when it is planned
            _log.debug("the schedule %s cannot be read: %s", kept.here.schedule, fault)

    def _carry_out(self, name: str, kept: Kept, drafted: Drafted, now: Now) -> None:
        if changes_nothing(kept.here, drafted.change):
            wake = wake_at(kept.here.position)
            if wake is not None and wake.at <= now.on(wake.clock):
                self._roster.rest(kept)  # it says that something has come, and plans nothing
            self._roster.give(kept, name)
            return
        self._in_flight += 1
        receive = _Receiver(self._receive, name, kept, drafted)
        try:
            self._roster.writer.plan(drafted.change, receive)
        except JournalFull as full:
            receive(full)

    def _written(self, name: str, kept: Kept, drafted: Drafted, outcome: Any) -> None:
        """The outcome of a plan is known."""
        self._in_flight -= 1
        if isinstance(outcome, Planned):
            self._carrier.done(kept, drafted)
        elif isinstance(outcome, JournalFull):
            self._roster.rest(kept)
        else:  # an edit overtook it, or nobody knows what was written
            kept.stale = True
        self._roster.give(kept, name)
        self._heard()


class _Receiver:
    """Hears the outcome of one plan. One object, where `partial` is three: there are as many as plans that wait."""

    __slots__ = ("_attends", "_change", "_kept", "_name", "_to_end", "_written")

    def __init__(self, written: Callable[[str, Kept, Drafted, Any], None], name: str, kept: Kept, drafted: Drafted):
        self._written = written
        self._name = name
        self._kept = kept
        self._change, self._to_end, self._attends = drafted

    def __call__(self, outcome: Any) -> None:
        self._written(self._name, self._kept, Drafted(self._change, self._to_end, self._attends), outcome)


def _attends(kept: Kept, record: ScheduleRecord) -> bool:
    """Whether it has no next time until a job of it ends; one that was made anew has, whatever its former self left."""
    return bool(kept.attending) and wake_at(record.position) is None


def _log_failure(task: asyncio.Task[ScheduleRecord]) -> None:
    if not task.cancelled() and isinstance(error := task.exception(), TimewheelError):
        _log.warning("a pause could not be ended at its time, and will be a second later: %s", error)
