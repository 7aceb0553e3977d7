"""Unique jobs: what stands in the way of a new one, and what becomes of both."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.flow import Flow, OnConflict
from timewheel.model import JobState, Now
from timewheel.store.changes import KeyConflict, Submit, Submitted, UniqueMet
from timewheel.testing.builders import (
    START,
    cancel,
    later,
    request,
    settle_dead,
    settle_ok,
    submit,
)
from timewheel.testing.builders_flow import unique
from timewheel.testing.conformance.bench import Bench, BenchTests

T = START.wall_us
FAIL, KEEP, REPLACE, MOVE = OnConflict.FAIL, OnConflict.KEEP, OnConflict.REPLACE, OnConflict.RESCHEDULE


def one(job_id: int, on_conflict: OnConflict = KEEP, digest: str = "d", **changes: Any) -> Submit:
    """A Submit of a unique job; the fields of its uniqueness may be given too."""
    mine = {name: changes.pop(name) for name in ("states", "period_us") if name in changes}
    return submit(job_id, flow=unique(digest, on_conflict=on_conflict, **mine), **changes)


@pytest.mark.asyncio
class Uniques(BenchTests):
    """Submit with `flow.unique`."""

    async def test_kept(self, bench: Bench) -> None:
        assert [getattr(o, "created", None) for o in await bench.write(one(1))] == [True]
        before = await bench.store.dump()
        assert await bench.write(one(2)) == [UniqueMet(1, conflict=False)]
        assert await bench.write(one(2, FAIL)) == [UniqueMet(1, conflict=True)]
        assert await bench.store.dump() == before
        await bench.crash()
        await bench.own()
        assert await bench.write(one(2)) == [UniqueMet(1, conflict=False)]

    @pytest.mark.parametrize("other", [one(2, digest="D"), one(2, digest="d "), submit(2), submit(2, flow=Flow())])
    async def test_others_do_not_stand_in_the_way(self, bench: Bench, other: Submit) -> None:
        outcomes = await bench.write(one(1), other)
        assert [getattr(outcome, "created", None) for outcome in outcomes] == [True, True]
        assert await bench.write(one(3)) == [UniqueMet(1, conflict=False)]

    async def test_tasks_and_queues_do_not_matter(self, bench: Bench) -> None:
        """The digest alone says what is unique."""
        await bench.write(one(1))
        assert await bench.write(one(2, task="other", queue="q")) == [UniqueMet(1, conflict=False)]

    @pytest.mark.parametrize("on_conflict", list(OnConflict))
    @pytest.mark.parametrize("states", [("COMPLETED",), ("DEAD", "SKIPPED", "CANCELLED"), ()])
    async def test_only_in_its_states(self, bench: Bench, on_conflict: OnConflict, states: tuple[str, ...]) -> None:
        for job_id in (1, 2):
            made = await bench.one(one(job_id, on_conflict, states=states), Submitted)
            assert (made.created, made.replaced) == (True, None)

    @pytest.mark.parametrize("state", ["SCHEDULED", "WAITING", "ACTIVE", "COMPLETED", "CANCELLED", "DEAD"])
    async def test_in_every_state(self, bench: Bench, state: str) -> None:
        await bench.write(one(1, states=(state,), concurrency_key="k"))
        if state == "WAITING":
            await bench.active(9, concurrency_key="k")
        if state not in ("SCHEDULED", "CANCELLED"):
            await bench.claim(1)
        if state == "CANCELLED":
            await bench.write(cancel(1))
        if state in ("COMPLETED", "DEAD"):
            await bench.write(settle_ok(1) if state == "COMPLETED" else settle_dead(1))
        assert await bench.state(1) is JobState(state)
        others = tuple(name.value for name in JobState if name.value != state)
        made, met = await bench.write(one(2, states=others), one(3, states=(state,)))
        assert getattr(made, "created", None) is True
        assert met == UniqueMet(2 if state == "SCHEDULED" else 1, conflict=False)

    async def test_the_newest_stands_in_the_way(self, bench: Bench) -> None:
        """By when it was made, and of one batch by its id."""
        await bench.write(one(5, states=()), one(3, states=()))
        assert await bench.write(one(9)) == [UniqueMet(5, conflict=False)]
        bench.now = later(1)
        await bench.write(one(4, states=()))
        assert await bench.write(one(9)) == [UniqueMet(4, conflict=False)]
        await bench.write(cancel(4))
        assert await bench.write(one(9)) == [UniqueMet(5, conflict=False)]

    async def test_only_within_the_period(self, bench: Bench) -> None:
        await bench.write(one(1))
        bench.now = later(99)
        assert await bench.write(one(2, period_us=100)) == [UniqueMet(1, conflict=False)]
        bench.now = later(100)
        assert [getattr(o, "created", None) for o in await bench.write(one(2, period_us=100))] == [True]
        bench.now = later(300)
        assert await bench.write(one(3)) == [UniqueMet(2, conflict=False)]

    async def test_the_period_is_measured_on_the_wall_clock(self, bench: Bench) -> None:
        await bench.write(one(1))
        bench.now = Now(T, START.steady_us + 100)
        assert await bench.write(one(2, period_us=1)) == [UniqueMet(1, conflict=False)]
        bench.now = Now(T - 1000, START.steady_us + 100)  # it was stepped back
        assert await bench.write(one(2, period_us=1)) == [UniqueMet(1, conflict=False)]

    async def test_those_of_one_batch(self, bench: Bench) -> None:
        outcomes = await bench.write(one(9), one(2), one(3, digest="e"), one(4, FAIL))
        assert [getattr(outcome, "created", None) for outcome in outcomes] == [True, None, True, None]
        assert outcomes[1::2] == [UniqueMet(9, conflict=False), UniqueMet(9, conflict=True)]

    async def test_what_ends_in_the_same_batch_is_out_of_the_way(self, bench: Bench) -> None:
        await bench.write(one(1))
        made, _ = await bench.write(one(2), cancel(1))
        assert getattr(made, "created", None) is True

    async def test_the_idempotency_key_is_asked_first(self, bench: Bench) -> None:
        keyed: dict[str, Any] = {"idempotency_key": "k", "digest": "d1"}
        unique_and_keyed = Submit(request(1, flow=unique("d"), **keyed))
        await bench.write(unique_and_keyed)
        again = Submit(request(2, flow=unique("d", on_conflict=FAIL), **keyed))
        other = Submit(request(3, flow=unique("d"), **(keyed | {"digest": "d2"})))
        assert await bench.write(again, other) == [Submitted(1, -1, created=False), KeyConflict(1)]

    async def test_who_is_refused_takes_no_key(self, bench: Bench) -> None:
        await bench.write(one(1))
        keyed: dict[str, Any] = {"idempotency_key": "k", "digest": "d1"}
        refused_one = Submit(request(2, flow=unique("d"), **keyed), importable=True)
        assert await bench.write(refused_one) == [UniqueMet(1, conflict=False)]
        dump = await bench.store.dump()
        assert (dump["keys"], dump["importable"]) == ({}, [])
        met, made = await bench.write(refused_one, submit(3, **keyed))
        assert met == UniqueMet(1, conflict=False)
        assert getattr(made, "created", None) is True
