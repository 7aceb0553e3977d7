"""Draws what users do with flow control and dead letters: in a part of the plans, from a stream of its own.

A plan without it is what it was before there was any: what it once found it finds again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from timewheel.testing.simulation import moves_of_flow, moves_of_operators  # noqa: F401  they register themselves
from timewheel.testing.simulation.drawing_watched import WatchedDrawing
from timewheel.testing.simulation.flow_plans import KEYED, What, draw_guards, draw_limits
from timewheel.testing.simulation.moves import kinds_of
from timewheel.testing.simulation.plan import Fault, Life, Move

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing

GUARDED = 0.5  # of these have breakers
CLINGING = 0.2  # of their jobs with a concurrency key do not stop when they time out
SHARE = 0.4  # of the plans have flow control
EVENTS = ["submitting", "submitted", "claiming", "claimed", "entered", "leaving", "settling", "settled", "replaying"]
AT_BAD_MOMENTS = {"flowing", "flowcancel", "flowmove", "replay", "discard", "reshape"}
QUEUES = ["default", "default", "default", KEYED, KEYED, "narrow"]
ENDS = {
    "ok": 3,
    "fails": 2,
    "permanent": 2,
    "throttled": 1,
    "ambiguous": 1,
    "lookup": 1,
    "arithmetic": 1,
    "input": 1,
    "hangs": 1,
    "swallows": 1,
    "snoozes": 1,
    "beats": 1,
}
LATE_S = [0.01, 0.4, 3, 60]


class FlowDrawing:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"{seed} flow")
        self.wanted = self.chance.random() < SHARE
        self.guards = random.Random(f"{seed} guards")
        self.guarded = self.wanted and self.guards.random() < GUARDED
        self.clinging = random.Random(f"{seed} clinging")
        self.watched = WatchedDrawing(seed, wanted=self.wanted)
        self._tags: list[str] = []

    def extend(self, limits: What) -> What:
        """The limits of a plan, with those of flow control."""
        if self.wanted:
            mine = draw_limits(self.chance)
            mine = draw_guards(self.guards, mine) if self.guarded else mine
            queues = {**limits["queues"], **mine["queues"]}
            return self.watched.extend({**limits, **mine, "queues": queues})
        return limits

    def join(self, drawing: Drawing, life: Life) -> None:
        """Add to a life what is done with flow control in it."""
        if self.wanted:
            life.moves += self._moves(drawing, life.length_s)
            life.faults += self._faults(life)
            self.watched.join(drawing, life)

    def _moves(self, drawing: Drawing, length_s: float) -> list[Move]:
        chance = self.chance
        kinds = kinds_of("flow")
        weights = [each.weight for each in kinds.values()]
        moves, at_s = [], 0.0
        if self.guarded and self.guards.random() < 0.4:
            what: What = {"how": self.guards.choice(["open", "closed", "auto"])}
            moves.append(Move("force", round(self.guards.random() * length_s, 4), what, None))
        for kind in chance.choices([*kinds], weights, k=chance.choice([6, 16, 28])):
            if chance.random() < 0.5:
                at_s = round(chance.random() * min(length_s, 8), 4)
            moves.append(Move(kind, at_s, kinds[kind].draw(drawing), None))
            if kind in AT_BAD_MOMENTS and self._tags and chance.random() < 0.4:
                moves[-1].on = [chance.choice(EVENTS), self.some()]
                moves[-1].at_s = round(chance.choice([0, 0, 0.001, 0.02]), 4)
        return moves

    def _faults(self, life: Life) -> list[Fault]:
        chance = self.chance
        if not self._tags or chance.random() > 0.3:
            return []
        written, event = chance.random() < 0.5, chance.choice(["submitting", "replaying", "settling"])
        what = {"written": written, "on": [event, self.some()]}
        return [Fault("crash" if life.end == "crash" else "unknown", 1, what)]

    # ---- what moves ask for ------------------------------------------------------------------------------------------

    def some(self) -> str:
        """The tag of a job, mostly of a late one."""
        late = self._tags[-6:] if self.chance.random() < 0.6 else self._tags
        return self.chance.choice(late or ["nothing"])

    def job(self) -> What:
        """A job with some flow control."""
        chance = self.chance
        waits_for = [self.some() for _ in range(chance.choice([1, 1, 2]))] if self._tags else []
        tag = f"flow {len(self._tags) + 1}"
        self._tags.append(tag)
        task = chance.choice(["act", "metered", "metered", "slotted", "slotted", "fragile"])
        what: What = {"tag": tag, "task": task, "queue": chance.choice(QUEUES), "script": self._script()}
        what["clock"] = chance.choice(["at", "after", "now", "now"])
        what["delay_s"] = round(chance.choice([0, 0.01, 0.3, 3]) * chance.random(), 4)
        what["retry"] = chance.choice(["thrice", "flat", "none"])
        if "hangs" in what["script"]["ends"]:
            what[chance.choice(["timeout_s", "heartbeat_timeout_s"])] = chance.choice([0.1, 0.6])
        elif chance.random() < 0.1:
            what["heartbeat_timeout_s"] = 2
        if self.guarded and self.guards.random() < 0.4:
            what["task"] = "brittle"
            if self.guards.random() < 0.5:
                what["script"]["ends"] = ["fails", self.guards.choice(["fails", "ambiguous", "throttled"]), "ok"]
        self._keys(what)
        if "concurrency_key" in what and self.clinging.random() < CLINGING:
            self._clings(what)
        self._ends(what)
        if chance.random() < 0.25:
            what["unique"] = self._unique()
        if waits_for and chance.random() < 0.3:
            what |= {"wait_for": waits_for, "if_dependency_fails": chance.choice(["CANCEL", "CANCEL", "RUN", "WAIT"])}
        return what

    def _keys(self, what: What) -> None:
        chance = self.chance
        if chance.random() < (0.7 if what["queue"] == KEYED else 0.3):
            what["concurrency_key"] = chance.choice(["k0", "k0", "k0", "k1"])
        if chance.random() < 0.4:
            what |= {"rate_key": chance.choice(["r0", "r0", "r1"]), "cost": chance.choice([1, 1, 2, 3])}
        if chance.random() < 0.25:
            what["partition_key"] = chance.choice(["p0", "p1", "p2"])

    def _clings(self, what: What) -> None:
        """Its handler goes on when it has timed out: for longer than that is waited for, as a rule after its job."""
        chance = self.clinging
        what["script"] = {"ends": ["swallows"], "takes_s": 0, "stays_s": 3, "swallows_s": chance.choice([1.2, 2.5])}
        what["timeout_s"] = chance.choice([0.1, 0.6])
        what["retry"] = chance.choice(["none", "none", "flat"])

    def _ends(self, what: What) -> None:
        """When it is given up. An instant counts from the call, after which it is due."""
        chance = self.chance
        for after, instant in (("expires_after_s", "expires_at"), ("deadline_after_s", "deadline")):
            if chance.random() < 0.2:
                late_s = chance.choice(LATE_S)
                if what["clock"] == "at" and chance.random() < 0.5:
                    what[instant] = what["delay_s"] + late_s
                else:
                    what[after] = late_s

    def _unique(self) -> dict[str, Any]:
        chance = self.chance
        unique: dict[str, Any] = {"key": chance.choice(["u0", "u0", "u1", "u2"])}
        unique["on_conflict"] = chance.choice(["keep", "replace", "reschedule", "fail"])
        if unique["key"] == "u2":
            unique["period_s"] = chance.choice([0.5, 4, None])
            unique["states"] = chance.choice([["SCHEDULED", "WAITING", "ACTIVE", "COMPLETED"], ["ACTIVE"], ["DEAD"]])
        return unique

    def _script(self) -> What:
        chance = self.chance
        ends = chance.choices([*ENDS], [*ENDS.values()], k=chance.choice([1, 1, 2]))
        script: What = {"ends": ["ok"] if chance.random() < 0.35 else ends}
        if script["ends"][-1] == "snoozes" or chance.random() < 0.5:
            script["ends"] = [*script["ends"], "ok"]
        script["takes_s"] = round(chance.choice([0, 0.02, 0.4, 2]) * chance.random(), 4)
        script |= {"stays_s": 0.5, "swallows_s": 0.8} if "swallows" in ends else {}
        return script
