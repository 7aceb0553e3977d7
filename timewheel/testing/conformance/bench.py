"""What the conformance tests hold in their hands: a store, its owner's epoch, and a clock that stands still."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
import pytest_asyncio

from timewheel.model import ZERO_KEY, DueKey, JobRecord, JobRequest, JobState, Now
from timewheel.schedule_records import ScheduleRecord
from timewheel.store.changes import (
    DONE,
    Change,
    Claimed,
    ClaimedJob,
    Outcome,
    Planned,
    Settle,
    Submitted,
    TakeOver,
    Unheld,
)
from timewheel.store.port import JobFilter, Owner, Ownership, Store
from timewheel.testing import builders

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OutcomeT = TypeVar("OutcomeT", bound=Outcome)
ANY = JobFilter()
MAX_PAGES = 10_000


class DumpableStore(Store, Protocol):
    """A store that can show everything it holds: what the suite asks of an adapter beyond the port."""

    async def dump(self) -> dict[str, Any]:
        """Everything that any adapter must hold alike, as one plain dict.

        {"jobs": {job_id: JobRecord}, "attempts": {(job_id, number): AttemptRecord},
         "keys": {(task, idempotency_key): (job_id, digest)}, "limits": {name: value}, "queues": {queue: settings},
         "importable": sorted list of tasks, "schedules": {id: ScheduleRecord}, "calendars": {name: JSON text},
         "ledger": {(schedule, clock, first_at, turn, kind): OccurrenceRecord}, "operations": {number: OperationRecord}}
        The state of an open attempt is QUEUED. The numbers of lanes and of rows of the ledger are left out.
        """


class Hooks(ABC):
    """How the suite gets at an adapter: the three methods a subclass provides."""

    @abstractmethod
    async def fresh(self, folder: Path) -> DumpableStore:
        """A store opened on a new journal, which may live in `folder`; nobody owns it."""

    @abstractmethod
    async def another(self, store: DumpableStore) -> DumpableStore:
        """A second handle, opened on the same journal as another process would, while the first one lives."""

    @abstractmethod
    async def crashed(self, store: DumpableStore) -> DumpableStore:
        """A handle opened on the same journal after the process that held `store` died; nothing more comes from it."""


class Bench:
    """A store under test and the hands on it. `now` and `epoch` are those of the next batch."""

    def __init__(self, hooks: Hooks, store: DumpableStore) -> None:
        self._hooks = hooks
        self._opened = [store]
        self.store = store
        self.epoch = 0
        self.now = builders.START

    async def own(self, owner: Owner | None = None) -> Ownership:
        """Become the owner; later batches carry the new epoch."""
        ownership = await self.store.own(owner or builders.owner())
        self.epoch = ownership.epoch
        return ownership

    async def another(self) -> DumpableStore:
        """A second handle on the journal; closed with the bench."""
        store = await self._hooks.another(self.store)
        self._opened.append(store)
        return store

    async def crash(self) -> None:
        """The process dies; go on with a new handle that owns nothing yet."""
        died = self.store
        self.store = await self._hooks.crashed(died)
        self._opened = [store for store in self._opened if store is not died] + [self.store]

    async def schedule(self, name: str = builders.SCHEDULE) -> ScheduleRecord:
        """A schedule that must exist."""
        schedule = await self.store.schedule(name)
        assert schedule is not None
        return schedule

    async def put_schedules(self, *names: str) -> None:
        """Make schedules, of version 1."""
        outcomes = await self.write(*(builders.put_schedule(name) for name in names or (builders.SCHEDULE,)))
        assert set(outcomes) == {DONE}

    async def plan(self, *jobs: JobRequest, **changes: Any) -> Planned:
        """Plan occurrences."""
        return await self.one(builders.plan(*jobs, **changes), Planned)

    async def taken_over(self, *changes: Change, everything: bool = False) -> list[int]:
        """The jobs that TakeOver releases in a batch of other changes. Each must lie where it is told to."""
        *_, unheld = await self.write(*changes, TakeOver(everything))
        assert isinstance(unheld, Unheld), unheld
        for lane, due_at, job_id in unheld.places:
            job = await self.job(job_id)
            assert (job.state, job.reason, job.due_at) == (JobState.SCHEDULED, None, due_at)
            assert await self.lane_of(lane) == (job.queue, job.priority, job.due_clock)
            assert (due_at, job_id) in await self.due(lane)
        return [job_id for _, _, job_id in unheld.places]

    async def close(self) -> None:
        """Close every handle."""
        for store in self._opened:
            await store.close()

    async def write(self, *changes: Change, now: Now | None = None, epoch: int | None = None) -> list[Outcome]:
        """Commit one batch."""
        return await self.store.commit(changes, builders.stamp(epoch or self.epoch, now or self.now))

    async def one(self, change: Change, kind: type[OutcomeT]) -> OutcomeT:
        """Commit one change whose outcome is of this kind."""
        [outcome] = await self.write(change)
        assert isinstance(outcome, kind), outcome
        return outcome

    async def submit(self, job_id: int, **changes: Any) -> Submitted:
        """Submit one job."""
        return await self.one(builders.submit(job_id, **changes), Submitted)

    async def claim(self, *job_ids: int, **changes: Any) -> Claimed:
        """Claim."""
        return await self.one(builders.claim(*job_ids, **changes), Claimed)

    async def active(self, job_id: int, **changes: Any) -> ClaimedJob:
        """Submit and claim one job."""
        await self.submit(job_id, **changes)
        [claimed] = (await self.claim(job_id)).jobs
        return claimed

    async def ended(self, settle: Settle, **changes: Any) -> JobRecord:
        """Submit, claim and settle one job."""
        await self.active(settle.job_id, **changes)
        settle.claim_epoch = self.epoch
        await self.write(settle)
        return await self.job(settle.job_id)

    async def job(self, job_id: int) -> JobRecord:
        """A job that must exist."""
        job = await self.store.job(job_id)
        assert job is not None
        return job

    async def state(self, job_id: int) -> JobState:
        """The state of a job that must exist."""
        return (await self.job(job_id)).state

    async def lane_of(self, number: int) -> tuple[str, int, int]:
        """(queue, priority, clock) of a lane by its number."""
        [lane] = [lane for lane in await self.store.lanes() if lane.number == number]
        return (lane.queue, lane.priority, lane.clock)

    async def ids(self, which: JobFilter = ANY, limit: int = 100) -> list[int]:
        """The ids of all the jobs that match, page by page."""
        ids: list[int] = []
        before = None
        for _ in range(MAX_PAGES):
            page = await self.store.jobs(which, before=before, limit=limit)
            assert len(page.jobs) <= limit
            ids += [job.job_id for job in page.jobs]
            if page.next_before is None:
                return ids
            assert before is None or page.next_before < before, "pages must go on"
            before = page.next_before
        raise AssertionError("the pages have no end")

    async def due(self, lane: int, after: DueKey = ZERO_KEY, until_us: int = 1 << 62) -> list[tuple[int, int]]:
        """What lies in a lane."""
        return await self.store.due(lane, after, until_us, 1000)


class BenchTests(Hooks):
    """Base of the topics: a bench whose store is open and owned (or only open: `unowned`)."""

    @pytest_asyncio.fixture
    async def unowned(self, tmp_path: Path) -> AsyncIterator[Bench]:
        """A bench on a new journal without an owner."""
        bench = Bench(self, await self.fresh(tmp_path))
        yield bench
        await bench.close()

    @pytest_asyncio.fixture
    async def bench(self, unowned: Bench) -> Bench:
        """A bench on a new journal, owned."""
        await unowned.own()
        return unowned


async def refused(bench: Bench, *changes: Change) -> None:
    """The batch raises, and nothing of it remains."""
    before = (await bench.store.dump(), await bench.store.entries(), await bench.store.lanes())
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the adapter's business
        await bench.write(*changes)
    assert caught.value is not None
    assert (await bench.store.dump(), await bench.store.entries(), await bench.store.lanes()) == before
