"""Operations on many jobs; entries of one kind; limits that are forgotten."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.store.changes import DONE, AddEntry, Done, SaveLimits
from timewheel.store.letters import OperationRecord, OperationState
from timewheel.testing.builders import START, cancel, later
from timewheel.testing.builders_flow import AUDIT, operation, put_operation, replay
from timewheel.testing.conformance.bench import Bench, BenchTests

T = START.wall_us


@pytest.mark.asyncio
class Operations(BenchTests):
    """PutOperation, operation, operations, entries_of; SaveLimits with None."""

    async def test_an_operation_is_kept_whole(self, bench: Bench) -> None:
        whole = OperationRecord(
            number=1 << 50,
            kind="discard",
            state=OperationState.STOPPED,
            request='{"queue": "žluť"}',
            progress='{"done":7,"failed":1}',
            audit=AUDIT,
            created_at=T,
            updated_at=T + 5,
            reason="its canary failed",
        )
        assert await bench.write(put_operation(1 << 50, **_fields(whole))) == [DONE]
        await bench.crash()
        found = await bench.store.operation(1 << 50)
        assert found == whole
        assert found is not None
        assert type(found.state) is OperationState
        assert (await bench.store.dump())["operations"] == {1 << 50: whole}
        assert await bench.store.operation(1) is None

    async def test_it_is_replaced_whole(self, bench: Bench) -> None:
        await bench.write(put_operation(1, reason="x", state=OperationState.STOPPED), put_operation(2))
        done = operation(1, state=OperationState.DONE, progress='{"done":1}', updated_at=T + 9)
        await bench.write(put_operation(1, **_fields(done)))
        assert await bench.store.operation(1) == done
        assert await bench.store.operation(2) == operation(2)

    async def test_the_last_of_a_batch_counts(self, bench: Bench) -> None:
        await bench.write(put_operation(1, progress="{}"), put_operation(1, progress='{"done":2}'))
        assert await bench.store.operations() == [operation(1, progress='{"done":2}')]

    async def test_operations_page_by_page(self, bench: Bench) -> None:
        await bench.write(*(put_operation(number) for number in (5, 1, 9, 3)))
        assert [one.number for one in await bench.store.operations()] == [9, 5, 3, 1]
        assert [one.number for one in await bench.store.operations(limit=2)] == [9, 5]
        assert [one.number for one in await bench.store.operations(before=5, limit=1)] == [3]
        assert await bench.store.operations(before=1) == []
        assert await bench.store.operations(limit=0) == []

    async def test_entries_of_one_kind(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.write(cancel(1))
        for n, kind in enumerate(("a", "audit", "b", "a", "Audit")):
            bench.now = later(n)
            await bench.write(AddEntry(kind, f'{{"n":{n}}}'))
        await bench.write(replay(1, audit='{"é":1}'))
        newest, oldest = await bench.store.entries_of("audit")
        assert (newest[1:], oldest[1:]) == ((T + 4, "audit", '{"é":1}'), (T + 1, "audit", '{"n":1}'))
        everything = await bench.store.entries()
        assert [tuple(entry) for entry in everything if entry[2] == "audit"] == [tuple(oldest), tuple(newest)]
        assert await bench.store.entries_of("audit", limit=1) == [newest]
        assert await bench.store.entries_of("audit", before=newest[0]) == [oldest]
        assert await bench.store.entries_of("audit", before=oldest[0]) == []
        assert [entry[3] for entry in await bench.store.entries_of("a")] == ['{"n":3}', '{"n":0}']
        assert await bench.store.entries_of("c") == []
        assert await bench.store.entries_of("a", limit=0) == []

    async def test_a_limit_is_forgotten(self, bench: Bench) -> None:
        await bench.write(SaveLimits({"a": 1, "b": 2, "c": 3}))
        assert await bench.one(SaveLimits({"a": None, "nobody": None, "b": 5}), Done) == Done(3)
        assert await bench.store.limits() == {"b": 5, "c": 3}
        await bench.crash()
        await bench.own()
        await bench.write(SaveLimits({"c": None}), SaveLimits({"c": 7, "b": None}), SaveLimits({"b": None}))
        assert await bench.store.limits() == {"c": 7}


def _fields(record: OperationRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in OperationRecord.__dataclass_fields__ if name != "number"}
