"""`serve` that cannot start: the exit code, one line that says why, and nothing touched."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from timewheel.cli import exits, main
from timewheel.scheduler import Scheduler

Serve = Callable[..., tuple[int, str]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Serve]:
    """Runs `serve` in an empty folder; gives the exit code and what it said."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "its_jobs.py").write_text("not_one = 7\n")
    (tmp_path / "work" / "broken_jobs.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [*sys.path])
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["serve", "--port", "0", *arguments])
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return code, captured.err

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("its_jobs", "broken_jobs"):
        sys.modules.pop(name, None)


def test_a_port_in_use_is_71_and_leaves_the_journal_alone(serve: Serve) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, said = serve("--port", str(port))
    assert code == exits.SYSTEM
    assert f"port {port} cannot be used" in said
    assert list(Path().glob("timewheel.db*")) == []


@pytest.mark.parametrize("content", [b"", b"no database, but long enough " * 200, b"SQLite format 3\0" + b"\0" * 4096])
def test_a_file_that_is_no_journal_is_65_and_stays_as_it_was(serve: Serve, content: bytes) -> None:
    Path("timewheel.db").write_bytes(content)
    code, said = serve()
    assert code == exits.DATA
    assert "timewheel.db" in said
    assert Path("timewheel.db").read_bytes() == content


def test_a_foreign_database_is_65(serve: Serve) -> None:
    other = sqlite3.connect("timewheel.db")
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    assert serve()[0] == exits.DATA


def test_an_owned_journal_is_75_and_says_what_serve_can_do(serve: Serve) -> None:
    with Scheduler("sqlite:///timewheel.db").blocking:
        code, said = serve()
    assert code == exits.OWNED
    assert said.startswith(f"timewheel: timewheel.db is owned by process {os.getpid()} on ")
    assert said.endswith(": stop that process, or name another journal with --db\n")
    assert "when_owned" not in said


def test_a_missing_folder_is_73(serve: Serve) -> None:
    code, said = serve("--db", "no/such/folder/x.db")
    assert code == exits.CANNOT_CREATE
    assert "no/such/folder" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com", "127.0.0.1.example.com", ""])
def test_other_hosts_than_loopback_are_64(serve: Serve, host: str) -> None:
    code, said = serve("--host", host)
    assert code == exits.USAGE
    assert "authentication" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--app", "nowhere:scheduler"], exits.UNAVAILABLE, "cannot be imported"),
        (["--app", "broken_jobs:scheduler"], exits.UNAVAILABLE, "ZeroDivisionError"),
        (["--app", "its_jobs:missing"], exits.UNAVAILABLE, "cannot be imported"),
        (["--app", "its_jobs:not_one"], exits.USAGE, "not a Scheduler"),
        (["--app", "its_jobs"], exits.USAGE, "module:scheduler"),
        (["--app", "its_jobs:scheduler", "--db", "x.db"], exits.USAGE, "--db"),
        (
            ["--app", "its_jobs:scheduler", "--rate", "5", "--durability", "power"],
            exits.USAGE,
            "--rate and --durability",
        ),
        (["--allow-http", "http://x/"], exits.USAGE, "is not a host"),
        (["--concurrency", "1000000"], exits.USAGE, "concurrency"),
        (["--port", "70000"], exits.USAGE, "--port"),
        (["--durability", "hope"], exits.USAGE, "--durability"),
        (["--nope"], exits.USAGE, "--nope"),
    ],
)
def test_usage_and_dependencies(serve: Serve, arguments: list[str], code: int, words: str) -> None:
    found, said = serve(*arguments)
    assert found == code
    assert words in said
