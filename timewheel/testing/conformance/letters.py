"""Dead letters: replaying and discarding them."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import json
from typing import Any

import pytest

from timewheel.flow import Dependencies, Flow, Uniqueness
from timewheel.model import AttemptState, ClockKind, JobState
from timewheel.store.changes import DONE, KEY_KEEPING_US, AddEntry, Change, Done, Missing, PruneKeys, Submitted
from timewheel.store.letters import Discard, Replay, Replayed, TooLate
from timewheel.store.port import JobFilter, LetterFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    settle_dead,
    settle_ok,
    settle_retry,
    submit,
)
from timewheel.testing.builders_flow import AUDIT, discard, replay
from timewheel.testing.conformance.bench import Bench, BenchTests, refused
from timewheel.testing.conformance.claims import ids

T, STEADY = START.wall_us, START.steady_us
FAILED: dict[str, Any] = {"fault": "permanent", "fingerprint": "ab" * 16, "error": "boom", "failures": 4, "losses": 2}


async def dead(bench: Bench, job_id: int, **changes: Any) -> None:
    """A job that is DEAD after one attempt."""
    await bench.active(job_id, **changes)
    await bench.write(settle_dead(job_id, reason="permanent", first_failed_at=STEADY, **FAILED))


async def audits(bench: Bench) -> list[str]:
    """What the journal's audit entries say, the oldest first."""
    return [entry[3] for entry in await bench.store.entries() if entry[2] == "audit"]


