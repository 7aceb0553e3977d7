"""Planning as the design says it in words, slot by slot: slow, obvious, and written without a look at the real one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from timewheel.recurrence.interval import Every

SECOND = 1_000_000
HOUR = 3600 * SECOND


class Fate(NamedTuple):
    """What became of one slot: `job` is an id that is there already, or ("new", number)."""

    slot: int
    fate: str
    reason: str | None = None
    job: object = None


@dataclass
class Answer:
    fates: list[Fate] = field(default_factory=list)
    jobs: list[tuple] = field(default_factory=list)  # (slot, catch_up, missed)
    at: int = 0
    turn: int = 0
    ended: bool = False
    catching_up: bool = False
    hold: bool = False
    supersede: bool = False
    cancel: list[int] = field(default_factory=list)


def start_of(definition, now):
    least = now.wall_us
    return least if definition.start_us is None else max(least, definition.start_us - 1)


def has_to_go_back(definition, position, now):
    if isinstance(definition.rule, Every) or position.at <= start_of(definition, now):
        return False
    step = (now.wall_us - now.steady_us) - position.offset_us
    if step <= -3 * HOUR:
        return True
    expr = getattr(definition.rule, "expr", "")
    minute, hour = expr.split()[-5:-3] if expr else ("0", "0")
    wild = (minute[0] == "*" or hour[0] == "*") and definition.rule.fold in ("AUTO", "BOTH")
    return step < -0.25 * SECOND and wild


class Model:
    def __init__(self, definition, position, unfinished, now, because):
        self.definition, self.now, self.because = definition, now, because
        self.interval = isinstance(definition.rule, Every)
        self.reached = now.steady_us if self.interval else now.wall_us
        self.answer = Answer(at=position.at, turn=position.turn)
        self.made = position.made
        self.catch_up_until, self.catch_up_at = position.catch_up_until, position.catch_up_at
        self.jobs_there = [(job.job_id, job.state == "WAITING" and job.reason == "overlap", job) for job in unfinished]
        if has_to_go_back(definition, position, now):
            self.answer.at, self.answer.turn = start_of(definition, now), position.turn + 1
            self.catch_up_until = self.catch_up_at = None

    # ---- slots

    def all_slots(self):
        """The slots after `at` that have come, and are before the end."""
        found, at = [], self.answer.at
        while True:
            at = at + self.definition.rule.interval_us if self.interval else self.following(at)
            if at is None or at > self.reached or self.is_over(at):
                return found
            found.append(at)

    def following(self, at):
        one = self.definition.rule.following(at)
        return None if one is None else one.instant_us

    def is_over(self, slot):
        end = self.definition.end_us
        wall = slot + self.now.wall_us - self.now.steady_us if self.interval else slot
        return end is not None and wall >= end

    @property
    def room(self):
        return self.definition.max_runs is None or self.made < self.definition.max_runs

    # ---- overlap

    def place(self, slot, *, catch_up=False, missed=None, in_turn=False):
        """Give one slot its job, or not; the fate."""
        kind, limit = self.definition.overlap.kind.name, self.definition.overlap.limit
        there, waiting = len(self.jobs_there), [one for one in self.jobs_there if one[1]]
        queued = in_turn and kind in ("SKIP", "QUEUE_ONE", "REPLACE")
        refused = None
        if queued:
            if len(waiting) >= self.definition.misfire.catch_up_max:
                refused = Fate(slot, "skipped", "overlap_limit")
        elif there and kind == "SKIP":
            refused = Fate(slot, "skipped", "overlap")
        elif there and kind == "QUEUE_ONE" and waiting:
            refused = Fate(slot, "coalesced", "overlap", waiting[0][0])
        elif there and kind in ("QUEUE_ALL", "ALLOW") and (there if kind == "ALLOW" else len(waiting)) >= limit:
            refused = Fate(slot, "skipped", "overlap_limit")
        if refused:
            self.answer.fates.append(refused)
            return refused
        job = ("new", len(self.answer.jobs))
        held = queued or kind in ("QUEUE_ONE", "QUEUE_ALL", "REPLACE")
        self.answer.hold |= held
        if kind == "REPLACE" and not queued:
            self.answer.supersede = True
            self.answer.cancel = [
                old.job_id
                for _, is_waiting, old in self.jobs_there
                if old is not None and not is_waiting and not old.cancel_requested and old.reason != "overrun"
            ]
        self.jobs_there.append((job, held and there > 0, None))
        self.answer.jobs.append((slot, catch_up, missed))
        self.made += 1
        fate = Fate(slot, "job", None, job)
        self.answer.fates.append(fate)
        return fate

    def leave(self, slots, fate, reason, job=None):
        self.answer.fates += [Fate(slot, fate, reason, job) for slot in slots]

    # ---- misfire

    def is_late(self, slot):
        return self.reached - slot > self.definition.misfire.grace_us

    def done(self, last):
        """All that had come is accounted for."""
        self.answer.at = last if self.interval else max(self.answer.at, self.reached)

    def plan(self):
        misfire = self.definition.misfire.kind.name
        if self.catch_up_until is not None and misfire == "ALL":
            self.catch_up([slot for slot in self.all_slots() if slot <= self.catch_up_until])
        else:
            self.new_slots(self.all_slots(), misfire)
        self.answer.ended = not self.room or not self.more()
        return self.answer

    def more(self):
        at = self.answer.at
        slot = at + self.definition.rule.interval_us if self.interval else self.following(at)
        return slot is not None and not self.is_over(slot)

    def new_slots(self, slots, misfire):
        if not self.room:
            return
        late = [slot for slot in slots if self.is_late(slot)]
        if late and misfire == "ALL":
            self.catch_up_at = self.now.steady_us
            self.catch_up(late)
        elif late and misfire in ("LATEST", "COALESCE"):
            self.one_for_all(slots, self.because, coalesce=misfire == "COALESCE", tell=True)
        else:
            self.leave(late, "skipped", self.because)
            self.one_by_one(slots[len(late) :], late[-1] if late else self.answer.at)

    def one_by_one(self, slots, last):
        if self.definition.overlap.kind.name == "REPLACE" and slots:
            self.one_for_all(slots, "overlap", coalesce=True, tell=False)
            return
        for slot in slots[:100]:
            self.place(slot)
            last = slot
            if not self.room:
                self.answer.at = last
                return
        if len(slots) > 100:
            self.answer.at = last
        else:
            self.done(last)

    def one_for_all(self, slots, reason, *, coalesce, tell):
        *older, newest = slots
        passed = [*older, newest] if self.is_late(newest) else older
        missed = (passed[0], passed[-1], len(passed)) if passed and tell else None
        fate = self.place(newest, catch_up=self.is_late(newest), missed=missed)
        if coalesce and fate.fate != "skipped":
            self.leave(older, "coalesced", reason, fate.job)
        else:
            self.leave(older, "skipped", reason)
        if self.room:
            self.done(newest)
        else:
            self.answer.at = newest

    def catch_up(self, slots):
        if self.catch_up_at > self.now.steady_us:
            self.answer.catching_up = True
            return
        if self.room:
            dropped = slots[: max(0, len(slots) - self.definition.misfire.catch_up_max)]
            self.leave(dropped, "skipped", "catch_up")
            self.answer.at = dropped[-1] if dropped else self.answer.at
            slots = slots[len(dropped) :]
        per_s = self.definition.misfire.catch_up_per_s
        most = 100 if per_s is None else math.ceil(per_s / 10)
        made = 0
        for slot in slots[:most]:
            if not self.room:
                break
            self.place(slot, catch_up=True, in_turn=True)
            self.answer.at = slot
            made += 1
        self.answer.catching_up = made < len(slots) and self.room
        if self.room and not self.all_slots():
            self.done(self.answer.at)


def reference(definition, position, unfinished, now, because):
    return Model(definition, position, unfinished, now, because).plan()
