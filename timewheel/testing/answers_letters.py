"""What a journal tells of dead letters and operations must fit its dump: laws of `timewheel.testing.answers`."""

from __future__ import annotations

from collections import defaultdict

from timewheel.model import JobRecord, JobState
from timewheel.store.letters import LetterGroup
from timewheel.store.port import EntryRow, LetterFilter, Store
from timewheel.testing.laws import Dump, demand

PAGE = 3


async def letters_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: each dead letter is shown once, newest first, and counted: all of them, and those of each filter."""
    letters = [job for _, job in sorted(dump["jobs"].items(), reverse=True) if _is_letter(job)]
    filters = {LetterFilter(), LetterFilter(tag="x")}
    for job in letters:
        filters |= {
            LetterFilter(queue=job.queue, since=job.finished_at),
            LetterFilter(task=job.task, until=job.finished_at),
            LetterFilter(fingerprint=job.fingerprint),
        }
    for which in filters:
        mine = [job for job in letters if _matches(job, which)]
        found: list[JobRecord] = []
        before = None
        while True:
            page = await store.letters(which, before=before, limit=PAGE)
            found += page.jobs
            demand(len(found) <= len(mine), "I15", "letters that are none, or never end", which, found)
            if (before := page.next_before) is None:
                break
        demand(found == mine, "I15", f"the letters of {which}", found, mine)
        counted = await store.count_letters(which)
        demand(counted == len(mine), "I15", f"counted {counted} letters of {which}", mine)
        groups = await store.letter_groups(which, limit=PAGE)
        expected = _groups(mine)[:PAGE]
        demand(groups == expected, "I15", f"the groups of {which}", groups, expected)


def _is_letter(job: JobRecord) -> bool:
    return job.state is JobState.DEAD and job.discarded_at is None


def _matches(job: JobRecord, which: LetterFilter) -> bool:
    assert job.finished_at is not None
    return (
        which.queue in (None, job.queue)
        and which.task in (None, job.task)
        and (which.tag is None or which.tag in job.tags)
        and which.fingerprint in (None, job.fingerprint)
        and (which.since is None or job.finished_at >= which.since)
        and (which.until is None or job.finished_at <= which.until)
    )


def _groups(letters: list[JobRecord]) -> list[LetterGroup]:
    by_name: dict[tuple[str | None, str], list[JobRecord]] = defaultdict(list)
    for job in letters:
        by_name[job.fingerprint, job.task].append(job)
    groups = []
    for (fingerprint, task), jobs in by_name.items():
        ends = [job.finished_at for job in jobs if job.finished_at is not None]
        newest = max(jobs, key=lambda job: job.job_id)
        groups.append(LetterGroup(fingerprint, task, newest.error, len(jobs), min(ends), max(ends), newest.job_id))
    return sorted(groups, key=lambda group: (-group.letters, -group.newest))


async def operations_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: each operation is shown once, newest first."""
    expected = [record for _, record in sorted(dump["operations"].items(), reverse=True)]
    found = await store.operations(limit=1)
    while found and (page := await store.operations(before=found[-1].number, limit=1)):
        found += page
        demand(len(found) <= len(expected), "I15", "operations never end", found)
    demand(found == expected, "I15", "the operations", found, expected)
    for record in expected:
        told = await store.operation(record.number)
        demand(told == record, "I15", "an operation by its number", told, record)


async def entries_are_told_by_kind(store: Store) -> None:
    """I15: the entries of each kind are what all the entries hold of it, newest first."""
    everything: list[EntryRow] = []
    while page := await store.entries(after=everything[-1][0] if everything else 0, limit=50):
        everything += page
    for kind in {entry[2] for entry in everything}:
        expected = [tuple(entry) for entry in reversed(everything) if entry[2] == kind]
        found = await store.entries_of(kind, limit=PAGE)
        while len(found) >= PAGE and (page := await store.entries_of(kind, before=found[-1][0], limit=PAGE)):
            found += page
            demand(len(found) <= len(expected), "I15", f"entries of {kind} never end", found)
        demand([tuple(entry) for entry in found] == expected, "I15", f"the entries of {kind}", found, expected)


async def check_reads_of_letters(store: Store, dump: Dump) -> None:
    """Every read of dead letters, operations and entries tells the same story as the dump."""
    await letters_tell_the_dump(store, dump)
    await operations_tell_the_dump(store, dump)
    await entries_are_told_by_kind(store)
