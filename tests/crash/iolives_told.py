"""What a life was told, held against what its journal says."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from tests.crash import iolives
from timewheel import connect
from timewheel.codec import loads_call
from timewheel.model import AttemptState, JobState
from timewheel.testing import invariants
from timewheel_storage.sqlite.connection import open_reader
from timewheel_storage.sqlite.files import DiskFiles
from timewheel_storage.sqlite.read_letters import everything

ENDS = {
    "third": {JobState.DEAD},
    "cancelled": {JobState.CANCELLED, JobState.SCHEDULED},
    "gone": {JobState.CANCELLED},
    "far": {JobState.SCHEDULED},
    "moved": {JobState.COMPLETED, JobState.SCHEDULED},
    "long": {JobState.CANCELLED, JobState.COMPLETED},
}
TRIED_AGAIN_AFTER = {AttemptState.LOST, AttemptState.RELEASED, AttemptState.FAILED_RETRYABLE}
LASTING = ("", ".lock", ".mark", ".reserve")  # files that a clean stop leaves


class Told:
    """The lines of a life, by kind."""

    def __init__(self, lines: list[list[Any]]) -> None:
        self.lines = lines
        self.asked = {line[2] for line in lines if line[:2] == ["ask", "submit"]}
        self.acknowledged = {line[2] for line in lines if line[:2] == ["ack", "submit"]}
        self.cancelled = {line[2]: line[3] for line in lines if line[:2] == ["ack", "cancel"]}
        self.moved = {line[2]: line[3] for line in lines if line[:2] == ["ack", "move"]}
        self.seen = {line[2]: line[3] for line in lines if line[0] == "ack" and line[1] in ("wait", "look")}
        self.starts = [(line[1], line[2]) for line in lines if line[0] == "start"]
        self.errors = [line[3] for line in lines if line[0] == "error"]
        self.end = next((line[1:] for line in lines if line[0] == "end"), None)
        self.gave_up = any(line[0] == "gave up" for line in lines)

    @property
    def cancelled_for_good(self) -> set[str]:
        """The jobs that an acknowledged cancel said would never start."""
        return {name for name, answer in self.cancelled.items() if answer == "CANCELLED"}


def told_in(path: Path) -> Told:
    """What a file of lines says; the last line may be cut off."""
    text = path.read_text() if path.exists() else ""
    return Told([json.loads(line) for line in text.split("\n")[:-1]])


def state_of(path: Path) -> dict[str, Any]:
    """The dump of a journal, opened as the product opens it."""
    connection = open_reader(DiskFiles(str(path)), again=False)
    try:
        return everything(connection)
    finally:
        connection.close()


def by_name(dump: dict[str, Any]) -> dict[str, Any]:
    """The jobs by the name that each was given; I4 when two have the same."""
    jobs = list(dump["jobs"].values())
    names = [loads_call(job.arguments)[0][0] for job in jobs]
    twice = [name for name, count in Counter(names).items() if count > 1]
    invariants.demand(not twice, "I4", f"made twice: {twice}")
    return dict(zip(names, jobs, strict=True))


def check_promises(told: Told, dump: dict[str, Any]) -> None:
    """I1, I3, I4, I9, I25: what was acknowledged is there, and what is there was asked for."""
    invariants.check_dump(dump)
    jobs = by_name(dump)
    lost = told.acknowledged - jobs.keys()
    invariants.demand(not lost, "I1", f"acknowledged and not there: {sorted(lost)}")
    invariants.demand(jobs.keys() <= told.asked, "I3", f"never asked for: {sorted(jobs.keys() - told.asked)}")
    for name in told.cancelled_for_good:
        state = jobs[name].state
        invariants.demand(state is JobState.CANCELLED, "I9", f"{name} was cancelled and is {state}", jobs[name])
    for name, answer in told.cancelled.items():
        kept = jobs[name].state.final or jobs[name].cancel_requested is not None
        invariants.demand(kept, "I9", f"the cancel of {name} was answered {answer} and is forgotten", jobs[name])
    for name, answer in told.moved.items():
        stays = answer == "MOVED" and jobs[name].state is JobState.SCHEDULED and jobs[name].version == 1
        invariants.demand(not stays, "I25", f"{name} was moved and is where it was", jobs[name])
    for name, state in told.seen.items():
        invariants.demand(jobs[name].state == state, "I10", f"{name} was seen {state}", jobs[name])


def check_starts(told: Told, dump: dict[str, Any]) -> None:
    """I9, I11: no attempt is entered twice, and only after one that ended so that there may be another."""
    twice = [each for each, count in Counter(told.starts).items() if count > 1]
    invariants.demand(not twice, "I11", f"attempts that were entered twice: {twice}")
    jobs = by_name(dump)
    for name, number in told.starts:
        before = dump["attempts"].get((jobs[name].job_id, number - 1))
        allowed = number == 1 or (before is not None and before.state in TRIED_AGAIN_AFTER)
        invariants.demand(allowed, "I11", f"attempt {number} of {name} began after {before}")
    begun: set[str] = set()
    for line in told.lines:
        if line[0] == "start":
            begun.add(line[1])
            for_good = told.cancelled_for_good & {line[1]}
            answered = told.lines.index(["ack", "cancel", line[1], "CANCELLED"]) if for_good else len(told.lines)
            invariants.demand(told.lines.index(line) < answered, "I9", f"{line[1]} began after its cancel")


def check_ends(told: Told, dump: dict[str, Any], crashes: int = 1) -> None:
    """I1, I13: after a quiet start everything has its one end, and nobody was charged for more crashes than there were.

    `crashes`: without the one that left a mess to the jobs called long-.
    """
    for name, job in by_name(dump).items():
        wanted = ENDS.get(name, {JobState.COMPLETED})
        if name in ("cancelled", "moved") and name not in {**told.cancelled, **told.moved}:
            wanted = wanted | {JobState.SCHEDULED}
        invariants.demand(job.state in wanted, "I1", f"{name} ended {job.state}", job)
        lost = sum(
            attempt.state is AttemptState.LOST for key, attempt in dump["attempts"].items() if key[0] == job.job_id
        )
        most = crashes + name.startswith("long-")
        invariants.demand(lost <= most, "I13", f"{name} was lost {lost} times", job)


Dump = dict[str, Any]


def audited(journal: Path) -> None:
    """The product's own audit finds nothing."""
    found = connect.audit(str(journal))
    invariants.demand(not found, "I10", " ".join(found))


