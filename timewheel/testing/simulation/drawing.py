"""Draws a plan from a seed: the same seed, the same plan. Each subsystem has its own stream of chance."""

from __future__ import annotations

import random
from typing import Any

from timewheel.testing.simulation import moves_of_machines, moves_of_users  # noqa: F401  they register themselves
from timewheel.testing.simulation.drawing_flow import FlowDrawing
from timewheel.testing.simulation.drawing_schedules import StandingDrawing
from timewheel.testing.simulation.handlers import ENDINGS, FINE, PLAIN_ENDINGS
from timewheel.testing.simulation.moves import kinds_of
from timewheel.testing.simulation.plan import Fault, Life, Move, Plan

QUEUES = ["default", "default", "default", "rated", "narrow", "tight"]
EVENTS = ["submitting", "submitted", "claiming", "claimed", "entered", "leaving", "settling", "settled"]
MOVED_AT_BAD_MOMENTS = {"cancel", "reschedule", "block", "step", "suspend", "pause"}
RARE = {"stops": 0.1, "interrupts": 0.1, "hangs": 1}
LIVES = 4


class Drawing:
    """What a plan is drawn with. `chance` is the users' stream while moves are drawn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"{seed} users")
        self.handlers = random.Random(f"{seed} handlers")
        self.fate = random.Random(f"{seed} fate")
        self.storage = random.Random(f"{seed} faults")
        self.standing = StandingDrawing(seed)
        self.flow = FlowDrawing(seed)
        self._tags: list[str] = []
        self._count = 0

    # ---- what moves ask for ------------------------------------------------------------------------------------------

    def new_tag(self) -> str:
        """A name for a job."""
        self._count += 1
        self.note(str(self._count))
        return str(self._count)

    def note(self, tag: str) -> None:
        """A job of this name may exist."""
        self._tags.append(tag)

    def some_job(self) -> dict[str, Any]:
        """The tag of a job, mostly of a late one."""
        late = self._tags[-6:] if self.chance.random() < 0.6 else self._tags
        return {"tag": self.chance.choice(late or ["nothing"])}

    def queue(self) -> str:
        """A queue."""
        return self.chance.choice(QUEUES)

    def delay_s(self) -> float:
        """A time from now, often now."""
        return round(self.chance.choice([0, 0.01, 0.3, 3, 20]) * self.chance.random(), 4)

    def impatience(self) -> dict[str, Any]:
        """Sometimes a caller does not wait for the answer."""
        return {"give_up_s": self.chance.choice([0.0, 0.004, 0.02])} if self.chance.random() < 0.12 else {}

    def job(self) -> dict[str, Any]:
        """A job to be made."""
        chance = self.chance
        what: dict[str, Any] = {"tag": self.new_tag(), "queue": self.queue()}
        what["task"] = chance.choices(["act", "work", "guest"], [7, 2, 1])[0]
        what["script"] = self._script(plain=what["task"] == "work")
        what["clock"] = chance.choice(["at", "after", "after", "now"])
        what["delay_s"] = self.delay_s() if chance.random() < 0.9 else -round(chance.random() * 100, 3)
        if what["clock"] != "at":
            what["delay_s"] = abs(what["delay_s"])
        what["priority"] = chance.choice([0, 5, 5, 9])
        what["retry"] = chance.choice(["thrice", "thrice", "none", "flat", "gives up"])
        if "hangs" in what["script"]["ends"] or chance.random() < 0.15:
            what["timeout_s"] = chance.choice([0.05, 0.2, 1.5])
        if chance.random() < 0.15:
            what["misfire_grace_s"] = chance.choice([0, 0.5, 5])
        return what

    def _script(self, *, plain: bool) -> dict[str, Any]:
        chance = self.handlers
        names = sorted(PLAIN_ENDINGS if plain else ENDINGS)
        ends = chance.choices(names, [RARE.get(name, 1) for name in names], k=chance.choice([1, 2, 3]))
        script: dict[str, Any] = {"ends": [FINE] if chance.random() < 0.45 else [*ends, FINE]}
        script["takes_s"] = round(chance.choice([0, 0, 0.02, 0.4, 3]) * chance.random(), 4) / (20 if plain else 1)
        if "cancels another" in ends:
            script["other"] = chance.choice(self._tags)
        if "swallows" in ends:
            script |= {"stays_s": chance.choice([0.1, 3]), "swallows_s": chance.choice([0.1, 2.5])}
        return script

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, seed: int, store: str) -> Plan:
        """The plan of a seed."""
        lives = []
        for _ in range(LIVES):
            lives.append(self._life())
            while self.fate.random() < 0.2:  # it dies again while it recovers
                lives.append(self._stillborn())
        return Plan(seed, store, lives, self.flow.extend(self._limits()), self.standing.began)

    def _limits(self) -> dict[str, Any]:
        rate = {"count": 4, "per_s": 1, "burst": 2}
        whole = self.fate.choice([None, None, None, {"count": 20, "per_s": 1, "burst": 5}])
        queues = {"rated": {"rate": rate}, "narrow": {"concurrency": 2}, "tight": {"rate": rate, "concurrency": 1}}
        return {"concurrency": self.fate.choice([3, 6, 6, 100]), "rate": whole, "queues": queues}

    def _life(self) -> Life:
        fate = self.fate
        life = Life(length_s=round(fate.choice([2, 6, 15]) * fate.random(), 3), end=self._end())
        life.grace_s = fate.choice([0, 0.05, 2, 10])
        if fate.random() < 0.7:
            life.commit_s, life.read_s = fate.choice([(0.015, 0.01), (0.002, 0.001), (0.3, 0.05)])
        life.heir = life.end == "stop" and fate.random() < 0.25
        life.without = ["guest"] if fate.random() < 0.2 else []
        life.moves = self._moves(life.length_s)
        life.faults = self._faults(life)
        self._night(life)
        self.standing.join(self, life)
        self.flow.join(self, life)
        return life

    def _end(self) -> str:
        return self.fate.choices(["crash", "stop", "cut"], [6, 3, 0.5])[0]

    def _night(self, life: Life) -> None:
        fate = self.fate
        if fate.random() < 0.4:
            life.down_s = round(fate.choice([0.1, 3, 600]) * fate.random(), 3)
            life.reboot = fate.random() < 0.4
        if fate.random() < 0.15:
            life.step_s = fate.choice([-3600, -5, 5, 3600, 315_000_000, -315_000_000])

    def _stillborn(self) -> Life:
        """A life that ends in one of its first commits: those of its recovery."""
        life = Life(length_s=1.0, end="crash")
        what = {"written": self.storage.random() < 0.5}
        life.faults = [Fault("crash", self.storage.randrange(1, 4), what)]
        life.commit_s = self.fate.choice([0, 0.01])
        self._night(life)
        return life

    def _moves(self, length_s: float) -> list[Move]:
        chance = self.chance
        kinds = kinds_of("users")
        weights = [kind.weight for kind in kinds.values()]
        moves = []
        at_s = 0.0
        for kind in chance.choices([*kinds], weights, k=chance.choice([10, 30, 45])):
            if chance.random() < 0.5:
                at_s = round(chance.random() * min(length_s, 6), 4)
            what = kinds[kind].draw(self)
            moves.append(Move(kind, at_s, what, self._moment(kind, what)))
        for move in moves:
            if move.on is not None:
                move.at_s = round(chance.choice([0, 0, 0, 0.001, 0.02]), 4)
        return moves

    def _moment(self, kind: str, what: dict[str, Any]) -> list[str] | None:
        if kind not in MOVED_AT_BAD_MOMENTS or self.chance.random() < 0.35:
            return None
        return [self.chance.choice(EVENTS), what.get("tag") or self.some_job()["tag"]]

    # ---- what the journal does ---------------------------------------------------------------------------------------

    def _faults(self, life: Life) -> list[Fault]:
        storage = self.storage
        faults = []
        if life.end == "crash" and storage.random() < 0.75:
            what: dict[str, Any] = {"written": storage.random() < 0.5}
            if self._tags and storage.random() < 0.4:
                what["on"] = [storage.choice(["submitting", "claiming", "settling", "cancelling", "moving"])]
                what["on"].append(storage.choice(self._tags[-20:]))
            faults.append(Fault("crash", storage.randrange(1, 60), what))
        if storage.random() < 0.35:
            faults += self._trouble()
        if storage.random() < 0.1:
            faults.append(Fault("slow", storage.randrange(1, 40), {"s": storage.choice([0.5, 1.5, 5])}))
        return faults

    def _trouble(self) -> list[Fault]:
        storage = self.storage
        commit = storage.randrange(1, 40)
        what: dict[str, Any] = {"written": storage.random() < 0.5}
        kind = storage.choices(
            ["unknown", "thrice", "busy", "full", "gone", "reopen", "read"], [10, 1.5, 3, 3, 0.6, 0.6, 2]
        )[0]
        if kind == "thrice":
            return [Fault("unknown", commit + number, {"written": storage.random() < 0.5}) for number in range(3)]
        if kind == "unknown" and self._tags and storage.random() < 0.4:
            what["on"] = [storage.choice(["submitting", "claiming", "settling", "cancelling", "moving"])]
            what["on"].append(storage.choice(self._tags[-20:]))
        extra: dict[str, dict[str, Any]] = {
            "full": {"for_s": storage.choice([0.5, 3])},
            "read": {"times": storage.choice([1, 3])},
        }
        if kind in ("unknown", "reopen"):
            return [Fault(kind, commit, what)]
        return [Fault(kind, commit, extra.get(kind, {}))]


def draw_plan(seed: int, store: str = "memory") -> Plan:
    """The plan of a seed."""
    return Drawing(seed).plan(seed, store)
