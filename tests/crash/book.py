"""The judge: what was said about the jobs of one journal, over all the lives of its owners, against what it holds.

Pure: it is given events (see `embedded`), the runs that handlers wrote down (see `work`) and dumps, and keeps what is
wrong as sentences that begin with the number of the invariant. `tests/crash/test_book.py` shows that it can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.crash.work import SIDE, TASKS
from timewheel.model import AttemptState, JobRecord, JobState, job_number
from timewheel.testing.invariants import Violated, check_dump, check_step, one_success

Event = dict[str, Any]
MAY_BE_FOLLOWED = {
    AttemptState.LOST,
    AttemptState.FAILED_RETRYABLE,
    AttemptState.TIMED_OUT,
    AttemptState.RELEASED,
}


@dataclass(slots=True)
class Asked:
    """What is known of one number: a job has one number, and a number at most one job."""

    task: str
    key: str | None = None
    job: int | None = None  # once acknowledged
    cancel: tuple[int, str] | None = None  # when it was answered, and what
    moved_far: int | None = None  # when that was answered, unless something was asked since


@dataclass(slots=True)
class Book:
    """See the module."""

    asked: dict[int, Asked] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    acknowledgements: int = 0
    lost: int = 0
    _intents: dict[str, Event] = field(default_factory=dict)
    _paused: int | None = None  # since when, for sure
    _pauses: list[tuple[int, int]] = field(default_factory=list)
    _before: dict[str, Any] | None = None
    _runs_seen: int = 0
    _started: dict[tuple[int, int], int] = field(default_factory=dict)
    _done: set[tuple[int, int]] = field(default_factory=set)
    _far_pauses: list[tuple[int, int, int]] = field(default_factory=list)  # number, from, until

    # ---- what was said -----------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """One event, in the order in which they were said."""
        if "will" in event:
            self._intents[event["op"]] = event
            self._intend(event)
        elif "did" in event:
            self.acknowledgements += 1
            self._acknowledge(self._intents.pop(event["op"]), event)
        elif "refused" in event:
            self._intents.pop(event["op"])

    def _intend(self, event: Event) -> None:
        what = event["will"]
        if what == "submit":
            for number in event["numbers"]:
                self.asked.setdefault(number, Asked(event["task"], event.get("key")))
        elif what in ("cancel", "move"):
            asked = self.asked[event["number"]]
            if asked.moved_far is not None:
                self._far_pauses.append((event["number"], asked.moved_far, event["t"]))
            asked.moved_far = None
        elif what == "resume" and self._paused is not None:
            self._pauses.append((self._paused, event["t"]))
            self._paused = None

    def _acknowledge(self, intent: Event, event: Event) -> None:
        what = event["did"]
        if what == "submit":
            for number, text in event["jobs"]:
                asked, job = self.asked[number], job_number(text)
                if asked.job is not None and asked.job != job:
                    self.wrong.append(f"I4: {intent} was answered with {text}, before with another job")
                asked.job = job
        elif what == "cancel":
            self.asked[intent["number"]].cancel = (event["t"], event["answer"])
        elif what == "move" and intent["far"] and event["answer"] == "moved":
            self.asked[intent["number"]].moved_far = event["t"]
        elif what == "pause":
            self._paused = event["t"]

    # ---- what the journal holds --------------------------------------------------------------------------------------

    def look(self, dump: dict[str, Any], runs: list[Event], *, drained: bool = False, clean: bool = False) -> None:
        """A dump between two lives, and all the runs so far. `clean`: the process before ended with exit code 0."""
        try:
            check_dump(dump)
            one_success(dump)
            if self._before is not None:
                check_step(self._before, dump, one_batch=False)
        except Violated as violated:
            self.wrong.append(str(violated))
        self._before = dump
        self._take_runs(runs, dump)
        by_number = self._jobs_by_number(dump)
        for number, asked in self.asked.items():
            self._judge(number, asked, by_number.get(number), drained)
        if clean:
            self._judge_clean_end(dump)
        self.lost = sum(attempt.state is AttemptState.LOST for attempt in dump["attempts"].values())

    def _jobs_by_number(self, dump: dict[str, Any]) -> dict[int, JobRecord]:
        found: dict[int, JobRecord] = {}
        for job in dump["jobs"].values():
            number = json.loads(job.arguments)[0]
            if number in found:
                self.wrong.append(f"I3 I4: the number {number} has two jobs: {found[number]} and {job}")
            found[number] = job
            asked = self.asked.get(number)
            if asked is None:
                self.wrong.append(f"I3: nobody asked for {job}")
            elif (job.task, job.queue, job.idempotency_key) != (asked.task, TASKS[asked.task], asked.key):
                self.wrong.append(f"I3: {job} is not what was asked: {asked}")
        return found

    def _judge(self, number: int, asked: Asked, job: JobRecord | None, drained: bool) -> None:
        if job is None:
            if asked.job is not None:
                self.wrong.append(f"I1: the acknowledged job {number} is gone: {asked}")
            return
        if asked.job is not None and job.job_id != asked.job:
            self.wrong.append(f"I1: {number} was acknowledged under another id: {asked}, {job}")
        if drained and not job.state.final:
            self.wrong.append(f"I1: not final after all: {job}")
        if asked.cancel is not None:
            self._judge_cancel(asked.cancel[1], job)
        if asked.moved_far is not None and not self._is_far(job):
            self.wrong.append(f"I9: it was moved away, and is not there: {asked}, {job}")

    def _judge_cancel(self, answer: str, job: JobRecord) -> None:
        right = {
            "cancelled": job.state is JobState.CANCELLED,
            "requested": job.state in (JobState.ACTIVE, JobState.COMPLETED, JobState.CANCELLED),
            "too_late": job.state.final,
        }
        if not right[answer]:
            self.wrong.append(f"I9: cancel answered {answer}, but: {job}")

    @staticmethod
    def _is_far(job: JobRecord) -> bool:
        return job.state is JobState.SCHEDULED

    def _judge_clean_end(self, dump: dict[str, Any]) -> None:
        for job in dump["jobs"].values():
            if job.state is JobState.ACTIVE:
                self.wrong.append(f"I26: exit 0 with an outcome that is not durable: {job}")
        for job_id, attempt in self._done:
            found = dump["attempts"].get((job_id, attempt))
            if found is not None and found.state not in (AttemptState.SUCCEEDED, AttemptState.LOST):
                self.wrong.append(f"I26: it had ended well, and exit 0 recorded another end: {found}")

    # ---- what ran ----------------------------------------------------------------------------------------------------

    def _take_runs(self, runs: list[Event], dump: dict[str, Any]) -> None:
        for run in runs[self._runs_seen :]:
            job_id = job_number(run["job"])
            assert job_id is not None
            key = (job_id, run["attempt"])
            if run["what"] == "done":
                self._done.add(key)
                continue
            if key in self._started:
                self.wrong.append(f"I12: it started twice in one attempt: {run}")
            self._started[key] = run["t"]
            self._judge_start(run, key, dump)
        self._runs_seen = len(runs)

    def _judge_start(self, run: Event, key: tuple[int, int], dump: dict[str, Any]) -> None:
        job_id, number = key
        if key not in dump["attempts"]:
            self.wrong.append(f"I2: it started, and its claim is not durable: {run}")
        before = dump["attempts"].get((job_id, number - 1))
        if number > 1 and (before is None or before.state not in MAY_BE_FOLLOWED):
            self.wrong.append(f"I1: it ran again after {before}: {run}")
        asked = self.asked[run["number"]]
        if asked.cancel is not None and asked.cancel[1] != "too_late" and run["t"] > asked.cancel[0]:
            self.wrong.append(f"I9: it started after its cancel was answered with {asked.cancel}: {run}")
        if asked.moved_far is not None and run["t"] > asked.moved_far:
            self.wrong.append(f"I9: it started after it had been moved away: {run}")
        for which, since, until in self._far_pauses:
            if which == run["number"] and since < run["t"] < until:
                self.wrong.append(f"I9: it started while it was far away: {run}")
        if TASKS[asked.task] == SIDE and self._was_paused(run["t"]):
            self.wrong.append(f"I18: it started while its queue was paused: {run}")

    def _was_paused(self, t: int) -> bool:
        return (self._paused is not None and t > self._paused) or any(
            since < t < until for since, until in self._pauses
        )


def starts_after(runs: Iterable[Event], moment: int) -> list[str]:
    """I26: what started although the process was draining."""
    return [f"I26: it started while draining: {run}" for run in runs if run["what"] == "start" and run["t"] > moment]
