"""The plan of one schedule at one moment: which slots have come, what becomes of each, and where the schedule stands.

Pure: no asyncio, clock, randomness, files or sockets. Carried out in one transaction (PlanOccurrences), so that no slot
is lost or served twice by a crash. Its work and memory do not grow with the number of slots that were missed: those
that do not run are one row.

A rule `0 * * * *` under LATEST, planned up to 08:00, down until 11:00:05 (the slot of 11:00 is within the grace):

    rows   09:00-10:00  SKIPPED (misfire), 2 slots          11:00  JOB
    jobs   one for 11:00, which is told that two slots from 09:00 to 10:00 were missed
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from timewheel.model import SECOND_US, ClockKind, Missed, Now, OriginKind
from timewheel.planning.definition import Definition
from timewheel.planning.drafts import Draft, Span, WantedJob, draft_of
from timewheel.planning.overlap import Verdict
from timewheel.planning.policies import Misfire, OverlapKind
from timewheel.planning.position import at_next, at_slot, of_zones, settled, without_catch_up
from timewheel.planning.slots import slots_of
from timewheel.planning.tail import newest_from
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import Fate, OccurrenceRecord, Position, SkipReason, UnfinishedJob

MOST_AT_ONCE = 100  # slots that are planned one by one; the rest is due at once
_PORTIONS_PER_S = 10  # faster catching up makes several jobs at a time


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written. `position`: where the schedule then stands; `ended`: nothing will ever come of it.

    `rows` are in the order of time. `stands`: for each row the number of the job in `jobs` that stands for it, or None;
    such rows lack their job_id. `hold`, `supersede`: as of PlanOccurrences. `cancel`: jobs to ask to end;
    `superseded`: those that wait and are to be skipped, or to be asked to end if they do not wait any more.
    """

    position: Position
    rows: list[OccurrenceRecord]
    stands: list[int | None]
    jobs: list[WantedJob]
    ended: bool = False
    hold: bool = False
    supersede: bool = False
    cancel: tuple[int, ...] = ()
    superseded: tuple[int, ...] = ()

    def with_ids(self, job_ids: Sequence[int]) -> list[OccurrenceRecord]:
        """The rows, completed: the jobs get these ids, in the order of `jobs`."""
        for row, number in zip(self.rows, self.stands, strict=True):
            if number is not None:
                row.job_id = job_ids[number]
        return self.rows


def plan(
    definition: Definition,
    schedule: str,
    position: Position,
    unfinished: Sequence[UnfinishedJob],
    now: Now,
    *,
    because: SkipReason = SkipReason.MISFIRE,
    tzdata: str,
    finished_at: int | None = None,
) -> Plan:
    """What becomes of the slots after `position` that have come by now; where more are due, plan again at once.

    `because`: why slots were missed: MISFIRE, or PAUSED or PARKED when that has just ended. `finished_at`: when the
    last job of a fixed delay ended (steady); None: now. Raises InvalidRule when the rule lacks its calendar.
    """
    before, position = position, of_zones(settled(definition, position, now), tzdata)
    draft = draft_of(definition, schedule, position, slots_of(definition, position, now), unfinished, now)
    is_known = definition.calendar is None and (before.at, before.tzdata) == (position.at, tzdata)  # calendars change
    if before.next_at is not None and is_known:
        draft.know(before.at, before.next_at)
    if isinstance(definition.rule, Every) and definition.rule.after_completion:
        return _finish(draft, *_fixed_delay(draft, definition.rule, unfinished, because, finished_at))
    if position.catch_up_until is None or definition.misfire.kind is not Misfire.ALL:
        draft.position = without_catch_up(position)
        reached = _new_slots(draft, because)
    else:
        reached = _catch_up(draft, position.catch_up_until)
    draft.lose(reached.at)
    return _finish(draft, reached)


def _finish(draft: Draft, reached: Position, over: bool | None = None) -> Plan:
    """The plan that leaves the schedule at `reached`; `over`: whether the rule has no slot any more, None: look."""
    next_at = reached.next_at
    if not draft.room:
        reached, next_at = without_catch_up(reached), None
    elif over is None:
        next_at = draft.first(reached.at)
        over = next_at is None
    reached = at_next(reached, next_at, draft.position.made + len(draft.jobs))
    rows, admission = draft.sorted_rows(), draft.admission
    return Plan(
        position=reached,
        rows=[row for row, _ in rows],
        stands=[None if stand is None else stand.number for _, stand in rows],
        jobs=draft.jobs,
        ended=not draft.room or bool(over),
        hold=admission.hold,
        supersede=admission.replaces,
        cancel=tuple(admission.cancelled()),
        superseded=tuple(admission.superseded()),
    )


def _new_slots(draft: Draft, because: SkipReason) -> Position:
    """The slots that have come, by the misfire policy if one of them was missed."""
    at, reached = draft.position.at, draft.now.on(draft.position.clock)
    if not draft.room:
        return draft.position
    first = draft.first(at)
    if first is None or first > reached:
        return _moved(draft, at, reached)
    misfire = draft.definition.misfire
    late = reached - misfire.grace_us - 1  # up to here a slot was missed
    if first > late:
        return _each(draft, at, reached)
    if misfire.kind is Misfire.ALL:
        return _begin_catching_up(draft, late)
    if misfire.kind is Misfire.SKIP:
        missed = draft.span(at, late) or Span(first, first, 1)
        draft.skip(missed, because)
        return _each(draft, missed.last, reached)
    return _newest(draft, reached, because, merge=misfire.kind is Misfire.COALESCE)


