"""The command line without a server: options, exit codes, the log's lines, and files to import."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from timewheel import errors
from timewheel.cli import exits, imports, main, output
from timewheel.cli.client import Answer, detail_of
from timewheel.cli.lines import MAX_LINE, Source, open_source
from timewheel.cli.logs import LineFormatter, one_line
from timewheel.cli.parser import parser
from timewheel.cli.parsing import age


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nope",),
        ("serve", "--port", "x"),
        ("serve", "--port", "٣"),
        ("serve", "--rate", "0"),
        ("serve", "--gra", "1"),
        ("serve", "--grace", "-1"),
        ("serve", "--grace", "nan"),
        ("serve", "--forget", "7d"),
        ("serve", "--forget", "active=7d"),
        ("serve", "--forget", "completed=d"),
        ("serve", "--forget", "completed=1w"),
        ("serve", "--forget", "dead=-5"),
        ("dlq",),
        ("dlq", "replay"),
        ("dlq", "discard"),
        ("dlq", "replay", "--reason", "r"),
        ("jobs", "retry", "x", "--reason", "r"),
        ("operations", "stop", "x"),
        ("queues", "set", "q", "--rate", "x"),
        ("queues", "set", "q", "--rate", "5/0"),
        ("queues", "set", "q", "--concurrency", "0"),
        ("queues", "set", "q"),
        ("queues", "set", "q", "--reason", "r"),
        ("queues", "set", "q", "--retry-budget", "x"),
        ("queues", "set", "q", "--retry-budget", "1.5"),
        ("queues", "set", "q", "--retry-budget", "nan"),
        ("queues", "set", "q", "--retry-budget", "0.2/0"),
        ("queues", "set", "q", "--retry-budget", "0.2/60+x"),
        ("queues", "show"),
        ("dependencies",),
        ("dependencies", "show"),
        ("dependencies", "history"),
        ("dependencies", "history", "a", "b"),
        ("dependencies", "open", "a"),
        ("dependencies", "close", "--reason", "r"),
        ("dependencies", "auto", "a"),
        ("jobs",),
        ("jobs", "show"),
        ("jobs", "list", "--state", "nope"),
        ("jobs", "list", "--limit", "-1"),
        ("jobs", "list", "--url", "ftp://x"),
        ("jobs", "list", "--url", "nonsense"),
        ("schedules",),
        ("schedules", "show"),
        ("schedules", "preview"),
        ("schedules", "preview", "x", "--cron", "@daily"),
        ("schedules", "add", "t", "--kwarg", "n"),
        ("schedules", "add", "t", "--overlap", "ALLOW:x"),
        ("schedules", "add", "t", "--gap", "nope"),
        ("schedules", "list", "--state", "nope"),
        ("schedules", "apply"),
        ("calendars", "put"),
        ("forecast", "--bucket", "x"),
        ("import", "crontab"),
        ("import", "crontab", "/dev/null", "--tz", "Europe/Berln"),
    ],
)
def test_bad_usage_is_64(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (exits.USAGE, "")
    assert err.startswith("timewheel: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("--nope",), "timewheel"),
        (("serve", "--nope"), "timewheel serve"),
        (("serve", "extra"), "timewheel serve"),
        (("serve", "--port", "x"), "timewheel serve"),
        (("verify", "--nope", "--json"), "timewheel verify"),
        (("jobs", "list", "--nope"), "timewheel jobs list"),
        (("jobs", "show", "job-1", "--nope"), "timewheel jobs show"),
    ],
)
def test_bad_usage_names_the_help_of_its_command(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], command: str
) -> None:
    assert f"(see {command} --help)" in run(capsys, *arguments)[2]


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("0.2", {"share": 0.2}),
        ("0.2/60", {"share": 0.2, "window_s": 60.0}),
        ("0+5", {"share": 0.0, "at_least": 5}),
        ("1/0.5+0", {"share": 1.0, "window_s": 0.5, "at_least": 0}),
        ("none", "none"),
    ],
)
def test_a_retry_budget_is_a_share_a_time_and_a_number(text: str, budget: Any) -> None:
    assert parser().parse_args(("queues", "set", "q", "--retry-budget", text)).retry_budget == budget


def test_help_and_version_are_0(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("--help",), ("serve", "--help"), ("jobs", "import", "--help"), ("--version",)):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert not end.value.code
    assert "timewheel" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list"),
        ("jobs", "show", "job-1"),
        ("jobs", "cancel", "job-1"),
        ("jobs", "list", "--json"),
        ("schedules", "list"),
        ("schedules", "show", "x"),
        ("schedules", "add", "t", "--every", "5"),
        ("schedules", "pause", "x"),
        ("schedules", "delete", "x"),
        ("schedules", "trigger", "x"),
        ("schedules", "preview", "--cron", "@daily"),
        ("schedules", "backfill", "x", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("calendars", "list"),
        ("calendars", "put", "x"),
        ("forecast",),
        ("queues", "show", "q"),
        ("dependencies", "ls"),
        ("dependencies", "show", "a"),
        ("dependencies", "history", "a"),
        ("dependencies", "open", "a", "--reason", "r"),
    ],
)
def test_no_server_is_69(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments, "--url", "http://127.0.0.1:1")
    assert (code, out) == (exits.UNAVAILABLE, "")
    assert "no timewheel serve answers at http://127.0.0.1:1" in err


def test_the_environment_names_the_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMEWHEEL_URL", "http://127.0.0.1:2")
    assert "http://127.0.0.1:2" in run(capsys, "jobs", "list")[2]


def test_a_missing_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("timewheel.cli.jobs", "timewheel.cli.client"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    code, _, err = run(capsys, "jobs", "list")
    assert code == exits.UNAVAILABLE
    assert "pip install 'timewheel-jobs[serve]'" in err


def test_version_and_usage_need_no_extra() -> None:
    """The core alone is installed: nothing of serve may be imported before it is needed."""
    heavy = ("fastapi", "aiohttp", "uvicorn", "rich", "prometheus_client")
    code = f"import sys; from timewheel.cli.parser import parser; parser(); print(set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("command", [("import", "crontab"), ("schedules", "apply")])
def test_a_file_that_cannot_be_read_is_65(
    capsys: pytest.CaptureFixture[str], command: tuple[str, str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, *command, str(tmp_path / "nope"))
    assert (code, out) == (exits.DATA, "")
    assert "nope cannot be read: No such file or directory" in err


def test_an_anacrontab_is_no_crontab(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "anacrontab").write_text("1 5 cron.daily run-parts /etc/cron.daily\n")
    code, out, err = run(capsys, "import", "crontab", str(tmp_path / "anacrontab"))
    assert (code, out) == (exits.DATA, "")
    assert "an anacrontab is no crontab" in err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("etc/crontab", "as root: echo hi"),
        ("cron.d/x", "as root: echo hi"),
        ("mine", "root echo hi"),
        ("spool/cron/crontabs/root", "as root: root echo hi"),
    ],
)
def test_where_a_crontab_lies_says_whose_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, said: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("0 0 * * * root echo hi\n")
    assert f"\n    {said}\n" in run(capsys, "import", "crontab", str(path))[1]
    assert "\n    as root: echo hi\n" in run(capsys, "import", "crontab", str(path), "--system")[1]


def test_times_count_in_the_zone_of_this_machine_unless_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine"
    path.write_text("0 0 * * * echo hi\n")
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert "in Asia/Tokyo" in run(capsys, "import", "crontab", str(path))[1]
    assert "in Europe/Paris" in run(capsys, "import", "crontab", str(path), "--tz", "Europe/Paris")[1]
    monkeypatch.setenv("TZ", "<+03>-3")
    code, _, err = run(capsys, "import", "crontab", str(path))
    assert code == exits.USAGE
    assert "--tz" in err


def test_an_error_of_ours_is_70(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(options: object) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr("timewheel.cli.parser._run_verify", broken)
    code, _, err = run(capsys, "verify")
    assert code == exits.SOFTWARE
    assert "RuntimeError: a bug" in err


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("timewheel.cli.parser._run_verify", interrupted)
    assert run(capsys, "verify") == (exits.INTERRUPTED, "", "")


PATH = {"path": "j.db"}


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "starting", "code"),
    [
        (errors.JournalOwned("x", **PATH), True, 75),
        (errors.JournalBusy("x", **PATH), True, 75),
        (errors.JournalCorrupt("x", **PATH), True, 65),
        (errors.JournalTruncated("x", missing=(1, 2), **PATH), True, 65),
        (errors.JournalNewer("x", **PATH), True, 65),
        (errors.JournalUnsafe("x", **PATH), True, 71),
        (errors.JournalFull("x", **PATH), False, 74),
        (errors.JournalUnknown("x", **PATH), False, 74),
        (errors.JournalUnavailable("x", **PATH), True, 73),
        (errors.JournalUnavailable("x", **PATH), False, 74),
        (caused(errors.JournalUnavailable("x", **PATH), PermissionError(errno.EACCES, "no")), True, 77),
        (errors.SchedulerFailed("x", cause=errors.JournalUnknown("x", **PATH)), False, 74),
        (errors.InvalidOption("x"), True, 64),
        (OSError(errno.EMFILE, "too many"), True, 71),
        (OSError(errno.ENOENT, "no such"), True, 73),
        (PermissionError(errno.EPERM, "no"), False, 77),
        (RuntimeError("x"), True, 70),
    ],
)
def test_exit_codes(error: Exception, starting: bool, code: int) -> None:
    assert exits.code_of(error, starting=starting) == code


# ---- the log ---------------------------------------------------------------------------------------------------------


def test_a_record_is_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "a\r\nb \x1b[31m%s", ("c\u2028d",), sys.exc_info())
    record.job_id, record.attempt = "job-1", 2
    record.created = 0.25
    record.msecs = 250.0
    line = LineFormatter().format(record)
    assert line.startswith(
        "1970-01-01T00:00:00.250Z ERROR n a\\r\\nb \\x1b[31mc\\u2028d job_id=job-1 attempt=2 Traceback"
    )
    assert "\n" not in line
    assert "ValueError: two\\nlines" in line


def test_one_line_leaves_other_letters_alone() -> None:
    assert one_line("grüß 日本 \t\x9b\ud800") == "grüß 日本 \\t\\x9b\\ud800"


# ---- what is printed -------------------------------------------------------------------------------------------------


def test_what_comes_from_a_job_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("id", "why"), [("job-1", "[red]x[/red] \x1b[2J\nnew line")])
    output.facts({"error": "first \x1b[2J\nsecond", "n": 1})
    shown = capsys.readouterr().out
    assert "[red]x[/red] \\x1b[2J\\nnew line" in shown
    assert shown.endswith("error  first \\x1b[2J\n       second\nn      1\n")


def test_a_table_in_a_pipe_is_cut_nowhere_and_padded_little(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("id", "task", "why"), [("job-1", "t" * 200, None), ("job-2", "short", "e" * 500)])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == f"id     task{' ' * 36}  why"
    assert first == f"job-1  {'t' * 200}"
    assert second == f"job-2  short{' ' * 35}  {'e' * 500}"


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.json_line({"a": "x\ny", "ü": None})
    assert capsys.readouterr().out == '{"a":"x\\ny","ü":null}\n'


def test_a_problem_in_words() -> None:
    assert (
        detail_of({"errors": [{"field": "a.b", "message": "is bad"}, {"field": None, "message": "m"}]}, "")
        == "a.b: is bad; m"
    )
    assert detail_of({"detail": "d", "title": "t"}, "") == "d"
    assert detail_of("a proxy's page", "otherwise") == "otherwise"


# ---- files to import -------------------------------------------------------------------------------------------------


def source(text: str | bytes) -> Source:
    return Source(io.BytesIO(text.encode() if isinstance(text, str) else text))


def test_lines_get_keys_of_the_file_and_their_number() -> None:
    text = '{"task":"a"}\n\n   \n{"task":"b","idempotency_key":"mine"}\r\n{"task":"c"}'
    jobs = source(text)
    assert jobs.check() == []
    assert jobs.jobs == 3
    [batch] = jobs.batches(500, 10**6)
    keys = [(line.number, line.job["task"], line.job["idempotency_key"]) for line in batch]
    sha = jobs.sha256
    assert keys == [(1, "a", f"import:{sha}:1"), (4, "b", "mine"), (5, "c", f"import:{sha}:5")]
    import hashlib

    assert sha == hashlib.sha256(text.encode()).hexdigest()


def test_batches_are_bounded_by_number_and_size() -> None:
    jobs = source('{"task":"a"}\n' * 10)
    jobs.check()
    assert [len(batch) for batch in jobs.batches(4, 10**6)] == [4, 4, 2]
    assert [len(batch) for batch in jobs.batches(100, 26)] == [2] * 5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{nope", "not usable JSON"),
        ("[1]", "not a JSON object"),
        ('"x"', "not a JSON object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": ' + "[" * 120 + "]" * 120 + "}", "levels"),
        ('{"a": "' + "x" * MAX_LINE + '"}', "more than"),
        ('{"a": "' + "x" * MAX_LINE * 3 + '"}', "more than"),
        (b'{"a": "\xff"}', "utf-8"),
    ],
)
def test_bad_lines_are_found_before_anything_is_sent(line: str | bytes, why: str) -> None:
    raw = line.encode() if isinstance(line, str) else line
    [refusal] = source(b'{"task":"a"}\n' + raw + b'\n{"task":"b"}\n').check()
    assert refusal.line == 2
    assert why in refusal.reason


@pytest.mark.parametrize(("line", "column"), [("{nope", 2), ('{"a', 2), ('{"a": "', 7), ('  {"a": ]}  ', 9)])
def test_a_fault_in_a_line_says_the_column_only(line: str, column: int) -> None:
    [refusal] = source(f'{{"task":"a"}}\n{line}\n').check()
    assert refusal.reason.endswith(f" at column {column}")
    assert " at at " not in refusal.reason
    assert "line" not in refusal.reason


def test_an_empty_file() -> None:
    jobs = source("")
    assert jobs.check() == []
    assert list(jobs.batches(500, 10**6)) == []


def test_stdin_can_be_read_twice() -> None:
    with open_source("-", io.BytesIO(b'{"task":"a"}\n')) as jobs:
        assert jobs.check() == []
        assert len(next(jobs.batches(1, 10**6))) == 1


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name, code in ((tmp_path / "missing", exits.DATA), (tmp_path, exits.DATA)):
        with pytest.raises(exits.Exit) as end:
            open_source(str(name), io.BytesIO())
        assert end.value.code == code


def test_verify_without_a_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "verify", "--db", str(tmp_path / "x.db"))
    assert (code, out) == (exits.DATA, "")
    assert "does not exist" in err


@pytest.mark.parametrize(("number", "said"), [(0, "no findings"), (1, "1 finding"), (2, "2 findings")])
def test_verify_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, said: str
) -> None:
    monkeypatch.setattr("timewheel.cli.verify.audit", lambda path: ["wrong"] * number)
    (tmp_path / "x.db").touch()
    assert run(capsys, "verify", "--db", str(tmp_path / "x.db"))[2].endswith(f"x.db: {said}\n")


def test_import_of_a_broken_file_sends_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"task":"a"}\n{nope\n')
    code, out, err = run(capsys, "jobs", "import", str(path), "--url", "http://127.0.0.1:1", "--patience", "0")
    assert code == exits.DATA
    assert "line 2: " in err
    assert "nothing was imported" in err
    assert out == "0 created, 0 already there, 1 refused\n"
    code, out, _ = run(capsys, "jobs", "import", str(path), "--url", "http://127.0.0.1:1", "--json")
    summary = json.loads(out)
    assert (code, summary["refused"][0]["line"], summary["left"]) == (exits.DATA, 2, 1)


def test_import_without_a_server_says_what_is_left(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"task":"a"}\n' * 3)
    code, out, err = run(capsys, "jobs", "import", str(path), "--url", "http://127.0.0.1:1", "--patience", "0")
    assert code == exits.UNAVAILABLE
    assert "3 lines are left; run the same command again" in err
    assert out == "0 created, 0 already there, 0 refused\n"


def test_patience_that_ends_does_not_repeat_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"task":"a"}\n')
    code, _, err = run(capsys, "jobs", "import", str(path), "--url", "http://127.0.0.1:1", "--patience", "0.3")
    assert code == exits.UNAVAILABLE
    assert err.splitlines()[0].startswith("waiting: no timewheel serve answers")
    assert err.splitlines()[1:] == [
        "that lasted longer than the --patience of 0.3 s; 1 line is left; "
        "run the same command again to go on: no job is made twice"
    ]


class Accepting:
    """Stands for the client of a server that makes a job of every line, after a while."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __aenter__(self) -> Accepting:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def post_patiently(self, path: str, body: Any, *_: Any) -> Answer:
        await asyncio.sleep(0)
        return Answer(200, {"results": [{"status": 201, "created": True}] * len(body["jobs"])})


