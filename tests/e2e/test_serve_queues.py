"""`/api/v1/queues`: how queues stand, and what is set of them, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler

from timewheel import Queue, Rate, RetryBudget, Scheduler
from timewheel.serve.queues import QueueIn, QueueOut, QueuesOut
from timewheel.serve.repair_outputs import AuditsOut

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


async def test_a_retry_budget_is_shown_and_changed(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    assert shown(await client.get(f"{QUEUES}/q"))["retry_budget"] is None
    queue = shown(await client.patch(f"{QUEUES}/q", json={"retry_budget": {"share": 0.5, "at_least": 3}}))
    assert queue["retry_budget"] == {"share": 0.5, "window_s": 60, "at_least": 3}
    queue = shown(await client.patch(f"{QUEUES}/q", json={"concurrency": 2}))
    assert queue["retry_budget"] == {"share": 0.5, "window_s": 60, "at_least": 3}
    [state] = await scheduler.queues()
    assert state.limits == Queue(concurrency=2, retry_budget=RetryBudget(share=0.5, at_least=3))
    assert shown(await client.patch(f"{QUEUES}/q", json={"retry_budget": None}))["retry_budget"] is None


def test_every_limit_of_a_queue_is_shown_and_taken() -> None:
    limits = {field.name for field in fields(Queue)}
    assert set(QueueOut.model_fields) & limits == set(QueueIn.model_fields) & limits == limits


async def audit_of(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    body = (await client.get("/api/v1/audit")).json()
    AuditsOut.model_validate(body)
    names = ("action", "queue", "actor", "reason", "details")
    return [{name: entry[name] for name in names} for entry in body["items"]]


async def test_the_audit_tells_who_changed_a_queue_and_why(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    who = {"actor": "ada", "reason": "the relay is down"}
    shown(await client.patch(f"{QUEUES}/mail", json={"paused": True, "concurrency": 2, **who}))
    shown(await client.patch(f"{QUEUES}/mail", json={"paused": False}))
    shown(await client.patch(f"{QUEUES}/mail", json={"weight": 1, "concurrency": 3, "actor": "bob"}))
    shown(await client.patch(f"{QUEUES}/mail", json=who))
    await scheduler.queue("mail").pause()
    change = {"before": {"concurrency": None}, "after": {"concurrency": 2}}
    again = {"before": {"concurrency": 2}, "after": {"concurrency": 3}}
    nobody: dict[str, Any] = {"queue": "mail", "actor": None, "reason": None, "details": {}}
    assert await audit_of(client) == [
        {**nobody, "action": "pause"},
        {**nobody, "action": "update", "actor": "bob", "details": again},
        {**nobody, "action": "resume"},
        {**nobody, "action": "pause", **who},
        {**nobody, "action": "update", **who, "details": change},
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"paused": True, "actor": ""}, "actor"),
        ({"paused": True, "actor": "a\nb"}, "actor"),
        ({"paused": True, "reason": "\0"}, "reason"),
        ({"concurrency": 1, "reason": "x" * 1_001}, "reason"),
        ({"retry_budget": {"share": 1.5}}, "retry_budget.share"),
        ({"retry_budget": {"window_s": 0}}, "retry_budget.window_s"),
        ({"retry_budget": {"share": 0, "at_least": 0}}, "retry_budget"),
        ({"retry_budget": 0.2}, "retry_budget"),
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
    assert await audit_of(client) == []


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
