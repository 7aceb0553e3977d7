"""`dependencies`, from the command line to the journal of a real server."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from serving import Child, serving
from test_serve_cli import timewheel

APP = """
from timewheel import Breaker, Dependency, RetryBudget, Scheduler

dependencies = {
    "stripe": Dependency(breaker=Breaker(failures=1), retry_budget=RetryBudget()),
    "bare": Dependency(breaker=None),
}
scheduler = Scheduler("memory://", dependencies=dependencies)


@scheduler.task(name="charge", dependency="named")
def charge() -> None: ...
"""


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Child]:
    (tmp_path / "app.py").write_text(APP)
    async with serving("--app", "app:scheduler", cwd=tmp_path) as child:
        yield child


async def test_dependencies_are_shown(server: Child) -> None:
    listed = await timewheel(server, "dependencies", "ls")
    assert (listed.code, listed.err) == (0, "")
    head, *rows = listed.out.splitlines()
    assert head.split()[:2] == ["dependency", "breaker"]
    assert [row.split() for row in rows] == [
        ["bare", "none", *"000000"],
        ["named", "CLOSED", *"000000"],
        ["stripe", "CLOSED", *"000000"],
    ]
    documents = (await timewheel(server, "dependencies", "ls", "--json")).documents()
    assert [(one["name"], one["breaker"]) for one in documents] == [
        ("bare", None),
        ("named", "CLOSED"),
        ("stripe", "CLOSED"),
    ]
    shown = await timewheel(server, "dependencies", "show", "stripe", "bare")
    assert (shown.code, shown.err) == (0, "")
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("breaker")] == ["CLOSED", "none"]
    empty = await timewheel(server, "dependencies", "history", "stripe")
    assert empty == (0, "", "nothing happened to the breaker of stripe yet\n")


@pytest.mark.slow  # ten processes
async def test_a_breaker_is_forced_and_let_go(server: Child) -> None:
    opened = await timewheel(server, "dependencies", "open", "stripe", "named", "--reason", "it is down")
    assert opened == (0, "stripe is FORCED_OPEN\nnamed is FORCED_OPEN\n", "")
    closed = await timewheel(server, "dependencies", "close", "stripe", "--reason", "try", "--actor", "ada", "--json")
    assert closed.documents()[0]["breaker"] == "FORCED_CLOSED"
    freed = await timewheel(server, "dependencies", "auto", "stripe", "--reason", "it is up", "--actor", "ada")
    assert freed == (0, "stripe is CLOSED\n", "")
    events = (await timewheel(server, "dependencies", "history", "stripe", "--json")).documents()
    assert [(event["after"], event["reason"]) for event in events] == [
        ("CLOSED", "it is up"),
        ("FORCED_CLOSED", "try"),
        ("FORCED_OPEN", "it is down"),
    ]
    table = (await timewheel(server, "dependencies", "history", "stripe")).out.splitlines()
    assert len(table) == 4
    assert table[1].split()[1:] == ["FORCED_CLOSED", "CLOSED", "it", "is", "up"]
    shown = (await timewheel(server, "dependencies", "show", "stripe")).out
    assert table[1] in shown
    [document] = (await timewheel(server, "dependencies", "show", "stripe", "--json")).documents()
    assert document["history"] == events
    audit = (await timewheel(server, "audit", "--json")).documents()
    me = getpass.getuser()
    assert [(entry["action"], entry["dependency"], entry["actor"], entry["reason"]) for entry in audit] == [
        ("auto", "stripe", "ada", "it is up"),
        ("force_closed", "stripe", "ada", "try"),
        ("force_open", "named", me, "it is down"),
        ("force_open", "stripe", me, "it is down"),
    ]
    assert "  stripe  " in (await timewheel(server, "audit")).out


async def test_what_cannot_be_forced_is_65_and_a_name_nobody_knows_is_told(server: Child) -> None:
    bare = await timewheel(server, "dependencies", "open", "bare", "--reason", "x")
    assert (bare.code, bare.out) == (65, "")
    assert "'bare' has no breaker" in bare.err
    misspelt = await timewheel(server, "dependencies", "open", "stirpe", "--reason", "x")
    assert misspelt.code == 0
    assert misspelt.err == "no dependency stirpe is declared, and no task names it: there are bare, named, stripe\n"
