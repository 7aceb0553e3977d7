"""Which error of the tree is answered how."""

from __future__ import annotations

import pytest

from timewheel import errors
from timewheel.serve.problems import cause_of, problem_of

PATH = {"path": "j.db"}


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (errors.InvalidTime("x"), 422, "invalid-request"),
        (errors.InvalidOption("x"), 422, "invalid-request"),
        (errors.InvalidTask("x"), 422, "invalid-request"),
        (errors.NotSerializable("x"), 422, "invalid-request"),
        (errors.JobNotFound("x", job_id="job-1"), 404, "job-not-found"),
        (errors.IdempotencyConflict("x", key="k", job_id="job-1"), 409, "idempotency-conflict"),
        (errors.InvalidRule("x", field="tz"), 422, "invalid-request"),
        (errors.ScheduleNotFound("x", schedule="s"), 404, "schedule-not-found"),
        (errors.ScheduleExists("x", schedule="s"), 409, "schedule-exists"),
        (errors.ScheduleIdRequired("x", schedule="s"), 409, "schedule-id-required"),
        (errors.VersionConflict("x", schedule="s", version=2), 409, "version-conflict"),
        (errors.Overloaded("x", retry_after_s=1.2), 429, "overloaded"),
        (errors.JournalFull("x", **PATH), 507, "journal-full"),
        (errors.JournalUnknown("x", **PATH), 503, "outcome-unknown"),
        (errors.JournalBusy("x", **PATH), 503, "journal-busy"),
        (errors.NotOwner("x"), 503, "standby"),
        (errors.NotStarted("x"), 503, "not-running"),
        (errors.SchedulerFailed("x", cause=OSError()), 503, "scheduler-failed"),
        (errors.JournalCorrupt("x", **PATH), 500, "internal-error"),
    ],
)
def test_the_tree(error: errors.TimewheelError, status: int, name: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.name) == (status, name)
    assert cause_of(error).status == status
    assert problem.document("/x")["type"] == f"urn:timewheel:problem:{name}"


def test_retry_after_is_whole_seconds_and_at_least_one() -> None:
    for seconds, header in ((0.0, "1"), (1.2, "2"), (5.0, "5")):
        assert problem_of(errors.Overloaded("x", retry_after_s=seconds)).headers == {"Retry-After": header}


def test_an_unknown_outcome_says_what_to_do() -> None:
    assert "retry with the same idempotency key" in problem_of(errors.JournalUnknown("x", path="j")).detail


def test_what_a_500_hides() -> None:
    assert "j.db" not in problem_of(errors.JournalCorrupt("j.db is damaged", path="j.db")).detail
