"""What must hold of any journal, told by its dump alone: invariants I4, I10, I11 and I12 of the reliability plan.

Independent of the model on purpose: stores that agree with one another may all be wrong.
"""

from timewheel.model import ZERO_KEY, AttemptState, JobState
from timewheel.store.port import JobFilter

S = JobState
FINAL = {S.COMPLETED, S.CANCELLED, S.DEAD, S.SKIPPED}
OPEN = {AttemptState.QUEUED, AttemptState.RUNNING}
IN_ONE_BATCH = {  # the legal graph, as far as the kinds of one batch lead
    None: {S.SCHEDULED, S.ACTIVE, S.SKIPPED},
    S.SCHEDULED: {S.SCHEDULED, S.ACTIVE, S.CANCELLED, S.SKIPPED},
    S.WAITING: {S.WAITING, S.SCHEDULED, S.ACTIVE, S.CANCELLED},
    S.ACTIVE: set(S),
} | {state: {state} for state in FINAL}
FIXED_OF_A_JOB = (
    "task",
    "arguments",
    "queue",
    "priority",
    "created_at",
    "retry",
    "timeout_us",
    "misfire_grace_us",
    "tags",
    "idempotency_key",
)
FIXED_OF_AN_ATTEMPT = ("job_id", "number", "epoch", "clock", "scheduled_at")


def check_dump(dump):
    """One dump on its own."""
    for job in dump["jobs"].values():
        assert (job.finished_at is not None) == (job.state in FINAL), job
        assert job.due_clock == job.clock or job.due_clock == 1, job
        assert (job.reason is not None) == (job.state in {S.WAITING, S.DEAD, S.SKIPPED, S.CANCELLED}), job
        numbers = sorted(number for job_id, number in dump["attempts"] if job_id == job.job_id)
        assert numbers == list(range(1, job.attempt + 1)), (job, numbers)
        open_numbers = [number for number in numbers if dump["attempts"][job.job_id, number].state in OPEN]
        assert open_numbers == ([job.attempt] if job.state is S.ACTIVE else []), (job, open_numbers)
    for (job_id, number), attempt in dump["attempts"].items():
        assert (attempt.job_id, attempt.number) == (job_id, number)
        assert job_id in dump["jobs"]
    for (task, key), (job_id, digest) in dump["keys"].items():
        job = dump["jobs"][job_id]
        assert (job.task, job.idempotency_key) == (task, key)
        assert digest is not None


def check_step(before, after):
    """What one batch made of the dump before."""
    assert before["jobs"].keys() <= after["jobs"].keys()
    assert before["attempts"].keys() <= after["attempts"].keys()
    for job_id, job in after["jobs"].items():
        old = before["jobs"].get(job_id)
        assert job.state in IN_ONE_BATCH[old.state if old else None], (old, job)
        if old is None:
            continue
        assert old == job or old.state not in FINAL, (old, job)
        assert job.version >= old.version
        assert job.attempt - old.attempt in (0, 1)
        assert [getattr(old, name) for name in FIXED_OF_A_JOB] == [getattr(job, name) for name in FIXED_OF_A_JOB]
    for key, old in before["attempts"].items():
        new = after["attempts"][key]
        assert old == new or (old.state in OPEN and new.state not in OPEN), (old, new)
        assert [getattr(old, name) for name in FIXED_OF_AN_ATTEMPT] == [
            getattr(new, name) for name in FIXED_OF_AN_ATTEMPT
        ]


def check_claims(changes, outcomes, dump, stamp):
    """Nothing is claimed early, and nothing twice."""
    claimed = [
        (change, job) for change, outcome in zip(changes, outcomes, strict=True) for job in getattr(outcome, "jobs", ())
    ]
    assert len({job.job_id for _, job in claimed}) == len(claimed)
    for change, job in claimed:
        assert job.job_id in change.job_ids
        assert job.due_at <= stamp.now.on(job.clock) + change.ahead_us
        attempt = dump["attempts"][job.job_id, job.attempt]
        assert (attempt.epoch, attempt.scheduled_at, attempt.clock) == (stamp.epoch, job.due_at, job.clock)


async def check_reads(store, dump, epoch):
    """Every read tells the same story as the dump."""
    jobs = dump["jobs"]
    due = {}
    for lane in await store.lanes():
        due[lane.queue, lane.priority, lane.clock] = await store.due(lane.number, ZERO_KEY, 1 << 62, 10_000)
    expected = {}
    for job in jobs.values():
        if job.state is S.SCHEDULED:
            expected.setdefault((job.queue, job.priority, job.due_clock), []).append((job.due_at, job.job_id))
    assert {name: page for name, page in due.items() if page} == {name: sorted(keys) for name, keys in expected.items()}
    for state in JobState:
        assert await store.count(JobFilter(states=(state,))) == sum(job.state is state for job in jobs.values())
    found, before = [], None
    while True:
        page = await store.jobs(JobFilter(), before=before, limit=7)
        found += page.jobs
        if (before := page.next_before) is None:
            break
    assert found == [jobs[job_id] for job_id in sorted(jobs, reverse=True)]
    claimed = await store.open_attempts(below_epoch=epoch, after=0, limit=10_000)
    assert claimed == [
        (jobs[job_id], dump["attempts"][job_id, jobs[job_id].attempt])
        for job_id in sorted(jobs)
        if jobs[job_id].state is S.ACTIVE and dump["attempts"][job_id, jobs[job_id].attempt].epoch < epoch
    ]
