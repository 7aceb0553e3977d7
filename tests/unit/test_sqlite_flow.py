"""How SQLite keeps flow control, where its way differs from the model's: remembered lanes, rounds, few statements."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.databases import in_memory
from timewheel import flow as flows
from timewheel.flow import NO_FLOW, Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import ZERO_KEY, ClockKind, JobState, WaitingReason
from timewheel.store.changes import Claimed, Governed, Stale, Submitted, TakeOver, Unheld, UniqueMet
from timewheel.store.key_limits import KeyLimits
from timewheel.store.port import JobFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    owner,
    plan,
    put_schedule,
    reschedule,
    settle_dead,
    settle_ok,
    settle_retry,
    stamp,
    submit,
    unhold,
)
from timewheel.testing.builders_flow import defer, unique, waiting_for
from timewheel_storage.memory import MemoryStore
from timewheel_storage.sqlite import open_sqlite, schema
from timewheel_storage.sqlite.batch import Batch
from timewheel_storage.sqlite.codes import NONSENSE
from timewheel_storage.sqlite.kinds import Memory
from timewheel_storage.sqlite.records_flow import DEADLINE, EXPIRES_AT, POLICY, flow_of, flow_text

T = START.wall_us


@pytest.fixture
async def store(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    yield store
    await store.close()


@pytest.fixture
async def counted(store):
    """How many statements a batch takes, BEGIN, the stamp and COMMIT aside; and its outcomes."""
    statements = []
    await store._connections.transact(lambda connection: connection.set_trace_callback(statements.append))

    async def count(*changes, now=START):
        statements.clear()
        outcomes = await store.commit(changes, stamp(1, now))
        return len([one for one in statements if not one.startswith("--")]) - 3, outcomes

    return count


async def rows(store, statement):
    return await store._read(lambda connection: connection.execute(statement).fetchall())


# ---- the column ------------------------------------------------------------------------------------------------------

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
FLOWS = st.builds(
    Flow,
    rate_key=st.none() | TEXTS,
    cost=INTEGERS,
    heartbeat_timeout_us=st.none() | INTEGERS,
    expires_at=st.none() | INTEGERS,
    deadline=st.none() | INTEGERS,
    idempotent=st.booleans(),
    partition_key=st.none() | TEXTS,
    unique=st.none()
    | st.builds(
        Uniqueness,
        digest=TEXTS,
        states=st.lists(TEXTS).map(tuple),
        on_conflict=st.sampled_from(OnConflict),
        period_us=st.none() | INTEGERS,
    ),
    wait_for=st.none()
    | st.builds(Dependencies, job_ids=st.lists(INTEGERS).map(tuple), if_one_fails=st.sampled_from(DependencyFails)),
)


@given(FLOWS)
def test_a_flow_is_read_as_it_was_written(flow):
    text = flow_text(flow)
    read = flow_of(text)
    assert read == flow
    assert [type(value) for value in read] == [type(value) for value in flow]
    assert flow_text(read) == text


@given(FLOWS)
def test_statements_find_the_fields_of_a_flow(flow):
    connection = sqlite3.connect(":memory:")
    paths = (f"$[{EXPIRES_AT}]", f"$[{DEADLINE}]", POLICY)
    text = flow_text(flow)
    values = [value for path in paths for value in (text, path)]
    found = connection.execute("SELECT ? ->> ?, ? ->> ?, ? ->> ?", values).fetchone()
    connection.close()
    assert found == (flow.expires_at, flow.deadline, flow.wait_for and flow.wait_for.if_one_fails)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        flow_text(NO_FLOW)[:-1],
        flow_text(NO_FLOW).replace("true", "1"),
        flow_text(Flow(rate_key="k")).replace('"k"', "7"),
        flow_text(Flow(partition_key="k")).replace('"k"', "[]"),
        flow_text(Flow(cost=77)).replace("77", "7.5"),
        flow_text(Flow(deadline=77)).replace("77", '"soon"'),
        flow_text(unique("d")).replace("keep", "burn"),
        flow_text(unique("d")).replace('"d"', "null"),
        flow_text(unique("d", period_us=77)).replace("77", "true"),
        flow_text(waiting_for(77)).replace("77", '"77"'),
        flow_text(waiting_for(77)).replace("CANCEL", "cancel"),
    ],
)
def test_a_text_that_nobody_can_have_written(text):
    with pytest.raises(NONSENSE):
        flow_of(text)


# ---- lanes of partitions ---------------------------------------------------------------------------------------------


async def partitions(store):
    return sorted({(lane.queue, lane.partition, int(lane.clock)) for lane in await store.lanes()})


@pytest.mark.parametrize("remembers", [True, False])
async def test_the_partitions_of_a_queue_are_few_at_last(store, monkeypatch, remembers):
    """Whether the store remembers the lanes of the keys or looks them up each time; as in memory."""
    monkeypatch.setattr(flows, "MOST_PARTITIONS", 3)
    if not remembers:
        monkeypatch.setattr(Memory, "LIMIT", 0)
    model = MemoryStore()
    await model.open()
    await model.own(owner())
    keys = ["a", "b", None, "a", "c", "d", "e", "b", "d", "", "f", "c"]
    for job_id, key in enumerate(keys, 1):
        flow = Flow(partition_key=key)
        changes = [submit(job_id, flow=flow), submit(100 + job_id, flow=flow, queue="other", priority=job_id % 3)]
        await store.commit(changes, stamp(1))
        await model.commit(changes, stamp(1))
        assert await partitions(store) == await partitions(model)
    mine = {partition for queue, partition, _ in await partitions(store) if queue == "default"}
    assert {"", "a", "b", "c"} < mine
    assert all(partition.startswith("~") for partition in mine - {"", "a", "b", "c"})
    await model.close()


async def test_a_job_keeps_its_partition_wherever_it_goes(store):
    at, flow = START.steady_us, Flow(partition_key="p")
    await store.commit([put_schedule()], stamp(1))
    made = [submit(job_id, flow=flow) for job_id in (1, 2, 3)]
    await store.commit([*made, plan(occurrence(4, T, flow=flow))], stamp(1))
    await store.commit([claim(1, 4), reschedule(2, at, ClockKind.STEADY), defer((3, T, at))], stamp(1))
    await store.commit([settle_retry(1), settle_retry(4)], stamp(1))
    [lane] = [lane for lane in await store.lanes() if lane.clock == 1]
    assert lane.partition == "p"
    assert sorted(job_id for _, job_id in await store.due(lane.number, ZERO_KEY, 1 << 60, 9)) == [1, 2, 3, 4]
    assert {partition for _, partition, _ in await partitions(store)} == {"p"}


async def test_known_partitions_are_not_looked_up_again(counted):
    def some(first, keys):
        return [submit(first + place, flow=Flow(partition_key=key)) for place, key in enumerate(keys)]

    first, _ = await counted(*some(1, "ab"))
    assert first > 1
    assert (await counted(*some(100, "abba" * 100)))[0] == 1
    assert (await counted(*some(1000, "abc")))[0] == 4  # the queue's partitions, a lane made and found, the jobs


async def test_a_rolled_back_lane_is_not_remembered(store):
    """The batch is written once more, since a Settle that it took for granted is stale."""
    await store.commit([submit(1), claim(1)], stamp(1))
    await store.commit([settle_ok(1)], stamp(1))
    made = submit(2, flow=Flow(partition_key="p"))
    stale, submitted = await store.commit([settle_ok(1), made], stamp(1))
    assert stale == Stale(1)
    assert submitted.created
    [lane] = [lane for lane in await store.lanes() if lane.number == submitted.lane]
    assert lane.partition == "p"
    _, again = await store.commit([settle_ok(1), submit(3, flow=Flow(partition_key="p"))], stamp(1))
    assert again.lane == submitted.lane


# ---- batches that are written twice ----------------------------------------------------------------------------------


async def test_submissions_are_judged_anew_when_the_batch_is_written_anew(store):
    await store.commit([submit(1), submit(2, flow=unique()), submit(3), claim(1)], stamp(1))
    await store.commit([settle_ok(1)], stamp(1))
    replacing = unique(on_conflict=OnConflict.REPLACE)
    batch = [
        settle_ok(1),
        submit(4, flow=replacing),
        submit(5, flow=waiting_for(3)),
        submit(6, flow=unique(on_conflict=OnConflict.RESCHEDULE), scheduled_at=T + 5),
        submit(7, flow=replacing, idempotency_key="k", digest="d"),
        TakeOver(),
    ]
    _, fourth, fifth, sixth, seventh, _ = await store.commit(batch, stamp(1))
    assert (fourth.replaced, fifth.lane, seventh.replaced) == (2, -1, 4)
    assert (sixth.job_id, sixth.place[1]) == (4, T + 5)
    assert [(await store.job(job_id)).state.value for job_id in (2, 4, 5, 7)] == [
        "CANCELLED",
        "CANCELLED",
        "WAITING",
        "SCHEDULED",
    ]
    assert (await store.job(4)).version == 2  # moved once
    assert await rows(store, "SELECT on_job, job_id FROM waits") == [(3, 5)]
    assert await store.job(6) is None


def test_a_claim_is_judged_anew_when_the_batch_is_written_anew():
    connection = in_memory()
    schema.migrate(connection)
    connection.execute("UPDATE meta SET epoch = 1")
    jobs = [submit(job_id, concurrency_key="k", flow=Flow(deadline=T + job_id)) for job_id in (0, 1, 2)]
    batch = Batch([*jobs, claim(0, 1, 2)], Memory())
    for _ in range(2):
        connection.execute("SAVEPOINT before")
        for _, part in batch._parts:
            part.write(connection, stamp(1))
        connection.execute("ROLLBACK TO before")
    claimed = batch.outcomes()[-1]
    assert ([one.job_id for one in claimed.jobs], claimed.waiting, claimed.given_up) == ([1], [2], [0])


# ---- who waits for whom ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leaves",
    [
        [cancel(9)],
        [unhold(WaitingReason.DEPENDENCY)],
        [submit(5, flow=unique(on_conflict=OnConflict.REPLACE))],
        [settle_dead(1), settle_dead(2), TakeOver()],
        [settle_ok(1), settle_ok(2), TakeOver()],
        [settle_ok(1), settle_dead(2), TakeOver(everything=True)],
    ],
)
async def test_a_job_that_waits_no_longer_is_forgotten_as_a_waiter(store, leaves):
    flow = unique()._replace(wait_for=Dependencies((1, 2, 2)))
    await store.commit([submit(1), submit(2), submit(9, flow=flow)], stamp(1))
    waiter = [submit(8, flow=waiting_for(1, if_one_fails=DependencyFails.WAIT))]
    await store.commit(waiter, stamp(1))
    assert await rows(store, "SELECT * FROM waits ORDER BY 1, 2") == [(1, 8), (1, 9), (2, 9)]
    await store.commit([claim(1, 2)], stamp(1))
    await store.commit(leaves, stamp(1))
    assert (await store.job(9)).state is not JobState.WAITING
    assert await rows(store, "SELECT * FROM waits WHERE job_id = 9") == []


async def test_a_long_chain_ends_at_once(store):
    links = [submit(job_id, flow=waiting_for(job_id - 1)) for job_id in range(2, 202)]
    await store.commit([submit(1), *links], stamp(1))
    _, unheld = await store.commit([cancel(1), TakeOver()], stamp(1))
    assert unheld == Unheld([], list(range(2, 202)))
    assert await rows(store, "SELECT count(*) FROM waits") == [(0,)]
    assert await store.count(JobFilter(states=(JobState.CANCELLED,))) == 201


# ---- few statements --------------------------------------------------------------------------------------------------


async def test_batches_with_flow_control_take_few_statements_whatever_their_size(counted):
    await counted(submit(1))
    many = range(10, 510)
    taken, outcomes = await counted(*(submit(job_id, flow=unique(str(job_id))) for job_id in many))
    assert taken == 2  # the newest equals, the jobs
    assert all(isinstance(outcome, Submitted) for outcome in outcomes)
    again = (submit(1000 + job_id, flow=unique(str(job_id))) for job_id in many)
    taken, outcomes = await counted(*again)
    assert taken == 1
    assert outcomes == [UniqueMet(job_id, conflict=False) for job_id in many]
    replacing = [submit(2000 + job_id, flow=unique(str(job_id), on_conflict=OnConflict.REPLACE)) for job_id in many]
    taken, outcomes = await counted(*replacing)
    assert taken == 4  # and their end, and whom they waited for
    assert [outcome.replaced for outcome in outcomes] == list(many)
    moves = [submit(3000 + job_id, flow=unique(str(job_id), on_conflict=OnConflict.RESCHEDULE)) for job_id in many]
    assert (await counted(*moves))[0] == 4  # the newest equals; their lanes, where they go, that they go
    waiting = [submit(4000 + job_id, flow=waiting_for(2000 + job_id, 1)) for job_id in many]
    assert (await counted(*waiting))[0] == 3  # the states, the jobs, who waits for whom
    claims = [2000 + job_id for job_id in many]
    assert (await counted(claim(1, *claims)))[0] == 3  # the candidates, their flow, the attempts
    settles = [settle_ok(job_id) for job_id in (1, *claims)]
    taken, (*_, unheld) = await counted(*settles, TakeOver())
    assert taken == 5  # the settles, whose jobs they were, who waits for them, its release, that it waits no longer
    assert [job_id for _, _, job_id in unheld.places] == [4000 + job_id for job_id in many]


async def test_keys_take_few_statements_however_many_there_are(counted):
    """Each with a limit of its own, and jobs in many lanes."""
    limits = KeyLimits({"app.task": 3})
    jobs = [
        submit(1 + key * 10 + place, concurrency_key=str(key), priority=place % 3)
        for key in range(60)
        for place in range(9)
    ]
    await counted(*jobs)
    ids = [one.request.job_id for one in jobs]
    taken, [claimed] = await counted(claim(*ids, key_limits=limits))
    assert taken == 5  # the candidates, their keys, who holds them, who waits, the attempts
    assert isinstance(claimed, Claimed)
    assert (len(claimed.jobs), len(claimed.waiting)) == (180, 360)
    first = [settle_ok(1 + key * 10 + place) for key in range(60) for place in range(2)]
    taken, (*_, unheld) = await counted(*first, TakeOver(key_limits=limits))
    # the settles, whose jobs they were, who waits first, who holds the keys, who waits besides, its release
    assert taken == 6
    assert len(unheld.places) == 60 * 2 * 3  # two of each lane


async def test_deferrals_take_few_statements(counted):
    await counted(*(submit(job_id) for job_id in range(1, 501)))
    at = START.steady_us
    taken, [unheld] = await counted(defer(*((job_id, T, at if job_id % 2 else None) for job_id in range(1, 501))))
    assert taken == 3
    assert [job_id for _, _, job_id in unheld.places] == list(range(1, 501, 2))
    taken, [unheld] = await counted(TakeOver(tasks={"app.task": 7, "other": 1}))
    assert taken == 3  # whose jobs there are, who waits first, its release
    assert [job_id for _, _, job_id in unheld.places] == [2, 4, 6, 8, 10, 12, 14]


async def test_a_claim_that_governs_nobody_costs_nothing(counted):
    await counted(*(submit(job_id) for job_id in range(1, 101)))
    governed = Governed(frozenset({"other"}), rate_keys=True, retries=True)
    taken, [claimed] = await counted(claim(*range(1, 101), governed=governed))
    assert (taken, len(claimed.jobs)) == (2, 100)


# ---- an older journal ------------------------------------------------------------------------------------------------


async def test_a_journal_from_before_flow_control_keeps_its_lanes(tmp_path, monkeypatch):
    path = str(tmp_path / "journal.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    every = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: every[:2])
    schema.migrate(connection)
    connection.execute("INSERT INTO lanes VALUES (1, 'default', 5, 0), (7, 'mail', 2, 1)")
    connection.execute("INSERT INTO kinds VALUES (1, 'app.task', 'default', 5, 0, '[5,1000000,2.0,1,1.0]', NULL, 1)")
    connection.execute(
        "INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at, concurrency_key)"
        " VALUES (7, 1, 1, 5, 0, '[[],{}]', 5, 1, 'k'), (8, 1, 1, 5, 0, '[[],{}]', 5, 1, 'k')"
    )
    connection.close()
    monkeypatch.setattr(schema, "migrations", lambda: every)
    store = open_sqlite(path)
    await store.open()
    await store.own(owner())
    assert [tuple(lane) for lane in await store.lanes()] == [(1, "default", 5, 0, ""), (7, "mail", 2, 1, "")]
    job = await store.job(7)
    assert (job.state, job.flow, job.fault, job.fingerprint, job.discarded_at) == (JobState.SCHEDULED, *[None] * 4)
    outcomes = await store.commit(
        [submit(9, flow=waiting_for(7)._replace(partition_key="p")), claim(7, 8), settle_ok(1)], stamp(1)
    )
    assert outcomes[0].lane == -1
    assert ([one.job_id for one in outcomes[1].jobs], outcomes[1].waiting) == ([7], [8])
    await store.commit([settle_ok(7)], stamp(1))
    _, unheld = await store.commit([cancel(8), TakeOver(everything=True)], stamp(1, later(1)))
    assert [job_id for _, _, job_id in unheld.places] == [9]
    await store.close()