def _moved(draft: Draft, last: int, reached: int) -> Position:
    """Every slot up to `reached` is accounted for. An interval keeps its phase: it stays at its `last` slot."""
    if draft.position.clock is ClockKind.STEADY:
        return at_slot(draft.position, last)
    return at_slot(draft.position, max(draft.position.at, reached))


def _each(draft: Draft, after: int, reached: int) -> Position:
    """The slots in (after, reached] one by one; of many at once REPLACE would keep none but the last."""
    if draft.definition.overlap.kind is OverlapKind.REPLACE:
        return _newest(draft, reached, SkipReason.OVERLAP, merge=True, after=after)
    for number in range(MOST_AT_ONCE + 1):
        slot = draft.first(after) if draft.room else None
        if draft.room and (slot is None or slot > reached):
            return _moved(draft, after, reached)
        if slot is None or number == MOST_AT_ONCE:
            break
        draft.run(slot)
        after = slot
    return at_slot(draft.position, after)


def _newest(draft: Draft, reached: int, reason: SkipReason, *, merge: bool, after: int | None = None) -> Position:
    """One job for the newest slot in (after, reached]; the older ones are skipped, or it stands for them."""
    span = draft.span(draft.position.at if after is None else after, reached)
    if span is None:
        return _moved(draft, draft.position.at if after is None else after, reached)
    older = draft.older(span, span.last) if span.count > 1 else None
    is_late = span.last < draft.now.on(draft.position.clock) - draft.definition.misfire.grace_us
    missed = _missed(older, span.last if is_late else None) if reason is not SkipReason.OVERLAP else None
    verdict = draft.run(span.last, catch_up=is_late, missed=missed)
    _account(draft, older, reason, verdict, merge=merge)
    return at_slot(draft.position, span.last) if not draft.room else _moved(draft, span.last, reached)


def _account(draft: Draft, older: Span | None, reason: SkipReason, verdict: Verdict, *, merge: bool) -> None:
    if older is None:
        return
    if merge:
        draft.merge(older, reason, verdict)
    else:
        draft.skip(older, reason)


def _missed(older: Span | None, late: int | None) -> Missed | None:
    """What the handler is told of: the older slots, and its own when that was missed too."""
    if older is None:
        return None if late is None else Missed(late, late, 1)
    return Missed(older.first, older.last if late is None else late, older.count + (late is not None))


def _begin_catching_up(draft: Draft, late: int) -> Position:
    """The slots up to `late` are to run, one after the other."""
    last = draft.slots.last(draft.position.at, late)
    if last is None:
        return draft.position
    draft.position = draft.position._replace(catch_up_until=last, catch_up_at=draft.now.steady_us)
    return _catch_up(draft, last)


def _drop_older(draft: Draft, until: int) -> int:
    """Of the slots up to `until`, at first or by an edit too many, only the newest `catch_up_max` run: after which?"""
    at, most = draft.position.at, draft.definition.misfire.catch_up_max
    left = draft.slots.count(at, until) if draft.room else 0
    if left > most and (missed := draft.span(at, until)) is not None:
        dropped = draft.older(missed, newest_from(draft.slots, missed, most), most)
        draft.skip(dropped, SkipReason.CATCH_UP)
        at = dropped.last
    return at


def _catch_up(draft: Draft, until: int) -> Position:
    """The next of the slots up to `until`, as many as `catch_up_per_s` allows. Newer slots wait behind them."""
    position, per_s = draft.position, draft.definition.misfire.catch_up_per_s
    reached = draft.now.on(position.clock)
    until = min(until, reached)  # after a backward step the others come in their own time
    if position.catch_up_at is not None and position.catch_up_at > draft.now.steady_us:
        return position
    at = _drop_older(draft, until)
    portion = MOST_AT_ONCE if per_s is None else math.ceil(per_s / _PORTIONS_PER_S)
    for _ in range(portion):
        slot = draft.first(at)
        if slot is None or slot > until or not draft.room:
            break
        draft.run(slot, catch_up=True, in_turn=True)
        at = slot
    following = draft.first(at)
    if following is None or following > until:
        draft.position = without_catch_up(position)
        newer = not draft.room or (following is not None and following <= reached)
        return at_slot(draft.position, at) if newer else _moved(draft, at, reached)
    pause_us = 0 if per_s is None else math.ceil(portion * SECOND_US / per_s)
    return position._replace(at=at, catch_up_at=draft.now.steady_us + pause_us)


def _fixed_delay(
    draft: Draft, rule: Every, unfinished: Sequence[UnfinishedJob], because: SkipReason, finished_at: int | None
) -> tuple[Position, bool]:
    """The one slot of a fixed delay, known when the run before has ended and missed by downtime only; is it over?"""
    position, now, misfire = draft.position, draft.now.steady_us, draft.definition.misfire
    if any(job.kind is OriginKind.RULE for job in unfinished):
        return position._replace(next_at=None), False
    at, slot = position.at, position.next_at
    if slot is None:
        slot = max(at + 1, (now if finished_at is None else finished_at) + rule.interval_us)
    if slot <= now and draft.room and draft.slots.within(slot) == slot:
        late = slot if slot < now - misfire.grace_us else None
        if late is not None and misfire.kind is Misfire.SKIP:
            draft.skip(Span(slot, slot, 1), because)
        elif draft.run(slot, catch_up=late is not None, missed=_missed(None, late)).fate is Fate.JOB:
            return position._replace(at=slot, next_at=None), False
        at, slot = slot, now + rule.interval_us
    over = draft.slots.within(slot) < slot
    return position._replace(at=at, next_at=None if over else slot), over
