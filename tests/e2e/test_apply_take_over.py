"""`schedules apply` and schedules that code declares: refused by name, or taken over when that is asked for."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler

from timewheel.cli import apply, exits
from timewheel.cli.client import Answer
from timewheel.scheduler import Scheduler

FILE = """
[[schedule]]
id = "sweep"
task = "echo"
every = "5m"

[[schedule]]
id = "mine"
task = "echo"
every = "5m"
"""


@pytest_asyncio.fixture
async def scheduler(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scheduler]:
    """One that declares a schedule in code; commands reach it without a socket."""
    scheduler = make_scheduler()

    @scheduler.periodic("*/5 * * * *", id="sweep")
    async def sweep() -> None: ...

    async with scheduler, client_of(scheduler) as client:
        monkeypatch.setattr(apply, "Client", lambda _: Near(client))
        yield scheduler


class Near:
    """Stands for the client of the command line."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __aenter__(self) -> Near:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def get(self, path: str) -> Answer:
        response = await self._client.get(path)
        return Answer(response.status_code, response.json())

    async def post(self, path: str, body: Any) -> Answer:
        response = await self._client.post(path, json=body)
        return Answer(response.status_code, response.json())

    async def pages(self, path: str, query: Any) -> AsyncIterator[Any]:
        for item in (await self._client.get(path, params=query)).json()["items"]:
            yield item


async def applied(tmp_path: Path, **options: bool) -> int:
    path = tmp_path / "schedules.toml"
    path.write_text(FILE)
    given = {"yes": False, "json": False, "take_over": False, **options}
    return await apply.apply(Namespace(file=str(path), url="", **given))


async def managed(scheduler: Scheduler) -> dict[str, str | None]:
    return {schedule.id: schedule.definition.declared async for schedule in scheduler.schedules()}


async def test_what_code_declares_is_refused_by_its_name_and_nothing_is_applied(
    scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ({}, {"yes": True}):
        assert await applied(tmp_path, **options) == exits.DATA
        told = capsys.readouterr()
        assert told.out.splitlines()[0] == "+ mine"
        assert told.out.splitlines()[1].startswith(
            "! sweep: it was declared in code (@scheduler.periodic): --take-over"
        )
        assert told.err == "nothing was applied: mend these first\n"
    assert await applied(tmp_path, yes=True, json=True) == exits.DATA
    document = json.loads(capsys.readouterr().out)
    assert (document["applied"], document["taken_over"], len(document["refused"])) == (False, [], 1)
    assert await managed(scheduler) == {"sweep": "code"}


async def test_it_is_taken_over_when_that_is_asked_for_and_shown_before(
    scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await applied(tmp_path, take_over=True) == exits.OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["+ mine", "~ sweep"]
    assert "    managed: 'code' -> 'file'" in shown
    assert await managed(scheduler) == {"sweep": "code"}

    assert await applied(tmp_path, take_over=True, yes=True, json=True) == exits.OK
    document = json.loads(capsys.readouterr().out)
    assert (document["applied"], document["taken_over"], document["created"]) == (True, ["sweep"], ["mine"])
    assert await managed(scheduler) == {"mine": "file", "sweep": "file"}
    assert await applied(tmp_path) == exits.OK
    assert capsys.readouterr().out == "nothing to do: 2 unchanged\n"
