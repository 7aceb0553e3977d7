"""`/api/v1/dead-letters`, `/api/v1/operations`, `/api/v1/audit`, and replays of single jobs, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from pydantic import BaseModel
from serving import client_of, settled

from timewheel import Permanent
from timewheel.scheduler import Scheduler
from timewheel.serve import outputs
from timewheel.serve import repair_outputs as answers

LETTERS, OPERATIONS, JOBS, AUDIT = "/api/v1/dead-letters", "/api/v1/operations", "/api/v1/jobs", "/api/v1/audit"
WHO = {"actor": "ada", "reason": "the bank is back"}
REPLAY = {**WHO, "cause_fixed": "gateway restarted"}


class Shop:
    down = True


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest_asyncio.fixture
async def scheduler(shop: Shop) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler("memory://")

    @scheduler.task(name="pay")
    async def pay(number: int, password: str = "") -> int:
        if shop.down:
            raise Permanent(f"the bank refused {number}{password and ' '}")
        return number

    async with scheduler:
        yield scheduler
        await scheduler.stop(grace_s=0)


@pytest_asyncio.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(scheduler) as client:
        yield client


async def kill(scheduler: Scheduler, jobs: int) -> list[Any]:
    return [await (await scheduler.now("pay", number)).wait(30) for number in range(jobs)]


def good(response: httpx.Response, model: type[BaseModel], status: int = 200) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    model.model_validate(body, strict=False)
    assert set(body) == set(model.model_fields)
    return body


def bad(response: httpx.Response, field: str | None) -> str:
    assert response.status_code == 422, response.text
    body = response.json()
    assert [error["field"] for error in body["errors"]] == [field], body
    return str(body["detail"])


async def over(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    while True:
        operation = good(await client.get(path), answers.OperationOut)
        if operation["state"] != "RUNNING":
            return operation
        await asyncio.sleep(0)


async def test_dead_letters_are_listed_and_grouped(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    jobs = await kill(scheduler, 3)
    listed = good(await client.get(LETTERS, params={"page_size": 2}), outputs.JobsOut)
    assert [job["id"] for job in listed["items"]] == [jobs[2].id, jobs[1].id]
    more = await client.get(LETTERS, params={"page_token": listed["next_page_token"]})
    assert [job["id"] for job in more.json()["items"]] == [jobs[0].id]
    [group] = good(await client.get(f"{LETTERS}/groups"), answers.GroupsOut)["items"]
    assert (group["task"], group["letters"], group["newest"]) == ("pay", 3, jobs[2].id)
    assert {job["fingerprint"] for job in listed["items"]} == {group["fingerprint"]}
    found = await client.get(LETTERS, params={"fingerprint": group["fingerprint"], "until": group["first_at"]})
    assert len(found.json()["items"]) == 1
    assert not (await client.get(LETTERS, params={"task": "other"})).json()["items"]
    for query, field in (({"page_token": "?"}, "page_token"), ({"since": "now"}, "since"), ({"tag": "\0"}, "tag")):
        bad(await client.get(LETTERS, params=query), field)


async def test_one_job_is_replayed_once(client: httpx.AsyncClient, scheduler: Scheduler, shop: Shop) -> None:
    [job] = await kill(scheduler, 1)
    shop.down = False
    path = f"{JOBS}/{job.id}/replay"
    done = good(await client.post(path, json=REPLAY), answers.ReplayOut)
    assert done["answer"] == "replayed"
    assert (await settled(scheduler, job.id)).state == "COMPLETED"
    late = good(await client.post(path, json=REPLAY), answers.ReplayOut)
    assert (late["answer"], late["job"]["state"], late["job"]["attempt"]) == ("too_late", "COMPLETED", 2)
    assert (await client.post(f"{JOBS}/job-0000000000000/replay", json=REPLAY)).status_code == 404


async def test_arguments_are_edited_and_secrets_in_the_old_ones_withheld(
    client: httpx.AsyncClient, scheduler: Scheduler, shop: Shop
) -> None:
    job = await (await scheduler.now("pay", 1, password="x")).wait(30)
    shop.down = False
    path = f"{JOBS}/{job.id}/replay"
    bad(await client.post(path, json={**REPLAY, "args": [1, 2, 3]}), "args")
    done = good(await client.post(path, json={**REPLAY, "args": [5], "kwargs": {}}), answers.ReplayOut)
    assert (done["job"]["args"], done["job"]["kwargs"]) == ([5], {})
    [entry] = good(await client.get(AUDIT), answers.AuditsOut)["items"]
    assert entry["details"] == {"replaced": {"args": [1], "kwargs": {"password": "(withheld)"}}}
    assert (entry["action"], entry["actor"], entry["job_id"]) == ("replay", "ada", job.id)


async def test_one_job_is_discarded_once(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    [job] = await kill(scheduler, 1)
    path = f"{JOBS}/{job.id}/discard"
    done = good(await client.post(path, json=WHO), answers.DiscardOut)
    assert (done["answer"], done["job"]["state"]) == ("discarded", "DEAD")
    assert done["job"]["discarded_at"] is not None
    assert good(await client.post(path, json=WHO), answers.DiscardOut)["answer"] == "too_late"
    assert not (await client.get(LETTERS)).json()["items"]


async def test_many_are_replayed_by_an_operation(client: httpx.AsyncClient, scheduler: Scheduler, shop: Shop) -> None:
    jobs = await kill(scheduler, 5)
    shop.down = False
    asked = {**REPLAY, "task": "pay", "canary": 2, "rate": {"count": 1000, "burst": 10}}
    dry = good(await client.post(f"{LETTERS}/replay", json=asked), answers.OperationOut)
    assert (dry["id"], dry["dry_run"], dry["matched"], dry["done"]) == (None, True, 5, 0)
    response = await client.post(f"{LETTERS}/replay", json={**asked, "dry_run": False})
    begun = good(response, answers.OperationOut, 202)
    assert (begun["state"], begun["matched"], begun["canary"], begun["which"]["task"]) == ("RUNNING", 5, 2, "pay")
    assert response.headers["location"] == f"{OPERATIONS}/{begun['id']}"
    ended = await over(client, response.headers["location"])
    assert (ended["state"], ended["done"], ended["failed"]) == ("DONE", 5, 0)
    assert {(await settled(scheduler, job.id)).state for job in jobs} == {"COMPLETED"}
    listed = good(await client.get(OPERATIONS), answers.OperationsOut)
    assert [one["id"] for one in listed["items"]] == [begun["id"]]


async def test_a_canary_that_dies_stops_it(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    await kill(scheduler, 3)
    response = await client.post(f"{LETTERS}/replay", json={**REPLAY, "dry_run": False})
    ended = await over(client, response.headers["location"])
    assert (ended["state"], ended["done"], ended["failed"]) == ("STOPPED", 1, 1)
    assert "is DEAD: " in ended["reason"]


async def test_many_are_discarded(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    await kill(scheduler, 4)
    dry = good(await client.post(f"{LETTERS}/discard", json=WHO), answers.OperationOut)
    assert dry["matched"] == 4
    response = await client.post(f"{LETTERS}/discard", json={**WHO, "dry_run": False})
    good(response, answers.OperationOut, 202)
    assert (await over(client, response.headers["location"]))["done"] == 4
    assert not (await client.get(LETTERS)).json()["items"]


async def test_an_operation_is_stopped(client: httpx.AsyncClient, scheduler: Scheduler, shop: Shop) -> None:
    await kill(scheduler, 5)
    shop.down = False
    asked = {**REPLAY, "dry_run": False, "rate": {"count": 1, "per_s": 3600}}
    path = (await client.post(f"{LETTERS}/replay", json=asked)).headers["location"]
    stopped = good(await client.post(f"{path}/stop", json={"actor": "bob", "reason": "no"}), answers.OperationOut)
    assert (stopped["state"], stopped["reason"]) == ("STOPPED", "stopped by bob: no")
    again = good(await client.post(f"{path}/stop", json={"actor": "bob", "reason": "no"}), answers.OperationOut)
    assert again == stopped


@pytest.mark.parametrize("path", ["operation-0000100000007", "job-0000100000007", "x"])
async def test_an_unknown_operation_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    for response in (
        await client.get(f"{OPERATIONS}/{path}"),
        await client.post(f"{OPERATIONS}/{path}/stop", json=WHO),
    ):
        assert response.status_code == 404
        assert response.json()["type"] == "urn:timewheel:problem:operation-not-found"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"actor": ""}, "actor"),
        ({"actor": None}, "actor"),
        ({"actor": "a\nb"}, "actor"),
        ({"reason": "\0"}, "reason"),
        ({"cause_fixed": False}, "cause_fixed"),
        ({"cause_fixed": 1}, "cause_fixed"),
        ({"cause_fixed": None}, "cause_fixed"),
        ({"canary": 101}, "canary"),
        ({"rate": {"count": 0}}, "rate.count"),
        ({"rate": {"count": 10**9, "per_s": 1}}, "rate"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"states": ["DEAD"]}, "states"),
        ({"since": "yesterday"}, "since"),
        ({"fingerprint": "x" * 201}, "fingerprint"),
    ],
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, change: dict[str, Any], field: str) -> None:
    bad(await client.post(f"{LETTERS}/replay", json={**REPLAY, **change}), field)
    assert not (await client.get(OPERATIONS)).json()["items"]
    assert not (await client.get(AUDIT)).json()["items"]
