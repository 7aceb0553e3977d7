"""What a journal answers must fit its dump: the outcomes of a batch that claims, and every read.

    check_claims(changes, outcomes, dump, stamp)  # `dump` is that after the batch
    await check_reads(store, dump, epoch)

Each predicate raises `Violated` with the invariant's number (see `timewheel.testing.invariants`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from timewheel.flow import lane_partition
from timewheel.model import ZERO_KEY, DueKey, JobRecord, JobState
from timewheel.store.changes import Change, Claim, Claimed, Outcome
from timewheel.store.port import JobFilter, Stamp, Store
from timewheel.testing.answers_letters import check_reads_of_letters
from timewheel.testing.answers_schedules import check_reads_of_schedules
from timewheel.testing.invariants_flow import flow_of
from timewheel.testing.laws import Dump, demand

MOST = 10_000  # rows of one read


def nothing_is_claimed_twice(outcomes: Sequence[Outcome]) -> None:
    """I12: one batch claims a job once."""
    claimed = [job.job_id for outcome in outcomes if isinstance(outcome, Claimed) for job in outcome.jobs]
    demand(len(set(claimed)) == len(claimed), "I12", "claimed twice in one batch", claimed)


def nothing_is_claimed_early(changes: Sequence[Change], outcomes: Sequence[Outcome], stamp: Stamp) -> None:
    """I6: what is claimed was hinted at, and is due within the time the claim may look ahead."""
    for change, outcome in zip(changes, outcomes, strict=True):
        if not isinstance(change, Claim) or not isinstance(outcome, Claimed):
            continue
        for job in outcome.jobs:
            demand(job.job_id in change.job_ids, "I6", "claimed, and nobody asked for it", job)
            early_us = job.due_at - stamp.now.on(job.clock) - change.ahead_us
            demand(early_us <= 0, "I6", f"claimed {early_us} us early", job)


def claims_are_recorded(outcomes: Sequence[Outcome], dump: Dump, stamp: Stamp) -> None:
    """I11: a claimed job's attempt has the batch's epoch and the due time it was claimed with."""
    for outcome in outcomes:
        for job in outcome.jobs if isinstance(outcome, Claimed) else ():
            attempt = dump["attempts"].get((job.job_id, job.attempt))
            demand(attempt is not None, "I11", "claimed without an attempt", job)
            recorded = (attempt.epoch, attempt.scheduled_at, attempt.clock)
            demand(recorded == (stamp.epoch, job.due_at, job.clock), "I11", "claimed otherwise", job, attempt)


def check_claims(changes: Sequence[Change], outcomes: Sequence[Outcome], dump: Dump, stamp: Stamp) -> None:
    """Every law of what one batch claimed; `dump` is that after it."""
    nothing_is_claimed_twice(outcomes)
    nothing_is_claimed_early(changes, outcomes, stamp)
    claims_are_recorded(outcomes, dump, stamp)


async def due_index_tells_the_dump(store: Store, dump: Dump) -> None:
    """I15: the due index holds the SCHEDULED jobs, in order, and nothing else."""
    due = {}
    for lane in await store.lanes():
        if page := await store.due(lane.number, ZERO_KEY, 1 << 62, MOST):
            due[lane.queue, lane.priority, lane.clock, lane.partition] = page
    expected = defaultdict(list)
    for job in dump["jobs"].values():
        if job.state is JobState.SCHEDULED:
            partition = lane_partition(flow_of(job).partition_key, ())  # of few partitions
            expected[job.queue, job.priority, job.due_clock, partition].append((job.due_at, job.job_id))
    told = {name: sorted(keys) for name, keys in expected.items()}
    for name in due.keys() | told.keys():
        demand(due.get(name) == told.get(name), "I15", f"the due index of {name}", due.get(name), told.get(name))


async def pages_rebuild_the_same(store: Store, limit: int, until_us: int) -> None:
    """I15: what small pages of the due index add up to is what one large page holds, each time it is read."""
    for lane in await store.lanes():
        whole = await store.due(lane.number, ZERO_KEY, until_us, MOST)
        for _ in range(2):
            pages: list[tuple[int, int]] = []
            while page := await store.due(lane.number, DueKey(*pages[-1]) if pages else ZERO_KEY, until_us, limit):
                demand(len(page) <= limit, "I15", f"a page of {len(page)} of at most {limit}", page)
                pages += page
                demand(len(pages) <= len(whole), "I15", f"pages of lane {lane} never end", pages, whole)
            demand(pages == whole, "I15", f"pages of lane {lane} differ", pages, whole)


async def lists_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: counts and pages show every job once, newest first."""
    jobs = dump["jobs"]
    for state in JobState:
        counted = await store.count(JobFilter(states=(state,)))
        demand(counted == sum(job.state is state for job in jobs.values()), "I15", f"counted {counted} {state}")
    found: list[JobRecord] = []
    before = None
    while True:
        page = await store.jobs(JobFilter(), before=before, limit=7)
        found += page.jobs
        if (before := page.next_before) is None:
            break
    demand(found == [jobs[job_id] for job_id in sorted(jobs, reverse=True)], "I15", "pages that differ from the dump")


async def open_attempts_tell_the_dump(store: Store, dump: Dump, epoch: int) -> None:
    """I24: recovery is shown exactly the open attempts of former owners."""
    jobs, attempts = dump["jobs"], dump["attempts"]
    shown = await store.open_attempts(below_epoch=epoch, after=0, limit=MOST)
    active = [
        (jobs[job_id], attempts[job_id, jobs[job_id].attempt])
        for job_id in sorted(jobs)
        if jobs[job_id].state is JobState.ACTIVE
    ]
    expected = [(job, attempt) for job, attempt in active if attempt.epoch < epoch]
    demand(shown == expected, "I24", "open attempts of former owners", shown, expected)


async def check_reads(store: Store, dump: Dump, epoch: int) -> None:
    """Every read tells the same story as the dump."""
    await due_index_tells_the_dump(store, dump)
    await lists_tell_the_dump(store, dump)
    await open_attempts_tell_the_dump(store, dump, epoch)
    await check_reads_of_schedules(store, dump)
    await check_reads_of_letters(store, dump)