@pytest.mark.asyncio
class Letters(BenchTests):
    """Replay and Discard."""

    # ---- replay ------------------------------------------------------------------------------------------------------

    async def test_a_dead_letter_runs_again(self, bench: Bench) -> None:
        await dead(bench, 1, queue="q", priority=2, scheduled_at=T - 7)
        before, [attempt] = await bench.job(1), await bench.store.attempts(1)
        bench.now = later(50)
        replayed = await bench.one(replay(1, STEADY + 40), Replayed)
        assert (replayed.job_id, replayed.due_at) == (1, STEADY + 40)
        assert await bench.lane_of(replayed.lane) == ("q", 2, ClockKind.STEADY)
        assert await bench.due(replayed.lane) == [(STEADY + 40, 1)]
        job = await bench.job(1)
        assert (job.state, job.due_clock, job.due_at) == (JobState.SCHEDULED, ClockKind.STEADY, STEADY + 40)
        assert (job.failures, job.losses, job.first_failed_at, job.finished_at) == (0, 0, None, None)
        assert (job.reason, job.error, job.fault, job.fingerprint) == (None, None, None, None)
        assert (job.scheduled_at, job.clock, job.version, job.attempt) == (T - 7, ClockKind.WALL, 2, 1)
        assert (job.arguments, job.created_at) == (before.arguments, before.created_at)
        assert await bench.store.attempts(1) == [attempt]
        assert ids(await bench.claim(1)) == [1]
        assert await bench.store.attempts(1) == [attempt, (await bench.store.attempts(1))[1]]
        assert (await bench.store.attempts(1))[1].number == 2
        await bench.write(settle_ok(1, attempt=2, result="1"))
        job = await bench.job(1)
        assert (job.state, job.error, job.fault) == (JobState.COMPLETED, None, None)

    @pytest.mark.parametrize("state", ["CANCELLED", "a requested cancel", "SKIPPED"])
    async def test_others_that_did_not_complete_run_again(self, bench: Bench, state: str) -> None:
        await bench.submit(1, misfire_grace_us=0)
        if state == "CANCELLED":
            await bench.write(cancel(1))
        elif state == "SKIPPED":
            await bench.claim(1, watching_since=later(1))
        else:
            await bench.write(claim(1))
            await bench.write(cancel(1, entered=True))
            await bench.write(settle_retry(1, reason="x"))
        bench.now = later(10)
        await bench.one(replay(1, STEADY + 5), Replayed)
        job = await bench.job(1)
        assert (job.state, job.cancel_requested, job.reason) == (JobState.SCHEDULED, None, None)
        [claimed] = (await bench.claim(1)).jobs
        assert (claimed.attempt, claimed.due_at) == (job.attempt + 1, STEADY + 5)
        await bench.write(settle_retry(1, attempt=claimed.attempt))
        assert await bench.state(1) is JobState.SCHEDULED

    async def test_in_no_other_state(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.active(2)
        await bench.active(3, concurrency_key="k")
        await bench.submit(4, concurrency_key="k")
        await bench.claim(4)
        await bench.ended(settle_ok(5))
        before = (await bench.store.dump(), await bench.store.entries())
        for job_id in (1, 2, 3, 4, 5):
            assert await bench.one(replay(job_id), TooLate) == TooLate(job_id)
        assert await bench.one(replay(77), Missing) == Missing(77)
        assert (await bench.store.dump(), await bench.store.entries()) == before

    async def test_a_second_click_does_nothing(self, bench: Bench) -> None:
        await dead(bench, 1)
        await bench.write(replay(1))
        before = (await bench.store.dump(), await bench.store.entries())
        assert await bench.one(replay(1, STEADY + 9), TooLate) == TooLate(1)
        assert (await bench.store.dump(), await bench.store.entries()) == before

    async def test_with_other_arguments(self, bench: Bench) -> None:
        await dead(bench, 1)
        await bench.write(replay(1, arguments='[["žluť"],{}]'))
        assert (await bench.job(1)).arguments == '[["žluť"],{}]'
        assert [job.arguments for job in (await bench.claim(1)).jobs] == ['[["žluť"],{}]']

    async def test_its_deadline_and_expiry_are_taken_away(self, bench: Bench) -> None:
        flow = Flow("k", 3, 5, T + 1, T + 2, False, "p", Uniqueness("d", ("DEAD",)), Dependencies((9,)))
        await bench.ended(settle_ok(9))
        await bench.submit(1, flow=flow)
        bench.now = later(2)
        assert (await bench.claim(1)).given_up == [1]
        await bench.write(replay(1))
        assert (await bench.job(1)).flow == flow._replace(expires_at=None, deadline=None)
        assert [job.flow for job in (await bench.claim(1)).jobs] == [flow._replace(expires_at=None, deadline=None)]

    async def test_a_flow_without_them_stays(self, bench: Bench) -> None:
        await dead(bench, 1, flow=Flow(rate_key="k"))
        await dead(bench, 2)
        await bench.write(replay(1), replay(2))
        assert [(await bench.job(job_id)).flow for job_id in (1, 2)] == [Flow(rate_key="k"), None]

    async def test_the_audit_is_written_with_it(self, bench: Bench) -> None:
        for job_id in (1, 2, 3):
            await dead(bench, job_id)
        await bench.submit(4)
        texts = [json.dumps({"n": n, "é": "ž"}, ensure_ascii=False) for n in range(5)]
        bench.now = later(7)
        batch: list[Change] = [
            replay(2, audit=texts[0]),
            replay(4, audit="{}"),
            discard(1, texts[1]),
            replay(3, audit=texts[2]),
        ]
        await bench.write(AddEntry("audit", texts[3]), *batch)
        assert await audits(bench) == [texts[0], texts[1], texts[2], texts[3]]
        assert {entry[1] for entry in await bench.store.entries() if entry[2] == "audit"} == {T + 7}
        await bench.crash()
        assert len(await audits(bench)) == 4

    async def test_a_batch_that_fails_replays_nothing(self, bench: Bench) -> None:
        for job_id in (1, 2):
            await dead(bench, job_id)
        await refused(bench, replay(1), discard(2), submit(1))

    async def test_its_idempotency_key_is_held_again(self, bench: Bench) -> None:
        keyed: dict[str, Any] = {"idempotency_key": "k", "digest": "d"}
        await dead(bench, 1, **keyed)
        bench.now = later(KEY_KEEPING_US)
        await bench.write(replay(1))
        bench.now = later(3 * KEY_KEEPING_US)
        assert await bench.write(submit(2, **keyed), PruneKeys(9)) == [
            Submitted(1, -1, created=False),
            DONE._replace(rows=0),
        ]

    async def test_a_key_that_was_freed_stays_free(self, bench: Bench) -> None:
        keyed: dict[str, Any] = {"idempotency_key": "k", "digest": "d"}
        await dead(bench, 1, **keyed)
        bench.now = later(KEY_KEEPING_US + 1)
        await bench.write(PruneKeys(9))
        _, made = await bench.write(replay(1), submit(2, **keyed))
        assert getattr(made, "job_id", None) == 2
        assert (await bench.store.dump())["keys"] == {("app.task", "k"): (2, "d")}

    async def test_a_job_of_a_schedule_is_unfinished_again(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1))
        await bench.write(cancel(1))
        await bench.write(replay(1))
        assert [job.job_id for job in (await bench.store.unfinished(["s"]))["s"]] == [1]
        assert (await bench.plan(occurrence(2, T + 1), hold=True)).waiting == [2]

    # ---- discard -----------------------------------------------------------------------------------------------------

    async def test_discarded(self, bench: Bench) -> None:
        await dead(bench, 1)
        before = await bench.job(1)
        bench.now = later(9)
        assert await bench.one(discard(1), Done) == DONE
        job = await bench.job(1)
        assert (job.state, job.discarded_at) == (JobState.DEAD, T + 9)
        job.discarded_at = None
        assert job == before
        assert await audits(bench) == [AUDIT]
        assert await bench.store.count(JobFilter(states=(JobState.DEAD,))) == 1
        assert (await bench.store.letters(LetterFilter())).jobs == []

    async def test_only_dead_letters_are(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.active(2)
        await bench.ended(settle_ok(3))
        await bench.submit(4)
        await bench.write(cancel(4))
        await dead(bench, 5)
        await bench.write(discard(5))
        before = (await bench.store.dump(), await bench.store.entries())
        bench.now = later(1)
        for job_id in (1, 2, 3, 4, 5):
            assert await bench.one(discard(job_id), TooLate) == TooLate(job_id)
        assert await bench.one(discard(77), Missing) == Missing(77)
        assert (await bench.store.dump(), await bench.store.entries()) == before

    async def test_a_discarded_one_may_still_be_replayed(self, bench: Bench) -> None:
        await dead(bench, 1)
        await bench.write(discard(1))
        await bench.one(replay(1), Replayed)
        assert (await bench.job(1)).discarded_at is None

    @pytest.mark.parametrize("change", [replay(1), discard(1)])
    async def test_what_dies_in_the_same_batch(self, bench: Bench, change: Replay | Discard) -> None:
        """Another batch, that is: one batch has one of Settle, Replay and Discard of a job; but of others all three."""
        await dead(bench, 1)
        await bench.active(2)
        settled, done = await bench.write(settle_dead(2), change)
        assert getattr(settled, "job_state", None) is JobState.DEAD
        assert isinstance(done, Replayed | Done)
        [attempt] = await bench.store.attempts(1)
        assert attempt.state is AttemptState.FAILED_PERMANENT
