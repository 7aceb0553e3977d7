"""Dead letters, operations and what is forgotten, where SQLite's way of keeping them differs from the model's."""

import json
import sqlite3

import pytest

from timewheel.errors import JournalCorrupt
from timewheel.flow import Dependencies, DependencyFails, Flow, Uniqueness
from timewheel.model import AttemptState, ClockKind, FaultClass, JobState, job_text
from timewheel.store.changes import DONE, AddEntry, Missing, TakeOver
from timewheel.store.letters import LetterGroup, OperationState, Pruned, Replayed, TooLate
from timewheel.store.port import LetterFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    owner,
    plan,
    put_schedule,
    settle_dead,
    settle_lost,
    settle_ok,
    settle_retry,
    stamp,
    submit,
)
from timewheel.testing.builders_flow import discard, operation, prune, put_operation, replay, rule
from timewheel_storage.sqlite import open_sqlite, read_letters, verify

AT = START.wall_us
ANY = LetterFilter()


@pytest.fixture
async def store(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    yield store
    await store.close()
    assert verify(str(tmp_path / "journal.db")) == []


async def make_dead(store, *job_ids, **changes):
    """These jobs, each failed once and for all."""
    await store.commit([submit(job_id, flow=changes.pop("flow", None)) for job_id in job_ids], stamp(1))
    await store.commit([claim(*job_ids)], stamp(1))
    await store.commit([settle_dead(job_id, **changes) for job_id in job_ids], stamp(1))


# ---- what a failure was ----------------------------------------------------------------------------------------------


async def test_a_failure_stays_with_its_attempt_and_the_last_with_the_job(store):
    await store.commit([submit(1), submit(2)], stamp(1))
    await store.commit([claim(1, 2)], stamp(1))
    await store.commit([settle_retry(1, fault="throttled", fingerprint="f"), settle_ok(2)], stamp(1))
    await store.commit([claim(1)], stamp(1))
    await store.commit([settle_lost(1, attempt=2)], stamp(1))  # a loss of no class
    job = await store.job(1)
    assert (job.fault, job.fingerprint) == ("throttled", "f")
    await store.commit([claim(1)], stamp(1))
    await store.commit([settle_retry(1, attempt=3, fault="transient")], stamp(1))
    job = await store.job(1)
    assert (job.fault, job.fingerprint) == ("transient", None)
    await store.commit([claim(1)], stamp(1))
    await store.commit([settle_ok(1, attempt=4)], stamp(1))
    job = await store.job(1)
    assert (job.state, job.fault, job.fingerprint) == (JobState.COMPLETED, "transient", None)
    assert [attempt.fault for attempt in await store.attempts(1)] == ["throttled", None, "transient", None]
    assert (await store.job(2)).fault is None


async def test_a_success_that_names_a_failure_keeps_it(store):
    """It is no plain success: the short way of those writes no class."""
    await store.commit([submit(1), claim(1)], stamp(1))
    await store.commit([settle_ok(1, fault="ambiguous", fingerprint="f")], stamp(1))
    assert (await store.job(1)).fingerprint == "f"
    assert [attempt.fault for attempt in await store.attempts(1)] == ["ambiguous"]


# ---- replays ---------------------------------------------------------------------------------------------------------


async def test_a_replay_goes_on_in_the_steady_lane_of_its_partition(store):
    flow = Flow(rate_key="é", cost=3, expires_at=1, deadline=2, heartbeat_timeout_us=9, partition_key="p")
    flow = flow._replace(unique=Uniqueness("d", ("ACTIVE",)), wait_for=Dependencies((9,), DependencyFails.RUN))
    await store.commit([submit(9)], stamp(1))
    await store.commit([cancel(9)], stamp(1))
    await store.commit([submit(1, flow=flow), submit(2, flow=flow)], stamp(1))
    await store.commit([cancel(1), cancel(2)], stamp(1))
    first, second, third = await store.commit([replay(1, 7), replay(2, 8), replay(9, 9)], stamp(1))
    lanes = {lane.number: lane for lane in await store.lanes()}
    assert first.lane == second.lane != third.lane
    assert (lanes[first.lane].clock, lanes[first.lane].partition) == (ClockKind.STEADY, "p")
    assert (lanes[third.lane].clock, lanes[third.lane].partition) == (ClockKind.STEADY, "")
    assert (await store.job(1)).flow == flow._replace(expires_at=None, deadline=None)
    assert len(lanes) == 4  # two clocks, in the partition and beside it
    await store.commit([claim(1, watching_since=START)], stamp(1))


async def test_the_audit_has_its_entries_in_the_order_of_the_batch(store):
    await make_dead(store, 1, 2, 3, 4)
    changes = [discard(3, "[3]"), replay(4, 1, "[4]"), replay(8, 1, "[8]"), AddEntry("x"), discard(1, "[1]")]
    outcomes = await store.commit([*changes, replay(2, 1, "[2]", '[["new"],{}]')], stamp(1))
    assert [type(outcome) for outcome in outcomes[:2]] == [type(DONE), Replayed]
    assert outcomes[2] == Missing(8)
    audits = await store.entries_of("audit")
    assert [data for _, _, _, data in audits] == ["[2]", "[1]", "[4]", "[3]"]
    assert {wall_us for _, wall_us, _, _ in audits} == {AT}
    assert (await store.entries_of("audit", before=audits[1][0], limit=1)) == [audits[2]]
    assert len(await store.entries()) == 5
    assert (await store.job(2)).arguments == '[["new"],{}]'
    again = [discard(3, "[]"), replay(4, 1, "[]"), discard(2, "[]"), discard(8, "[]")]
    assert await store.commit(again, stamp(1)) == [TooLate(3), TooLate(4), TooLate(2), Missing(8)]
    assert len(await store.entries()) == 5
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE entries SET data = '{}' WHERE kind = 'audit'")  # which the audit asks for
    connection.commit()
    connection.close()


@pytest.mark.parametrize("text", ["a\0b", "\ud800", '{"quotes": "\\" and \\u0000"}', "\U0001f570 é"])
async def test_texts_that_sqlite_cannot_keep_do_not_harm_letters(store, text):
    await make_dead(store, 1, 2, error=text, fault="permanent", fingerprint=text)
    (group,) = await store.letter_groups(ANY)
    assert group.letters == 2
    arguments = json.dumps([[text], {}])
    await store.commit([replay(1, arguments=arguments), put_operation(1, reason=text)], stamp(1))
    assert (await store.job(1)).arguments == arguments
    assert (await store.operation(1)).number == 1


async def test_a_batch_of_letters_takes_few_statements_whatever_its_size(store):
    statements = []
    await make_dead(store, *range(1, 401))
    await store._connections.transact(lambda connection: connection.set_trace_callback(statements.append))
    changes = [replay(job_id) for job_id in range(1, 301)] + [discard(job_id) for job_id in range(301, 401)]
    assert TooLate not in {type(outcome) for outcome in await store.commit(changes, stamp(1))}
    # BEGIN, the stamp, what is there, two for the lane, replays, discards, the audit, COMMIT
    assert len([statement for statement in statements if not statement.startswith("--")]) == 9


async def test_a_replayed_job_may_have_lost_its_idempotency_key(store):
    """The audit of the fixture knows that."""
    await store.commit([submit(1, idempotency_key="k", digest="d"), submit(2)], stamp(1))
    await store.commit([cancel(1)], stamp(1))
    week_later = stamp(1, later(7 * 24 * 3600 * 1_000_000))
    await store.commit([submit(3, idempotency_key="k", digest="d")], week_later)
    await store.commit([replay(1)], week_later)
    assert (await store.dump())["keys"] == {("app.task", "k"): (3, "d")}


# ---- lists and groups ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_scans(monkeypatch):
    monkeypatch.setattr(read_letters, "SCAN", 3)
    monkeypatch.setattr(read_letters, "COUNT_SCAN", 2)


async def every_page(store, which, limit):
    pages, before = [], None
    while not pages or before is not None:
        page = await store.letters(which, before=before, limit=limit)
        pages.append([job.job_id for job in page.jobs])
        before = page.next_before
    return pages


async def test_pages_go_on_where_a_call_stopped_looking(store, small_scans):
    await make_dead(store, *range(1, 11), fault="transient", fingerprint="f")
    await make_dead(store, 11, fault="transient", fingerprint="g")
    await store.commit([discard(job_id) for job_id in (4, 5, 6, 7, 8, 9)], stamp(1))
    assert await every_page(store, ANY, 2) == [[11, 10], [], [3], [2, 1]]
    of_one = await every_page(store, LetterFilter(fingerprint="f"), 50)
    assert of_one == [[10, 3, 2], [1]]  # what was discarded is not looked at
    assert await store.count_letters(ANY) == 5
    assert await store.count_letters(LetterFilter(fingerprint="f")) == 4


async def test_groups_are_gathered_over_several_calls(store, small_scans):
    for job_id, (fingerprint, error) in enumerate(["fa", "gb", "fc", "fd", "ge", "gf", "fg"], 1):
        await make_dead(store, job_id)  # of no class
        await store.commit([replay(job_id)], stamp(1))
        await store.commit([claim(job_id, ahead_us=10**9)], stamp(1))
        settle = settle_dead(job_id, attempt=2, fault="permanent", fingerprint=fingerprint, error=error)
        await store.commit([settle], stamp(1, later(10 - job_id)))
    f = LetterGroup("f", "app.task", "g", 4, AT + 3, AT + 9, 7)
    g = LetterGroup("g", "app.task", "f", 3, AT + 4, AT + 8, 6)
    assert await store.letter_groups(ANY) == [f, g]
    assert await store.letter_groups(ANY, limit=1) == [f]
    assert await store.letter_groups(ANY, limit=0) == []
    assert await store.letter_groups(LetterFilter(fingerprint="g", since=AT + 5)) == [
        g._replace(letters=2, first_at=AT + 5, error="e", newest=5)
    ]
    assert await store.count_letters(LetterFilter(until=AT + 4)) == 2


async def test_groups_of_equal_size_begin_with_the_newest_letter(store):
    for job_id, fingerprint in ((1, "a"), (2, None), (3, "b")):
        await make_dead(store, job_id, fault=FaultClass.TRANSIENT.value, fingerprint=fingerprint)
    assert [group.fingerprint for group in await store.letter_groups(ANY)] == ["b", None, "a"]


# ---- operations ------------------------------------------------------------------------------------------------------


async def test_operations_are_kept_whole_and_replaced_whole(store):
    for number in (3, 1, 2):
        assert await store.commit([put_operation(number)], stamp(1)) == [DONE]
    changed = operation(2, kind="discard", state=OperationState.STOPPED, reason="why", request="{}", updated_at=AT + 1)
    await store.commit([put_operation(2), put_operation(2, **vars_of(changed))], stamp(1))
    assert await store.operation(2) == changed
    assert await store.operation(7) is None
    assert [one.number for one in await store.operations()] == [3, 2, 1]
    assert await store.operations(before=3, limit=1) == [changed]
    assert await store.operations(limit=0) == []


def vars_of(record):
    return {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "number"}


async def test_an_operation_in_a_state_that_does_not_exist_is_damage(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    await store.commit([put_operation(5)], stamp(1))
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE operations SET state = -1")
    connection.commit()
    connection.close()
    with pytest.raises(JournalCorrupt, match="operation 5"):
        await store.operations()
    await store.close()
    (finding,) = [one for one in verify(store.path) if "operation" in one]
    assert "operation 5: is in a state" in finding


# ---- what is forgotten -----------------------------------------------------------------------------------------------


async def test_what_is_forgotten_leaves_no_row_behind(store):
    await store.commit([put_schedule("s")], stamp(1))
    await store.commit([plan(occurrence(1, AT)), submit(2), submit(3, idempotency_key="k", digest="d")], stamp(1))
    await store.commit([claim(1, 2, 3)], stamp(1))
    await store.commit([settle_retry(job_id, fault="transient") for job_id in (1, 2, 3)], stamp(1))
    await store.commit([claim(1, 2, 3)], stamp(1))
    await store.commit([settle_ok(job_id, attempt=2) for job_id in (1, 2, 3)], stamp(1))
    assert await store.commit([prune(rule(JobState.COMPLETED))], stamp(1)) == [Pruned(2, None)]
    assert await store.job(1) is None
    assert await store.attempts(1) == []
    assert [attempt.state for attempt in await store.attempts(3)] == [
        AttemptState.FAILED_RETRYABLE,
        AttemptState.SUCCEEDED,
    ]
    (entry,) = (await store.ledger("s")).entries
    assert (entry.occurrence.job_id, entry.job_state) == (1, None)
    connection = sqlite3.connect(store.path)
    assert connection.execute("SELECT pruned FROM meta").fetchone() == (2,)
    assert connection.execute("SELECT count(*) FROM attempts").fetchone() == (1,)
    connection.close()


async def test_who_is_waited_for_is_not_forgotten(store):
    await make_dead(store, 1, 2)
    wait = Flow(wait_for=Dependencies((1,), DependencyFails.WAIT))
    await store.commit([submit(3, flow=wait), TakeOver()], stamp(1))
    everything = prune(*(rule(state, letters=True) for state in JobState))
    assert await store.commit([everything], stamp(1)) == [Pruned(1, None)]
    assert [job_text(job_id) for job_id in (await store.dump())["jobs"]] == [job_text(1), job_text(3)]
    await store.commit([cancel(3)], stamp(1))
    assert await store.commit([everything], stamp(1)) == [Pruned(2, None)]


@pytest.mark.parametrize(("limit", "expected"), [(1, [1, 2, 3, None]), (2, [2, None]), (3, [3, None]), (4, [None])])
async def test_a_prune_goes_on_after_what_it_looked_at(store, limit, expected):
    await make_dead(store, 1, 2, 3)
    lasts, after = [], -1
    while after is not None:
        (pruned,) = await store.commit([prune(rule(JobState.SKIPPED), after=after, limit=limit)], stamp(1))
        assert pruned.rows == 0
        after = pruned.last
        lasts.append(after)
    assert lasts == expected
