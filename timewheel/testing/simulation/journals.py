"""The journal of a simulation: a real store behind one that is slow, fails and dies as planned.

Kinds of faults, all in a commit that the plan names:

    crash       the process dies in it: the commit never returns. `written`: whether the batch was
    unknown     it raises JournalUnknown; `written` says what really happened
    busy        it raises JournalBusy, nothing was written
    full        JournalFull, and so for `for_s` seconds
    slow        it takes `s` seconds
    gone        from then on `check` says that the file is not the one that was opened
    reopen      it raises JournalUnknown, and then the journal cannot be opened again
    read        not the commit fails, but the next `times` reads: JournalUnavailable

One with `on` = [event, tag] comes in the first commit with that change of that job ("submitting", "claiming",
"settling", "cancelling", "moving"), or of that schedule ("planning", "writing"), whatever its number.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from timewheel.errors import JournalBusy, JournalFull, JournalOwned, JournalUnavailable, JournalUnknown
from timewheel.model import SECOND_US
from timewheel.store.changes import Change, Outcome
from timewheel.store.port import Owner, Ownership, Stamp
from timewheel.testing.simulation.book import Book
from timewheel.testing.simulation.plan import Fault
from timewheel.testing.simulation.stores import crashed
from timewheel.testing.simulation.subjects import Event, note_tags, standing_events, subjects
from timewheel.testing.virtual import VirtualMachine


class FaultyJournal:
    """Another store behind commits and reads that take virtual time and fail as planned; implements Store.

    What was written is seen by readers before its writer hears of it. `happened(event, tag)` is called around the
    write. `tags` are the tags of all jobs that were ever submitted; `counts` is what was done, by kind.
    """

    def __init__(self, inner: Any, machine: VirtualMachine, seed: int, counts: Counter[str], book: Book) -> None:
        self.inner = inner
        self.book = book
        self.counts = counts
        self.died = asyncio.Event()
        self.happened: Callable[[str, str], None] = lambda event, tag: None
        self.tags: dict[int, str] = {}
        self.may_own = True
        self.went_back_us = 0  # how far steady time ever went back, from one commit to the next
        self._steady_us = 0
        self.longest_commit_us = 0  # of this life, on the clock that also runs in a suspend
        self.faulted = False  # whether a commit or a read of this life went wrong
        self._machine = machine
        self._random = random.Random(f"{seed} store")
        self.begin([], 0, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def begin(self, faults: Sequence[Fault], commit_s: float, read_s: float) -> None:
        """A new life with these faults."""
        self.commit_s, self.read_s = commit_s, read_s
        self.died = asyncio.Event()
        self.number = 0
        self.busy = False  # whether a commit is under way
        self.reading = 0  # how many reads are
        self.faulted = self.gone = False
        self.longest_commit_us = 0
        self._cannot_reopen = False
        self._bad_reads = 0
        self._full_until_us = 0
        self._traps = [fault for fault in faults if "on" in fault.what]
        self._faults = {fault.commit: fault for fault in faults if "on" not in fault.what}

    def another(self) -> FaultyJournal:
        """A second process' way to the same journal, without faults of its own."""
        heir = FaultyJournal(self.inner.another(), self._machine, self._machine.boots, self.counts, self.book)
        heir.happened, heir.tags = self.happened, self.tags
        heir.begin([], self.commit_s, self.read_s)
        heir.may_own = False
        return heir

    async def own(self, owner: Owner) -> Ownership:
        """See Store.own; an heir may not before the world has written down how the life before ended."""
        if not self.may_own:
            raise JournalOwned("another scheduler owns this journal (simulated)", path=self.inner.path)
        granted: Ownership = await self.inner.own(owner)
        return granted

    def crash(self) -> None:
        """The process died."""
        self.inner = crashed(self.inner)

    # ---- writing -----------------------------------------------------------------------------------------------------

    async def commit(self, changes: Sequence[Change], stamp: Stamp) -> list[Outcome]:
        """See Store.commit."""
        self.number += 1
        self.counts["commits"] += 1
        began_us = self._machine.clock.boot_us()
        self.busy = True
        try:
            outcomes = await self._commit(changes, stamp, self._faults.get(self.number))
        finally:
            self.busy = False
        self.longest_commit_us = max(self.longest_commit_us, self._machine.clock.boot_us() - began_us)
        return outcomes

    async def _commit(self, changes: Sequence[Change], stamp: Stamp, fault: Fault | None) -> list[Outcome]:
        about = self._subjects(changes)
        fault = self._trapped(about) or fault
        for event, _, tag in about:
            self.happened(event, tag)
        await self._pass(self.commit_s / 2)
        await self._before(fault)
        outcomes: list[Outcome] = []
        if fault is None or fault.what.get("written", True):
            busy = await self.book.before(self.inner, changes)
            outcomes = await self.inner.commit(changes, stamp)
            await self.book.after(self.inner, changes, outcomes, stamp.now, busy)
            self.went_back_us = max(self.went_back_us, self._steady_us - stamp.now.steady_us)
            self._steady_us = stamp.now.steady_us
            for _, event, tag in about:
                self.happened(event, tag)
        await self._after(fault, changes)
        await self._pass(self.commit_s / 2)
        return outcomes

    def _subjects(self, changes: Sequence[Change]) -> list[Event]:
        """(event before the write, event after it, tag) of every change that is about a job or a schedule."""
        note_tags(changes, self.tags)
        found = [(before, after, self.tags.get(job_id, "")) for before, after, job_id in subjects(changes)]
        return [*found, *standing_events(changes)]

    def _trapped(self, about: list[tuple[str, str, str]]) -> Fault | None:
        """The fault that waited for one of these events."""
        for fault in self._traps:
            if any(fault.what["on"] == [before, tag] for before, _, tag in about):
                self._traps.remove(fault)
                return fault
        return None

    async def _before(self, fault: Fault | None) -> None:
        """What goes wrong before anything is written."""
        now_us = self._machine.clock.boot_us()
        if fault is not None and fault.kind == "full":
            self._full_until_us = now_us + round(fault.what["for_s"] * SECOND_US)
        if now_us < self._full_until_us:
            self._count("full")
            raise JournalFull("no space left (simulated)", path=self.inner.path)
        if fault is not None and fault.kind == "busy":
            self._count("busy")
            raise JournalBusy("locked (simulated)", path=self.inner.path)
        if fault is not None and fault.kind == "slow":
            self.counts["fault: slow"] += 1
            await asyncio.sleep(fault.what["s"])

    async def _after(self, fault: Fault | None, changes: Sequence[Change]) -> None:
        """What goes wrong when it was written, or was not and nobody knows."""
        if fault is None or fault.kind in ("full", "busy", "slow"):
            return
        written = "written" if fault.what.get("written", True) else "not written"
        if fault.kind == "crash":
            await self._die(written, changes)
        elif fault.kind == "gone":
            self._count("gone")
            self.gone = True
        elif fault.kind == "read":
            self._bad_reads = fault.what.get("times", 1)
        else:
            self._count(f"{fault.kind}, {written}")
            self._cannot_reopen = fault.kind == "reopen"
            await self._pass(self.commit_s / 2)
            raise JournalUnknown("an I/O error from COMMIT (simulated)", path=self.inner.path)

    async def _die(self, written: str, changes: Sequence[Change]) -> None:
        self.counts[f"fault: crash in a commit, {written}"] += 1
        for kind in {type(change).__name__.lower() for change in changes} or {"empty"}:
            self.counts[f"crash in a commit with: {kind}, {written}"] += 1
        self.died.set()
        await asyncio.Event().wait()

    def _count(self, kind: str) -> None:
        self.faulted = True
        self.counts[f"fault: {kind}"] += 1

    async def reopen(self) -> None:
        """See Store.reopen."""
        if self._cannot_reopen:
            raise JournalUnavailable("cannot be opened (simulated)", path=self.inner.path)
        await self.inner.reopen()

    async def check(self) -> None:
        """See Store.check."""
        self.counts["checks"] += 1
        if self.gone:
            raise JournalUnavailable("another file (simulated)", path=self.inner.path)
        await self.inner.check()

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def due(self, *where: Any) -> Any:
        """See Store.due."""
        self.counts["pages of the due index"] += 1
        return await self._read(self.inner.due, *where)

    async def job(self, job_id: int) -> Any:
        """See Store.job."""
        return await self._read(self.inner.job, job_id)

    async def unfinished(self, schedules: Sequence[str], *, limit: int = 1_000) -> Any:
        """See Store.unfinished."""
        return await self._read(self.inner.unfinished, schedules, limit=limit)

    async def schedule(self, schedule: str) -> Any:
        """See Store.schedule."""
        return await self._read(self.inner.schedule, schedule)

    async def schedules(self, which: Any, **page: Any) -> Any:
        """See Store.schedules."""
        return await self._read(self.inner.schedules, which, **page)

    async def ledger(self, schedule: str, **page: Any) -> Any:
        """See Store.ledger."""
        return await self._read(self.inner.ledger, schedule, **page)

    async def calendars(self) -> Any:
        """See Store.calendars."""
        return await self._read(self.inner.calendars)

    async def _read(self, read: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.reading += 1
        try:
            await self._pass(self.read_s / 2)
            if self._bad_reads:
                self._bad_reads -= 1
                self._count("read")
                raise JournalUnavailable("an I/O error from a read (simulated)", path=self.inner.path)
            answer = await read(*arguments, **named)
            await self._pass(self.read_s / 2)
            return answer
        finally:
            self.reading -= 1

    async def _pass(self, most_s: float) -> None:
        if most_s:
            await asyncio.sleep(self._random.uniform(0, most_s))
