"""`/api/v1/schedules`, `/calendars`, `/preview` and `/forecast` over a scheduler in memory: every kind of answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler, settled

from timewheel.flow import Flow
from timewheel.model import Now
from timewheel.planning.forecast import Window
from timewheel.scheduler import Scheduler
from timewheel.serve import outputs
from timewheel.serve import schedule_outputs as shapes
from timewheel.serve.forecast import Forecast
from timewheel.targets import register

SCHEDULES = "/api/v1/schedules"
PREVIEW = "/api/v1/preview"
CALENDARS = "/api/v1/calendars"
FORECAST = "/api/v1/forecast"
HOURLY = {"id": "hourly", "cron": "0 * * * *", "task": "echo"}


@pytest_asyncio.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    async with make_scheduler() as scheduler:
        yield scheduler
        await scheduler.stop(grace_s=0)


@pytest_asyncio.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(scheduler) as client:
        yield client


async def put(client: httpx.AsyncClient, status: int = 201, **body: Any) -> dict[str, Any]:
    response = await client.post(SCHEDULES, json=body)
    assert response.status_code == status, response.text
    shapes.MadeSchedule.model_validate(response.json(), strict=False)
    return response.json()  # type: ignore[no-any-return]


def problem(response: httpx.Response, status: int, name: str = "invalid-request", field: str | None = None) -> Any:
    assert response.status_code == status, response.text
    body = response.json()
    outputs.ProblemOut.model_validate(body)
    assert body["type"] == f"urn:timewheel:problem:{name}"
    if field is not None:
        assert [error["field"] for error in body["errors"]] == [field], body
    return body


# ---- making ----------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_made_once_and_then_brought_to_what_is_said(client: httpx.AsyncClient) -> None:
    response = await client.post(SCHEDULES, json={**HOURLY, "args": ["hi"], "tz": "Europe/Berlin"})
    assert response.status_code == 201
    assert response.headers["location"] == f"{SCHEDULES}/hourly"
    assert response.headers["etag"] == '"1"'
    made = response.json()
    assert (made["change"], made["changes"], made["dry_run"]) == ("created", {}, False)
    schedule = made["schedule"]
    assert schedule["rule"] == {"cron": "0 * * * *", "tz": "Europe/Berlin", "gap": "AUTO", "fold": "AUTO"}
    assert schedule["in_words"].startswith("at minute 0 of every hour, in Europe/Berlin")
    assert (schedule["state"], schedule["version"], schedule["args"]) == ("ACTIVE", 1, ["hi"])
    assert schedule["options"]["overlap"] == {"kind": "SKIP", "limit": None, "key": None}

    again = await put(client, 200, **HOURLY, args=["hi"], tz="Europe/Berlin")
    assert (again["change"], again["schedule"]["version"]) == ("unchanged", 1)

    other = await put(client, 200, **{**HOURLY, "cron": "30 * * * *"}, misfire="SKIP")
    assert other["change"] == "updated"
    assert other["changes"] == {
        "args": {"before": ["hi"], "after": []},
        "cron": {"before": "0 * * * *", "after": "30 * * * *"},
        "tz": {"before": "Europe/Berlin", "after": "UTC"},
        "misfire": {"before": "LATEST", "after": "SKIP"},
    }
    assert other["schedule"] == (await client.get(f"{SCHEDULES}/hourly")).json()
    assert other["schedule"]["version"] == 2


async def test_a_dry_run_says_what_would_change_and_changes_nothing(client: httpx.AsyncClient) -> None:
    assert await put(client, 200, **HOURLY, dry_run=True) == {
        "change": "created", "changes": {}, "dry_run": True, "schedule": None,
    }  # fmt: skip
    problem(await client.get(f"{SCHEDULES}/hourly"), 404, "schedule-not-found")
    before = (await put(client, **HOURLY))["schedule"]
    made = await put(client, 200, **HOURLY, queue="other", dry_run=True)
    assert (made["change"], made["changes"]) == ("updated", {"queue": {"before": "default", "after": "other"}})
    assert (await client.get(f"{SCHEDULES}/hourly")).json() == before == made["schedule"]
    kept = await put(client, 200, **HOURLY, queue="other", if_exists="keep", dry_run=True)
    assert (kept["change"], kept["changes"]) == ("unchanged", {})


async def test_what_is_withheld_is_told_apart_all_the_same(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY, kwargs={"env": {"MYSQL_PASSWORD": "one", "HOST": "a"}})
    made = await put(client, 200, **HOURLY, kwargs={"env": {"MYSQL_PASSWORD": "two", "HOST": "a"}})
    assert made["change"] == "updated"
    assert made["changes"] == {"arguments": {"before": "(withheld)", "after": "(withheld)"}}
    assert made["schedule"]["kwargs"] == {"env": {"MYSQL_PASSWORD": "(withheld)", "HOST": "a"}}


async def test_one_that_exists_may_be_kept_or_be_an_error(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY)
    kept = await put(client, 200, **{**HOURLY, "cron": "1 * * * *"}, if_exists="keep")
    assert (kept["change"], kept["schedule"]["rule"]["cron"]) == ("unchanged", "0 * * * *")
    body = problem(await client.post(SCHEDULES, json={**HOURLY, "if_exists": "fail"}), 409, "schedule-exists")
    assert body["schedule_id"] == "hourly"


async def test_without_an_id_it_is_the_tasks_and_a_second_one_needs_its_own(client: httpx.AsyncClient) -> None:
    assert (await put(client, every_s=60, task="echo"))["schedule"]["id"] == "echo"
    response = await client.post(SCHEDULES, json={"every_s": 61, "task": "echo"})
    problem(response, 409, "schedule-id-required")


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ({"cron": "0 9 L * *", "tz": "Asia/Tokyo", "gap": "SKIP", "fold": "BOTH"}, {}),
        ({"every_s": 90}, {"after_completion": False}),
        ({"every_s": 0.5, "after_completion": True}, {}),
        ({"every_s": 3600, "anchor": "2026-01-05T00:00:00Z"}, {"after_completion": False}),
        ({"weeks": 2, "anchor": "2026-01-09T09:00:00", "tz": "Europe/Paris"}, {"gap": "AUTO", "fold": "AUTO"}),
        ({"days": 10, "anchor": "2026-01-09 09:00"}, {"gap": "AUTO", "fold": "AUTO", "tz": "UTC"}),
    ],
)
async def test_a_rule_is_shown_as_it_can_be_given(
    client: httpx.AsyncClient, rule: dict[str, Any], shown: dict[str, Any]
) -> None:
    found = (await put(client, **rule, id="x", task="echo"))["schedule"]["rule"]
    assert found.keys() == rule.keys() | shown.keys()
    again = await put(client, 200, **found, id="x", task="echo")
    assert again["change"] == "unchanged", again


async def test_options_are_shown_as_they_can_be_given(client: httpx.AsyncClient) -> None:
    options = {
        "priority": 2, "timeout_s": 30.0, "tags": ["a", "b"], "concurrency_key": "k", "misfire": "ALL",
        "misfire_grace_s": 5.0, "catch_up_max": 7, "catch_up_per_s": None, "jitter_s": 2.5,
        "start": "2030-01-01T00:00:00.000000Z", "end": "2031-01-01T00:00:00.000000Z", "max_runs": 9,
        "overlap": {"kind": "QUEUE_ALL", "limit": 3, "key": None}, "heartbeat_timeout_s": 1.5, "expires_after_s": 60.0,
        "deadline_after_s": 3600.0, "rate_key": "r", "cost": 3, "partition_key": "p",
        "retry": {
            "max_attempts": 2, "base_s": 1.0, "factor": 3.0, "cap_s": 9.0, "jitter": 0.5, "give_up_after_s": None,
        },
    }  # fmt: skip
    found = (await put(client, **HOURLY, **options, queue="q"))["schedule"]
    assert found["options"] == options
    assert found["queue"] == "q"
    assert (await put(client, 200, **HOURLY, **found["options"], queue="q"))["change"] == "unchanged"


async def test_flow_control_of_a_schedules_jobs_is_changed_by_name(
    client: httpx.AsyncClient, scheduler: Scheduler
) -> None:
    await put(client, **HOURLY, rate_key="r", cost=3, expires_after_s=60, heartbeat_timeout_s=5)
    path = f"{SCHEDULES}/hourly"
    body = (await client.patch(path, json={"cost": 4, "expires_after_s": None})).json()
    options = body["options"]
    assert (options["rate_key"], options["cost"], options["expires_after_s"]) == ("r", 4, None)
    assert (options["heartbeat_timeout_s"], body["idempotent"]) == (5.0, True)
    problem(await client.patch(path, json={"rate_key": None}), 422, field="cost")
    problem(await client.patch(path, json={"unique": {}}), 422, field="unique")

    @scheduler.task(name="once", idempotent=False)
    async def once(number: int) -> int:
        return number

    made = await put(client, id="o", cron="@daily", task="once", args=[1])
    assert made["schedule"]["idempotent"] is False
    job = (await client.post(f"{SCHEDULES}/o/trigger", json={})).json()["job"]
    assert (await scheduler.get_job(job["id"])).record.flow == Flow(idempotent=False)


@pytest.mark.parametrize(
    ("overlap", "shown"),
    [
        ("REPLACE", {"kind": "REPLACE", "limit": None, "key": None}),
        ("ALLOW", {"kind": "ALLOW", "limit": 100, "key": None}),
        ({"kind": "ALLOW"}, {"kind": "ALLOW", "limit": 100, "key": None}),
        ({"kind": "SERIALIZE", "key": "x"}, {"kind": "SERIALIZE", "limit": None, "key": "x"}),
    ],
)
async def test_overlap(client: httpx.AsyncClient, overlap: Any, shown: dict[str, Any]) -> None:
    assert (await put(client, **HOURLY, overlap=overlap))["schedule"]["options"]["overlap"] == shown


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cron": None}, "cron"),
        ({"every_s": 60}, "every_s"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"tz": "Europe/Berln"}, "tz"),
        ({"gap": "NOPE"}, "gap"),
        ({"anchor": "2026-01-09T09:00:00"}, "anchor"),
        ({"after_completion": True}, "after_completion"),
        ({"roll": "following"}, "roll"),
        ({"calendar": "nope"}, "calendar"),
        ({"cron": None, "every_s": 60, "tz": "UTC"}, "tz"),
        ({"cron": None, "every_s": 1e-9}, "every_s"),
        ({"cron": None, "every_s": 60, "anchor": "2026-01-09T09:00:00"}, "anchor"),
        ({"cron": None, "weeks": 2}, "anchor"),
        ({"cron": None, "weeks": 2, "days": 1, "anchor": "2026-01-09T09:00:00"}, "weeks"),
        ({"cron": None, "weeks": 2, "anchor": "2026-01-09"}, "anchor"),
        ({"cron": None, "weeks": 2, "anchor": "2026-02-30T09:00:00"}, "anchor"),
        ({"cron": None, "days": 0, "anchor": "2026-01-09T09:00:00"}, "days"),
        ({"task": "nope"}, "task"),
        ({"task": "add"}, "args"),
        ({"args": "no"}, "args"),
        ({"id": "a/b"}, "id"),
        ({"id": ".."}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"nope": 1}, "nope"),
        ({"start": "2026-01-05"}, "start"),
        ({"overlap": {"kind": "SERIALIZE"}}, "overlap"),
        ({"overlap": {"kind": "SKIP", "limit": 3}}, "overlap"),
        ({"overlap": {"kind": "ALLOW", "key": "k"}}, "overlap"),
        ({"retry": {"base_s": 9, "cap_s": 1}}, "retry"),
        ({"catch_up_max": 5000}, "catch_up_max"),
        ({"managed": "code"}, "managed"),
        ({"queue": "a\nb"}, "queue"),
    ],
)
async def test_what_cannot_be_is_refused_naming_the_field(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    wanted = {name: value for name, value in {**HOURLY, **body}.items() if value is not None}
    response = await client.post(SCHEDULES, json=wanted)
    problem(response, 422)
    assert {error["field"] and error["field"].partition(".")[0] for error in response.json()["errors"]} == {field}
    assert (await client.get(SCHEDULES)).json()["items"] == []


@pytest.mark.parametrize(
    ("overlap", "field", "said"),
    [
        ("ALOW", "overlap", '{"kind": "ALLOW", "limit": 5}'),
        ("SERIALIZE", "overlap", '{"kind": "SERIALIZE", "key": "db"}'),
        ({"kind": "ALLOW", "limit": 0}, "overlap.limit", "it must be 1 or more"),
        ({"limit": 3}, "overlap.kind", "it is required"),
    ],
)
async def test_a_wrong_overlap_is_told_once_and_by_the_form_it_was_given_in(
    client: httpx.AsyncClient, overlap: Any, field: str, said: str
) -> None:
    refused = problem(await client.post(SCHEDULES, json={**HOURLY, "overlap": overlap}), 422, field=field)
    assert said in refused["detail"]


async def test_two_options_that_exclude_each_other_are_refused(client: httpx.AsyncClient) -> None:
    wanted = {**HOURLY, "start": "2027-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
    assert "is not after start" in problem(await client.post(SCHEDULES, json=wanted), 422)["detail"]


async def test_a_task_that_is_off_says_how_to_have_it(scheduler: Scheduler) -> None:
    targets = register(scheduler, allow_http=())
    async with client_of(scheduler, absent=targets.absent, faults=targets.faults) as client:
        wanted = {"cron": "* * * * *", "task": "shell.run", "args": ["true"]}
        assert "--allow-shell" in problem(await client.post(SCHEDULES, json=wanted), 422, field="task")["detail"]
        job = {"task": "shell.run", "args": ["true"]}
        assert "--allow-shell" in problem(await client.post("/api/v1/jobs", json=job), 422, field="task")["detail"]


async def test_arguments_that_a_task_could_never_take_are_refused_when_it_is_made(scheduler: Scheduler) -> None:
    targets = register(scheduler, allow_http=(), allow_shell=True)
    async with client_of(scheduler, faults=targets.faults) as client:
        wanted = {"cron": "* * * * *", "task": "shell.run", "args": ["true"], "kwargs": {"shell": "sh"}}
        assert "absolute" in problem(await client.post(SCHEDULES, json=wanted), 422, field="args")["detail"]
    await targets.close()


# ---- looking ---------------------------------------------------------------------------------------------------------


async def test_lists_by_id_in_pages_and_by_condition(client: httpx.AsyncClient) -> None:
    for name in ("c", "a", "b"):
        await put(client, **{**HOURLY, "id": name}, queue="x" if name == "b" else "y")
    await client.post(f"{SCHEDULES}/a/pause", json={})
    first = (await client.get(SCHEDULES, params={"page_size": 2})).json()
    shapes.SchedulesOut.model_validate(first, strict=False)
    assert [item["id"] for item in first["items"]] == ["a", "b"]
    rest = (await client.get(SCHEDULES, params={"page_size": 2, "page_token": first["next_page_token"]})).json()
    assert ([item["id"] for item in rest["items"]], rest["next_page_token"]) == (["c"], None)
    for query, ids in (
        ({"state": "PAUSED"}, ["a"]),
        ({"state": ["PAUSED", "ACTIVE"]}, ["a", "b", "c"]),
        ({"queue": "x"}, ["b"]),
        ({"task": "add"}, []),
    ):
        found = (await client.get(SCHEDULES, params=query)).json()["items"]
        assert [item["id"] for item in found] == ids
    problem(await client.get(SCHEDULES, params={"page_token": "?"}), 422, field="page_token")
    problem(await client.get(SCHEDULES, params={"state": "nope"}), 422, field="state")


async def test_an_unknown_schedule_is_404_everywhere(client: httpx.AsyncClient) -> None:
    one = f"{SCHEDULES}/nope"
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    for response in [
        await client.get(one),
        await client.get(f"{one}/preview"),
        await client.get(f"{one}/occurrences"),
        await client.patch(one, json={"queue": "x"}),
        await client.delete(one),
        await client.post(f"{one}/pause", json={}),
        await client.post(f"{one}/resume", json={}),
        await client.post(f"{one}/trigger", json={}),
        await client.post(f"{one}/backfill", json=span),
        await client.get(f"{SCHEDULES}/%00"),
    ]:
        problem(response, 404, "schedule-not-found")


async def test_odd_ids_have_paths_too(client: httpx.AsyncClient) -> None:
    made = await client.post(SCHEDULES, json={**HOURLY, "id": "a b%c?#ü"})
    path = made.headers["location"]
    assert (await client.get(path)).json()["id"] == "a b%c?#ü"
    assert (await client.delete(path)).status_code == 204


# ---- changing --------------------------------------------------------------------------------------------------------


async def test_a_change_changes_what_it_names_and_nothing_else(client: httpx.AsyncClient) -> None:
    before = (await put(client, **HOURLY, args=[1], misfire="ALL", tz="Asia/Tokyo", timeout_s=5, max_runs=3))[
        "schedule"
    ]
    response = await client.patch(f"{SCHEDULES}/hourly", json={"cron": "5 * * * *", "queue": "q", "timeout_s": None})
    after = response.json()
    assert response.headers["etag"] == '"2"'
    assert (after["version"], after["queue"], after["options"]["timeout_s"]) == (2, "q", None)
    assert (after["rule"]["cron"], after["rule"]["tz"], after["args"]) == ("5 * * * *", "Asia/Tokyo", [1])
    same = {**before["options"], "timeout_s": None}
    assert after["options"] == same
    zoned = (await client.patch(f"{SCHEDULES}/hourly", json={"tz": "Europe/Berlin"})).json()
    assert zoned["rule"] == {**after["rule"], "tz": "Europe/Berlin"}
    unlimited = (await client.patch(f"{SCHEDULES}/hourly", json={"max_runs": None})).json()
    assert unlimited["options"]["max_runs"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"roll": "following"}, "roll"),
        ({"anchor": "2026-01-09T09:00:00"}, "anchor"),
        ({"cron": "nope"}, "cron"),
        ({"id": "other"}, "id"),
        ({"task": "add"}, "task"),
        ({"misfire": "NOPE"}, "misfire"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    await put(client, **HOURLY)
    problem(await client.patch(f"{SCHEDULES}/hourly", json=body), 422, field=field)
    assert (await client.get(f"{SCHEDULES}/hourly")).json()["version"] == 1


@pytest.mark.parametrize("verb", ["patch", "pause", "resume", "delete"])
async def test_an_edit_of_another_version_is_refused(client: httpx.AsyncClient, verb: str) -> None:
    await put(client, **HOURLY)
    await client.post(f"{SCHEDULES}/hourly/pause", json={})

    async def edit(version: str | None, body: dict[str, Any]) -> httpx.Response:
        headers = {} if version is None else {"If-Match": version}
        path = f"{SCHEDULES}/hourly"
        if verb == "delete":
            return await client.delete(path, headers=headers)
        if verb == "patch":
            return await client.patch(path, json={"queue": "q", **body}, headers=headers)
        return await client.post(f"{path}/{verb}", json=body, headers=headers)

    body = problem(await edit('"1"', {}), 412, "version-conflict")
    assert body["version"] == 2
    problem(await edit("1", {}), 422, field="if-match")
    if verb != "delete":
        problem(await edit(None, {"if_version": 1}), 409, "version-conflict")
        problem(await edit('"2"', {"if_version": 1}), 422, field="if_version")
    assert (await client.get(f"{SCHEDULES}/hourly")).json()["version"] == 2
    assert (await edit('"2"', {})).status_code == (204 if verb == "delete" else 200)


async def test_any_version_will_do_for_a_star(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY)
    assert (await client.delete(f"{SCHEDULES}/hourly", headers={"If-Match": "*"})).status_code == 204
    problem(await client.get(f"{SCHEDULES}/hourly"), 404, "schedule-not-found")


async def test_pause_and_resume(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY)
    until = datetime.now(UTC) + timedelta(days=1)
    body = {"note": "audit", "until": until.isoformat()}
    paused = (await client.post(f"{SCHEDULES}/hourly/pause", json=body)).json()
    assert (paused["state"], paused["reason"], paused["next_at"]) == ("PAUSED", "audit", None)
    assert datetime.fromisoformat(paused["paused_until"]) == until
    past = {"until": "2020-01-01T00:00:00Z"}
    problem(await client.post(f"{SCHEDULES}/hourly/pause", json=past), 422)
    resumed = (await client.post(f"{SCHEDULES}/hourly/resume", json={})).json()
    assert (resumed["state"], resumed["reason"], resumed["paused_until"]) == ("ACTIVE", None, None)
    assert resumed["next_at"] is not None


# ---- running ---------------------------------------------------------------------------------------------------------


async def test_a_trigger_makes_a_job_that_the_ledger_shows(client: httpx.AsyncClient, scheduler: Scheduler) -> None:
    await put(client, **HOURLY, args=["x"])
    response = await client.post(f"{SCHEDULES}/hourly/trigger", json={})
    assert response.status_code == 201
    shapes.TriggerOut.model_validate(response.json(), strict=False)
    job = response.json()["job"]
    assert (job["schedule_id"], job["args"]) == ("hourly", ["x"])
    await settled(scheduler, job["id"])
    ledger = (await client.get(f"{SCHEDULES}/hourly/occurrences")).json()
    shapes.OccurrencesOut.model_validate(ledger, strict=False)
    [row] = ledger["items"]
    assert (row["kind"], row["fate"], row["job_id"], row["job_state"]) == ("manual", "job", job["id"], "COMPLETED")
    found = (await client.get("/api/v1/jobs", params={"schedule": "hourly"})).json()["items"]
    assert [one["id"] for one in found] == [job["id"]]
    assert (await client.get("/api/v1/jobs", params={"schedule": "other"})).json()["items"] == []


async def test_a_trigger_that_the_overlap_policy_leaves_out_says_so(client: httpx.AsyncClient) -> None:
    await put(client, **{**HOURLY, "task": "hang"})
    await client.post(f"{SCHEDULES}/hourly/trigger", json={})
    response = await client.post(f"{SCHEDULES}/hourly/trigger", json={})
    assert (response.status_code, response.json()) == (200, {"job": None})
    assert (await client.post(f"{SCHEDULES}/hourly/trigger", json={"force": True})).status_code == 201
    first = (await client.get(f"{SCHEDULES}/hourly/occurrences", params={"page_size": 2})).json()
    assert [row["fate"] for row in first["items"]] == ["job", "skipped"]
    assert first["items"][1]["reason"] == "overlap"
    query = {"page_size": 2, "page_token": first["next_page_token"]}
    rest = (await client.get(f"{SCHEDULES}/hourly/occurrences", params=query)).json()
    assert ([row["fate"] for row in rest["items"]], rest["next_page_token"]) == (["job"], None)
    problem(await client.get(f"{SCHEDULES}/hourly/occurrences", params={"page_token": "x"}), 422, field="page_token")


async def test_instants_that_do_not_fit_are_told_as_they_are_written(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY)
    span = {"start": "2026-10-01T00:00:00Z", "end": "2026-09-01T00:00:00Z"}
    refused = problem(await client.post(f"{SCHEDULES}/hourly/backfill", json=span), 422, field="end")
    assert "the end 2026-09-01T00:00:00.000000Z is not after the start 2026-10-01" in refused["detail"]
    past = await client.post(f"{SCHEDULES}/hourly/pause", json={"until": "2020-01-01T00:00:00Z"})
    assert problem(past, 422, field="until")["detail"].startswith("until=2020-01-01T00:00:00.000000Z is past already")


async def test_a_backfill_counts_first_and_then_makes(client: httpx.AsyncClient) -> None:
    await put(client, **HOURLY)
    span = {"start": "2026-01-05T00:00:00Z", "end": "2026-01-05T03:00:00Z"}
    response = await client.post(f"{SCHEDULES}/hourly/backfill", json=span)
    shapes.BackfillOut.model_validate(response.json(), strict=False)
    counted = {"slots": 3, "already_ran": 0, "made": 3, "dry_run": True, "job_ids": []}
    assert response.json() == counted
    made = (await client.post(f"{SCHEDULES}/hourly/backfill", json={**span, "dry_run": False})).json()
    assert (made["made"], len(made["job_ids"]), made["dry_run"]) == (3, 3, False)
    turned = {"start": span["end"], "end": span["start"]}
    problem(await client.post(f"{SCHEDULES}/hourly/backfill", json=turned), 422)
    problem(await client.post(f"{SCHEDULES}/hourly/backfill", json={"start": span["start"]}), 422, field="end")


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        ({"cron": "30 2 * * *", "tz": "Europe/Berlin"}, "2026-03-29T01:00:00.000000Z"),
        ({"weeks": 1, "anchor": "2026-01-09T09:00:00", "tz": "UTC"}, "2026-04-03T09:00:00.000000Z"),
        ({"every_s": 3600}, "2026-03-28T13:00:00.000000Z"),
        ({"every_s": 3600, "anchor": "2020-01-01T00:30:00Z"}, "2026-03-28T12:30:00.000000Z"),
    ],
)
async def test_a_rule_that_is_not_saved_can_be_looked_at_in_the_past(
    client: httpx.AsyncClient, rule: dict[str, Any], first: str
) -> None:
    found = await client.post(PREVIEW, json={**rule, "after": "2026-03-28T12:00:00Z", "n": 2})
    assert found.json()["items"][0]["at"] == first


async def test_a_preview_from_an_instant_that_is_past_begins_there_and_says_what_has_come(
    client: httpx.AsyncClient,
) -> None:
    await put(client, id="night", cron="30 2 * * *", tz="Europe/Berlin", task="echo")
    query = {"n": 2, "after": "2020-03-28T12:00:00Z"}
    found = (await client.get(f"{SCHEDULES}/night/preview", params=query)).json()
    shapes.PreviewOut.model_validate(found, strict=False)
    shown = [(run["local"], run["notes"], run["scheduled_at"], run["reason"]) for run in found["items"]]
    assert shown == [
        ("2020-03-29T03:00:00+02:00", ["gap"], None, "past"), ("2020-03-30T02:30:00+02:00", [], None, "past"),
    ]  # fmt: skip


async def test_a_preview_says_when_and_why(client: httpx.AsyncClient) -> None:
    await put(client, id="night", cron="30 2 * * *", tz="Europe/Berlin", task="echo")
    query = {"n": 2, "after": "2099-03-28T12:00:00Z"}
    found = (await client.get(f"{SCHEDULES}/night/preview", params=query)).json()
    shapes.PreviewOut.model_validate(found, strict=False)
    assert found["in_words"].startswith("at 02:30, in Europe/Berlin")
    assert [(run["local"], run["nominal"], run["notes"]) for run in found["items"]] == [
        ("2099-03-29T03:00:00+02:00", "2099-03-29T02:30:00", ["gap"]),
        ("2099-03-30T02:30:00+02:00", "2099-03-30T02:30:00", []),
    ]
    same = {"cron": "30 2 * * *", "tz": "Europe/Berlin", "n": 2, "after": query["after"]}
    assert (await client.post(PREVIEW, json=same)).json() == found
    skipping = (await client.post(PREVIEW, json={**same, "gap": "SKIP", "n": 1})).json()["items"]
    assert [(run["reason"], run["scheduled_at"] is None) for run in skipping] == [("gap", True), (None, False)]
    assert (await client.get(SCHEDULES, params={"task": "nope"})).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "cron"),
        ({"cron": "x"}, "cron"),
        ({"cron": "@daily", "n": 0}, "n"),
        ({"every_s": 1, "task": "echo"}, "task"),
    ],
)
async def test_a_preview_of_nothing_is_refused(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    problem(await client.post(PREVIEW, json=body), 422, field=field)


# ---- calendars -------------------------------------------------------------------------------------------------------


async def test_a_calendar_is_saved_and_followed(client: httpx.AsyncClient) -> None:
    body = {"exclude": ["2099-12-25", ["2099-12-28", "2099-12-31"]]}
    saved = {"name": "bank", **body, "weekend": ["sat", "sun"]}
    response = await client.put(f"{CALENDARS}/bank", json=body)
    shapes.CalendarOut.model_validate(response.json(), strict=False)
    assert (response.status_code, response.json()) == (200, saved)
    assert (await client.get(f"{CALENDARS}/bank")).json() == saved
    assert (await client.get(CALENDARS)).json() == {"items": [saved]}
    rule = {"cron": "0 18 L * *", "calendar": "bank", "roll": "preceding"}
    asked = {**rule, "n": 1, "after": "2099-12-01T00:00:00Z"}
    assert (await client.post(PREVIEW, json=asked)).json()["items"][0]["at"] == "2099-12-24T18:00:00.000000Z"
    await put(client, **rule, id="pay", task="echo")
    await client.put(f"{CALENDARS}/bank", json={})
    assert (await client.post(PREVIEW, json=asked)).json()["items"][0]["at"] == "2099-12-31T18:00:00.000000Z"
    found = (await client.get(f"{SCHEDULES}/pay/preview", params={"n": 1, "after": asked["after"]})).json()
    assert found["items"][0]["at"] == "2099-12-31T18:00:00.000000Z"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"exclude": ["25.12.2026"]}, "exclude.0"),
        ({"exclude": ["2026-12-25", ["2026-12-31", "2026-12-28"]]}, "exclude"),
        ({"exclude": [["2026-12-25"]]}, None),
        ({"weekend": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}, "weekend"),
        ({"weekend": ["monday"]}, "weekend.0"),
        ({"nope": 1}, "nope"),
    ],
)
async def test_a_calendar_that_cannot_be_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any], field: str | None
) -> None:
    problem(await client.put(f"{CALENDARS}/bank", json=body), 422, field=field)
    problem(await client.get(f"{CALENDARS}/bank"), 404, "calendar-not-found")


async def test_a_calendar_needs_a_name_that_can_be_shown(client: httpx.AsyncClient) -> None:
    problem(await client.put(f"{CALENDARS}/a%0Ab", json={}), 422, field="name")


# ---- forecast --------------------------------------------------------------------------------------------------------


async def test_a_forecast_adds_up_jobs_and_slots(client: httpx.AsyncClient) -> None:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=1)
    await put(client, id="minutely", cron="* * * * *", task="echo")
    await put(client, id="hourly", cron="0 * * * *", task="echo")
    await put(client, id="twin", cron="0 * * * *", task="echo")
    await put(client, id="later", cron="* * * * *", task="echo", start=(start + timedelta(hours=2)).isoformat())
    await put(client, id="paused", cron="* * * * *", task="echo")
    await client.post(f"{SCHEDULES}/paused/pause", json={})
    await put(client, id="delayed", every_s=10, after_completion=True, task="echo")
    instant = (start + timedelta(minutes=90)).isoformat()
    for _ in range(5):
        await client.post("/api/v1/jobs", json={"task": "echo", "scheduled_at": instant})
    query = {"from": start.isoformat(), "to": (start + timedelta(hours=3)).isoformat(), "bucket_s": 3600}
    found = (await client.get(FORECAST, params=query)).json()
    shapes.ForecastOut.model_validate(found, strict=False)
    assert [(one["jobs"], one["pending"]) for one in found["buckets"]] == [(62, 0), (67, 5), (122, 0)]
    assert found["jobs"] == 251
    assert found["peaks"][0]["schedules"] == [
        {"schedule": "later", "jobs": 60}, {"schedule": "minutely", "jobs": 60}, {"schedule": "hourly", "jobs": 1},
        {"schedule": "twin", "jobs": 1},
    ]  # fmt: skip
    assert sorted(found["unknown"]) == ["delayed", "paused"]
    assert found["complete"] is True


async def test_schedules_with_the_same_slots_are_counted_together(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        await put(client, id=f"s{number}", cron="*/5 * * * *", task="echo")
        await put(client, id=f"e{number}", every_s=300, task="echo")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=1)
    span = {"from": start.isoformat(), "to": (start + timedelta(hours=5)).isoformat(), "bucket_s": 300}
    monkeypatch.setattr("timewheel.serve.forecast.MOST_STEPS", 150)  # 16 schedules with 60 buckets each, and no 422
    found = (await client.get(FORECAST, params=span)).json()
    assert [bucket["jobs"] for bucket in found["buckets"]] == [16] * 60
    told = [cause["schedule"] for cause in found["buckets"][7]["schedules"]]
    assert told == ["s3", "s4", "s5", "s6", "s7"]


def test_of_the_schedules_of_a_bucket_those_that_make_the_most_are_kept() -> None:
    forecast = Forecast(Window(0, 1_000_000, 3), Now(0, 0))
    for number in (3, 9, 1, 8, 2, 7, 9, 4):
        forecast.add(1, f"s{number}", number)
    forecast.add_pending([-5, 0, 1_500_000, 3_000_000])
    shown = forecast.view()
    assert (shown["jobs"], shown["overdue"]) == (45, 1)
    [first, second] = shown["buckets"]
    assert (first["jobs"], first["pending"], first["schedules"]) == (1, 1, [])
    assert (second["jobs"], second["pending"]) == (44, 1)
    assert [cause["schedule"] for cause in second["schedules"]] == ["s9", "s9", "s8", "s7", "s4"]
    assert [bucket["jobs"] for bucket in shown["peaks"]] == [44, 1]


async def test_a_forecast_without_words_is_of_the_coming_day(client: httpx.AsyncClient) -> None:
    await put(client, id="daily", cron="0 9 * * *", task="echo")
    found = (await client.get(FORECAST)).json()
    span = datetime.fromisoformat(found["end"]) - datetime.fromisoformat(found["start"])
    assert (span, found["bucket_s"], found["jobs"]) == (timedelta(days=1), 60, 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"bucket_s": "1"}, "bucket_s"),
        ({"bucket_s": "0"}, "bucket_s"),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "to"),
        ({"from": "tomorrow"}, "from"),
        ({"nope": "1"}, "nope"),
    ],
)
async def test_a_forecast_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    problem(await client.get(FORECAST, params=query), 422, field=field)


async def test_a_forecast_that_would_take_too_long_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timewheel.serve.forecast.MOST_STEPS", 100)
    await put(client, id="minutely", cron="* * * * *", task="echo")
    problem(await client.get(FORECAST), 422, field="bucket_s")
    assert (await client.get(FORECAST, params={"bucket_s": 3600})).status_code == 200


# ---- the rest --------------------------------------------------------------------------------------------------------


async def test_a_scheduler_that_drains_edits_nothing_but_answers(scheduler: Scheduler) -> None:
    async with client_of(scheduler) as client:
        await put(client, **{**HOURLY, "task": "hang"})
        await client.post(f"{SCHEDULES}/hourly/trigger", json={})
        stopping = asyncio.create_task(scheduler.stop(grace_s=30))
        while scheduler.state == "RUNNING":
            await asyncio.sleep(0)
        one = f"{SCHEDULES}/hourly"
        span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
        for response in [
            await client.post(SCHEDULES, json=HOURLY),
            await client.patch(one, json={"queue": "x"}),
            await client.delete(one),
            await client.post(f"{one}/pause", json={}),
            await client.post(f"{one}/resume", json={}),
            await client.post(f"{one}/trigger", json={}),
            await client.post(f"{one}/backfill", json=span),
            await client.put(f"{CALENDARS}/x", json={}),
        ]:
            problem(response, 503, "draining")
        assert (await client.get(one)).status_code == 200
        await scheduler.stop(grace_s=0)
        await stopping


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_body_must_say_that_it_is_json(client: httpx.AsyncClient, method: str) -> None:
    path = f"{CALENDARS}/x" if method == "PUT" else f"{SCHEDULES}/x" if method == "PATCH" else SCHEDULES
    response = await client.request(method, path, content=b"{}", headers={"Content-Type": "text/plain"})
    problem(response, 415, "not-json")


async def test_slots_are_counted_in_the_metrics(client: httpx.AsyncClient) -> None:
    await put(client, **{**HOURLY, "task": "hang"})
    for _ in range(3):
        await client.post(f"{SCHEDULES}/hourly/trigger", json={})
    lines = (await client.get("/metrics")).text.splitlines()
    assert 'timewheel_occurrences_total{fate="job",reason=""} 1.0' in lines
    assert 'timewheel_occurrences_total{fate="skipped",reason="overlap"} 2.0' in lines
