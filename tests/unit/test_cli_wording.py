"""What the commands and alarms say of what a server answered: one is one job, and not one jobs."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from timewheel.alerting import DeadLetterAlert
from timewheel.checks import counted
from timewheel.cli import forecast, imports, letters, main, schedules
from timewheel.cli.client import Answer
from timewheel.cli.lines import Source

T0 = "2026-01-05T00:00:00Z"


def test_a_noun_follows_its_number() -> None:
    assert [counted(number, "job") for number in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: ModuleType, body: Any, *command: str
) -> tuple[str, str]:
    """What a command prints when a server answers `body`, whatever it is asked."""

    class Answering:
        def __init__(self, _: str) -> None: ...

        async def __aenter__(self) -> Answering:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def get(self, _: str, __: Any = None) -> Answer:
            return Answer(200, body)

        post = get

    monkeypatch.setattr(module, "Client", Answering)
    assert main(command) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize(
    ("slots", "made", "run", "line"),
    [
        (1, 1, (), "1 slot, 0 ran before, 1 job to make: --run makes them\n"),
        (2, 2, (), "2 slots, 0 ran before, 2 jobs to make: --run makes them\n"),
        (0, 0, (), "0 slots, 0 ran before, 0 jobs to make\n"),
        (1, 1, ("--run",), "1 slot, 0 ran before, 1 job made\n"),
    ],
)
def test_a_backfill(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    slots: int,
    made: int,
    run: tuple[str, ...],
    line: str,
) -> None:
    body = {"slots": slots, "already_ran": 0, "made": made, "job_ids": []}
    out, _ = said(monkeypatch, capsys, schedules, body, "schedules", "backfill", "x", T0, T0, *run)
    assert out == line


def test_a_preview(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"at": T0, "local": "2026-01-05T03:00:00", "nominal": "2026-01-05T02:30:00", "scheduled_at": T0}
    run |= {"reason": None, "count": 1, "notes": ["gap"]}
    runs = [run, run | {"reason": "past", "scheduled_at": None}, run | {"reason": "gap", "count": 1, "notes": []}]
    body = {"in_words": "daily", "items": [*runs, runs[2] | {"count": 2}]}
    out, _ = said(monkeypatch, capsys, schedules, body, "schedules", "preview", "x")
    assert [line.split("  ")[-1].strip() for line in out.splitlines()[2:]] == [
        "gap, instead of 2026-01-05T02:30:00", "past, gap, instead of 2026-01-05T02:30:00", "left out: gap",
        "2 times left out: gap",
    ]  # fmt: skip


@pytest.mark.parametrize(("jobs", "words"), [(1, "1 job from"), (2, "2 jobs from")])
def test_a_forecast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: int, words: str) -> None:
    nothing: Mapping[str, Any] = {"buckets": [], "peaks": [], "complete": True, "unknown": []}
    body = {**nothing, "jobs": jobs, "overdue": jobs, "start": T0, "end": T0, "bucket_s": 60.0}
    out, err = said(monkeypatch, capsys, forecast, body, "forecast")
    assert out.startswith(words)
    assert err == f"{jobs} more {'is' if jobs == 1 else 'are'} overdue\n"


@pytest.mark.parametrize(("matched", "words"), [(1, "1 dead letter matches"), (4, "4 dead letters match")])
def test_dead_letters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], matched: int, words: str
) -> None:
    command = ("dlq", "discard", "--reason", "x", "--task", "t")
    out, _ = said(monkeypatch, capsys, letters, {"matched": matched, "state": "DONE"}, *command)
    assert out == f"{words}: --yes does it\n"


def test_refused_lines(capsys: pytest.CaptureFixture[str]) -> None:
    refused = [imports.Refusal(number, "bad") for number in range(imports.SHOWN_REFUSALS + 1)]
    with Source(io.BytesIO()) as source:
        imports._report(Namespace(json=False), source, imports.Tally(refused=refused), "stopped")
    assert "... and 1 more line; --json lists them all" in capsys.readouterr().err.splitlines()


def test_alarms() -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    texts = [DeadLetterAlert("rate", True, 1, 1, at).text, DeadLetterAlert("size", True, 1, 1, at).text]
    assert texts == ["1 job died in the last minute: at the bound of 1", "1 dead letter: at the bound of 1"]
