"""What requests say that the API does not know: each answer names what was meant, or what there is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler

SCHEDULES, JOBS = "/api/v1/schedules", "/api/v1/jobs"
HOURLY = {"id": "hourly", "cron": "0 * * * *", "task": "echo"}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with make_scheduler() as scheduler, client_of(scheduler) as client:
        await client.post(SCHEDULES, json=HOURLY)
        yield client


def fault(response: httpx.Response) -> tuple[str, str]:
    assert response.status_code == 422, response.text
    [found] = response.json()["errors"]
    return found["field"], found["message"]


NO_FIELD, NO_PARAMETER = "there is no such field; ", "there is no such parameter; "


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        (SCHEDULES, {**HOURLY, "calender": "x"}, "calender", NO_FIELD + "did you mean calendar?"),
        (SCHEDULES, {**HOURLY, "overlap": {"kind": "ALLOW", "limt": 3}}, "overlap.limt", "did you mean limit?"),
        (SCHEDULES, {**HOURLY, "retry": {"max_atempts": 3}}, "retry.max_atempts", "did you mean max_attempts?"),
        (f"{SCHEDULES}/hourly/pause", {"because": "x"}, "because", NO_FIELD + "available: if_version, note, until"),
        (f"{SCHEDULES}/hourly/trigger", {"forced": True}, "forced", "did you mean force?"),
        ("/api/v1/preview", {"corn": "* * * * *"}, "corn", "did you mean cron?"),
        (JOBS, {"task": "echo", "delay": 3}, "delay", NO_FIELD + "did you mean delay_s?"),
        (JOBS, {"task": "echo", "run_at": 3}, "run_at", NO_FIELD + "did you mean scheduled_at?"),
        (JOBS, {"task": "echo", "unique": {"kye": "x"}}, "unique.kye", "did you mean key?"),
        (JOBS, {"task": "echo", "x" * 5_000: 1}, "x" * 5_000, "available: args, concurrency_key"),
    ],
)
async def test_an_unknown_field(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], field: str, said: str
) -> None:
    found, message = fault(await client.post(path, json=body))
    assert found == field
    assert said in message


@pytest.mark.parametrize(
    ("path", "name", "said"),
    [
        (SCHEDULES, "stat", NO_PARAMETER + "did you mean state?"),
        (SCHEDULES, "colour", NO_PARAMETER + "available: page_size, page_token, queue, state, task"),
        (JOBS, "stat", NO_PARAMETER + "did you mean state?"),
        (f"{SCHEDULES}/hourly/preview", "before", NO_PARAMETER + "available: after, n"),
        ("/api/v1/forecast", "form", NO_PARAMETER + "did you mean from?"),
    ],
)
async def test_an_unknown_parameter(client: httpx.AsyncClient, path: str, name: str, said: str) -> None:
    assert fault(await client.get(path, params={name: "x"})) == (name, said)


async def test_an_unknown_field_of_a_job_in_a_batch(client: httpx.AsyncClient) -> None:
    response = await client.post(f"{JOBS}/batch", json={"jobs": [{"task": "echo", "delay": 3}]})
    [result] = response.json()["results"]
    assert result["problem"]["detail"] == "delay: there is no such field; did you mean delay_s?"


async def test_so_many_that_nobody_reads_them_cost_little(client: httpx.AsyncClient) -> None:
    body = {f"cron{number}": 1 for number in range(50_000)}
    began = time.process_time()
    response = await client.post(SCHEDULES, json=body)
    assert time.process_time() - began < 10  # a look at each would take minutes
    assert len(response.json()["errors"]) == 100
    assert response.json()["detail"].endswith("; and 49998 more")  # `task` is missing, too


@pytest.mark.parametrize("name", ["task", "args", "kwargs", "id", "state"])
async def test_what_a_patch_cannot_change_says_what_can(client: httpx.AsyncClient, name: str) -> None:
    field, message = fault(await client.patch(f"{SCHEDULES}/hourly", json={name: ["x"]}))
    assert field == name
    assert ("/pause or /resume" if name == "state" else "it cannot be changed") in message
    assert ("POST" in message) != (name == "id")


async def test_the_way_that_a_patch_names_is_one(client: httpx.AsyncClient) -> None:
    response = await client.post(SCHEDULES, json={**HOURLY, "task": "add", "args": [1, 2]})
    assert (response.status_code, response.json()["change"]) == (200, "updated")
    assert response.json()["schedule"]["task"] == "add"


async def test_a_second_schedule_without_an_id_is_told_the_field_and_the_url(client: httpx.AsyncClient) -> None:
    await client.post(SCHEDULES, json={"task": "echo", "every_s": 60})
    response = await client.post(SCHEDULES, json={"task": "echo", "every_s": 61})
    detail = response.json()["detail"]
    assert response.status_code == 409
    assert "as the field id" in detail
    assert detail.endswith("PATCH /api/v1/schedules/echo")
    assert "recurring(" not in detail
