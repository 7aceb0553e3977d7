"""`/api/v1/queues`: how queues stand, and what is set of them, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler

from timewheel import Queue, Rate, Scheduler
from timewheel.serve.queues import QueueOut, QueuesOut

QUEUES = "/api/v1/queues"


@pytest_asyncio.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    hanging = asyncio.Event()
    async with make_scheduler(hanging) as scheduler:
        scheduler.hanging = hanging  # type: ignore[attr-defined]
        yield scheduler
        await scheduler.stop(grace_s=0)


@pytest_asyncio.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(scheduler) as client:
        yield client


def shown(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    QueueOut.model_validate(body, strict=False)
    assert set(body) == set(QueueOut.model_fields)
    return body


async def test_a_queue_shows_what_waits_and_what_runs(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    await scheduler.options(queue="q").now("hang")
    await scheduler.hanging.wait()  # type: ignore[attr-defined]
    await scheduler.options(queue="q").after(3600, "echo")
    queue = shown(await client.get(f"{QUEUES}/q"))
    assert (queue["name"], queue["running"], queue["scheduled"], queue["due"]) == ("q", 1, 1, 0)
    assert (queue["paused"], queue["rate"], queue["concurrency"], queue["weight"]) == (False, None, None, 1)
    listed = (await client.get(QUEUES)).json()
    QueuesOut.model_validate(listed)
    assert [one["name"] for one in listed["items"]] == ["q"]
    assert shown(await client.get(f"{QUEUES}/nobody"))["scheduled"] == 0


async def test_a_queue_is_paused_and_resumed(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    assert shown(await client.patch(f"{QUEUES}/q", json={"paused": True}))["paused"] is True
    job = await scheduler.options(queue="q").now("add", 1)
    queue = shown(await client.get(f"{QUEUES}/q"))
    assert (queue["due"], queue["running"], queue["paused"]) == (1, 0, True)
    assert queue["oldest_due_at"] is not None
    assert shown(await client.patch(f"{QUEUES}/q", json={"paused": False}))["paused"] is False
    assert await job.result(timeout_s=30) == 2


async def test_limits_change_one_by_one(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    rate = {"count": 5, "per_s": 2.0, "burst": 3}
    queue = shown(await client.patch(f"{QUEUES}/q", json={"rate": rate, "concurrency": 7}))
    assert (queue["rate"], queue["concurrency"]) == (rate, 7)
    queue = shown(await client.patch(f"{QUEUES}/q", json={"weight": 4, "key_concurrency": 2}))
    assert (queue["rate"], queue["concurrency"], queue["weight"], queue["key_concurrency"]) == (rate, 7, 4, 2)
    [state] = await scheduler.queues()
    assert state.limits == Queue(rate=Rate(5, 2.0, 3), concurrency=7, weight=4, key_concurrency=2)
    queue = shown(await client.patch(f"{QUEUES}/q", json={"rate": None, "weight": None}))
    assert (queue["rate"], queue["concurrency"], queue["weight"]) == (None, 7, 1)
    assert shown(await client.patch(f"{QUEUES}/q", json={})) == queue


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"weight": 1001}, "weight"),
        ({"paused": "yes"}, "paused"),
        ({"rate": {"count": 0}}, "rate.count"),
        ({"key_rate": {"count": 10**9}}, "key_rate"),
        ({"speed": 1}, "speed"),
    ],
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, change: dict[str, Any], field: str) -> None:
    response = await client.patch(f"{QUEUES}/q", json=change)
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_a_name_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    for response in (await client.get(f"{QUEUES}/{'x' * 101}"), await client.patch(f"{QUEUES}/a%0Ab", json={})):
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == "queue"


async def test_declared_limits_are_shown() -> None:
    scheduler = Scheduler("memory://", queues={"mail": Queue(concurrency=3, rate=Rate(9))})
    async with scheduler:
        [state] = await scheduler.queues()
        assert (state.name, state.limits, state.paused) == ("mail", Queue(concurrency=3, rate=Rate(9)), False)
        await scheduler.queue("mail").update(concurrency=4)
        assert (await scheduler.queues())[0].limits == Queue(concurrency=4)
