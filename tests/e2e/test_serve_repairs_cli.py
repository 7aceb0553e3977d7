"""`dlq`, `operations`, `audit`, `queues` and `jobs retry`, from the command line to the journal of a real server."""

from __future__ import annotations

import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from serving import Child, serving
from test_serve_cli import Done, timewheel

APP = """
from pathlib import Path
from timewheel import Permanent, Scheduler

scheduler = Scheduler("sqlite:///app.db")


@scheduler.task(name="pay")
def pay(number: int) -> int:
    if not Path("fixed").exists() or number > 100:
        raise Permanent(f"the bank refused {number}")
    return number
"""
WHY = ("--reason", "customers wait", "--actor", "ada")
FIXED = (*WHY, "--cause-fixed", "restarted the gateway")


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Child]:
    (tmp_path / "app.py").write_text(APP)
    async with serving("--app", "app:scheduler", cwd=tmp_path) as child:
        yield child


async def kill(server: Child, tmp_path: Path, *numbers: int) -> None:
    jobs = [json.dumps({"task": "pay", "args": [number]}) + "\n" for number in numbers]
    (tmp_path / "jobs.jsonl").write_text("".join(jobs))
    assert (await timewheel(server, "jobs", "import", "jobs.jsonl")).code == 0
    while len((await timewheel(server, "dlq", "ls", "--json")).documents()) < len(numbers):
        pass


def lines(done: Done) -> list[str]:
    assert done.code == 0, done.err
    return done.out.splitlines()


@pytest.mark.slow  # thirty processes
async def test_dead_letters_come_back(server: Child, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert await timewheel(server, "dlq", "ls") == (0, "", "no dead letter matches\n")
    await kill(server, tmp_path, 1, 2, 3, 101)
    table = lines(await timewheel(server, "dlq", "ls", "--task", "pay", "--limit", "2"))
    assert len(table) == 3
    assert "the bank refused" in table[1]
    [group] = (await timewheel(server, "dlq", "ls", "--groups", "--json")).documents()
    assert group["letters"] == 4
    assert "4" in lines(await timewheel(server, "dlq", "ls", "--groups"))[1]
    shown = lines(await timewheel(server, "dlq", "show", group["newest"]))
    assert any("FAILED_PERMANENT" in line for line in shown)

    only = ("--fingerprint", group["fingerprint"])
    dry = await timewheel(server, "dlq", "replay", *only, *FIXED)
    assert dry == (0, "4 dead letters match: --yes does it\n", "")
    (tmp_path / "fixed").touch()
    stopped = await timewheel(server, "dlq", "replay", *only, *FIXED, "--yes", "--wait")
    assert stopped.code == 65, "the newest is the canary, and dies again"
    assert "STOPPED 1 of 4: 1 of 1 canaries did not complete" in stopped.out

    [gone] = (await timewheel(server, "dlq", "ls", "--limit", "1", "--json")).documents()
    assert (await timewheel(server, "dlq", "discard", *WHY, "--task", "other", "--yes", "--wait", "--json")).code == 0
    late = await timewheel(server, "jobs", "retry", gone["id"], "job-0000000000000", *FIXED, "--json")
    assert late.code == 65
    assert [one["answer"] for one in late.documents()] == ["replayed", "unknown"]

    done = await timewheel(server, "dlq", "replay", "--until", gone["created_at"], *FIXED, "--yes", "--json")
    assert done.documents()[0]["matched"] == 0
    done = await timewheel(server, "dlq", "replay", *FIXED, "--canary", "0", "--rate", "1000", "--yes", "--wait")
    assert done.code == 0
    listed = (await timewheel(server, "operations", "ls", "--json")).documents()
    assert [one["state"] for one in listed] == ["DONE", "DONE", "DONE", "STOPPED"]
    shown = lines(await timewheel(server, "operations", "show", listed[-1]["id"]))
    assert any(line.split() == ["actor", "ada"] for line in shown)
    assert (await timewheel(server, "operations", "stop", listed[0]["id"], "nope", *WHY)).code == 65
    audit = (await timewheel(server, "audit", "--json", "--limit", "0")).documents()
    assert {entry["actor"] for entry in audit} == {"ada"}
    assert {entry["action"] for entry in audit} == {"start", "replay"}
    assert "customers wait" in lines(await timewheel(server, "audit"))[1]


async def test_a_replay_needs_a_reason_and_a_fixed_cause(server: Child) -> None:
    for arguments in (("dlq", "replay", "--reason", "x"), ("dlq", "discard"), ("jobs", "retry", "x", "--reason", "y")):
        assert (await timewheel(server, *arguments)).code == 64


async def test_queues_are_shown_and_changed(server: Child, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    paused = await timewheel(server, "queues", "pause", "mail", "reports")
    assert lines(paused) == ["mail is paused", "reports is paused"]
    changed = await timewheel(server, "queues", "set", "mail", "--rate", "5/60", "--concurrency", "2")
    assert lines(changed) == ["mail is paused, rate 5/60s, concurrency 2"]
    resumed = await timewheel(server, "queues", "resume", "mail", "--json")
    assert resumed.documents()[0]["rate"] == {"count": 5, "per_s": 60.0, "burst": 1}
    table = lines(await timewheel(server, "queues", "ls"))
    assert [line.split()[:2] for line in table[1:]] == [["mail", "open"], ["reports", "paused"]]
    assert lines(await timewheel(server, "queues", "set", "mail", "--rate", "none")) == ["mail is open, concurrency 2"]
    budget = await timewheel(server, "queues", "set", "mail", "--retry-budget", "0.5/30+2", "--key-concurrency", "4")
    assert lines(budget) == ["mail is open, concurrency 2, key concurrency 4, retry budget 0.5/30s+2"]
    shown = lines(await timewheel(server, "queues", "show", "mail", "nobody"))
    assert ["retry_budget", "0.5/30s+2"] in [line.split() for line in shown]
    assert sum(line.split()[:1] == ["name"] for line in shown) == 2
    [document] = (await timewheel(server, "queues", "show", "mail", "--json")).documents()
    assert document["retry_budget"] == {"share": 0.5, "window_s": 30, "at_least": 2}
    plain = await timewheel(server, "queues", "set", "mail", "--retry-budget", "none", *WHY)
    assert lines(plain) == ["mail is open, concurrency 2, key concurrency 4"]
    assert lines(await timewheel(server, "audit", "--limit", "1"))[1].split()[1:] == [
        *("ada", "update", "mail", "customers", "wait"),
    ]
    told = (await timewheel(server, "audit", "--json")).documents()
    assert [entry["action"] for entry in told] == ["update", "update", "update", "resume", "update", "pause", "pause"]
    assert {entry["actor"] for entry in told[1:]} == {getpass.getuser()}
    assert (await timewheel(server, "queues", "set", "mail")).code == 64
    assert (await timewheel(server, "queues", "set", "mail", "--rate", "x")).code == 64
    assert (await timewheel(server, "queues", "set", "mail", "--rate", "1/0")).code == 64
