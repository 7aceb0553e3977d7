"""When the job of a slot is due: a little later, so that not everything starts at once.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

import hashlib

_SHARES = 1 << 64


def jittered(schedule: str, nominal_at: int, turn: int, width_us: int) -> int:
    """An instant in [nominal_at, nominal_at + width_us), always the same for one occurrence; width 0: nominal_at.

    It comes of the schedule's id, the slot and its turn alone, so that schedules spread, and so do the slots of one.
    """
    name = f"{nominal_at}/{turn}/{schedule}".encode("utf-8", "surrogatepass")
    share = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    return nominal_at + width_us * share // _SHARES
