"""Writing TakeOvers: jobs go on that waited for another job of their schedule, or for their concurrency key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.store.changes import Cancel, Claim, Outcome, Reschedule, Settle, TakeOver, Unheld
from timewheel_storage.sqlite.codes import ask, do, encode, rows_of
from timewheel_storage.sqlite.write_claim import held
from timewheel_storage.sqlite.write_rest import UNHOLD, Others

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.store.changes import Change
    from timewheel.store.port import Stamp

# The schedules and the keys to look at: those of named jobs, or of all that wait.
_NAMED = """
named AS MATERIALIZED (
    SELECT j.schedule, j.concurrency_key FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
    WHERE j.schedule IS NOT NULL OR j.concurrency_key IS NOT NULL
),
schedules_of AS MATERIALIZED (SELECT DISTINCT schedule FROM named WHERE schedule IS NOT NULL),
keys_of AS MATERIALIZED (SELECT DISTINCT concurrency_key FROM named WHERE concurrency_key IS NOT NULL)
"""
_WAITING = """
waiting AS MATERIALIZED (
    SELECT j.schedule, j.concurrency_key, j.reason FROM jobs AS j
    WHERE j.state <> 0 AND j.state <> 3 AND j.state = 1 AND j.reason IN ('overlap', 'key')
),
schedules_of AS MATERIALIZED (SELECT DISTINCT schedule FROM waiting WHERE reason = 'overlap'),
keys_of AS MATERIALIZED (SELECT DISTINCT concurrency_key FROM waiting WHERE reason = 'key')
"""
_OTHERS = "SELECT 1 FROM jobs AS b WHERE b.schedule = s.schedule AND b.state IN (0, 1, 2) AND {which}"
_BUSY = " OR ".join(  # each a seek in the index
    f"EXISTS ({_OTHERS.format(which=which)})"
    for which in (
        "b.state = 0",
        "b.state = 2",
        "b.state = 1 AND b.reason < 'overlap'",
        "b.state = 1 AND b.reason > 'overlap'",
        "b.state = 1 AND b.reason IS NULL",
    )
)
_FIRST = f"""
WITH {{candidates}},
first AS MATERIALIZED (
    SELECT (
        SELECT w.job_id FROM jobs AS w
        WHERE w.schedule = s.schedule AND w.state IN (0, 1, 2) AND w.state = 1 AND w.reason = 'overlap'
        ORDER BY w.due_at, w.job_id LIMIT 1
    ) AS job_id
    FROM schedules_of AS s WHERE NOT ({_BUSY})
    UNION ALL
    SELECT (
        SELECT w.job_id FROM jobs AS w
        WHERE w.concurrency_key = k.concurrency_key AND w.state IN (1, 2) AND w.state = 1 AND w.reason = 'key'
        ORDER BY w.due_at, w.job_id LIMIT 1
    )
    FROM keys_of AS k WHERE NOT ({held("k.concurrency_key")})
)
SELECT json_group_array(json_array(j.lane, j.due_at, j.job_id))
FROM (SELECT job_id FROM first WHERE job_id IS NOT NULL ORDER BY job_id) AS f CROSS JOIN jobs AS j
    ON j.job_id = f.job_id
"""
FIRST_OF_THESE = _FIRST.format(candidates=_NAMED)
FIRST_OF_ALL = _FIRST.format(candidates=_WAITING)


class TakeOvers:
    """The TakeOvers of a batch; written after all the rest of it."""

    def __init__(self, changes: Sequence[TakeOver], batch: Sequence[Change], others: Others | None) -> None:
        self._changes = changes
        self._named = [] if all(one.everything for one in changes) else _named_by(batch)
        self._others = others
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:  # noqa: ARG002  as every part has it
        """Write them."""
        self._outcomes = [self._take_over(connection, one) for one in self._changes]

    def _take_over(self, connection: sqlite3.Connection, change: TakeOver) -> Outcome:
        if change.everything:
            (answer,) = ask(connection, FIRST_OF_ALL, ())
        else:
            released = [] if self._others is None else self._others.released
            (answer,) = ask(connection, FIRST_OF_THESE, (encode([*self._named, *released]),))
        places = [(lane, due_at, job_id) for lane, due_at, job_id in rows_of(answer)]
        if places:
            do(connection, UNHOLD, (encode([job_id for _, _, job_id in places]),))
        return Unheld(places)

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _named_by(batch: Sequence[Change]) -> list[int]:
    """The jobs in whose schedules and keys something can have ended."""
    named: list[int] = []
    for change in batch:
        if isinstance(change, Claim):
            named += change.job_ids
        elif isinstance(change, Settle | Cancel | Reschedule):
            named.append(change.job_id)
    return named
