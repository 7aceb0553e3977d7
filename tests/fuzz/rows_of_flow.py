"""What `tests.fuzz.rows` does with flow control, dead letters and operations."""

from __future__ import annotations

from timewheel.flow import Flow, OnConflict, Uniqueness
from timewheel.model import JobState
from timewheel.store.changes import Change, Claim, Governed, TakeOver
from timewheel.store.key_limits import KeyLimits
from timewheel.store.letters import OperationState
from timewheel.testing.builders import START, later, submit
from timewheel.testing.builders_flow import UNFINISHED, defer, discard, prune, put_operation, replay, rule, waiting_for

JOBS = (11, 12, 13)
EVERY = Flow("r", 2, 5, later(1).wall_us, later(2).wall_us, False, "p", Uniqueness("d", UNFINISHED))
BATCHES: tuple[list[Change], ...] = (
    [submit(11, flow=EVERY), submit(12, flow=waiting_for(11, 6)), submit(13), put_operation(1)],
    [defer((13, START.wall_us, None))],
)


def changes() -> list[Change]:
    """Changes of every kind that came with flow control."""
    moved = EVERY._replace(unique=Uniqueness("d", UNFINISHED, OnConflict.RESCHEDULE))
    replacing = EVERY._replace(unique=Uniqueness("d", UNFINISHED, OnConflict.REPLACE))
    return [
        submit(30, flow=moved),
        submit(31, flow=replacing),
        submit(32, flow=waiting_for(12, 31)),
        defer((7, START.wall_us, later(1).steady_us)),
        TakeOver(everything=True, key_limits=KeyLimits({"app.task": 2}), tasks={"app.task": 2}),
        Claim([*JOBS, 31, 32], 10**9, START, governed=Governed(frozenset({"x"}), True, True)),
        discard(3),
        replay(3),
        replay(5),
        put_operation(1, state=OperationState.DONE),
        prune(*(rule(state) for state in JobState), limit=5),
    ]
