"""What the rows of all benchmarks come to: a Markdown table, one line a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.burst import AIM_GAP_MS
from benchmarks.restart import AIM_BYTES, AIM_S
from benchmarks.schedules import AIM_MADE_S, BESIDE
from benchmarks.throughput import times

Row = dict[str, Any]

AIM_JOBS_PER_S = 20_000
AIM_TIMES = 40
AIM_CALLERS = (1_000, "at_many")
AIM_PENDING = 1_000_000


class Line(NamedTuple):
    """One line; `met` is "yes", "no", or "" where nothing was aimed at."""

    question: str
    figure: str
    compared: str
    aim: str
    met: str = ""


COLUMNS = Line("question", "figure", "compared with", "ratio or aim", "met?")


def wheel_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """What a timer costs, beside heapq and the loop."""
    for entries in sorted({row["entries"] for row in rows}):
        ours, *others = (row for row in rows if row["entries"] == entries and row["structure"] != "wheel.extend")
        fewer = (f"{other['bytes_an_entry'] / ours['bytes_an_entry']:.1f}" for other in others)
        yield Line(
            f"a timer in the wheel, {entries:,} of them",
            _timer(ours),
            "; ".join(f"{other['structure']}: {_timer(other)}" for other in others),
            f"{' and '.join(fewer)} times fewer bytes",
        )


def _timer(row: Row) -> str:
    costs = f"insert {row['insert_ns']:,} ns, fire {row['fire_ns']:,} ns, {row['bytes_an_entry']} B"
    return f"{costs}, longest call {row['longest_call_ms']} ms"


def throughput_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """Jobs a second, beside APScheduler as its users find it, and in WAL mode."""
    others = [row for row in rows if row["system"] != "timewheel"]
    for row in rows:
        if row["system"] == "timewheel":
            yield _throughput(row, others)


def _throughput(row: Row, others: Sequence[Row]) -> Line:
    callers = {"at_many": "at_many", 1: "1 caller"}.get(row["callers"]) or f"{row['callers']:,} callers"
    ratios = [times(row, other) for other in others]
    aim, met = " and ".join(f"{ratio:,} times" for ratio in ratios), ""
    if row["callers"] in AIM_CALLERS:
        aim += f"; aim {AIM_JOBS_PER_S:,}/s" + (f" and {AIM_TIMES} times" if ratios else "")
        met = yes(row["jobs_per_s"] >= AIM_JOBS_PER_S and all(ratio >= AIM_TIMES for ratio in ratios[:1]))
    return Line(
        f"durable jobs, {callers}, concurrency {row['concurrency']:,}{', tuned' if row['tuned'] else ''}",
        f"{row['jobs_per_s']:,}/s scheduled and run; {row['acks_per_s']:,}/s only scheduled; {row['cpu_us']} µs CPU",
        "; ".join(f"{other['system']}: {other['jobs_per_s']:,}/s" for other in others) or "APScheduler: not installed",
        aim.removeprefix("; "),
        met,
    )


def lag_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """The lag, beside the floor and fsync."""
    ours, *others = rows
    yield Line(
        "start lag, 1,000 jobs/s",
        _lag(ours),
        "; ".join(f"{other['what']} {_lag(other)}" for other in others),
        f"p99 ≤ {ours['aim_p99_ms']} ms (2 ms + fsync p99)",
        yes(ours["met"]),
    )


def _lag(row: Row) -> str:
    return f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms, max {row['max_ms']} ms"


def restart_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """How long until the first job runs, and the memory."""
    for row in rows:
        judged = row["pending"] >= AIM_PENDING
        yield Line(
            f"restart, {row['pending']:,} pending ({row['file_mib']:,} MiB)",
            f"running after {row['running_s']} s, first job after {row['first_job_s']} s, {row['memory_mib']} MiB",
            f"import alone: {row['import_mib']} MiB; cold file: running after {row['cold_s']} s",
            f"first job < {AIM_S:g} s, < {AIM_BYTES // 10**6} MB" if judged else "",
            yes(row["met"]) if judged else "",
        )


def burst_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """The drain, the gap, the memory."""
    for row in rows:
        yield Line(
            f"{row['jobs']:,} jobs due in one second, concurrency {row['concurrency']:,}",
            f"drained in {row['drain_s']} s; longest loop gap {row['gap_ms']} ms; {row['memory_mib']:+} MiB",
            f"longest gap of the idle loop: {row['idle_gap_ms']} ms",
            f"gap < {AIM_GAP_MS} ms",
            yes(row["met"]),
        )


def schedules_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """Planning and starting, beside as many one-shot jobs."""
    by_name = {row["what"]: row for row in rows}
    for what, row in by_name.items():
        if what not in BESIDE:
            continue
        beside, judged = by_name[BESIDE[what]], row["met"] != "-"
        yield Line(
            _SCHEDULES[what].format(f"{row['schedules']:,}"),
            _made(row),
            f"{beside['what']}: {_made(beside)}; longest gap of the idle loop: {row['idle_gap_ms']} ms",
            f"{row['times']} times" + (f"; aim {AIM_MADE_S:g} s, gap ≤ {AIM_GAP_MS} ms" if judged else ""),
            yes(row["met"]) if judged else "",
        )


_SCHEDULES = {
    "schedules": "{} schedules due in one second, until their jobs are on disk",
    "schedules, run": "the same, while these jobs run",
    "start, schedules": "start with {} schedules",
    "start, overdue": "start with {} missed slots, until their jobs are on disk",
}


def _made(row: Row) -> str:
    return f"{row['made_s']} s, longest loop gap {row['gap_ms']} ms"


def limits_lines(rows: Sequence[Row]) -> Iterable[Line]:
    """The cost of each limit, beside none."""
    none, *limited = rows
    for row in limited:
        yield Line(
            f"durable jobs, at_many, with {row['limit']}",
            f"{row['jobs_per_s']:,}/s scheduled and run; {row['cpu_us']} µs CPU",
            f"{none['limit']}: {none['jobs_per_s']:,}/s; {none['cpu_us']} µs CPU",
            f"{row['ratio']} of the speed, {row['cpu_ratio']} by CPU",
        )


def yes(met: bool) -> str:
    """In words."""
    return "yes" if met else "no"


LINES: dict[str, Callable[[Sequence[Row]], Iterable[Line]]] = {
    "wheel": wheel_lines,
    "throughput": throughput_lines,
    "lag": lag_lines,
    "restart": restart_lines,
    "burst": burst_lines,
    "schedules": schedules_lines,
    "limits": limits_lines,
}


def machine_line(machine: Row) -> str:
    """The machine in a sentence."""
    loop = f"uvloop {machine['uvloop']}" if machine["uvloop"] else "asyncio's own loop"
    return (
        f"{machine['cpu']}, {machine['cores']} cores (load {machine['load']} at the start), {machine['system']}, "
        f"Python {machine['python']}, SQLite {machine['sqlite']}, {loop}, {machine['filesystem']}."
    )


def markdown(machine: Row, results: dict[str, Sequence[Row]]) -> str:
    """The machine line and the table."""
    lines = [COLUMNS, Line(*("---" for _ in COLUMNS))]
    for name, rows in results.items():
        lines += LINES[name](rows)
    return "\n".join([machine_line(machine), "", *("| " + " | ".join(line) + " |" for line in lines)])
