"""The HTTP API over a scheduler in memory: every path, every kind of answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import LONG_S, client_of, make_scheduler, settled

from tests.simulation.helpers import MemorySqlite
from timewheel.errors import JournalFull
from timewheel.model import job_number
from timewheel.scheduler import Scheduler
from timewheel.serve import outputs
from timewheel.serve.app import create_app
from timewheel.serve.guard import BODY_BYTES
from timewheel.serve.jobs import BATCH_BYTES
from timewheel_storage.memory import MemoryStore

JOBS = "/api/v1/jobs"
SCHEDULES = "/api/v1/schedules"


@pytest.fixture
def hanging() -> asyncio.Event:
    return asyncio.Event()


@pytest_asyncio.fixture
async def scheduler(hanging: asyncio.Event) -> AsyncIterator[Scheduler]:
    async with make_scheduler(hanging) as scheduler:
        yield scheduler
        await scheduler.stop(grace_s=0)


@pytest_asyncio.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(scheduler) as client:
        yield client


async def make(client: httpx.AsyncClient, **job: Any) -> dict[str, Any]:
    response = await client.post(JOBS, json=job)
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    return body


def problem(response: httpx.Response, status: int, name: str = "invalid-request") -> dict[str, Any]:
    """The problem document of a response, checked for what every one must have."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    outputs.ProblemOut.model_validate(body)
    assert body["status"] == status
    assert body["instance"] == response.request.url.raw_path.decode().partition("?")[0]
    assert body["type"] == ("about:blank" if name == "http" else f"urn:timewheel:problem:{name}")
    assert body["detail"]
    return body


def fields(body: dict[str, Any]) -> set[str | None]:
    return {error["field"] for error in body["errors"]}


