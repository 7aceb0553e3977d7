"""Custody of a schedule: one at a time, in the order of asking, whoever stops waiting."""

from __future__ import annotations

import asyncio

import pytest

from timewheel.planning.custody import Custody


async def test_it_is_taken_once_and_handed_on_in_the_order_of_asking():
    custody, order = Custody(), []

    async def use(name):
        await custody.take()
        order.append(name)
        await asyncio.sleep(0)
        custody.give()

    assert custody.try_take()
    assert not custody.try_take()
    users = [asyncio.ensure_future(use(name)) for name in "abc"]
    await asyncio.sleep(0)
    assert custody.wanted
    assert order == []
    custody.give()
    assert not custody.try_take(), "it was handed over, not left free"
    await asyncio.gather(*users)
    assert order == ["a", "b", "c"]
    assert custody.try_take()


@pytest.mark.parametrize("handed_over", [False, True])
async def test_who_stops_waiting_keeps_nobody_out(handed_over):
    custody = Custody()
    await custody.take()
    first, second = (asyncio.ensure_future(custody.take()) for _ in range(2))
    await asyncio.sleep(0)
    if handed_over:
        custody.give()  # to the first, who is cancelled before he hears of it
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    if not handed_over:
        custody.give()
    await asyncio.wait_for(second, 1)
    custody.give()
    assert custody.try_take()
    assert not custody.wanted
