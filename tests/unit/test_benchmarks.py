"""Every benchmark runs at a tiny size, gives the rows it promises, and the table has a line for each. Nothing here is
about speed.
"""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import burst, lag, limits, machine, restart, schedules, table, throughput, wheel

MACHINE = {"cpu", "cores", "load", "system", "python", "sqlite", "uvloop", "filesystem"}


def only_keys(rows):
    keys = {tuple(row) for row in rows}
    assert len(keys) == 1, keys
    return set(keys.pop())


def lines_of(name, rows):
    lines = list(table.LINES[name](rows))
    assert all(line.question and line.figure and line.compared for line in lines)
    return lines


def test_throughput(tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "tune_process", lambda: None)  # the process is pytest's
    pytest.importorskip("apscheduler")
    pytest.importorskip("sqlalchemy")
    rows = throughput.measure(throughput.Sizes(3, 110, 40, 3, 1), tmp_path)
    assert only_keys(rows) == {
        "system", "callers", "concurrency", "jobs", "jobs_per_s", "acks_per_s", "cpu_us", "times_apscheduler", "tuned",
    }  # fmt: skip
    assert [row["callers"] for row in rows] == [1, 100, 1_000, "at_many", 1_000, "at_many", "-", "-", 1_000, "at_many"]
    assert all(row["jobs_per_s"] > 0 for row in rows)
    lines = lines_of("throughput", rows)
    assert [bool(line.met) for line in lines] == [False, False, *[True] * 6]


def test_throughput_without_apscheduler(tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "tune_process", lambda: None)
    monkeypatch.setitem(sys.modules, "apscheduler.schedulers.asyncio", None)
    monkeypatch.setattr(throughput, "timewheel_row", lambda folder, callers, *_: {
        "system": "timewheel", "callers": callers or "at_many", "concurrency": 5, "jobs": 1,
        "jobs_per_s": 30_000, "acks_per_s": 1, "cpu_us": 1,
    })  # fmt: skip
    rows = throughput.measure(throughput.Sizes(1, 1, 1, 1, 1), tmp_path)
    lines = lines_of("throughput", rows)
    assert {line.compared for line in lines} == {"APScheduler: not installed"}
    assert [line.aim for line in lines] == ["", "", *["aim 20,000/s"] * 6]
    assert [line.met for line in lines] == ["", "", *["yes"] * 6]


def test_limits(tmp_path):
    rows = limits.measure(limits.Sizes(150, 20, 1_000, 1), tmp_path)
    assert only_keys(rows) == {"limit", "jobs", "jobs_per_s", "cpu_us", "ratio", "cpu_ratio"}
    assert [row["limit"] for row in rows] == [*limits.CASES, limits.TOLD]
    assert rows[0]["ratio"] == rows[0]["cpu_ratio"] == 1
    lines = lines_of("limits", rows)
    assert len(lines) == len(rows) - 1


def test_lag(tmp_path):
    rows = lag.measure(lag.Sizes(0.2, 1.5, 4, jobs_per_s=100), tmp_path)
    assert only_keys(rows) == {"what", "samples", "p50_ms", "p99_ms", "max_ms", "aim_p99_ms", "met"}
    assert [row["samples"] for row in rows] == [20, 20, 4]
    assert len(lines_of("lag", rows)) == 1


def test_restart(tmp_path):
    rows = restart.measure(restart.Sizes((30,), 1, 0.0), tmp_path)
    assert only_keys(rows) == {
        "pending", "file_mib", "running_s", "first_job_s", "cold_s", "memory_mib", "import_mib", "met",
    }  # fmt: skip
    assert rows[0]["pending"] == 30
    assert not list(tmp_path.iterdir()), "the journals are left behind"
    assert len(lines_of("restart", rows)) == 1


def test_burst(tmp_path):
    rows = burst.measure(burst.Sizes(50, 2.5, 1, (7,)), tmp_path)
    assert only_keys(rows) == {
        "jobs", "concurrency", "drain_s", "jobs_per_s", "gap_ms", "idle_gap_ms", "memory_mib", "met",
    }  # fmt: skip
    assert [row["concurrency"] for row in rows] == [7]
    assert len(lines_of("burst", rows)) == 1


def test_schedules(tmp_path):
    rows = schedules.measure(schedules.Sizes(30, 1, 3), tmp_path)
    assert only_keys(rows) == {"what", "schedules", "made_s", "gap_ms", "idle_gap_ms", "times", "met"}
    assert [row["what"] for row in rows] == [
        "one-shot", "schedules", "schedules, run", "start, empty", "start, one-shot", "start, schedules",
        "start, overdue",
    ]  # fmt: skip
    assert all(row["made_s"] > 0 for row in rows)
    assert {row["schedules"] for row in rows} == {30}
    assert [bool(line.met) for line in lines_of("schedules", rows)] == [True, True, False, False]


def test_wheel():
    rows = [wheel.measure(make, 1_000) for make in (wheel.OneByOne, wheel.Pages, wheel.Heap, wheel.Loop)]
    assert only_keys(rows) == {
        "structure", "entries", "insert_ns", "fire_ns", "bytes_an_entry", "longest_call_ms",
    }  # fmt: skip
    assert len(lines_of("wheel", rows)) == 1


def test_the_table_and_the_json(tmp_path, monkeypatch, capsys):
    rows = [{"what": what, "samples": 1, "p50_ms": 1, "p99_ms": 2, "max_ms": 3, "aim_p99_ms": 4, "met": True}
            for what in ("start_lag", "floor", "fsync")]  # fmt: skip
    monkeypatch.setattr(command, "run_apart", lambda name, asked: rows)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "lag", "--dir", str(tmp_path), "--json", f"{tmp_path}/j"])
    command.main()
    first, blank, *lines = capsys.readouterr().out.splitlines()
    assert "Python" in first
    assert not blank
    assert {line.count("|") for line in lines} == {len(table.COLUMNS) + 1}
    assert lines[-1].endswith("| yes |")
    written = json.loads((tmp_path / "j").read_text())
    assert written["machine"].keys() == MACHINE
    assert written["rows"] == {"lag": rows}
    assert [path.name for path in tmp_path.iterdir()] == ["j"], "the folder for journals is left behind"


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)])
def test_percentiles_are_values_that_were_seen(share, value):
    assert machine.percentile(range(100, 0, -1), share) == value
