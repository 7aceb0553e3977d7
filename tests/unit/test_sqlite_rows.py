"""What the rows hold, where SQLite's way of keeping them differs from the model's."""

import pytest

from timewheel.flow import Dependencies, Flow
from timewheel.model import AttemptState, ClockKind, JobState, RetryPolicy
from timewheel.store.changes import KEY_KEEPING_US, AddEntry, Missing, SaveLimits
from timewheel.store.port import JobFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    owner,
    reschedule,
    settle_dead,
    settle_ok,
    settle_retry,
    stamp,
    submit,
)
from timewheel_storage.sqlite import open_sqlite, read_list, verify
from timewheel_storage.sqlite.kinds import Memory


@pytest.fixture
async def store(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    yield store
    await store.close()


async def test_a_new_attempt_has_nothing_of_the_one_before(store):
    """Both were kept in the same columns."""
    told = {"dispatched_at": 1, "started_at": 2, "finished_at": 3, "dispatch_lag_us": 4, "start_lag_us": 5}
    await store.commit([submit(1)], stamp(1))
    await store.commit([claim(1)], stamp(1))
    await store.commit([settle_retry(1, **told, error_kind="ValueError", reason="why")], stamp(1))
    await store.commit([claim(1)], stamp(1))
    first, second = await store.attempts(1)
    assert first.state is AttemptState.FAILED_RETRYABLE
    assert (first.dispatched_at, first.start_lag_us, first.error_kind, first.reason) == (1, 5, "ValueError", "why")
    assert second.state is AttemptState.QUEUED
    assert second.clock is ClockKind.STEADY
    assert second.scheduled_at == START.steady_us
    for name in (*told, "error", "error_kind", "reason", "policy"):
        assert getattr(second, name) is None, name
    await store.commit([settle_ok(1, attempt=2, failures=1)], stamp(1))
    assert (await store.attempts(1))[0] == first
    assert (await store.job(1)).error == "boom"  # the last one there was


@pytest.mark.parametrize(
    "text", ["a\0b", "\0", "\ud800", "a\0\udfffb", 'quotes " and \\u0000 as letters', "\U0001f570 é"]
)
async def test_texts_that_sqlite_cannot_keep_do_not_harm_the_batch(store, text):
    await store.commit([submit(job_id, task="app.t") for job_id in (1, 2, 3)], stamp(1))
    await store.commit([claim(1, 2, 3), AddEntry("kind", text), SaveLimits({text: 5})], stamp(1))
    await store.commit([settle_dead(1, error=text, reason=text), settle_ok(2, result="7"), cancel(3, text)], stamp(1))
    kept = (await store.job(1)).error
    assert kept == text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    assert (await store.job(1)).reason == (await store.job(3)).reason == kept
    assert (await store.job(2)).result == "7"
    assert (await store.entries())[0][3] == kept
    assert await store.limits() == {kept: 5}


async def test_requests_are_told_apart_however_alike(store):
    """What they have in common is kept once; a difference in any part must not be lost in that."""
    variants = [
        {},
        {"task": "app.other"},
        {"queue": "mail"},
        {"priority": 3},
        {"clock": ClockKind.STEADY},
        {"retry": RetryPolicy(max_attempts=3)},
        {"retry": RetryPolicy(give_up_after_us=5)},
        {"timeout_us": 7},
        {"timeout_us": 8},
    ]
    for first in (1, 101):  # unknown to the owner, then remembered
        made = [submit(first + place, **variant) for place, variant in enumerate(variants)]
        outcomes = await store.commit(made, stamp(1))
        lanes = {lane.number: lane for lane in await store.lanes()}
        for change, outcome in zip(made, outcomes, strict=True):
            request, job = change.request, await store.job(change.request.job_id)
            for name in ("task", "queue", "priority", "clock", "retry", "timeout_us"):
                assert getattr(job, name) == getattr(request, name)
            assert lanes[outcome.lane][1:] == (request.queue, request.priority, request.clock, "")


async def test_the_memory_of_the_owner_is_bounded(store, monkeypatch):
    monkeypatch.setattr(Memory, "LIMIT", 5)
    for job_id in range(1, 40):
        await store.commit([submit(job_id, timeout_us=job_id % 13, task=f"t{job_id % 3}", importable=True)], stamp(1))
        assert len(store._memory.kinds) <= 5
    assert len({(await store.job(job_id)).timeout_us for job_id in range(1, 40)}) == 13
    assert await store.importable() == ["t0", "t1", "t2"]


async def test_a_refused_batch_is_not_remembered(store):
    with pytest.raises(Exception, match="UNIQUE"):
        await store.commit([submit(1, queue="new"), submit(1, queue="new")], stamp(1))
    assert await store.lanes() == []
    await store.commit([submit(2, queue="new", importable=True)], stamp(1))
    assert [lane.queue for lane in await store.lanes()] == ["new"]
    assert await store.importable() == ["app.task"]


async def test_a_moved_job_counts_the_clock_it_was_moved_to(store):
    await store.commit([submit(1)], stamp(1))
    await store.commit([reschedule(1, 77, ClockKind.STEADY)], stamp(1))
    job = await store.job(1)
    assert (job.clock, job.due_clock, job.scheduled_at, job.due_at) == (ClockKind.STEADY, ClockKind.STEADY, 77, 77)


async def test_pages_and_counts_beyond_one_scan(store, monkeypatch):
    monkeypatch.setattr(read_list, "SCAN", 10)
    monkeypatch.setattr(read_list, "COUNT_SCAN", 10)
    await store.commit(
        [submit(job_id, queue="rare" if job_id % 40 == 0 else "q") for job_id in range(1, 101)], stamp(1)
    )
    await store.commit([cancel(job_id, "") for job_id in range(1, 101, 3)], stamp(1))
    for which, expected in (
        (JobFilter(queue="rare"), [80, 40]),
        (JobFilter(states=(JobState.CANCELLED,)), list(range(100, 0, -3))),
        (JobFilter(states=(JobState.CANCELLED, JobState.DEAD), queue="rare"), [40]),
        (JobFilter(states=(JobState.CANCELLED, JobState.SCHEDULED), queue="rare"), [80, 40]),
        (JobFilter(), list(range(100, 0, -1))),
    ):
        found, before, calls = [], None, 0
        while calls == 0 or before is not None:
            page = await store.jobs(which, before=before, limit=7)
            found += [job.job_id for job in page.jobs]
            before, calls = page.next_before, calls + 1
            assert calls < 50
        assert found == expected
        assert await store.count(which) == len(expected)


async def test_a_lapsed_key_stays_with_its_job_when_nothing_is_made(store, tmp_path):
    """What is refused for another reason frees no key; the audit would find the job without it."""
    await store.commit([submit(1, idempotency_key="k", digest="d")], stamp(1))
    await store.commit([cancel(1)], stamp(1))
    lapsed = stamp(1, later(KEY_KEEPING_US))
    refused = submit(2, idempotency_key="k", digest="d", flow=Flow(wait_for=Dependencies((9,))))
    assert await store.commit([refused], lapsed) == [Missing(9)]
    assert (await store.dump())["keys"] == {("app.task", "k"): (1, "d")}
    assert verify(str(tmp_path / "journal.db")) == []
    await store.commit([submit(3, idempotency_key="k", digest="d")], lapsed)
    assert (await store.dump())["keys"] == {("app.task", "k"): (3, "d")}
    assert verify(str(tmp_path / "journal.db")) == []
