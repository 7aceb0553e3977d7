"""Real input, end to end (`real_input`): a share of it in every run, more of it when there is time; and its judge."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_input import Done, Evidence, Hit, Kill, Plan, faults_of, play, report

DEADLINE_S = 240.0


async def check(plan: Plan, folder: Path) -> Evidence:
    """Play a plan; nothing may be wrong, and what it is about must have happened."""
    seen = await play(plan, folder, lambda _: None)
    assert faults_of(seen) == [], report(seen)
    assert len(seen.hits) > plan.jobs
    assert seen.states()["FAILED_RETRYABLE"] > 0
    return seen


async def test_every_job_of_a_file_completes(tmp_path: Path) -> None:
    seen = await check(Plan(300, deadline_s=DEADLINE_S), tmp_path)
    assert seen.states()["LOST"] == 0


async def test_a_kill_on_the_way_loses_nothing(tmp_path: Path) -> None:
    await check(Plan(300, kills=1, seed=2, deadline_s=DEADLINE_S), tmp_path)


@pytest.mark.slow
async def test_three_kills_on_the_way_lose_nothing(tmp_path: Path) -> None:
    seen = await check(Plan(2_000, kills=3, seed=3, deadline_s=DEADLINE_S), tmp_path)
    assert seen.states()["LOST"] > 0


def attempts(*states: str) -> list[dict[str, Any]]:
    return [
        {"number": number, "state": state, "error": "POST http://target answered 500" if "FAILED" in state else None}
        for number, state in enumerate(states, 1)
    ]


def flawless() -> Evidence:
    """Two jobs: one that failed once, and one whose first attempt had succeeded when the server was killed."""
    jobs = [
        {"id": f"job-{line}", "idempotency_key": f"import:abc:{line}", "state": "COMPLETED", "attempt": 2,
         "reason": None, "error": None}
        for line in (1, 2)
    ]  # fmt: skip
    summary = {"created": 2, "existed": 0, "refused": [], "left": 0}
    return Evidence(
        Plan(2, kills=1),
        sha256="abc",
        hits=[Hit(1, "job-1", 1, 500), Hit(2, "job-2", 2, 200), Hit(5, "job-2", 2, 200), Hit(6, "job-1", 1, 200)],
        kills=[Kill(2.5, 3, -signal.SIGKILL, 1, 2)],
        imported=Done(0, [summary], ""),
        again=Done(0, [{**summary, "created": 0, "existed": 2}], ""),
        listed=Done(0, jobs, ""),
        verified=Done(0, [{"findings": []}], ""),
        attempts={"job-1": attempts("FAILED_RETRYABLE", "SUCCEEDED"), "job-2": attempts("LOST", "SUCCEEDED")},
        stopped=0,
        last_line="stopped; every outcome is durable",
    )


def test_the_judge_finds_nothing_where_nothing_is_wrong() -> None:
    assert faults_of(flawless()) == []
    assert "1 jobs answered 200 more than once" in report(flawless())


FLAWS: dict[str, Callable[[Evidence], Evidence]] = {
    "lost": lambda seen: replace(seen, listed=seen.listed._replace(documents=seen.listed.documents[:1])),
    "2 jobs have the key": lambda seen: replace(
        seen, listed=seen.listed._replace(documents=[*seen.listed.documents, seen.listed.documents[0]])
    ),
    "is DEAD": lambda seen: replace(
        seen, listed=seen.listed._replace(documents=[{**job, "state": "DEAD"} for job in seen.listed.documents])
    ),
    "answered 200 0 times": lambda seen: replace(seen, hits=seen.hits[:-1]),
    "answered 200 2 times": lambda seen: replace(seen, hits=[*seen.hits, Hit(7, "job-1", 1, 200)]),
    "answered 200 3 times": lambda seen: replace(seen, hits=[*seen.hits, Hit(7, "job-2", 2, 200)]),
    "no kill in between": lambda seen: replace(seen, kills=[Kill(0.5, 0.6, -signal.SIGKILL)]),
    "by 0 kills": lambda seen: replace(seen, kills=[]),
    "1 good and 2 bad": lambda seen: replace(seen, hits=[Hit(0, "job-1", 1, 500), *seen.hits]),
    "a key that is no job's": lambda seen: replace(seen, hits=[*seen.hits, Hit(7, "job-3", 3, 200)]),
    "arguments of lines": lambda seen: replace(seen, hits=[hit._replace(line=1) for hit in seen.hits]),
    "attempts are numbered": lambda seen: replace(
        seen, attempts={**seen.attempts, "job-1": seen.attempts["job-1"][1:]}
    ),
    "attempts ended": lambda seen: replace(
        seen, attempts={**seen.attempts, "job-2": attempts("SUCCEEDED", "SUCCEEDED")}
    ),
    "second import created": lambda seen: replace(
        seen, again=seen.again._replace(documents=[{"created": 1, "existed": 1, "refused": [], "left": 0}])
    ),
    "the import ended with 69": lambda seen: replace(seen, imported=seen.imported._replace(code=69)),
    "verify ended with 65": lambda seen: replace(seen, verified=Done(65, [{"findings": ["I11"]}], "")),
    "after SIGTERM": lambda seen: replace(seen, stopped=1),
}


@pytest.mark.parametrize("word", FLAWS)
def test_the_judge_finds_what_is_wrong(word: str) -> None:
    assert any(word in fault for fault in faults_of(FLAWS[word](flawless())))
