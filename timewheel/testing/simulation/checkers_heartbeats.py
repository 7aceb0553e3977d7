"""Checkers of heartbeats: how long a handler may be silent, and that nobody who was heard is ended for silence."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from timewheel.model import AttemptState
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import LifeRecord
from timewheel.testing.simulation.facts_flow import Heard

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SILENT = "no heartbeat for "  # what an attempt says that was ended for it
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
            for former, later in pairwise(said):
                if not later.over or not cls._swallows(world, key[0]):
                    cls._bounded(timeout_us, former, later)
            attempt = record.after["attempts"].get(key)
            timed_out = attempt is not None and attempt.state is AttemptState.TIMED_OUT
            if timed_out and said[-1].over and (attempt.error or "").startswith(SILENT):
                world.counts["ended for silence"] += 1
                silence_us = said[-1].awake_us - said[-2].awake_us
                cls.demand(silence_us >= timeout_us - ROUNDING_US, f"ended after {silence_us} us", *said[-2:], attempt)
            elif said[-1].over and len(said) > 2:
                world.counts["heard to its end"] += 1

    @classmethod
    def _bounded(cls, timeout_us: int, former: Heard, later: Heard) -> None:
        """A silence is as long as it may be; where the loop was blocked, that much longer, and as long again."""
        silence_us, blocked_us = later.awake_us - former.awake_us, later.blocked_us - former.blocked_us
        most_us = timeout_us + 2 * blocked_us + ROUNDING_US
        cls.demand(silence_us <= most_us, f"silent for {silence_us} us, {timeout_us} may be", former, later)

    @staticmethod
    def _swallows(world: World, job_id: int) -> bool:
        """Whether its handler may go on when it is told to end."""
        asked = world.users.asked.get(world.journal.tags.get(job_id, ""), {})
        return "swallows" in asked.get("script", {}).get("ends", ())
