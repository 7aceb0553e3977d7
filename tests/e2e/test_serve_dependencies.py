"""`/api/v1/dependencies`: how breakers stand, and what a person says of them, over HTTP."""

from __future__ import annotations

import httpx
import pytest
from serving import client_of

from timewheel import Breaker, Dependency, RetryBudget, Scheduler
from timewheel.serve.dependencies import PREFIX, DependenciesOut, DependencyPageOut
from timewheel.serve.repair_outputs import AuditsOut


def a_scheduler() -> Scheduler:
    dependencies = {
        "stripe": Dependency(breaker=Breaker(failures=1), retry_budget=RetryBudget()),
        "bare": Dependency(breaker=None),
    }
    scheduler = Scheduler("memory://", dependencies=dependencies)

    @scheduler.task(name="fail", dependency="named")
    async def fail() -> None:
        raise ConnectionError

    @scheduler.task(name="charge", dependency="stripe", retry=1)
    async def charge() -> None:
        raise ConnectionError

    return scheduler


async def test_dependencies_show_how_they_stand() -> None:
    async with a_scheduler() as scheduler, client_of(scheduler) as client:
        listed = (await client.get(PREFIX)).json()
        DependenciesOut.model_validate(listed)
        assert [(each["name"], each["breaker"]) for each in listed["items"]] == [
            ("bare", None),
            ("named", "CLOSED"),
            ("stripe", "CLOSED"),
        ]
        await (await scheduler.now("charge")).wait(timeout_s=10)
        shown = (await client.get(f"{PREFIX}/stripe")).json()
        DependencyPageOut.model_validate(shown)
        assert set(shown) == set(DependencyPageOut.model_fields)
        assert (shown["breaker"], shown["starts"], shown["retries"]) == ("OPEN", 1, 0)
        assert shown["open_until"].endswith("Z")
        assert [event["reason"] for event in shown["history"]] == ["1 of 1 attempts failed"]


async def test_a_breaker_is_forced_and_let_go() -> None:
    async with a_scheduler() as scheduler, client_of(scheduler) as client:
        for wanted, state in (("FORCED_OPEN", "FORCED_OPEN"), ("FORCED_CLOSED", "FORCED_CLOSED"), ("AUTO", "CLOSED")):
            changed = await client.patch(f"{PREFIX}/stripe", json={"breaker": wanted, "reason": f"say {wanted}"})
            assert changed.status_code == 200, changed.text
            assert changed.json()["breaker"] == state
            assert changed.json()["history"][0]["reason"] == f"say {wanted}"


async def test_what_was_only_asked_for_is_not_listed_unless_it_is_forced() -> None:
    async def listed(client: httpx.AsyncClient) -> list[str]:
        return [each["name"] for each in (await client.get(PREFIX)).json()["items"]]

    async with a_scheduler() as scheduler, client_of(scheduler) as client:
        assert (await client.get(f"{PREFIX}/stirpe")).json()["breaker"] == "CLOSED"
        assert await listed(client) == ["bare", "named", "stripe"]
        await client.patch(f"{PREFIX}/stirpe", json={"breaker": "FORCED_OPEN", "reason": "a slip"})
        assert await listed(client) == ["bare", "named", "stirpe", "stripe"]
        await client.patch(f"{PREFIX}/stirpe", json={"breaker": "AUTO", "reason": "taken back"})
        assert await listed(client) == ["bare", "named", "stripe"]


async def test_the_audit_tells_who_forced_a_breaker_and_why() -> None:
    async with a_scheduler() as scheduler, client_of(scheduler) as client:
        for breaker, who in (("AUTO", "cy"), ("FORCED_OPEN", "ada"), ("FORCED_OPEN", "bob"), ("AUTO", None)):
            body = {"breaker": breaker, "reason": f"so says {who}", "actor": who}
            assert (await client.patch(f"{PREFIX}/stripe", json=body)).status_code == 200
        page = (await client.get(f"{PREFIX}/stripe")).json()
        audit = (await client.get("/api/v1/audit")).json()
        AuditsOut.model_validate(audit)
        told = [(one["action"], one["dependency"], one["actor"], one["reason"]) for one in audit["items"]]
        assert told == [
            ("auto", "stripe", None, "so says None"),
            ("force_open", "stripe", "bob", "so says bob"),
            ("force_open", "stripe", "ada", "so says ada"),
        ], "an AUTO of one that goes by itself did nothing"
        assert [event["reason"] for event in page["history"]] == ["so says None", "so says ada"]


@pytest.mark.parametrize(
    ("dependency", "body", "field"),
    [
        ("stripe", {"breaker": "OPEN", "reason": "x"}, "breaker"),
        ("stripe", {"breaker": "AUTO"}, "reason"),
        ("stripe", {"breaker": "AUTO", "reason": ""}, "reason"),
        ("stripe", {"breaker": "FORCED_OPEN", "reason": "a\nb"}, "reason"),
        ("stripe", {"breaker": "FORCED_OPEN", "reason": "x", "actor": ""}, "actor"),
        ("stripe", {"breaker": "FORCED_OPEN", "reason": "x", "actor": "\0"}, "actor"),
        ("bare", {"breaker": "FORCED_OPEN", "reason": "x"}, "breaker"),
        ("a%00b", {"breaker": "AUTO", "reason": "x"}, "dependency"),
    ],
)
async def test_what_makes_no_sense_is_422(dependency: str, body: dict[str, str], field: str) -> None:
    async with a_scheduler() as scheduler, client_of(scheduler) as client:
        answer: httpx.Response = await client.patch(f"{PREFIX}/{dependency}", json=body)
        assert answer.status_code == 422, answer.text
        assert field in answer.text
        assert (await client.get("/api/v1/audit")).json()["items"] == []
        assert scheduler.dependency("stripe").state().breaker == "CLOSED"
