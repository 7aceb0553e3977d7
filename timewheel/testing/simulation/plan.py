"""A plan: everything that will be done to a scheduler, as data that can be kept, read and cut down.

A plan is several lives of one journal. A life is what users do (`moves`), what happens to the journal (`faults`), how
it ends, and what happens until the next life. Nothing in it depends on how the scheduler answers: jobs are named by
*tags*, texts that the plan gives them, so that a move whose job was left out does nothing.

    >>> plan = Plan(seed=7, store="memory", lives=[Life(moves=[Move("submit", 0.5, {"tag": "1"})])])
    >>> Plan.from_json(plan.to_json()) == plan
    True
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Move:
    """Something that is done: `at_s` seconds after the life began, or as long after `on` = [event, tag] happened.

    Events: submitting, submitted, claiming, claimed, settling, settled (a commit with that change of the job is about
    to be written, was written), entered, leaving (its handler); of a schedule, which is the tag of its jobs, too,
    planning, planned (its slots), writing, written (what it is to be). Kinds: `timewheel.testing.simulation.moves`.
    """

    kind: str
    at_s: float
    what: dict[str, Any] = field(default_factory=dict)
    on: list[str] | None = None

    def __str__(self) -> str:
        told = " ".join(f"{name}={value!r}" for name, value in self.what.items())
        when = f"{self.at_s:.4g} s" if self.on is None else f"{self.at_s:.4g} s after {self.on[1]} was {self.on[0]}"
        return f"{when}: {self.kind} {told}".rstrip()


@dataclass(slots=True)
class Fault:
    """What goes wrong in the life's commit number `commit` (see `timewheel.testing.simulation.journals`)."""

    kind: str
    commit: int
    what: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        told = " ".join(f"{name}={value!r}" for name, value in self.what.items())
        return f"commit {self.commit}: {self.kind} {told}".rstrip()


@dataclass(slots=True)
class Life:
    """One life: it lasts `length_s` unless a fault ends it before, and ends by `end`: "crash", "stop" or "cut".

    "crash": the process is killed. "stop": `stop(grace_s)`. "cut": its event loop ends as `asyncio.run` ends it.
    Then the machine is down for `down_s` (`reboot`: it was booted again), and somebody sets its wall clock by `step_s`.
    `heir`: another scheduler stands by meanwhile, takes over after a stop, and lives as long again.
    `zones`: what its time zone database is called; None: as it is.
    `without`: tasks that this life's program does not have. `commit_s`, `read_s`: the longest usual commit and read.
    """

    moves: list[Move] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    length_s: float = 5.0
    end: str = "stop"
    grace_s: float = 1.0
    down_s: float = 0.0
    reboot: bool = False
    step_s: float = 0.0
    without: list[str] = field(default_factory=list)
    commit_s: float = 0.0
    read_s: float = 0.0
    heir: bool = False
    zones: str | None = None

    def lines(self) -> list[str]:
        """The life in words."""
        ends = {"stop": f"it is stopped (grace {self.grace_s:.4g} s)", "crash": "it is killed", "cut": "its loop ends"}
        lines = [f"- {move}" for move in sorted(self.moves, key=lambda move: move.at_s)]
        lines += [f"- {fault}" for fault in self.faults]
        lines.append(f"- after {self.length_s:.4g} s {ends[self.end]}")
        if self.heir:
            lines.append(f"- who stood by takes over, and is stopped after {self.length_s:.4g} s")
        if self.without:
            lines.insert(0, f"- without the tasks {', '.join(self.without)}")
        if self.zones:
            lines.insert(0, f"- with the time zones {self.zones}")
        if self.commit_s or self.read_s:
            lines.insert(0, f"- a commit takes up to {self.commit_s:.4g} s, a read {self.read_s:.4g} s")
        if self.down_s or self.reboot or self.step_s:
            boot = ", booted again" if self.reboot else ""
            lines.append(f"- the machine is down for {self.down_s:.4g} s{boot}; its clock is set {self.step_s:+.4g} s")
        return lines


@dataclass(slots=True)
class Plan:
    """See the module. `limits`: the scheduler's and its queues', see `timewheel.testing.simulation.limits`."""

    seed: int
    store: str
    lives: list[Life]
    limits: dict[str, Any] = field(default_factory=dict)
    began: str | None = None  # when its wall clock begins, as an ISO datetime; None: when every virtual machine's does

    def to_json(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        data = json.loads(text)
        lives = []
        for life in data.pop("lives"):
            moves = [Move(**move) for move in life.pop("moves")]
            faults = [Fault(**fault) for fault in life.pop("faults")]
            lives.append(Life(moves=moves, faults=faults, **life))
        return cls(lives=lives, **data)

    def __str__(self) -> str:
        lines = [f"seed {self.seed} on {self.store}, limits {self.limits}"]
        for number, life in enumerate(self.lives, 1):
            lines += [f"life {number}:", *(f"  {line}" for line in life.lines())]
        return "\n".join(lines)