async def test_progress_counts_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches are under way at once, and each tells how far all of them are."""
    monkeypatch.setattr(imports, "Client", Accepting)
    lines = imports.BATCH_JOBS * imports.AT_ONCE * 2 + 7
    shown: list[int] = []
    with Source(io.BytesIO(b"{}\n" * lines)) as source:
        assert source.check() == []
        await imports._send_all(Namespace(url="", patience=1.0), source, imports.Tally(), shown.append)
    assert shown == sorted(shown)
    assert (len(shown), shown[-1]) == (2 * imports.AT_ONCE + 1, lines)


class Away(Accepting):
    """A server that was away when it was asked first."""

    async def post_patiently(
        self, path: str, body: Any, patience_s: float, waiting: Callable[[Answer], None] = print
    ) -> Answer:
        if not self.asked:
            self.asked = True
            waiting(Answer(503, {"detail": "nobody answers"}))
        return await super().post_patiently(path, body)

    asked = False


async def test_without_a_terminal_an_import_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imports, "Client", Away)
    monkeypatch.setattr(imports, "LINE_EVERY_S", 0.0)
    lines = imports.BATCH_JOBS * (imports.AT_ONCE + 1)
    with Source(io.BytesIO(b"{}\n" * lines)) as source:
        assert source.check() == []
        options = Namespace(url="", patience=1.0, json=False)
        assert await imports._import(options, source, imports.Tally()) == exits.OK
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["waiting: nobody answers", "the server answers again; going on"]
    assert said[2:] == [f"imported {500 * number:,} of {lines:,}" for number in range(1, imports.AT_ONCE + 1)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [("completed=7d", ("completed_s", 604_800)), ("dead=0", ("dead_s", 0)), ("discarded=90m", ("discarded_s", 5_400))],
)
def test_ages_have_units(text: str, kept: tuple[str, float]) -> None:
    assert age(text) == kept
