"""Draws jobs that are watched: handlers that say they are alive, or stop saying so, and retries that a queue counts.

In a part of the plans with flow control, each of the two from a stream of its own: a plan without is what it was.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from timewheel.testing.simulation import moves_of_watched  # noqa: F401  they register themselves
from timewheel.testing.simulation.flow_plans import THRIFTY, What
from timewheel.testing.simulation.plan import Life, Move

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing

BEATING = 0.4  # of the plans with flow control have handlers that beat
SPARING = 0.3  # of them have a queue with a retry budget
CONTESTED = 0.4  # of them see in the end how two queues share
MOST_SHARED = 6  # more at once, and nobody would have to share


class WatchedDrawing:
    """See the module. Nothing is drawn in a plan that is not `wanted`."""

    def __init__(self, seed: int, *, wanted: bool) -> None:
        self.beats = random.Random(f"{seed} beats")
        self.thrift = random.Random(f"{seed} thrift")
        self._beating = wanted and self.beats.random() < BEATING
        self._sparing = wanted and self.thrift.random() < SPARING
        self._contested = wanted and random.Random(f"{seed} contest").random() < CONTESTED
        self._jobs = 0

    def extend(self, limits: What) -> What:
        """The limits of a plan, with a queue that counts retries, and whether two queues contend in the end."""
        extended = {**limits}
        if self._sparing:
            chance = self.thrift
            budget = {"share": chance.choice([0.2, 0.3]), "window_s": chance.choice([1, 2])}
            budget["at_least"] = chance.choice([1, 2])
            extended["queues"] = {**limits["queues"], THRIFTY: {"retry_budget": budget}}
        if self._contested and limits["concurrency"] <= MOST_SHARED:
            extended["contest"] = True
        return extended

    def join(self, drawing: Drawing, life: Life) -> None:
        """Add to a life its watched jobs."""
        if self._beating:
            life.moves += self._pulses(drawing, life.length_s)
        if self._sparing:
            at_s = round(self.thrift.random() * min(life.length_s, 2), 4)
            life.moves.append(Move("spend", at_s, self.retries(guarded=drawing.flow.guarded)))

    def _pulses(self, drawing: Drawing, length_s: float) -> list[Move]:
        chance = self.beats
        moves = []
        for _ in range(chance.choice([2, 4, 6])):
            at_s = round(chance.random() * min(length_s, 4), 4)
            moves.append(Move("pulse", at_s, self.pulse()))
            if chance.random() < 0.15:  # the loop is blocked, and nobody can say anything
                late_s = round(at_s + chance.random() * 0.5, 4)
                moves.append(Move("block", late_s, {"s": round(chance.choice([0.08, 0.3, 1]) * chance.random(), 4)}))
        return moves

    def pulse(self) -> What:
        """A job whose handler beats: for long, or until it falls silent for a while."""
        chance = self.beats
        silence_s = chance.choice([0.1, 0.3, 1])
        script: What = {"every_s": round(silence_s * chance.choice([0.3, 0.6, 0.9]), 4)}
        script["beats"] = chance.choice([0, 3, 8])
        script["silent_s"] = round(silence_s * chance.choice([0, 0.8, 0.95, 1.5, 30]), 4)
        script["ends"] = ["falls silent", chance.choice(["falls silent", "beats", "ok"])]
        what: What = {"tag": self._tag("beat"), "task": "act", "script": script, "heartbeat_timeout_s": silence_s}
        what |= {"clock": "after", "delay_s": round(chance.choice([0, 0.3]) * chance.random(), 4)}
        what["retry"] = chance.choice(["none", "flat", "thrice"])
        if chance.random() < 0.2:
            what["timeout_s"] = 2.5
        return what

    def retries(self, *, guarded: bool) -> What:
        """Jobs of the queue that counts retries, which fail at first."""
        chance = self.thrift
        jobs = []
        for _ in range(chance.choice([2, 5, 8])):
            ends = ["fails", chance.choice(["fails", "transient", "ok"]), "ok"]
            script = {"ends": ends, "takes_s": round(chance.choice([0, 0.2]) * chance.random(), 4)}
            what: What = {"tag": self._tag("flow spend"), "task": "act", "queue": THRIFTY, "script": script}
            what |= {"clock": "now", "delay_s": 0, "retry": chance.choice(["flat", "flat", "thrice"])}
            if guarded and chance.random() < 0.3:
                what["task"] = "brittle"  # of BANK: two budgets
            jobs.append(what)
        return {"jobs": jobs}

    def _tag(self, kind: str) -> str:
        self._jobs += 1
        return f"{kind} {self._jobs}"
