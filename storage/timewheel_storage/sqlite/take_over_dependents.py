"""Jobs that wait for others by id: they go on, or end, when the last of these is final."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.flow import DependencyFails
from timewheel.model import WaitingReason, job_text
from timewheel_storage.sqlite.codes import NONSENSE, ask, damaged, do, encode, rows_of
from timewheel_storage.sqlite.records_flow import flow_of
from timewheel_storage.sqlite.write_rest import UNHOLD
from timewheel_storage.sqlite.write_verbs import CANCELS, forget_waits

if TYPE_CHECKING:
    import sqlite3

    from timewheel.store.port import Stamp

_AWAITED = "SELECT 1 FROM waits AS o CROSS JOIN jobs AS p ON p.job_id = o.on_job WHERE o.job_id = d.job_id"
_DEPENDENTS = f"""
SELECT json_group_array(json_array(j.lane, j.due_at, j.job_id, failed, CASE WHEN failed THEN j.flow END)) FROM (
    SELECT d.job_id, EXISTS ({_AWAITED} AND p.state > 3) AS failed
    FROM ({{dependents}}) AS d WHERE NOT EXISTS ({_AWAITED} AND p.state < 3)
) AS d CROSS JOIN jobs AS j ON j.job_id = d.job_id
"""
DEPENDENTS_OF_THESE = _DEPENDENTS.format(
    dependents="SELECT DISTINCT x.job_id FROM json_each(?1) AS h CROSS JOIN waits AS x ON x.on_job = h.value"
)
DEPENDENTS_OF_ALL = _DEPENDENTS.format(dependents="SELECT DISTINCT x.job_id FROM waits AS x")


class Dependents:
    """What becomes of jobs that wait for others: `places` (lane, due_at, job_id) of those that go on, `cancelled`."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int, int]] = []
        self.cancelled: list[int] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp, named: list[int] | None) -> None:
        """Let those go on, or end them, that wait for nobody else than these jobs (None: whomever they wait for).

        Whom it ends may be waited for in turn.
        """
        ended = named
        while ended is None or ended:
            statement, values = (DEPENDENTS_OF_ALL, ()) if ended is None else (DEPENDENTS_OF_THESE, (encode(ended),))
            free, ended = [], []
            for lane, due_at, job_id, failed, flow in rows_of(ask(connection, statement, values)[0]):
                policy = _policy(job_id, flow) if failed else DependencyFails.RUN
                if policy is DependencyFails.RUN:
                    free.append((lane, due_at, job_id))
                elif policy is DependencyFails.CANCEL:
                    ended.append(job_id)
            self.places += free
            self.cancelled += ended
            _write(connection, stamp, [job_id for _, _, job_id in free], ended)


def _write(connection: sqlite3.Connection, stamp: Stamp, free: list[int], ended: list[int]) -> None:
    if free:
        do(connection, UNHOLD, (encode(free),))
    if ended:
        rows = encode([(job_id, WaitingReason.DEPENDENCY.value, False) for job_id in ended])
        do(connection, CANCELS, (rows, stamp.now.wall_us))
    if free or ended:
        forget_waits(connection, [*free, *ended])


def _policy(job_id: int, text: str | None) -> DependencyFails:
    try:
        flow = flow_of(text)
        if flow is None or flow.wait_for is None:
            raise TypeError("it waits for jobs, and says for none")
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(job_id)}", error) from error
    return flow.wait_for.if_one_fails