async def test_a_job_from_beginning_to_end(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    response = await client.post(JOBS, json={"task": "add", "args": [1], "kwargs": {"b": 2}, "priority": 3})
    assert response.status_code == 201
    made = response.json()
    outputs.MadeJob.model_validate(made, strict=False)
    assert made["created"] is True
    assert response.headers["location"] == f"{JOBS}/{made['id']}"
    assert (made["queue"], made["priority"], made["tags"], made["attempt"]) == ("math", 3, ["sum"], 0)
    await settled(scheduler, made["id"])
    job = (await client.get(response.headers["location"])).json()
    outputs.JobOut.model_validate(job)
    assert (job["state"], job["result"], job["attempt"], job["error"]) == ("COMPLETED", 3, 1, None)
    attempts = (await client.get(f"{JOBS}/{made['id']}/attempts")).json()
    outputs.AttemptsOut.model_validate(attempts)
    [attempt] = attempts["items"]
    assert (attempt["number"], attempt["state"]) == (1, "SUCCEEDED")
    assert attempt["start_lag_ms"] >= attempt["dispatch_lag_ms"] >= 0


async def test_times_are_rfc3339_in_utc(client: httpx.AsyncClient) -> None:
    made = await make(client, task="echo", scheduled_at="2100-01-01T02:00:00.5+01:00")
    assert made["scheduled_at"] == made["due_at"] == "2100-01-01T01:00:00.500000Z"
    assert datetime.fromisoformat(made["created_at"]).tzinfo is not None


async def test_a_delay_counts_from_now(client: httpx.AsyncClient) -> None:
    made = await make(client, task="echo", delay_s=3600)
    waits = datetime.fromisoformat(made["scheduled_at"]) - datetime.fromisoformat(made["created_at"])
    assert waits.total_seconds() == pytest.approx(3600, abs=1)


async def test_every_option_arrives(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    retry = {"max_attempts": 2, "base_s": 0.5, "cap_s": 7, "factor": 3, "jitter": 0, "give_up_after_s": 60}
    made = await make(
        client, task="echo", delay_s=99, queue="q", priority=0, retry=retry, timeout_s=1.5, tags=["x", "y"],
        idempotency_key="k", misfire_grace_s=4,
    )  # fmt: skip
    assert made["retry"] == {**retry, "base_s": 0.5, "cap_s": 7.0, "factor": 3.0, "jitter": 0.0}
    assert (made["queue"], made["priority"], made["timeout_s"], made["tags"]) == ("q", 0, 1.5, ["x", "y"])
    assert (made["idempotency_key"], made["misfire_grace_s"]) == ("k", 4.0)
    job = await scheduler.get_job(made["id"])
    assert job.record.retry.max_attempts == 2


async def test_every_option_of_flow_control_arrives_and_is_shown(client: httpx.AsyncClient) -> None:
    other = await make(client, task="echo", delay_s=99)
    given = {
        "rate_key": "r", "cost": 3, "partition_key": "p", "concurrency_key": "c", "heartbeat_timeout_s": 2.5,
        "expires_at": "2099-01-01T00:00:00.000000Z", "deadline": "2099-01-01T00:00:00.500000Z",
        "wait_for": [other["id"]], "if_dependency_fails": "WAIT",
    }  # fmt: skip
    made = await make(client, task="echo", delay_s=99, **given)
    assert {name: made[name] for name in given} == given
    assert (made["state"], made["reason"]) == ("WAITING", "dependency")
    plain = await make(client, task="echo", delay_s=99, rate_key=None, wait_for=[], unique=None, deadline=None)
    nothing = {**dict.fromkeys(given), "wait_for": []}
    assert {name: plain[name] for name in given} == nothing
    made = await make(
        client, task="echo", scheduled_at="2099-01-01T00:00:00Z", expires_after_s=60, deadline_after_s=3600.5
    )
    assert (made["expires_at"], made["deadline"]) == ("2099-01-01T00:01:00.000000Z", "2099-01-01T01:00:00.500000Z")


@pytest.mark.parametrize(
    ("job", "field", "words"),
    [
        ({"cost": 2}, "cost", "rate_key"),
        ({"cost": 0, "rate_key": "r"}, "cost", "1 or more"),
        ({"cost": 1.5, "rate_key": "r"}, "cost", "whole number"),
        ({"rate_key": ""}, "rate_key", "1 character"),
        ({"rate_key": "a\nb"}, "rate_key", "printable"),
        ({"priority": 3, "partition_key": "\0"}, "partition_key", "printable"),
        ({"heartbeat_timeout_s": 0}, "heartbeat_timeout_s", "above 0"),
        ({"expires_after_s": -1}, "expires_after_s", "above 0"),
        ({"expires_at": "2099-01-01T00:00:00Z", "expires_after_s": 5}, "expires_after_s", "give one of them"),
        ({"deadline": "2099-01-01"}, "deadline", "RFC 3339"),
        ({"scheduled_at": "2099-01-01T00:00:00Z", "deadline": "2098-01-01T00:00:00Z"}, "deadline", "never run"),
        ({"wait_for": ["job"]}, "wait_for", "job-0000100000007"),
        ({"wait_for": ["job-0000100009999"]}, "wait_for", "no job of this journal"),
        ({"wait_for": "job-0000100009999"}, "wait_for", "JSON list"),
        ({"if_dependency_fails": "RUN"}, "if_dependency_fails", "wait_for"),
        ({"if_dependency_fails": "run"}, "if_dependency_fails", "'CANCEL'"),
        ({"unique": {"by": ["args"]}}, "unique", "by="),
        ({"unique": {"by": ["key"]}}, "unique", "key=..."),
        ({"unique": {"colour": "red"}}, "unique.colour", "no such field"),
        ({"unique": {"period_s": 0}}, "unique.period_s", "above 0"),
        ({"unique": {"states": []}}, "unique", "one or more"),
    ],
)
async def test_bad_flow_control_is_refused_by_name(
    client: httpx.AsyncClient, job: dict[str, Any], field: str, words: str
) -> None:
    body = problem(await client.post(JOBS, json={"task": "echo", **job}), 422)
    assert fields(body) == {field}
    assert words in body["detail"]
    [result] = (await client.post(f"{JOBS}/batch", json={"jobs": [{"task": "echo", **job}]})).json()["results"]
    assert (result["status"], fields(result["problem"])) == (422, {field})


async def test_a_unique_job_is_the_one_that_is_there_or_a_conflict(client: httpx.AsyncClient) -> None:
    body = {"task": "echo", "args": [1], "delay_s": 99, "unique": {}}
    first = await make(client, **body)
    again = await client.post(JOBS, json=body)
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, first["id"], False)
    failing = {**body, "unique": {"on_conflict": "fail"}}
    conflict = problem(await client.post(JOBS, json=failing), 409, "unique-conflict")
    assert conflict["job_id"] == first["id"]
    key = {"by": ["key"], "key": "k", "period_s": 5, "states": ["ACTIVE", "SCHEDULED"]}
    jobs = [failing, {**body, "unique": key}, {**body, "args": [2], "unique": key}, body]
    results = (await client.post(f"{JOBS}/batch", json={"jobs": jobs})).json()["results"]
    assert [result["status"] for result in results] == [409, 201, 200, 200]
    assert results[1]["id"] == results[2]["id"]


async def test_a_failed_job_says_why_and_when_it_is_tried_again(
    client: httpx.AsyncClient, scheduler: Scheduler
) -> None:
    made = await make(client, task="fail", retry=1)
    assert (made["last_fault"], made["first_failed_at"], made["next_retry_at"]) == (None, None, None)
    await settled(scheduler, made["id"])
    job = (await client.get(f"{JOBS}/{made['id']}")).json()
    outputs.JobOut.model_validate(job)
    assert job["state"] == "DEAD"
    assert job["last_fault"] == "PERMANENT"
    assert job["first_failed_at"] > made["created_at"]
    assert job["next_retry_at"] is None
    [attempt] = (await client.get(f"{JOBS}/{made['id']}/attempts")).json()["items"]
    assert attempt["fault"] == "PERMANENT"


@pytest.mark.parametrize(("retry", "attempts"), [(3, 3), (None, 1), ({}, 5)])
async def test_retry_is_a_number_a_policy_or_null(client: httpx.AsyncClient, retry: Any, attempts: int) -> None:
    assert (await make(client, task="echo", delay_s=99, retry=retry))["retry"]["max_attempts"] == attempts


async def test_a_whole_number_may_be_written_with_a_point(client: httpx.AsyncClient) -> None:
    made = await make(client, task="echo", delay_s=99, priority=4.0, retry={"max_attempts": 2.0})
    assert (made["priority"], made["retry"]["max_attempts"]) == (4, 2)
    assert (await make(client, task="echo", delay_s=99, retry=3.0))["retry"]["max_attempts"] == 3
    for job in ({"priority": 4.5}, {"priority": 1e300}, {"retry": 2.5}, {"retry": {"max_attempts": 2.5}}):
        problem(await client.post(JOBS, json={"task": "echo", **job}), 422)


async def test_null_means_silence_elsewhere(client: httpx.AsyncClient) -> None:
    nothing = dict.fromkeys(("scheduled_at", "queue", "priority", "tags", "idempotency_key", "misfire_grace_s"))
    assert (await make(client, task="add", args=[1], delay_s=99, **nothing))["queue"] == "math"


async def test_large_numbers_stay_exact(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    made = await make(client, task="echo", args=[2**63 + 1, 2**80])
    assert (await settled(scheduler, made["id"])).args == (2**63 + 1, 2**80)
    assert made["args"] == [2**63 + 1, {"$tw:int": hex(2**80)}]


async def test_a_tag_of_ours_in_json_is_only_data(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    made = await make(client, task="echo", args=[{"$tw:bytes": "AA=="}])
    assert (await settled(scheduler, made["id"])).args == ({"$tw:bytes": "AA=="},)


async def test_secrets_are_withheld(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    given = {"headers": {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret"}, "password": "s3cret", "name": "n"}
    response = await client.post(
        JOBS, json={"task": "echo", "args": [{"token": ["s3cret"]}], "kwargs": given, "delay_s": 9}
    )
    assert "s3cret" not in response.text
    assert response.json()["kwargs"]["name"] == "n"
    assert (await scheduler.get_job(response.json()["id"])).kwargs == given


async def test_the_same_key_gives_the_same_job(client: httpx.AsyncClient) -> None:
    body = {"task": "add", "args": [1], "idempotency_key": "order-17"}
    first = await client.post(JOBS, json=body)
    again = await client.post(JOBS, json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["created"] is False
    other = problem(await client.post(JOBS, json={**body, "args": [2]}), 409, "idempotency-conflict")
    assert other["job_id"] == first.json()["id"]
    [result] = (await client.post(f"{JOBS}/batch", json={"jobs": [body]})).json()["results"]
    assert (result["status"], result["id"], result["created"]) == (200, first.json()["id"], False)


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({}, "task"),
        ({"task": ""}, "task"),
        ({"task": "nope"}, "task"),
        ({"task": "os:system", "args": ["true"]}, "task"),
        ({"task": "os.system", "args": ["true"]}, "task"),
        ({"task": "<script>"}, "task"),
        ({"task": ["echo"]}, "task"),
        ({"task": "echo", "arg": [1]}, "arg"),
        ({"task": "echo", "args": {}}, "args"),
        ({"task": "echo", "kwargs": []}, "kwargs"),
        ({"task": "add"}, "args"),
        ({"task": "add", "args": [1, 2, 3]}, "args"),
        ({"task": "add", "kwargs": {"c": 1}}, "args"),
        ({"task": "echo", "delay_s": "5"}, "delay_s"),
        ({"task": "echo", "delay_s": -1}, "delay_s"),
        ({"task": "echo", "delay_s": True}, "delay_s"),
        ({"task": "echo", "delay_s": 1e300}, "delay_s"),
        ({"task": "echo", "scheduled_at": "2026-01-05T00:00:00"}, "scheduled_at"),
        ({"task": "echo", "scheduled_at": "tomorrow"}, "scheduled_at"),
        ({"task": "echo", "scheduled_at": 1767571200}, "scheduled_at"),
        ({"task": "echo", "scheduled_at": "1969-12-31T23:59:59Z"}, "scheduled_at"),
        ({"task": "echo", "scheduled_at": "2100-01-01T00:00:00Z", "delay_s": 1}, "delay_s"),
        ({"task": "echo", "priority": 10}, "priority"),
        ({"task": "echo", "priority": 1.5}, "priority"),
        ({"task": "echo", "queue": ""}, "queue"),
        ({"task": "echo", "queue": "a\nb"}, "queue"),
        ({"task": "echo", "tags": ["a\nb"], "queue": "q"}, "tags"),
        ({"task": "echo", "tags": "abc"}, "tags"),
        ({"task": "echo", "tags": ["x"] * 21}, "tags"),
        ({"task": "echo", "tags": [""]}, "tags.0"),
        ({"task": "echo", "retry": 0}, "retry"),
        ({"task": "echo", "retry": "3"}, "retry"),
        ({"task": "echo", "retry": {"max": 3}}, "retry.max"),
        ({"task": "echo", "retry": {"base_s": "1"}}, "retry.base_s"),
        ({"task": "echo", "retry": {"base_s": 10, "cap_s": 1}}, "retry"),
        ({"task": "echo", "timeout_s": 0}, "timeout_s"),
        ({"task": "echo", "idempotency_key": "x" * 256}, "idempotency_key"),
        ({"task": "echo", "misfire_grace_s": -1}, "misfire_grace_s"),
    ],
)
async def test_what_cannot_be_used_is_refused_by_its_field(
    client: httpx.AsyncClient, job: dict[str, Any], field: str | None
) -> None:
    assert fields(problem(await client.post(JOBS, json=job), 422)) == {field}
    assert (await client.get(JOBS)).json()["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe{}",
        b'{"task": "echo", "args": [NaN]}',
        b'{"task": "echo", "args": [Infinity]}',
        b'{"task": "echo", "args": [1e999]}',
        b'{"task": "echo", "args": ["\\ud800"]}',
        b'{"task": "echo", "args": [' + b"9" * 5000 + b"]}",
        b'{"task": "echo", "args": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"task": "echo", "args": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
)
async def test_what_is_no_strict_json_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    problem(response, 400, "malformed-json")


async def test_deep_arguments_up_to_the_codecs_limit(client: httpx.AsyncClient) -> None:
    value: Any = 1
    for _ in range(99):
        value = [value]
    await make(client, task="echo", args=[value], delay_s=99)
    for _ in range(3):
        value = [value]
    problem(await client.post(JOBS, json={"task": "echo", "args": [value]}), 422)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"7"])
async def test_a_body_that_is_no_object(client: httpx.AsyncClient, body: bytes) -> None:
    problem(await client.post(JOBS, content=body, headers={"Content-Type": "application/json"}), 422)


async def test_a_batch_judges_each_job_by_itself(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    jobs = [
        {"task": "add", "args": [1]},
        {"task": "nope"},
        7,
        {"task": "add", "args": [2], "idempotency_key": "a"},
        {"task": "add", "args": [2], "idempotency_key": "a"},
        {"task": "add", "args": [3], "idempotency_key": "a"},
        {"task": "add", "args": [1], "priority": 99, "what": 1},
    ]
    response = await client.post(f"{JOBS}/batch", json={"jobs": jobs})
    assert response.status_code == 200
    outputs.BatchOut.model_validate(response.json())
    results = response.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 201, 200, 409, 422]
    assert results[3]["id"] == results[4]["id"] == results[5]["problem"]["job_id"]
    assert fields(results[1]["problem"]) == {"task"}
    assert fields(results[6]["problem"]) == {"priority", "what"}
    assert (await settled(scheduler, results[0]["id"])).state == "COMPLETED"


async def test_a_batch_of_the_largest_size(client: httpx.AsyncClient) -> None:
    jobs = [{"task": "echo", "args": [number], "delay_s": 3600} for number in range(1000)]
    results = (await client.post(f"{JOBS}/batch", json={"jobs": jobs})).json()["results"]
    assert [result["status"] for result in results] == [201] * 1000
    assert len({result["id"] for result in results}) == 1000
    problem(await client.post(f"{JOBS}/batch", json={"jobs": [*jobs, jobs[0]]}), 422)
    problem(await client.post(f"{JOBS}/batch", json={"jobs": []}), 422)


async def test_the_body_limits(client: httpx.AsyncClient) -> None:
    big = {"task": "echo", "args": ["x" * BODY_BYTES], "delay_s": 99}
    problem(await client.post(JOBS, json=big), 413, "too-large")
    response = await client.post(f"{JOBS}/batch", json={"jobs": [big, {"task": "echo"}]})
    assert [result["status"] for result in response.json()["results"]] == [422, 201]  # the codec's own limit

    async def pieces() -> AsyncIterator[bytes]:  # of no announced length
        for _ in range(BATCH_BYTES // 65_536 + 1):
            yield b" " * 65_536

    for path in (JOBS, f"{JOBS}/batch"):
        response = await client.post(path, content=pieces(), headers={"Content-Type": "application/json"})
        problem(response, 413, "too-large")


async def test_a_damaged_row_does_not_hide_the_others_of_its_page() -> None:
    """B59, B67: listing jobs must stay possible, whatever became of one of them."""
    store = MemorySqlite()
    scheduler = make_scheduler(store=store)
    async with scheduler, client_of(scheduler) as client:
        done = await make(client, task="add", args=[1])
        await settled(scheduler, done["id"])
        waits = [await make(client, task="echo", args=[number], delay_s=99) for number in range(3)]
        for change, job in (
            ("result = '[1'", done),
            ("arguments = '[\"x'", waits[0]),
            ("arguments = '{\"args\": 5}'", waits[1]),
        ):
            number = job_number(job["id"])
            store.connection.execute(f"UPDATE jobs SET {change} WHERE job_id = ?", (number,))
        page = (await client.get(JOBS)).json()
        outputs.JobsOut.model_validate(page)
        shown = {job["id"]: (job["args"], job["result"]) for job in page["items"]}
        expected = [([1], "(unreadable)"), (["(unreadable)"], None), (["(unreadable)"], None), ([2], None)]
        assert [shown[job["id"]] for job in (done, *waits)] == expected
        assert (await client.get(f"{JOBS}/{waits[0]['id']}")).status_code == 200
        await scheduler.stop(grace_s=0)


async def test_lists_filter_and_page(client: httpx.AsyncClient) -> None:
    for number in range(5):
        await make(client, task="echo", args=[number], delay_s=99, queue="a", tags=["odd"] if number % 2 else ["even"])
    other = await make(client, task="add", args=[1], delay_s=99, idempotency_key="one")
    page = (await client.get(JOBS, params={"page_size": 2, "queue": "a"})).json()
    outputs.JobsOut.model_validate(page)
    seen = [job["args"][0] for job in page["items"]]
    while page["next_page_token"]:
        query = {"page_size": 2, "queue": "a", "page_token": page["next_page_token"]}
        page = (await client.get(JOBS, params=query)).json()
        seen += [job["args"][0] for job in page["items"]]
    assert seen == [4, 3, 2, 1, 0]
    for query in ({"task": "add"}, {"tag": "sum"}, {"queue": "math"}, {"idempotency_key": "one"}):
        assert [job["id"] for job in (await client.get(JOBS, params=query)).json()["items"]] == [other["id"]]
    assert len((await client.get(JOBS, params={"tag": "odd"})).json()["items"]) == 2
    await client.post(f"{JOBS}/{other['id']}/cancel", json={})
    states = [("state", "CANCELLED"), ("state", "DEAD")]
    assert [job["id"] for job in (await client.get(JOBS, params=states)).json()["items"]] == [other["id"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=nope", "state"),
        ("state=", "state"),
        ("stat=DEAD", "stat"),
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=x", "page_size"),
        ("page_token=%00", "page_token"),
        ("page_token=abc", "page_token"),
        ("page_token=" + "A" * 600, "page_token"),
        ("queue=", "queue"),
    ],
)
async def test_bad_queries_are_refused(client: httpx.AsyncClient, query: str, field: str | None) -> None:
    assert fields(problem(await client.get(f"{JOBS}?{query}"), 422)) == {field}


RETRY = 'it must be a number of attempts, or an object like {"max_attempts": 5, "base_s": 1}'


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ([], "body: it must be a JSON object"),
        ({"task": 1}, "task: it must be a text"),
        ({"task": ""}, "task: it must have 1 character or more"),
        ({"task": "echo", "args": {}}, "args: it must be a JSON list"),
        ({"task": "echo", "kwargs": []}, "kwargs: it must be a JSON object"),
        ({"task": "echo", "retry": "often"}, f"retry: {RETRY}"),
        ({"task": "echo", "retry": 1.5}, f"retry: {RETRY}"),
        ({"task": "echo", "retry": 0}, "retry: it must be 1 or more"),
        ({"task": "echo", "retry": {"factor": 0.5}}, "retry.factor: it must be 1 or more"),
        ({"task": "echo", "priority": 10}, "priority: it must be 9 or less"),
        ({"task": "echo", "priority": "5"}, "priority: it must be a whole number"),
        ({"task": "echo", "timeout_s": 0}, "timeout_s: it must be above 0"),
        ({"task": "echo", "timeout_s": "1"}, "timeout_s: it must be a number"),
        ({"task": "echo", "tags": ["x"] * 21}, "tags: it must have 20 items at most, and has 21"),
        ({"task": "echo", "idempotency_key": "x" * 256}, "idempotency_key: it must have 255 characters at most"),
    ],
)
async def test_what_is_expected_instead_is_said_in_our_words(client: httpx.AsyncClient, job: Any, said: str) -> None:
    assert problem(await client.post(JOBS, json=job), 422)["detail"] == said
    [result] = (await client.post(f"{JOBS}/batch", json={"jobs": [job]})).json()["results"]
    assert result["problem"]["detail"] == said


async def test_a_state_that_is_none_is_told_the_states(client: httpx.AsyncClient) -> None:
    detail = problem(await client.get(f"{JOBS}?state=nope"), 422)["detail"]
    assert detail.startswith("state: it must be one of 'SCHEDULED', 'WAITING'")


async def test_a_body_that_is_no_json_says_where(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    for body, place in ((b'{"task', "column 2"), (b'{"task": "echo",\n "a}', "line 2, column 2")):
        answer = problem(await client.post(JOBS, content=body, headers=headers), 400, "malformed-json")
        assert answer["detail"].endswith(f"Unterminated string starting at {place}")


@pytest.mark.parametrize(
    "job_id", ["job-0000100000999", "job-1", "1", "%00", "%F0%9F%98%80", "..%5c", "job-" + "z" * 500]
)
async def test_unknown_ids_are_404(client: httpx.AsyncClient, job_id: str) -> None:
    for method, path in (("GET", ""), ("GET", "/attempts"), ("POST", "/cancel")):
        response = await client.request(method, f"{JOBS}/{job_id}{path}", headers={"Content-Type": "application/json"})
        problem(response, 404, "job-not-found")
    problem(await client.post(f"{JOBS}/{job_id}/reschedule", json={"delay_s": 1}), 404, "job-not-found")


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/docs", "/redoc", "/api/v1/jobs/", "/api/v1/jobs/a%2Fb", "/api/v1/jobs/a/b"]
)
async def test_unknown_paths_are_404(client: httpx.AsyncClient, path: str) -> None:
    problem(await client.get(path), 404, "http")


def test_the_document_is_written_before_anybody_asks() -> None:
    """Writing it holds the event loop up."""
    assert create_app(make_scheduler()).openapi_schema is not None


async def test_other_methods_are_405(client: httpx.AsyncClient) -> None:
    for method, path, allowed in (
        ("DELETE", JOBS, "GET, POST"),
        ("PUT", JOBS, "GET, POST"),
        ("PUT", f"{JOBS}/batch", "POST"),
        ("GET", f"{JOBS}/job-1/cancel", "POST"),
        ("POST", "/livez", "GET"),
    ):
        response = await client.request(method, path, headers={"Content-Type": "application/json"})
        problem(response, 405, "http")
        assert response.headers["allow"] == allowed


async def test_cancel_takes_an_empty_body_and_asks_for_one(client: httpx.AsyncClient) -> None:
    made = await make(client, task="echo", delay_s=99)
    path = f"{JOBS}/{made['id']}/cancel"
    problem(await client.post(path), 415, "not-json")
    document = (await client.get("/openapi.json")).json()
    assert document["paths"][f"{JOBS}/{{job_id}}/cancel"]["post"]["requestBody"]["required"] is True
    response = await client.post(path, headers={"Content-Type": "application/json"})
    assert response.json()["answer"] == "cancelled"


async def test_cancel_tells_the_truth(client: httpx.AsyncClient, scheduler: Scheduler, hanging: asyncio.Event) -> None:
    pending = await make(client, task="echo", delay_s=99)
    answer = (await client.post(f"{JOBS}/{pending['id']}/cancel", json={"reason": "not wanted"})).json()
    outputs.CancelOut.model_validate(answer)
    assert (answer["answer"], answer["job"]["state"], answer["job"]["reason"]) == (
        "cancelled",
        "CANCELLED",
        "not wanted",
    )
    bare = await client.post(f"{JOBS}/{pending['id']}/cancel", headers={"Content-Type": "application/json"})
    assert bare.json()["answer"] == "too_late"
    running = await make(client, task="hang")
    await hanging.wait()
    [attempt] = (await client.get(f"{JOBS}/{running['id']}/attempts")).json()["items"]
    assert (attempt["state"], attempt["finished_at"]) == ("RUNNING", None)
    answer = (await client.post(f"{JOBS}/{running['id']}/cancel", json={})).json()
    assert answer["answer"] == "requested"
    assert (await settled(scheduler, running["id"])).state == "CANCELLED"


async def test_reschedule_moves_what_has_not_begun(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    made = await make(client, task="echo", delay_s=99)
    path = f"{JOBS}/{made['id']}/reschedule"
    moved = (await client.post(path, json={"scheduled_at": "2100-01-01T00:00:00Z"})).json()
    outputs.RescheduleOut.model_validate(moved)
    assert (moved["answer"], moved["job"]["version"]) == ("moved", 2)
    assert moved["job"]["scheduled_at"] == "2100-01-01T00:00:00.000000Z"
    problem(await client.post(path, json={}), 422)
    problem(await client.post(path, json={"scheduled_at": "2100-01-01T00:00:00Z", "delay_s": 1}), 422)
    problem(await client.post(path, json={"scheduled_at": "soon"}), 422)
    assert (await client.post(path, json={"delay_s": 0})).json()["answer"] == "moved"
    await settled(scheduler, made["id"])
    assert (await client.post(path, json={"delay_s": 1})).json()["answer"] == "too_late"


async def test_a_failure_keeps_its_error(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    made = await make(client, task="fail")
    await settled(scheduler, made["id"])
    job = (await client.get(f"{JOBS}/{made['id']}")).json()
    assert (job["state"], job["reason"]) == ("DEAD", "permanent")
    assert "no way" in job["error"]


async def test_faults_of_arguments_are_found_when_the_job_is_made(scheduler: Scheduler) -> None:
    async with client_of(scheduler, faults={"echo": lambda args, kwargs: "args are bad" if args else None}) as client:
        body = problem(await client.post(JOBS, json={"task": "echo", "args": [1]}), 422)
        assert "args are bad" in body["detail"]
        await make(client, task="echo")


async def test_health(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    assert (await client.get("/livez")).json() == {"status": "alive"}
    assert (await client.get("/readyz")).json() == {"status": "ready", "state": "RUNNING"}
    await scheduler.stop(grace_s=0)
    assert (await client.get("/livez")).status_code == 200
    assert problem(await client.get("/readyz"), 503, "not-ready")["state"] == "STOPPED"
    problem(await client.post(JOBS, json={"task": "echo"}), 503, "not-running")
    assert "timewheel_journal_readable 0.0" in (await client.get("/metrics")).text


async def test_a_journal_that_takes_nothing_is_not_ready(
    client: httpx.AsyncClient, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise JournalFull("no space left", path="memory")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "commit", full)
        problem(await client.post(JOBS, json={"task": "echo"}), 507, "journal-full")
        body = problem(await client.get("/readyz"), 503, "not-ready")
        assert "no space left" in body["detail"]
        assert body["state"] == "RUNNING"
        assert (await client.get(JOBS)).status_code == 200
    while (await client.get("/readyz")).status_code != 200:
        await asyncio.sleep(0)
    await make(client, task="echo")


async def test_a_scheduler_that_drains_takes_nothing_new_but_answers(
    scheduler: Scheduler, hanging: asyncio.Event
) -> None:
    async with client_of(scheduler) as client:
        made = await make(client, task="hang")
        await hanging.wait()
        stopping = asyncio.create_task(scheduler.stop(grace_s=LONG_S))
        while scheduler.state == "RUNNING":
            await asyncio.sleep(0)
        refused = await client.post(JOBS, json={"task": "echo"})
        problem(refused, 503, "draining")
        assert refused.headers["retry-after"]
        problem(await client.post(f"{JOBS}/batch", json={"jobs": [{"task": "echo"}]}), 503, "draining")
        assert (await client.get(f"{JOBS}/{made['id']}")).status_code == 200
        problem(await client.get("/readyz"), 503, "not-ready")
        await scheduler.stop(grace_s=0)
        await stopping


async def test_openapi_is_complete(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        JOBS, f"{JOBS}/batch", f"{JOBS}/{{job_id}}", f"{JOBS}/{{job_id}}/attempts", f"{JOBS}/{{job_id}}/cancel",
        f"{JOBS}/{{job_id}}/reschedule", "/livez", "/readyz", "/metrics", "/api/v1/forecast", "/api/v1/preview",
        "/api/v1/calendars", "/api/v1/calendars/{name}", SCHEDULES, f"{SCHEDULES}/{{schedule_id}}",
        *(f"{SCHEDULES}/{{schedule_id}}/{verb}" for verb in ("pause", "resume", "trigger", "backfill")),
        f"{SCHEDULES}/{{schedule_id}}/preview", f"{SCHEDULES}/{{schedule_id}}/occurrences",
        f"{JOBS}/{{job_id}}/replay", f"{JOBS}/{{job_id}}/discard", "/api/v1/queues", "/api/v1/queues/{queue}",
        "/api/v1/dead-letters", *(f"/api/v1/dead-letters/{verb}" for verb in ("groups", "replay", "discard")),
        "/api/v1/operations", "/api/v1/operations/{operation_id}", "/api/v1/operations/{operation_id}/stop",
        "/api/v1/audit", "/api/v1/dependencies", "/api/v1/dependencies/{dependency}",
    }  # fmt: skip
    known = set(document["components"]["schemas"])
    assert {"JobIn", "JobOut", "ProblemOut", "FieldError"} <= known
    text = (await client.get("/openapi.json")).text
    for piece in text.split('"#/components/schemas/')[1:]:
        assert piece.partition('"')[0] in known
    for path in document["paths"].values():
        for operation in path.values():
            assert operation["description"]
            assert "HTTPValidationError" not in str(operation)


async def test_metrics_count_what_happened(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    for _ in range(3):
        await settled(scheduler, (await make(client, task="add", args=[1]))["id"])
    await settled(scheduler, (await make(client, task="fail"))["id"])
    await make(client, task="echo", delay_s=30, queue="later")
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = set(response.text.splitlines())
    assert {
        'timewheel_jobs_total{queue="math",state="COMPLETED"} 3.0',
        'timewheel_jobs_total{queue="default",state="DEAD"} 1.0',
        'timewheel_attempts_total{queue="math",state="SUCCEEDED"} 3.0',
        'timewheel_jobs_scheduled_total{queue="math"} 3.0',
        'timewheel_queue_depth{queue="later"} 1.0',
        'timewheel_queue_depth{queue="math"} 0.0',
        "timewheel_start_lag_seconds_count 4.0",
        "timewheel_workers_limit 100.0",
        "timewheel_due_next_minute 1.0",
        'timewheel_scheduler_state{state="RUNNING"} 1.0',
    } <= lines
