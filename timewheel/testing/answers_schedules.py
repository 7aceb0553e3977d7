"""What a journal tells of schedules must fit its dump: laws of `timewheel.testing.answers`."""

from __future__ import annotations

from collections import defaultdict

from timewheel.model import JobState
from timewheel.schedule_records import LedgerEntry, ScheduleRecord, ScheduleState, UnfinishedJob
from timewheel.store.port import JobFilter, ScheduleFilter, Store
from timewheel.testing.laws import Dump, demand

PAGE = 3


async def lists_of_schedules_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: each schedule is shown once, in the order of ids, and counted with those of its state."""
    expected = [dump["schedules"][name] for name in sorted(dump["schedules"])]
    found: list[ScheduleRecord] = []
    while page := await store.schedules(ScheduleFilter(), after=found[-1].schedule if found else None, limit=PAGE):
        found += page
        demand(len(found) <= len(expected), "I15", "pages of schedules never end", found, expected)
    demand(found == expected, "I15", "the list of schedules", found, expected)
    for state in ScheduleState:
        mine = [record for record in expected if record.state is state]
        counted = await store.count_schedules(ScheduleFilter(states=(state,)))
        demand(counted == len(mine), "I15", f"counted {counted} {state}", mine)
    for name, record in dump["schedules"].items():
        demand(await store.schedule(name) == record, "I15", f"the schedule {name}", record)
    demand(await store.calendars() == dump["calendars"], "I15", "the calendars", dump["calendars"])


async def jobs_of_schedules_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: the jobs of each schedule, and those of them that are not final, are what the jobs' origins say."""
    jobs: dict[str, list[int]] = defaultdict(list)
    unfinished: dict[str, list[UnfinishedJob]] = defaultdict(list)
    for job_id, job in sorted(dump["jobs"].items()):
        if job.origin is None:
            continue
        jobs[job.origin.schedule].append(job_id)
        if not job.state.final:
            requested = job.cancel_requested is not None
            told = UnfinishedJob(job_id, job.state, job.reason, job.origin.nominal_at, job.origin.kind, requested)
            unfinished[job.origin.schedule].append(told)
    for limit in (1, len(dump["jobs"]) + 1):
        cut = {name: mine[:limit] for name, mine in unfinished.items()}
        told_now = await store.unfinished(sorted({*jobs, *dump["schedules"]}), limit=limit)
        demand(told_now == cut, "I15", "the unfinished jobs of schedules", told_now, cut)
    for name, ids in jobs.items():
        counted = await store.count(JobFilter(schedule=name))
        demand(counted == len(ids), "I15", f"counted {counted} jobs of {name}", ids)
        page = await store.jobs(JobFilter(schedule=name), limit=len(ids) + 1)
        shown = [job.job_id for job in page.jobs]
        demand(shown == ids[::-1][: len(shown)], "I15", f"the jobs of {name}", shown, ids)


async def ledgers_tell_the_dump(store: Store, dump: Dump) -> None:
    """I15: each row is shown once, under a number of its own that falls from page to page, with its job's state."""
    expected = defaultdict(list)
    for row in dump["ledger"].values():
        expected[row.schedule].append(row)
    for name, rows in expected.items():
        entries = await ledger_of(store, name, len(rows))
        shown = sorted((entry.occurrence for entry in entries), key=repr)
        demand(shown == sorted(rows, key=repr), "I15", f"the ledger of {name}", shown, rows)
        for entry in entries:
            job_id = entry.occurrence.job_id
            job = dump["jobs"].get(job_id)
            state: JobState | None = None if job is None else job.state
            demand(entry.job_state is state, "I15", f"should be {state}", entry)


async def ledger_of(store: Store, schedule: str, most: int) -> list[LedgerEntry]:
    """A whole ledger, read in small pages; at most so many rows."""
    entries: list[LedgerEntry] = []
    before = None
    while True:
        page = await store.ledger(schedule, before=before, limit=PAGE)
        entries += page.entries
        numbers = [entry.number for entry in entries]
        demand(numbers == sorted(set(numbers), reverse=True), "I15", "numbers that do not fall", numbers)
        demand(len(entries) <= most, "I15", f"the ledger of {schedule} never ends", entries)
        if page.next_before is None:
            return entries
        before = page.next_before


async def check_reads_of_schedules(store: Store, dump: Dump) -> None:
    """Every read of schedules tells the same story as the dump."""
    await lists_of_schedules_tell_the_dump(store, dump)
    await jobs_of_schedules_tell_the_dump(store, dump)
    await ledgers_tell_the_dump(store, dump)
