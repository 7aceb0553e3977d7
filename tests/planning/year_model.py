"""What must have become of each slot of a schedule in a year: the design's words, carried out slot by slot.

Independent of timewheel's rules and of its planning. What is taken from the run is only chance and the handlers' own
clock: the jitter of a job, and the last microseconds of a slot that counts from the end of a run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.planning.year_history import NEVER, Job, Jobs
from tests.planning.year_rules import DAY, HOUR, SECOND, between
from tests.planning.year_script import BEGIN_US

ONE_AT_A_TIME = ("SKIP", "QUEUE_ONE", "REPLACE")
HOLDING = ("QUEUE_ONE", "QUEUE_ALL", "REPLACE")


class Row(NamedTuple):
    """One slot; `stand` is the job that stands for it."""

    slot: int
    fate: str
    reason: str | None = None
    stand: Job | None = None


@dataclass
class Account:
    """What must be in the ledger: rows in the order in which slots were passed, by clock (is it the steady one?)."""

    rows: dict[bool, list[Row]] = field(default_factory=lambda: {False: [], True: []})
    manual: list[Row] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)  # times that gaps took
    may_be_lost: dict[int, int] = field(default_factory=dict)  # and those that no plan need have come past


class Slots:
    """The slots of a definition. Those of an interval are phase + k * interval."""

    def __init__(self, definition, length):
        self.interval = definition.rule.interval_us
        self.wall, self.gaps = [], {}
        if self.interval is None:
            first = BEGIN_US - 2 * DAY if definition.start_us is None else definition.start_us
            last = BEGIN_US + length + 30 * DAY if definition.end_us is None else definition.end_us
            self.wall, lost = definition.rule.timeline(first, last)
            self.gaps = {at: count for at, count in lost.items() if first <= at < last}

    def first(self, phase, after, end):
        if self.interval is not None:
            found = phase + ((after - phase) // self.interval + 1) * self.interval
        else:
            index = bisect_right(self.wall, after)
            found = self.wall[index] if index < len(self.wall) else NEVER
        return found if found < end else NEVER

    def between(self, phase, after, until, end):
        until = min(until, end - 1)
        if self.interval is None:
            return between(self.wall, after, until)
        return list(range(phase + ((after - phase) // self.interval + 1) * self.interval, until + 1, self.interval))


class Standing:
    """Where a schedule stands, and what a look at it does. `t` is the elapsed moment of what happens.

    `seen(steady, slot, kind)`: when the job that was made is due. `near(slot)`: the slot of the ledger that is a few
    microseconds from this one.
    """

    def __init__(self, history, length, seen, near):
        self.history, self.length, self.seen, self.near = history, length, seen, near
        self.account = Account()
        self.jobs = Jobs(history)
        self.made = 0
        self.state = "NONE"

    def take(self, definition):
        self.definition, self.rule = definition, definition.rule
        self.steady = self.rule.interval_us is not None
        self.slots = Slots(definition, self.length)
        self.account.may_be_lost |= self.slots.gaps

    def begin(self, definition):
        """Its slots count from now on."""
        self.take(definition)
        self.catch_up_until = self.catch_up_at = None
        self.at = self.near(self.now + self.rule.interval_us) - self.rule.interval_us if self.steady else self.begins
        self.offset = self.history.offset(self.t)
        self.look_ahead()
        if self.rule.fixed_delay:
            self.next_at = self.at + self.rule.interval_us

    # ---- instants on its clock ---------------------------------------------------------------------------------------

    @property
    def now(self):
        return self.history.reading(self.t, self.steady)

    @property
    def steady_now(self):
        return self.history.reading(self.t, True)

    @property
    def begins(self):
        """The instant after which its slots of wall time may lie, as the clock stands."""
        return self.now if self.definition.start_us is None else max(self.now, self.definition.start_us - 1)

    @property
    def end(self):
        """The first instant that is no slot any more."""
        end = self.definition.end_us
        return NEVER if end is None else end - (self.history.offset(self.t) - BEGIN_US if self.steady else 0)

    @property
    def room(self):
        return self.definition.max_runs is None or self.made < self.definition.max_runs

    def first(self):
        return self.slots.first(self.at, self.at, self.end)

    def due(self, after=None):
        return self.slots.between(self.at, self.at if after is None else after, self.now, self.end)

    def look_ahead(self):
        self.next_at = self.first() if self.room else NEVER

    # ---- a look ------------------------------------------------------------------------------------------------------

    def plan(self, because="misfire"):
        self.jobs.advance(self.t)
        self.settle()
        if self.rule.fixed_delay:
            self.fixed_delay(because)
        else:
            before = self.at
            if self.catch_up_until is not None and self.definition.misfire == "ALL":
                self.catch_up()
            else:
                self.catch_up_until = self.catch_up_at = None
                self.new_slots(because)
            self.lose(before)
            if not self.room:
                self.catch_up_until = self.catch_up_at = None
            self.look_ahead()
        if (self.next_at is not None and self.next_at >= NEVER) or not self.room:
            self.state = "ENDED"

    def settle(self):
        """A clock that was set back: wild rules go on at once, after three hours all do."""
        offset = self.history.offset(self.t)
        if self.steady:
            return
        step = offset - self.offset
        if self.at > self.begins and (step <= -3 * HOUR or (step < -SECOND // 4 and self.rule.wild)):
            self.at, self.offset = self.begins, offset
            self.catch_up_until = self.catch_up_at = None
        elif self.at <= self.now:
            self.offset = offset

    def lose(self, before):
        """Times that the clocks skipped, in (before, at], are told of."""
        for change, count in self.slots.gaps.items():
            if before < change <= self.at:
                self.account.lost[change - 1] = count

    def new_slots(self, because):
        slots = self.due() if self.room else []
        if not slots:
            if self.room:
                self.moved()
            return
        late = [slot for slot in slots if self.is_late(slot)]
        misfire = self.definition.misfire
        if late and misfire == "ALL":
            dropped = late[: -self.definition.catch_up_max]
            self.leave_out(dropped, "catch_up")
            self.at = dropped[-1] if dropped else self.at
            self.catch_up_until, self.catch_up_at = late[-1], self.steady_now
            self.catch_up()
        elif late and misfire != "SKIP":
            self.newest(slots, because, merge=misfire == "COALESCE")
        else:
            self.leave_out(late, because)
            self.at = late[-1] if late else self.at
            self.each(slots[len(late) :])

    def is_late(self, slot):
        return self.now - slot > self.definition.grace_us

    def moved(self):
        if not self.steady:
            self.at = max(self.at, self.now)

    def each(self, slots):
        if slots and self.definition.overlap == "REPLACE":
            self.newest(slots, "overlap", merge=True)
            return
        for slot in slots:
            self.place(slot)
            self.at = slot
            if not self.room:
                return
        self.moved()

    def newest(self, slots, reason, *, merge):
        *older, last = slots
        passed = [slot for slot in slots if slot != last or self.is_late(slot)]
        missed = (passed[0], passed[-1], len(passed)) if passed and reason != "overlap" else None
        row = self.place(last, catch_up=self.is_late(last), missed=missed, write=False)
        merged = merge and row.stand is not None
        self.leave_out(older, reason, "coalesced" if merged else "skipped", row.stand if merged else None)
        self.account.rows[self.steady].append(row)
        self.at = last
        if self.room:
            self.moved()

    def catch_up(self):
        """The next missed slots, as fast as the policy lets; newer ones wait behind them."""
        if self.catch_up_at > self.steady_now:
            return
        per_s = self.definition.catch_up_per_s
        most = self.definition.catch_up_max if per_s is None else math.ceil(per_s / 10)
        left = [slot for slot in self.due() if slot <= self.catch_up_until]
        for slot in left[:most]:
            if self.room:
                self.place(slot, catch_up=True, in_turn=True)
                self.at = slot
        if left[most:] and self.room:
            self.catch_up_at = self.steady_now + (0 if per_s is None else math.ceil(most * SECOND / per_s))
            return
        self.catch_up_until = self.catch_up_at = None
        if self.room and not self.due():
            self.moved()

    def fixed_delay(self, because):
        if self.jobs.of_rule:
            self.next_at = None
            return
        slot = self.next_at
        if slot is None:
            ended = self.history.reading(self.jobs.last_end, True)
            slot = self.near(max(self.at + 1, ended + self.rule.interval_us))
        if slot <= self.now and self.room and slot < self.end:
            late = self.is_late(slot)
            if late and self.definition.misfire == "SKIP":
                self.leave_out([slot], because)
            elif self.place(slot, catch_up=late, missed=(slot, slot, 1) if late else None).fate == "job":
                self.at, self.next_at = slot, None
                return
            self.at, slot = slot, self.near(self.now + self.rule.interval_us)
        self.next_at = slot if slot < self.end else NEVER

    # ---- overlap -----------------------------------------------------------------------------------------------------

    def place(self, slot, *, catch_up=False, missed=None, in_turn=False, write=True):
        row = self.admit(slot, "rule", in_turn=in_turn)
        if row is None:
            row = Row(slot, "job", None, self.make(slot, "rule", in_turn=in_turn))
            row.stand.catch_up, row.stand.missed = catch_up, missed
            self.made += 1
        if write:
            self.account.rows[self.steady].append(row)
        return row

    def admit(self, slot, kind, *, in_turn=False):
        """The row of a slot that gets no job; None: it gets one."""
        overlap, limit, busy, waiting = (
            self.definition.overlap,
            self.definition.limit,
            self.jobs.unfinished,
            self.jobs.waiting,
        )
        if in_turn and overlap in ONE_AT_A_TIME:
            full = len(waiting) >= self.definition.catch_up_max
        elif busy and overlap == "SKIP":
            return Row(slot, "skipped", "overlap")
        elif overlap == "QUEUE_ONE" and waiting:
            return Row(slot, "coalesced", "overlap", waiting[0])
        else:
            full = (overlap == "QUEUE_ALL" and len(waiting) >= limit) or (overlap == "ALLOW" and len(busy) >= limit)
        return Row(slot, "skipped", "overlap_limit") if full else None

    def make(self, slot, kind, *, in_turn=False, force=False):
        due = self.seen(self.steady, slot, kind)
        plan = self.definition
        job = Job(slot, self.steady, kind, slot if due is None else due, plan.run_us, plan.fails)
        if kind == "rule" and not self.rule.fixed_delay:
            following = self.slots.first(self.at, slot, NEVER)
            job.jitter_us, job.before = plan.jitter_us, None if following >= NEVER else following
        elif kind == "rule":
            job.jitter_us = plan.jitter_us
        if plan.overlap == "SERIALIZE":
            job.serialized = True  # it waits for strangers, and counts for nobody
            return job
        queued = in_turn and self.definition.overlap in ONE_AT_A_TIME
        if self.definition.overlap == "REPLACE" and not queued and not force:
            self.jobs.replace(self.t)
        self.jobs.add(job, self.t, holds=not force and (queued or self.definition.overlap in HOLDING))
        return job

    def leave_out(self, slots, reason, fate="skipped", stand=None):
        self.account.rows[self.steady] += [Row(slot, fate, reason, stand) for slot in slots]
