"""Draws what users do with schedules, and what goes wrong then: in most plans, from a stream of chance of its own.

A plan without schedules is what it was before there were any: what it once found it finds again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from timewheel.testing.simulation import moves_of_schedules  # noqa: F401  they register themselves
from timewheel.testing.simulation.moves import What, kinds_of
from timewheel.testing.simulation.plan import Fault, Life, Move
from timewheel.testing.simulation.standing_plans import CHANGES, SCHEDULES

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing

SHARE = 0.6  # of the plans have schedules
EVENTS = [
    "planning",
    "planned",
    "writing",
    "written",
    "claiming",
    "claimed",
    "entered",
    "leaving",
    "settling",
    "settled",
]
AT_BAD_MOMENTS = {"declare", "edit", "rest", "goon", "drop", "trigger", "disturb", "shut"}
DISTURBANCES = [("step", 3.0), ("suspend", 1.0), ("block", 0.5)]


class StandingDrawing:
    """See the module. `declared`: what was drawn last of each schedule; `began`: when the plan's wall clock begins."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"{seed} schedules")
        self.wanted = self.chance.random() < SHARE
        self.began = self.chance.choice(CHANGES) if self.wanted and self.chance.random() < 0.15 else None
        self.declared: dict[str, What] = {}
        self._alone = 0

    @property
    def change_near(self) -> bool:
        """Whether the clocks of a zone are about to change when the plan begins."""
        return self.began is not None

    def some(self) -> str:
        """A schedule, mostly one that may be there."""
        if self.declared and self.chance.random() < 0.9:
            return self.chance.choice(sorted(self.declared))
        return self.chance.choice(SCHEDULES)

    def new_alone(self) -> str:
        """A name for a job that shares a concurrency key."""
        self._alone += 1
        return f"alone {self._alone}"

    def haste(self) -> What:
        """Sometimes a caller does not wait for the answer."""
        return {"give_up_s": self.chance.choice([0.0, 0.004, 0.02])} if self.chance.random() < 0.1 else {}

    def join(self, drawing: Drawing, life: Life) -> None:
        """Add to a life what is done with schedules in it."""
        if self.wanted:
            life.moves += self._moves(drawing, life.length_s)
            life.faults += self._faults(life)
            life.zones = "2099z" if self.chance.random() < 0.1 else None

    def _moves(self, drawing: Drawing, length_s: float) -> list[Move]:
        chance = self.chance
        kinds = kinds_of("schedules")
        moves, at_s = [], 0.0
        drawn = chance.choices([*kinds], [each.weight for each in kinds.values()], k=chance.choice([4, 12, 24]))
        for kind in [*["declare"] * chance.choice([1, 2, 3]), *drawn]:
            if chance.random() < 0.6:
                at_s = round(chance.random() * min(length_s, 8), 4)
            moves.append(Move(kind, at_s, kinds[kind].draw(drawing), None))
            if kind in AT_BAD_MOMENTS and chance.random() < 0.4:
                moves[-1].on = [chance.choice(EVENTS), self.some()]
                moves[-1].at_s = round(chance.choice([0, 0, 0.001, 0.02]), 4)
        for kind, most_s in DISTURBANCES:
            if chance.random() < 0.15:
                s = chance.choice([most_s * chance.random(), -most_s * chance.random(), 40, -40, 4 * 3600, -4 * 3600])
                what = {"s": s if kind == "step" else most_s * chance.random()}
                on = [chance.choice(EVENTS), self.some()] if chance.random() < 0.5 else None
                moves.append(Move(kind, 0.0 if on else round(chance.random() * length_s, 4), what, on))
        return moves

    def _faults(self, life: Life) -> list[Fault]:
        chance = self.chance
        what = {"written": chance.random() < 0.5}
        on = {"on": [chance.choice(["planning", "writing"]), self.some()]}
        if life.end == "crash" and chance.random() < 0.35:
            return [Fault("crash", 1, what | on)]
        return [Fault("unknown", 1, what | on)] if chance.random() < 0.2 else []
