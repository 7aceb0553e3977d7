"""The book of flow control: what jobs asked for, which ran again, which ended, and which were forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from timewheel.flow import Flow
from timewheel.model import AttemptRecord, JobRecord, JobState, Now
from timewheel.store.changes import (
    DONE,
    Change,
    Claimed,
    Outcome,
    Settle,
    Settled,
    Submit,
    Submitted,
    Unheld,
    UniqueMet,
)
from timewheel.store.letters import Discard, Prune, Replay, Replayed
from timewheel.store.port import JobFilter
from timewheel.testing.invariants import Dump
from timewheel.testing.invariants_flow import waits_for_jobs
from timewheel.testing.simulation.facts import Fact, Over
from timewheel.testing.simulation.facts_flow import Forgotten, Rerun, Rival

UNIQUE = "unique "  # what the tags begin with by which rivals find one another
MOST_RIVALS = 200


class FlowBook:
    """See the module. `flows`: what was asked of each job, as it was submitted."""

    def __init__(self, elapsed_us: Callable[[], int], add: Callable[[Fact], None]) -> None:
        self._elapsed_us = elapsed_us
        self._add = add
        self.flows: dict[int, Flow] = {}
        self.jobs: dict[int, JobRecord] = {}  # that were forgotten, as they were
        self.attempts: dict[tuple[int, int], AttemptRecord] = {}

    async def before(self, store: Any, changes: Sequence[Change]) -> dict[Any, Any]:
        """Before a batch: the jobs that it lets run again, those that rivals may meet, and all if it forgets any."""
        seen: dict[Any, Any] = {}
        for change in changes:
            if isinstance(change, Replay):
                seen[change.job_id] = await store.job(change.job_id)
            elif isinstance(change, Prune) and "dump" not in seen:
                seen["dump"] = await store.dump()
            elif isinstance(change, Submit) and (tag := rivals_of(change)) is not None:
                seen[tag] = await _rivals(store, tag)
        return seen

    async def after(
        self, store: Any, changes: Sequence[Change], outcomes: Sequence[Outcome], now: Now, seen: dict[Any, Any]
    ) -> None:
        """After it was written."""
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(change, Submit):
                await self._submitted(store, change, outcome, now, seen)
            elif isinstance(outcome, Replayed) and isinstance(change, Replay):
                self._again(change, seen[change.job_id], now)
            elif isinstance(outcome, Claimed):
                self._over(outcome.skipped, JobState.SKIPPED, now)
                self._over(outcome.given_up, JobState.DEAD, now)
            elif isinstance(outcome, Unheld):
                self._over(outcome.cancelled, JobState.CANCELLED, now)
        if "dump" in seen:
            before: Dump = seen["dump"]
            for change, outcome in zip(changes, outcomes, strict=True):
                before = _ended(before, change, outcome, now)  # it may be forgotten in the same batch
            self._forgotten(changes, before, await store.dump(), now)

    def _over(self, job_ids: Sequence[int], state: JobState, now: Now) -> None:
        for job_id in job_ids:
            self._add(Over(self._elapsed_us(), job_id, now, state))

    async def _submitted(self, store: Any, change: Submit, outcome: Outcome, now: Now, seen: dict[Any, Any]) -> None:
        request = change.request
        if isinstance(outcome, Submitted) and outcome.created:
            if request.flow is not None:
                self.flows[request.job_id] = request.flow
            if outcome.replaced is not None:
                self._over([outcome.replaced], JobState.CANCELLED, now)
            if outcome.lane < 0 and (job := await store.job(request.job_id)).state.final:
                self._over([request.job_id], job.state, now)
        unique = None if request.flow is None else request.flow.unique
        tag = rivals_of(change)
        if unique is not None and tag is not None and isinstance(outcome, Submitted | UniqueMet):
            rivals = seen[tag], await _rivals(store, tag)
            self._add(Rival(self._elapsed_us(), request.job_id, unique, outcome, now, *rivals))

    def _again(self, change: Replay, before: JobRecord, now: Now) -> None:
        operation = json.loads(change.audit).get("operation")
        facts = change.job_id, before.attempt, before.state, operation, change.due_at, now
        self._add(Rerun(self._elapsed_us(), *facts))

    def _forgotten(self, changes: Sequence[Change], before: Dump, after: Dump, now: Now) -> None:
        gone = sorted(before["jobs"].keys() - after["jobs"].keys())
        rules = tuple(rule for change in changes if isinstance(change, Prune) for rule in change.rules)
        waiters = [job for job in after["jobs"].values() if waits_for_jobs(job)]
        needed = {other for job in waiters for other in job.flow.wait_for.job_ids}
        for job_id in gone:
            self.jobs[job_id] = before["jobs"][job_id]
            self._add(Forgotten(self._elapsed_us(), before["jobs"][job_id], rules, now, job_id in needed))
        self.attempts |= {key: row for key, row in before["attempts"].items() if key not in after["attempts"]}

    def whole(self, dump: Dump) -> Dump:
        """A dump, with what was forgotten as it was then."""
        if not self.jobs:
            return dump
        jobs, attempts = {**self.jobs, **dump["jobs"]}, {**self.attempts, **dump["attempts"]}
        return {**dump, "jobs": dict(sorted(jobs.items())), "attempts": dict(sorted(attempts.items()))}


def _ended(before: Dump, change: Change, outcome: Outcome, now: Now) -> Dump:
    """A dump with what this made of a job that has ended, or is discarded."""
    if isinstance(change, Settle) and isinstance(outcome, Settled) and outcome.job_state.final:
        return _settled(before, change, outcome, now)
    if isinstance(change, Discard) and outcome == DONE:
        letter = replace(before["jobs"][change.job_id], discarded_at=now.wall_us)
        return {**before, "jobs": {**before["jobs"], change.job_id: letter}}
    return before


def _settled(before: Dump, settle: Settle, outcome: Settled, now: Now) -> Dump:
    """How a job and its attempt were once this had ended them."""
    job, key = before["jobs"][settle.job_id], (settle.job_id, settle.attempt)
    names = {field.name for field in fields(AttemptRecord)} & {field.name for field in fields(Settle)}
    told = {name: getattr(settle, name) for name in names - {"job_id", "attempt"}}
    attempt = replace(before["attempts"][key], state=settle.attempt_state, **told)
    ended = replace(
        job, state=outcome.job_state, finished_at=now.wall_us, failures=settle.failures, losses=settle.losses,
        first_failed_at=settle.first_failed_at, result=settle.result, error=settle.error or job.error,
        fault=settle.fault or job.fault, fingerprint=settle.fingerprint or job.fingerprint,
        reason=job.cancel_requested if outcome.job_state is JobState.CANCELLED else settle.reason,
    )  # fmt: skip
    jobs, attempts = {**before["jobs"], settle.job_id: ended}, {**before["attempts"], key: attempt}
    return {**before, "jobs": jobs, "attempts": attempts}


def rivals_of(change: Submit) -> str | None:
    """The tag of all jobs of which there may be one."""
    return next((tag for tag in change.request.tags if tag.startswith(UNIQUE)), None)


async def _rivals(store: Any, tag: str) -> tuple[JobRecord, ...]:
    page = await store.jobs(JobFilter(tag=tag), limit=MOST_RIVALS)
    return tuple(page.jobs)
