"""Cuts a plan that fails down to what is needed for the same invariant to fail, within a bound of time.

Lives, moves and faults are left out as long as the failure stays; then what is left is made plainer: a machine that
is not down, commits that take no time. A plan without some moves meets another chance, so a cut may lose the failure
although it left out nothing that matters: the result is small, not smallest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from timewheel.testing.simulation.plan import Life, Plan
from timewheel.testing.simulation.running import Violation, run_plan

T = TypeVar("T")
BOUND_S = 60.0


def shrink(
    violation: Violation,
    *,
    bound_s: float = BOUND_S,
    play: Callable[[Plan], Violation | None] = lambda plan: run_plan(plan).violation,
) -> Violation:
    """The same violation of a smaller plan; the very same one when nothing can be left out."""
    return _Shrinker(violation, time.monotonic() + bound_s, play).run()


class _Shrinker:
    def __init__(self, violation: Violation, until: float, play: Callable[[Plan], Violation | None]) -> None:
        self._best = violation
        self._until = until
        self._play = play

    def run(self) -> Violation:
        size = -1
        while size != (size := self._size()) and self._has_time():
            self._cut(lambda plan: plan.lives, lambda plan, lives: replace(plan, lives=lives))
            for number in range(len(self._best.plan.lives)):
                self._cut_life(number)
            self._make_plainer()
        return self._best

    def _size(self) -> int:
        return len(self._best.plan.to_json())

    def _has_time(self) -> bool:
        return time.monotonic() < self._until

    def _cut_life(self, number: int) -> None:
        self._cut(lambda plan: plan.lives[number].moves, lambda plan, moves: _with(plan, number, moves=moves))
        self._cut(lambda plan: plan.lives[number].faults, lambda plan, faults: _with(plan, number, faults=faults))

    def _cut(self, parts_of: Callable[[Plan], list[T]], put: Callable[[Plan, list[T]], Plan]) -> None:
        """Leave out halves, then quarters, then single parts."""
        size = len(parts_of(self._best.plan))
        while size and self._has_time():
            begin = 0
            while begin < len(parts_of(self._best.plan)) and self._has_time():
                parts = parts_of(self._best.plan)
                if not self._still(put(self._best.plan, parts[:begin] + parts[begin + size :])):
                    begin += size
            size //= 2

    def _make_plainer(self) -> None:
        for number in range(len(self._best.plan.lives)):
            for plain in _plainer(self._best.plan.lives[number]):
                if self._has_time() and plain != self._best.plan.lives[number]:
                    lives = list(self._best.plan.lives)
                    lives[number] = plain
                    self._still(replace(self._best.plan, lives=lives))

    def _still(self, plan: Plan) -> bool:
        """Whether the same invariant fails in this plan; then it is the best one."""
        found = self._play(plan)
        same = found is not None and found.invariant == self._best.invariant
        if found is not None and same:
            self._best = found
        return same


def _with(plan: Plan, number: int, **changes: Sequence[object]) -> Plan:
    lives = list(plan.lives)
    lives[number] = replace(lives[number], **changes)  # type: ignore[arg-type]  # moves or faults, as the caller has them
    return replace(plan, lives=lives)


def _plainer(life: Life) -> Iterator[Life]:
    yield replace(life, down_s=0.0, reboot=False, step_s=0.0)
    yield replace(life, step_s=0.0)
    yield replace(life, commit_s=0.0, read_s=0.0)
    yield replace(life, without=[])
    yield replace(life, heir=False)
    yield replace(life, end="stop")
    yield replace(life, length_s=min(life.length_s, 1.0))
