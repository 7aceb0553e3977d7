"""The commands that speak to a running server, from the command line to the journal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest_asyncio
from serving import LONG_S, Child, environment, serving

from timewheel.cli import exits


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Child]:
    async with serving(cwd=tmp_path) as child:
        yield child


async def timewheel(server: Child, *arguments: str, stdin: bytes = b"") -> Done:
    """Run a command against the server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "timewheel", *arguments, env=environment(TIMEWHEEL_URL=server.url),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin), LONG_S)
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


def write(path: Path, *jobs: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    return str(path)


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"task": "log.message", "args": [text], "delay_s": 3600, **more}


async def test_import_list_show_cancel(server: Child, tmp_path: Path) -> None:
    path = write(
        tmp_path / "jobs.jsonl", message("one", tags=["a"]), message("zwölf", idempotency_key="mine", retry=10)
    )
    done = await timewheel(server, "jobs", "import", path)
    assert done == (0, "2 created, 0 already there, 0 refused\n", "")
    [summary] = (await timewheel(server, "jobs", "import", path, "--json")).documents()
    assert summary == {"lines": 2, "created": 0, "existed": 2, "refused": [], "left": 0, "trouble": None}

    listed = await timewheel(server, "jobs", "list", "--json")
    first, second = listed.documents()
    assert {first["args"][0], second["args"][0]} == {"one", "zwölf"}
    tagged = (await timewheel(server, "jobs", "list", "--tag", "a", "--state", "scheduled", "--json")).documents()
    assert [job["args"] for job in tagged] == [["one"]]
    table = (await timewheel(server, "jobs", "list", "--limit", "1")).out
    assert table.splitlines()[0].split()[:3] == ["id", "task", "queue"]
    assert len(table.splitlines()) == 2

    shown = await timewheel(server, "jobs", "show", first["id"])
    assert f"id                {first['id']}\n" in shown.out
    [document] = (await timewheel(server, "jobs", "show", first["id"], "--json")).documents()
    assert document == {"job": {**document["job"], "id": first["id"]}, "attempts": []}

    cancelled = await timewheel(server, "jobs", "cancel", first["id"], "--reason", "no more")
    assert cancelled == (0, f"{first['id']} cancelled: it will never start\n", "")
    again = await timewheel(server, "jobs", "cancel", first["id"], "job-1", "--json")
    assert again.code == exits.DATA
    assert [told["answer"] for told in again.documents()] == ["too_late", "unknown"]
    missing = await timewheel(server, "jobs", "show", "job-1")
    assert (missing.code, missing.out) == (exits.DATA, "")


async def test_import_from_stdin_lists_what_was_refused(server: Child) -> None:
    lines = [message("good"), {"task": "nope"}, message("bad", priority=99), message("also good")]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = await timewheel(server, "jobs", "import", "-", stdin=stdin)
    assert done.code == exits.DATA
    assert done.out == "2 created, 0 already there, 2 refused\n"
    assert "line 2: task: no task is registered as 'nope'" in done.err
    assert "line 3: priority:" in done.err


async def test_import_goes_on_while_the_server_restarts(tmp_path: Path) -> None:
    """Killed in the middle: the lines that were sent and those that were not all end up as one job each."""
    path = write(tmp_path / "many.jsonl", *(message(str(number)) for number in range(6000)))
    async with serving(cwd=tmp_path) as first:
        port = first.url.rpartition(":")[2]
        importing = asyncio.create_task(timewheel(first, "jobs", "import", path, "--json"))
        async with httpx.AsyncClient(base_url=first.url, timeout=LONG_S) as client:
            while not (await client.get("/api/v1/jobs", params={"page_size": 1})).json()["items"]:
                assert not importing.done(), importing.result()
        first.signal(signal.SIGKILL)
        await first.end()
    async with serving("--port", port, cwd=tmp_path) as second:
        done = await importing
        assert done.code == 0, done
        [summary] = done.documents()
        assert summary["created"] + summary["existed"] == 6000
        [again] = (await timewheel(second, "jobs", "import", path, "--json")).documents()
        assert (again["created"], again["existed"]) == (0, 6000)
        listed = (await timewheel(second, "jobs", "list", "--limit", "0", "--json")).documents()
        assert sorted(int(job["args"][0]) for job in listed) == list(range(6000))
        second.signal(signal.SIGTERM)
        assert await second.end() == 0
        found = await timewheel(second, "verify", "--db", str(tmp_path / "timewheel.db"), "--json")
        assert (found.code, found.documents()[0]["findings"]) == (0, [])


async def test_a_reader_that_goes_away_is_no_error(server: Child, tmp_path: Path) -> None:
    path = write(tmp_path / "jobs.jsonl", *(message("x" * 1000) for _ in range(500)))
    await timewheel(server, "jobs", "import", path)
    command = f"{sys.executable} -m timewheel jobs list --limit 0 --json | head -1; exit ${{PIPESTATUS[0]}}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, env=environment(TIMEWHEEL_URL=server.url), stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), LONG_S)
    assert (process.returncode, len(out.splitlines()), err) == (0, 1, b"")


async def test_verify_works_beside_the_owner(server: Child, tmp_path: Path) -> None:
    done = await timewheel(server, "verify", "--db", str(tmp_path / "timewheel.db"))
    assert (done.code, done.out) == (0, "")
    assert "no findings" in done.err


async def test_ctrl_c_ends_an_import_with_what_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "jobs.jsonl", message("one"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "timewheel", "jobs", "import", path, "--url", "http://127.0.0.1:1", "--patience", "600",
        env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    assert b"waiting: no timewheel serve answers" in await asyncio.wait_for(process.stderr.readline(), LONG_S)
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), LONG_S)
    assert process.returncode == exits.INTERRUPTED
    assert out == b"0 created, 0 already there, 0 refused\n"
    assert err.startswith(b"interrupted; 1 line is left")
    assert b"Traceback" not in err
