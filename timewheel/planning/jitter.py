"""When the job of a slot is due: a little later than the slot, so that not everything starts at once.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

import hashlib

from timewheel.model import MAX_TIME_US
from timewheel.planning.definition import Definition
from timewheel.recurrence.rule import Rule

_SHARES = 1 << 64


def due(definition: Definition, rule: Rule, schedule: str, nominal_at: int, turn: int) -> int:
    """When the job of a slot is due: within `jitter_us` of the slot, and before the next one.

    `rule` counts on the schedule's clock. Of a fixed delay no next slot is known.
    """
    width_us = definition.jitter_us
    if not width_us:
        return nominal_at
    following = None if definition.fixed_delay else rule.following(nominal_at)
    if following is not None:
        width_us = min(width_us, following.instant_us - nominal_at)
    return min(jittered(schedule, nominal_at, turn, width_us), MAX_TIME_US)


def jittered(schedule: str, nominal_at: int, turn: int, width_us: int) -> int:
    """An instant in [nominal_at, nominal_at + width_us), always the same for one occurrence.

    It comes of the schedule's id, the slot and its turn alone, so that schedules spread, and so do the slots of one.
    """
    name = f"{nominal_at}/{turn}/{schedule}".encode("utf-8", "surrogatepass")
    share = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    return nominal_at + width_us * share // _SHARES
