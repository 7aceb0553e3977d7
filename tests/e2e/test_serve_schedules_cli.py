"""The commands about schedules against a real server that may run shell commands."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from serving import LONG_S, Child, environment, serving

from timewheel.cli import exits

pytestmark = pytest.mark.slow  # dozens of processes, and the same on every interpreter

SPAN = ("2026-01-05T00:00:00Z", "2026-01-05T03:00:00Z")
CRONTAB = """# a comment
SHELL=/bin/sh
PATH=/usr/bin:/bin
MAILTO=root
* * * * * * echo six fields
@reboot echo never
CRON_TZ=Asia/Tokyo
0 9 * * mon echo "$PATH" at $(date +\\%Y | wc -c)
@daily cat; exit 3%one%two
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Child]:
    async with serving("--allow-shell", cwd=tmp_path) as child:
        yield child


async def timewheel(server: Child, *arguments: str, stdin: str = "") -> Done:
    """Run a command against the server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "timewheel", *arguments, env=environment(TIMEWHEEL_URL=server.url, TZ="Europe/Berlin"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), LONG_S)
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def final(server: Child, job_id: str) -> dict[str, Any]:
    """A job, once it has ended."""
    while True:
        [shown] = (await timewheel(server, "jobs", "show", job_id, "--json")).documents()
        if shown["job"]["state"] in ("COMPLETED", "DEAD", "CANCELLED"):
            return shown["job"]  # type: ignore[no-any-return]


async def test_a_crontab_is_shown_then_made_then_run(server: Child, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text(CRONTAB)
    shown = await timewheel(server, "import", "crontab", str(path))
    assert shown.code == exits.DATA
    lines = shown.out.splitlines()
    assert [line for line in lines if "not converted:" in line] == [
        f"{path}:6: not converted: @reboot echo never: @reboot is no time: nothing is run at a boot; start the command "
        f"where you start timewheel"
    ]
    assert [line for line in lines if ": note:" in line] == [
        f"{path}:4: note: MAILTO=root: nothing is mailed: the output is kept with each job"
    ]
    assert "    0 9 * * MON: at 09:00, on Monday, in Asia/Tokyo" in lines
    assert "3 schedules, 1 line not converted" in lines
    assert (await timewheel(server, "schedules", "list")).err == "no schedule matches\n"

    made = await timewheel(server, "import", "crontab", str(path), "--apply", "--json")
    [document] = made.documents()
    assert (made.code, made.err, document["refused"]) == (exits.DATA, "", [])
    assert [one["result"] for one in document["schedules"]] == ["created"] * 3
    again = await timewheel(server, "import", "crontab", str(path), "--apply")
    assert again.out.splitlines()[-1] == "0 created, 0 updated, 3 unchanged, 0 refused, 1 not converted"

    monday, daily = (one["schedule"]["id"] for one in document["schedules"][1:])
    job = await final(server, (await timewheel(server, "schedules", "trigger", monday)).out.strip())
    assert job["result"] == {"exit_code": 0, "output": "/usr/bin:/bin at 5\n"}
    failed = await final(server, (await timewheel(server, "schedules", "trigger", daily)).out.strip())
    assert failed["state"] == "DEAD"
    assert failed["error"].splitlines()[0] == "timewheel.Transient: exit code 3: one"
    assert failed["attempt"] == 1


async def test_a_system_crontab_names_users(server: Child, tmp_path: Path) -> None:
    folder = tmp_path / "cron.d"
    folder.mkdir()
    (folder / "one").write_text("* * * * * nobody-at-all echo hi\n")
    (folder / "not.read").write_text("* * * * * root echo no\n")
    done = await timewheel(server, "import", "crontab", str(folder), "--json")
    [document] = done.documents()
    kept = [one["schedule"]["kwargs"] for one in document["schedules"]]
    left = [one["reason"] for one in document["not_converted"]]
    assert (kept, left) in (
        ([{"user": "nobody-at-all"}], []),  # as root: whether there is such a user is seen when it runs
        ([], ["it runs as nobody-at-all: only root may run commands as others"]),
    )
    assert "not.read: not read" in done.err


async def test_a_file_is_the_desired_set(server: Child, tmp_path: Path) -> None:
    path = tmp_path / "schedules.toml"
    calendar = '[[calendar]]\nname = "bank"\nexclude = [2026-12-25]\n'
    one = '[[schedule]]\nid = "one"\ntask = "log.message"\nargs = ["hi"]\nevery = "5m"\n'
    two = '[[schedule]]\nid = "two"\ntask = "log.message"\nargs = ["hi"]\ncron = "@daily"\ncalendar = "bank"\n'
    await timewheel(server, "schedules", "add", "log.message", "--arg", "hi", "--every", "60", "--id", "by-hand")

    path.write_text(calendar + one + two)
    asked = await timewheel(server, "schedules", "apply", str(path))
    assert asked == (0, "~ calendar bank\n+ one\n+ two\n", "nothing was applied; --yes applies it without asking\n")
    assert len((await timewheel(server, "schedules", "list", "--json")).documents()) == 1
    done = await timewheel(server, "schedules", "apply", str(path), "--yes")
    assert done.out.splitlines()[-1] == "2 created, 0 updated, 0 ended, 0 unchanged, 0 refused"
    again = await timewheel(server, "schedules", "apply", str(path))
    assert again == (0, "nothing to do: 2 unchanged\n", "")

    path.write_text(one.replace("5m", "10m") + "jitter_s = 3\n")
    changed = await timewheel(server, "schedules", "apply", str(path), "--yes")
    assert changed.out.splitlines() == [
        "~ one", "    every_s: 300.0 -> 600.0", "    jitter_s: 0.0 -> 3.0", "- two",
        "0 created, 1 updated, 1 ended, 0 unchanged, 0 refused",
    ]  # fmt: skip
    listed = (await timewheel(server, "schedules", "list", "--json")).documents()
    assert [(schedule["id"], schedule["managed"]) for schedule in listed] == [("by-hand", None), ("one", "file")]

    path.write_text(one + two.replace("bank", "nope"))
    refused = await timewheel(server, "schedules", "apply", str(path), "--yes")
    assert refused.code == exits.DATA
    assert "! two: calendar: no calendar is saved as 'nope'" in refused.out
    assert "nothing was applied" in refused.err
    [document] = (await timewheel(server, "schedules", "apply", str(path), "--yes", "--json")).documents()
    assert (document["applied"], len(document["refused"]), list(document["updated"])) == (False, 1, ["one"])
    path.write_text("[[schedule]]\n")
    bad = await timewheel(server, "schedules", "apply", str(path), "--yes")
    assert (bad.code, bad.out) == (exits.DATA, "")
    assert "number 1: it needs id" in bad.err

    other = tmp_path / "other.toml"  # a server has one file: what another one made is ended
    other.write_text(one.replace("one", "other"))
    assert (await timewheel(server, "schedules", "apply", str(other))).out == "+ other\n- one\n"


async def test_add_show_pause_preview_backfill_delete(server: Child) -> None:
    add = (
        *("schedules", "add", "log.message", "--id", "a b%", "--arg", "hello", "--kwarg", "n=7", "--cron", "0 * * * *"),
        *("--tz", "Asia/Tokyo", "--overlap", "ALLOW:3", "--attempts", "2", "--tag", "x", "--timeout", "5"),
        *("--rate-key", "r", "--cost", "3", "--expires-after", "60"),
    )
    dry = await timewheel(server, *add, "--dry-run")
    assert dry == (0, "a b% would be created\n", "")
    made = await timewheel(server, *add)
    assert made.out.splitlines()[0] == "a b% created"
    [shown] = (await timewheel(server, "schedules", "show", "a b%", "--json")).documents()
    schedule = shown["schedule"]
    assert (schedule["args"], schedule["kwargs"]) == (["hello"], {"n": 7})
    assert schedule["options"]["overlap"] == {"kind": "ALLOW", "limit": 3, "key": None}
    assert [schedule["options"][name] for name in ("rate_key", "cost", "expires_after_s")] == ["r", 3, 60.0]
    assert (await timewheel(server, *add, "--queue", "q")).out.startswith("a b% updated\n    queue: 'default' -> 'q'\n")

    assert (await timewheel(server, "schedules", "pause", "a b%", "--note", "audit")).out == "a b% is PAUSED\n"
    edited = await timewheel(server, *add, "--queue", "p")
    assert edited.out.splitlines()[-1] == "    it is PAUSED: audit"
    listed = await timewheel(server, "schedules", "list", "--state", "paused")
    assert "audit" in listed.out
    resumed = await timewheel(server, "schedules", "resume", "a b%", "nope")
    assert resumed.code == exits.DATA
    assert resumed.out.splitlines()[1] == "nope is not known here"

    preview = await timewheel(server, "schedules", "preview", "a b%", "-n", "2")
    assert len(preview.out.splitlines()) == 4
    rule = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2099-03-28T12:00:00Z", "-n", "1")
    assert "gap, instead of 2099-03-29T02:30:00" in (await timewheel(server, "schedules", "preview", *rule)).out
    both = await timewheel(server, "schedules", "preview", "x", *rule)
    assert (both.code, "not both: cron" in both.err) == (exits.USAGE, True)

    counted = await timewheel(server, "schedules", "backfill", "a b%", *SPAN)
    assert counted.out == "3 slots, 0 ran before, 3 jobs to make: --run makes them\n"
    run = await timewheel(server, "schedules", "backfill", "a b%", *SPAN, "--run")
    assert [line[:4] for line in run.out.splitlines()[1:]] == ["job-"] * 3
    forecast = await timewheel(server, "forecast", "--bucket", "3600")
    assert "a b% (1)" in forecast.out
    assert (await timewheel(server, "schedules", "delete", "a b%")).out == "a b% is deleted\n"
    assert (await timewheel(server, "schedules", "delete", "a b%")).code == exits.DATA
    assert (await timewheel(server, "schedules", "show", "a b%")).code == exits.DATA


async def test_calendars(server: Child) -> None:
    assert (await timewheel(server, "calendars", "list")).err == "no calendar is saved\n"
    put = ("calendars", "put", "bank days", "--exclude", "2026-12-25", "--exclude", "2026-12-28..2026-12-31")
    assert (await timewheel(server, *put, "--weekend", "fri,sat")).out == "bank days is saved\n"
    [shown] = (await timewheel(server, "calendars", "show", "bank days", "--json")).documents()
    assert shown["weekend"] == ["fri", "sat"]
    assert "2026-12-28 to 2026-12-31" in (await timewheel(server, "calendars", "show", "bank days")).out
    assert (await timewheel(server, "calendars", "show", "nope")).code == exits.DATA
    assert (await timewheel(server, *put, "--exclude", "nope")).code == exits.DATA


async def test_the_end_of_serve_ends_its_commands(server: Child, tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    command = f"trap '' TERM; echo $$ > {told}; while :; do sleep 0.1; done"
    await timewheel(server, "schedules", "add", "shell.run", "--id", "x", "--arg", command, "--every", "3600")
    await timewheel(server, "schedules", "trigger", "x")
    leader = int(await asyncio.wait_for(asyncio.to_thread(told.read_text), LONG_S))
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGTERM)  # ends the grace at once
    assert await server.end() == exits.OK
    stat = Path(f"/proc/{leader}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"  # of whoever adopted it
