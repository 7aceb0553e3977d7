"""Checkers of heartbeats: how long a handler may be silent, and that nobody who was heard is ended for silence."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, AttemptState
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import LifeRecord
from timewheel.testing.simulation.facts_flow import Heard

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SILENT = "no heartbeat for "  # what an attempt says that was ended for it
LATE_US = SECOND_US // 10  # who looks so late knows that the loop was blocked
ROUNDING_US = 1_000  # timers are set in seconds


class Heartbeats(Checker):
    """How long a handler may be silent."""

    number = "I14"
    sentence = "A handler is ended for its silence when that has lasted its heartbeat_timeout_s, and never before"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each silence of this life, by the clock that counts awake time: timers stand still in a suspend."""
        heard: dict[tuple[int, int], list[Heard]] = defaultdict(list)
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Heard):
                heard[fact.job_id, fact.attempt].append(fact)
        for key, said in heard.items():
            timeout_us = world.journal.book.flow.flows[key[0]].heartbeat_timeout_us or 0
            silences = [_Silence(world, timeout_us, former, later) for former, later in pairwise(said)]
            for silence in silences:
                if not silence.later.over or not cls._swallows(world, key[0]):
                    cls.demand(silence.too_long_us <= ROUNDING_US, f"silent for {silence.us} us", *silence.facts)
            attempt = record.after["attempts"].get(key)
            timed_out = attempt is not None and attempt.state is AttemptState.TIMED_OUT
            if timed_out and said[-1].over and (attempt.error or "").startswith(SILENT):
                world.counts["ended for silence"] += 1
                cls._ended(silences[-1])
            elif said[-1].over and len(said) > 2:
                world.counts["heard to its end"] += 1

    @classmethod
    def _ended(cls, silence: _Silence) -> None:
        """It was ended for this silence."""
        early_us = silence.timeout_us - silence.us
        cls.demand(early_us <= ROUNDING_US, f"ended {early_us} us early", *silence.facts)
        early_us = silence.spared_until_us - silence.later.awake_us
        cls.demand(early_us <= ROUNDING_US, f"ended {early_us} us early: the loop had been blocked", *silence.facts)

    @staticmethod
    def _swallows(world: World, job_id: int) -> bool:
        """Whether its handler may go on when it is told to end."""
        asked = world.users.asked.get(world.journal.tags.get(job_id, ""), {})
        return "swallows" in asked.get("script", {}).get("ends", ())


class _Silence:
    """The time between two facts of a handler, and when its loop was blocked meanwhile."""

    def __init__(self, world: World, timeout_us: int, former: Heard, later: Heard) -> None:
        self.timeout_us = timeout_us
        self.later = later
        self.us = later.awake_us - former.awake_us
        self._due_us = former.awake_us + timeout_us
        self._blocks = [
            (begin, end) for begin, end, _ in world.machine.blocks if begin < later.awake_us and end > former.awake_us
        ]
        self.facts = (former, later, timeout_us, self._blocks)

    @property
    def too_long_us(self) -> int:
        """Where the loop was blocked it may be that much longer, and as long again."""
        return self.us - self.timeout_us - 2 * sum(end - begin for begin, end in self._blocks)

    @property
    def spared_until_us(self) -> int:
        """Until when it may go on because nobody could say anything when its time was over; 0: no longer than others.

        Of several blocks nobody knows in which of them the watch has looked.
        """
        for begin, end in self._blocks if len(self._blocks) == 1 else ():
            late_us = end - self._due_us
            if begin < self._due_us and late_us >= LATE_US:
                return end + min(late_us, self.timeout_us)
        return 0
