"""A virtual machine notices who waits by asking again and again: in its time that would never end."""

import asyncio

import pytest

from timewheel.testing import virtual
from timewheel.testing.virtual import Livelock, VirtualMachine


async def spins():
    while True:
        await asyncio.sleep(0)


def test_a_task_that_spins_is_named():
    with pytest.raises(Livelock, match=r"(?s)turns of the loop at one instant.*spins"):
        VirtualMachine().run(spins())


def test_turns_in_which_time_moves_do_not_count(monkeypatch):
    monkeypatch.setattr(virtual, "MOST_TURNS", 50)

    async def ticks():
        for _ in range(500):
            await asyncio.sleep(0.001)  # virtual

    VirtualMachine().run(ticks())