async def quiet_start(journal: Path, told: Path) -> None:
    """Start without any fault, let everything come to its end, stop."""
    script = iolives.Script(told)
    app = iolives.application(journal, script, patient=False)
    await asyncio.wait_for(app.start(), iolives.PATIENCE_S)
    await iolives.all_final(app, script)
    await asyncio.wait_for(app.stop(10), iolives.PATIENCE_S)
    app.raise_if_failed()


async def start_and_stop(journal: Path, told: Path) -> None:
    """A start that finds nothing to do."""
    app = iolives.application(journal, iolives.Script(told), patient=False)
    await app.start()
    await app.stop(0)


def check_life(life: str, journal: Path, told_at: Path) -> None:
    """Hold one life against its journal, as it was left and after a quiet start. Raises Violated, or JournalError."""
    told = told_in(told_at)
    if not journal.exists():
        invariants.demand(not told.acknowledged, "I1", "there is no journal")
    else:
        invariants.demand(os.stat(journal).st_size > 0, "I3", "a journal of length zero was left")
        check_migrated(life, journal)
        audited(journal)
        dump = state_of(journal)
        check_promises(told, dump)
        check_starts(told, dump)
    asyncio.run(quiet_start(journal, told_at))
    told = told_in(told_at)
    audited(journal)
    dump = state_of(journal)
    check_promises(told, dump)
    check_starts(told, dump)
    check_ends(told, dump)
    asyncio.run(start_and_stop(journal, told_at))
    left = {path.name for path in journal.parent.iterdir()} - {f"{journal.name}{end}" for end in LASTING}
    unexpected = {name for name in left if ".new" not in name}
    invariants.demand(not unexpected, "I26", f"a clean stop left {sorted(unexpected)}")
    invariants.demand(state_of(journal) == dump, "I16", "another start made another state of it")
    check_migrated(life, journal)


def check_migrated(life: str, journal: Path) -> None:
    """A migration happened wholly or not at all."""
    if life != "migration":
        return
    connection = iolives.schema.connect(str(journal), "ro")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        columns = {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
        there = ["copied" in tables, "copied_arguments" in tables, "shade" in columns]
        migrated = version == iolives.NEXT_VERSION
        invariants.demand(there == [migrated] * 3, "I3", f"half of a migration: version {version}, {there}")
        if migrated:
            jobs, copied = connection.execute("SELECT (SELECT count(*) FROM jobs), count(*) FROM copied").fetchone()
            invariants.demand(0 < copied <= jobs, "I3", f"the migration copied {copied} of {jobs} jobs")
    finally:
        connection.close()
