"""Random changes of schedules for `tests.conformance.batches`: edits, plans, calendars, take-overs.

What they plan keeps the laws of a ledger (no slot twice, none before its schedule's position), so that a journal that
breaks them does so by itself.
"""

from timewheel.model import ClockKind, OriginKind
from timewheel.schedule_records import Fate, Position, ScheduleState, SkipReason
from timewheel.store.changes import PutCalendar
from timewheel.testing.builders import SCHEDULE, drop_schedule, occurrence, plan, put_schedule, row

TASKS = ("t0", "t1", "t2")
QUEUES = ("a", "b", "ž")
SCHEDULES = (SCHEDULE, "t", "ž")
KEYS = (*(None,) * 5, "k", "l")
REASONS = tuple(reason.value for reason in SkipReason if reason is not SkipReason.GAP)
STALE = (0,) * 9 + (1,)


class ScheduleChanges:
    """A part of BatchMaker: what a batch makes of schedules, as far as it is known when it is drawn."""

    def know(self, dump):
        """Remember where each schedule stands: version and position; and where the rows of its rule end."""
        self._ledger = dump["ledger"]
        self._standing = {name: (record.version, record.position) for name, record in dump["schedules"].items()}
        self._ends = {}
        for one in dump["ledger"].values():
            self._cover(one.schedule, one.clock, one.turn, one.last_at)

    def _cover(self, name, clock, turn, at):
        self._ends[name, clock, turn] = max(at, self._ends.get((name, clock, turn), 0))

    def _found(self, name):
        return self._standing.get(name, (0, None))

    # ---- edits -------------------------------------------------------------------------------------------------------

    def _put_schedule(self):
        name = self._one_of(SCHEDULES)
        version, position = self._found(name)
        expected = version + self._one_of(STALE)
        if position is None or self._number(0, 3) == 0:
            clock, turn = self._one_of(list(ClockKind)), self._number(0, 1)
            position = Position(clock, self._ends.get((name, clock, turn), 0) + self._number(0, 3), turn)
        state = self._one_of(list(ScheduleState))
        if expected == version:
            self._standing[name] = (version + 1, position)
        return put_schedule(
            name,
            expected,
            importable=self._number(0, 3) == 0,
            task=self._one_of(TASKS),
            queue=self._one_of(QUEUES),
            definition=f'{{"n":{self.next_id}}}',
            state=state,
            position=position,
            updated_at=self._now.wall_us,
            reason=self._maybe(["audit"]),
            until=self._maybe([self._now.wall_us]),
        )

    def _drop_or_calendar(self):
        if self._number(0, 1):
            return PutCalendar(self._one_of(("a", "ž")), f"[{self.next_id}]")
        name = self._one_of(SCHEDULES)
        version, _ = self._found(name)
        expected = version + self._one_of(STALE)
        if expected == version:
            self._standing.pop(name, None)
        return drop_schedule(name, expected)

    def _take_over(self):
        return self._take_over_of(everything=self._number(0, 3) == 0)

    # ---- plans -------------------------------------------------------------------------------------------------------

    def _plan(self):
        name = self._one_of(sorted(self._standing) or SCHEDULES)
        version, position = self._found(name)
        if position is None:
            position = Position(ClockKind.WALL, 0)
        elif self._number(0, 9) == 0:
            position = position._replace(turn=position.turn + 1)
        jobs, rows, position = self._slots(name, position)
        if self._number(0, 2) == 0:
            jobs += self._again(name)
        if version:
            self._standing[name] = (version, position)
        return plan(
            *jobs,
            rows=rows,
            schedule=name,
            version=version + self._one_of(STALE),
            position=position,
            state=self._one_of([None, None, *ScheduleState]),
            reason=self._maybe(["no such zone"]),
            hold=self._number(0, 2) > 0,
            supersede=self._number(0, 3) == 0,
        )

    def _slots(self, name, position):
        """Slots that were not accounted for yet, each with its row or its job, and the position after them."""
        jobs, rows = [], []
        at = max(position.at, self._ends.get((name, position.clock, position.turn), 0))
        for _ in range(self._number(0, 4)):
            first_at, fate = at + self._number(1, 5), self._one_of(list(Fate))
            if fate is Fate.JOB:
                at = first_at
                jobs.append(self._job(name, position.clock, first_at, turn=position.turn))
            else:
                rows.append(self._row(name, position, first_at, jobs if fate is Fate.COALESCED else []))
                at = rows[-1].last_at
        if self._number(0, 3) == 0:
            kind = self._one_of((OriginKind.MANUAL, OriginKind.BACKFILL))
            jobs.append(self._job(name, position.clock, self.next_id, turn=position.turn, kind=kind))
        self._cover(name, position.clock, position.turn, at)
        return jobs, rows, position._replace(at=at, next_at=self._maybe([at + 1]), made=position.made + len(jobs))

    def _row(self, name, position, first_at, jobs):
        """One slot or some, skipped, or coalesced into the last of these jobs."""
        count = self._one_of((1, 1, 1, 2, 7))
        return row(
            first_at,
            first_at + (count - 1) * 2,
            count,
            schedule=name,
            clock=position.clock,
            turn=position.turn,
            fate=Fate.COALESCED if jobs else Fate.SKIPPED,
            job_id=jobs[-1].job_id if jobs else None,
            reason=self._one_of(REASONS),
            recorded_at=self._now.wall_us,
        )

    def _job(self, name, clock, nominal_at, **origin):
        self.next_id += self._number(1, 3)
        return occurrence(
            self.next_id,
            nominal_at,
            name,
            clock=clock,
            catch_up=self._one_of((True, False)),
            task=self._one_of(TASKS),
            queue=self._one_of(QUEUES),
            scheduled_at=self._now.on(clock) + self._one_of((-1_000_000, -1, 0, 0, 1, 20_000)),
            concurrency_key=self._one_of(KEYS),
            flow=self._flow(of_a_schedule=True),
            **origin,
        )

    def _again(self, name):
        """A job for a slot that has its row already."""
        known = [one for one in self._ledger.values() if one.schedule == name and one.count == 1]
        if not known:
            return []
        one = self._one_of(known)
        return [self._job(name, one.clock, one.first_at, turn=one.turn, kind=one.kind)]
