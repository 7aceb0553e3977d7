"""Lists of dead letters: pages, filters, counts, and groups by fingerprint."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.store.letters import LetterGroup
from timewheel.store.port import LetterFilter
from timewheel.testing.builders import START, cancel, later, settle_dead, settle_ok
from timewheel.testing.builders_flow import discard, replay
from timewheel.testing.conformance.bench import MAX_PAGES, Bench, BenchTests

T = START.wall_us
ALL = LetterFilter()


async def die(bench: Bench, job_id: int, fingerprint: str | None = None, at: int = 0, **changes: Any) -> None:
    """A job dies at START + `at`."""
    await bench.active(job_id, **changes)
    bench.now = later(at)
    error = f"boom {job_id}"
    await bench.write(settle_dead(job_id, fault="permanent", fingerprint=fingerprint, error=error))


async def listed(bench: Bench, which: LetterFilter = ALL, limit: int = 100) -> list[int]:
    """The ids of all the dead letters that match, page by page."""
    ids: list[int] = []
    before = None
    for _ in range(MAX_PAGES):
        page = await bench.store.letters(which, before=before, limit=limit)
        assert len(page.jobs) <= limit
        ids += [job.job_id for job in page.jobs]
        if page.next_before is None:
            return ids
        assert before is None or page.next_before < before, "pages must go on"
        before = page.next_before
    raise AssertionError("the pages have no end")


async def several(bench: Bench) -> None:
    """1 to 6 die, at 10 microseconds a job; 7 was discarded, 8 replayed, 9 completed, 10 cancelled, 11 runs."""
    await die(bench, 1, "f", 10, queue="a", tags=("x", "y"))
    await die(bench, 2, "f", 20, queue="b", task="t", tags=("y",))
    await die(bench, 3, "g", 30, queue="a", task="t")
    await die(bench, 4, None, 40, queue="a", tags=("X",))
    await die(bench, 5, "f", 50, queue="a")
    await die(bench, 6, None, 60, task="t")
    for job_id in (7, 8):
        await die(bench, job_id, "f", 70, queue="a")
    await bench.write(discard(7), replay(8))
    await bench.ended(settle_ok(9))
    await bench.submit(10)
    await bench.write(cancel(10))
    await bench.active(11)


@pytest.mark.asyncio
class LetterLists(BenchTests):
    """Reads of dead letters."""

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
    async def test_the_newest_letters_first(self, bench: Bench, limit: int) -> None:
        await several(bench)
        assert await listed(bench, limit=limit) == [6, 5, 4, 3, 2, 1]
        page = await bench.store.letters(ALL, before=5, limit=2)
        assert page.jobs == [await bench.job(4), await bench.job(3)]

    @pytest.mark.parametrize(
        ("which", "found"),
        [
            (LetterFilter(queue="a"), [5, 4, 3, 1]),
            (LetterFilter(queue="A"), []),
            (LetterFilter(task="t"), [6, 3, 2]),
            (LetterFilter(tag="y"), [2, 1]),
            (LetterFilter(tag="x"), [1]),
            (LetterFilter(tag='"'), []),
            (LetterFilter(fingerprint="f"), [5, 2, 1]),
            (LetterFilter(fingerprint="h"), []),
            (LetterFilter(since=T + 30), [6, 5, 4, 3]),
            (LetterFilter(until=T + 30), [3, 2, 1]),
            (LetterFilter(since=T + 11, until=T + 39), [3, 2]),
            (LetterFilter(since=T + 31, until=T + 30), []),
            (LetterFilter("a", "app.task", "y", "f", T, T + 99), [1]),
        ],
    )
    async def test_those_that_match(self, bench: Bench, which: LetterFilter, found: list[int]) -> None:
        await several(bench)
        for limit in (1, 3, 100):
            assert await listed(bench, which, limit) == found
        assert await bench.store.count_letters(which) == len(found)
        assert sum(group.letters for group in await bench.store.letter_groups(which)) == len(found)

    async def test_groups_by_fingerprint_and_task(self, bench: Bench) -> None:
        await several(bench)
        groups = [
            LetterGroup("f", "app.task", "boom 5", 2, T + 10, T + 50, 5),
            LetterGroup(None, "t", "boom 6", 1, T + 60, T + 60, 6),
            LetterGroup(None, "app.task", "boom 4", 1, T + 40, T + 40, 4),
            LetterGroup("g", "t", "boom 3", 1, T + 30, T + 30, 3),
            LetterGroup("f", "t", "boom 2", 1, T + 20, T + 20, 2),
        ]
        assert await bench.store.letter_groups(ALL) == groups
        for limit in (0, 1, 3):
            assert await bench.store.letter_groups(ALL, limit=limit) == groups[:limit]
        assert await bench.store.letter_groups(LetterFilter(queue="a", task="app.task")) == [groups[0], groups[2]]
        await bench.crash()
        assert await bench.store.letter_groups(ALL) == groups

    async def test_the_newest_of_a_group_is_the_youngest_job(self, bench: Bench) -> None:
        """Whichever ended last."""
        await die(bench, 2, "f", 10)
        await die(bench, 1, "f", 50)
        await die(bench, 3, "f", 30)
        assert await bench.store.letter_groups(ALL) == [LetterGroup("f", "app.task", "boom 3", 3, T + 10, T + 50, 3)]

    async def test_a_letter_without_an_error(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_dead(1, error=None))
        assert await bench.store.letter_groups(ALL) == [LetterGroup(None, "app.task", None, 1, T, T, 1)]

    async def test_nothing_is_dead(self, bench: Bench) -> None:
        await bench.submit(1)
        page = await bench.store.letters(ALL)
        assert (page.jobs, page.next_before) == ([], None)
        assert await bench.store.count_letters(ALL) == 0
        assert await bench.store.letter_groups(ALL) == []
