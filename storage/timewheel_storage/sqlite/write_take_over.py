"""Writing TakeOvers: jobs go on that waited for others: of their schedule, with their key, of their task, or by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.store.changes import Cancel, Claim, Outcome, Reschedule, Settle, TakeOver, Unheld
from timewheel_storage.sqlite.codes import ask, do, encode, rows_of
from timewheel_storage.sqlite.keys import Keys
from timewheel_storage.sqlite.take_over_dependents import Dependents
from timewheel_storage.sqlite.write_rest import UNHOLD

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from timewheel.store.changes import Change
    from timewheel.store.key_limits import KeyLimits
    from timewheel.store.port import Stamp

    Place: TypeAlias = tuple[int, int, int]  # lane, due_at, job_id

# The schedules and the keys to look at, of named jobs or of all that wait; and whether anybody waits for a job by id.
OF_THESE = """
SELECT json_group_array(DISTINCT j.schedule) FILTER (WHERE j.schedule IS NOT NULL),
    json_group_array(DISTINCT j.concurrency_key) FILTER (WHERE j.concurrency_key IS NOT NULL),
    EXISTS (SELECT 1 FROM waits)
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
WHERE j.schedule IS NOT NULL OR j.concurrency_key IS NOT NULL
"""
OF_ALL = """
SELECT json_group_array(DISTINCT j.schedule) FILTER (WHERE j.reason = 'overlap'),
    json_group_array(DISTINCT j.concurrency_key) FILTER (WHERE j.reason = 'key'),
    EXISTS (SELECT 1 FROM waits)
FROM jobs AS j WHERE j.state <> 0 AND j.state <> 3 AND j.state = 1 AND j.reason IN ('overlap', 'key')
"""

_OTHERS = "SELECT 1 FROM jobs AS b WHERE b.schedule = h.value AND b.state IN (0, 1, 2) AND {which}"
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
FIRST_OF_SCHEDULES = f"""
SELECT json_group_array(json_array(j.lane, j.due_at, j.job_id)) FROM (
    SELECT (
        SELECT w.job_id FROM jobs AS w
        WHERE w.schedule = h.value AND w.state IN (0, 1, 2) AND w.state = 1 AND w.reason = 'overlap'
        ORDER BY w.due_at, w.job_id LIMIT 1
    ) AS job_id
    FROM json_each(?1) AS h WHERE NOT ({_BUSY})
) AS f CROSS JOIN jobs AS j ON j.job_id = f.job_id
"""

_FOR_KEY = "w.concurrency_key = {key} AND w.state IN (1, 2) AND w.state = 1 AND w.reason = 'key'"
_KEY_LANE = f"SELECT w.lane FROM jobs AS w WHERE {_FOR_KEY} {{after}} ORDER BY w.lane LIMIT 1"
FIRST_OF_KEYS = f"""
WITH RECURSIVE lanes_of(key, lane) AS (
    SELECT h.value, ({_KEY_LANE.format(key="h.value", after="")}) FROM json_each(?1) AS h
    UNION ALL
    SELECT l.key, ({_KEY_LANE.format(key="l.key", after="AND w.lane > l.lane")}) FROM lanes_of AS l
    WHERE l.lane IS NOT NULL
)
SELECT json_group_array(json_array(f.key, k.task, k.queue, j.lane, j.due_at, j.job_id)) FROM (
    SELECT l.key, (
        SELECT w.job_id FROM jobs AS w WHERE {_FOR_KEY.format(key="l.key")} AND w.lane = l.lane
        ORDER BY w.due_at, w.job_id LIMIT 1
    ) AS job_id
    FROM lanes_of AS l WHERE l.lane IS NOT NULL
) AS f CROSS JOIN jobs AS j ON j.job_id = f.job_id CROSS JOIN kinds AS k ON k.kind = j.kind
"""
MORE_OF_KEYS = f"""
SELECT json_group_array(json((
    SELECT json_group_array(json_array(g.lane, g.due_at, g.job_id)) FROM (
        SELECT w.lane, w.due_at, w.job_id FROM jobs AS w
        WHERE {_FOR_KEY.format(key="r.value ->> 0")} AND w.lane = r.value ->> 1 ORDER BY w.due_at, w.job_id LIMIT ?2
    ) AS g
))) FROM json_each(?1) AS r
"""

_OF_KIND = "w.kind = {kind} AND w.state = 1 AND w.reason = 'task'"
_KIND_LANE = f"SELECT w.lane FROM jobs AS w WHERE {_OF_KIND} {{after}} ORDER BY w.lane LIMIT 1"
FIRST_OF_TASKS = f"""
WITH RECURSIVE lanes_of(task, kind, lane) AS (
    SELECT k.task, k.kind, ({_KIND_LANE.format(kind="k.kind", after="")})
    FROM json_each(?1) AS h CROSS JOIN kinds AS k ON k.task = h.value
    UNION ALL
    SELECT l.task, l.kind, ({_KIND_LANE.format(kind="l.kind", after="AND w.lane > l.lane")}) FROM lanes_of AS l
    WHERE l.lane IS NOT NULL
)
SELECT json_group_array(json_array(l.task, json((
    SELECT json_group_array(json_array(g.lane, g.due_at, g.job_id)) FROM (
        SELECT w.lane, w.due_at, w.job_id FROM jobs AS w
        WHERE {_OF_KIND.format(kind="l.kind")} AND w.lane = l.lane ORDER BY w.due_at, w.job_id LIMIT ?2
    ) AS g
)))) FROM lanes_of AS l WHERE l.lane IS NOT NULL
"""


class TakeOvers:
    """The TakeOvers of a batch; written after all the rest of it.

    `freed`: what the other parts of the batch say, once they are written, of jobs that ended, or gave way, in them.
    """

    def __init__(
        self, changes: Sequence[TakeOver], batch: Sequence[Change], freed: Sequence[Callable[[], Sequence[int]]]
    ) -> None:
        self._changes = changes
        self._named = [] if all(one.everything for one in changes) else _named_by(batch)
        self._freed = freed
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._outcomes = [self._take_over(connection, stamp, one) for one in self._changes]

    def _take_over(self, connection: sqlite3.Connection, stamp: Stamp, change: TakeOver) -> Outcome:
        named: list[int] | None = None
        if change.everything:
            schedules, keys, waits = ask(connection, OF_ALL)
        else:
            named = [*self._named, *(job_id for freed in self._freed for job_id in freed())]
            schedules, keys, waits = ask(connection, OF_THESE, (encode(named),))
            if change.keys:
                keys = encode(list({*rows_of(keys), *change.keys}))
        places: list[Place] = []
        if schedules != "[]":
            places += _places(rows_of(ask(connection, FIRST_OF_SCHEDULES, (schedules,))[0]))
        if keys != "[]":
            places += _first_of_keys(connection, keys, change.key_limits)
        if change.tasks:
            places += _first_of_tasks(connection, change.tasks)
        if places:
            do(connection, UNHOLD, (encode([job_id for _, _, job_id in places]),))
        dependents = Dependents()
        if waits:
            dependents.write(connection, stamp, named)
        return Unheld(sorted(places + dependents.places, key=lambda place: place[2]), sorted(dependents.cancelled))

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _named_by(batch: Sequence[Change]) -> list[int]:
    """The jobs in whose schedules and keys something can have ended, and for whom others may wait."""
    named: list[int] = []
    for change in batch:
        if isinstance(change, Claim):
            named += change.job_ids
        elif isinstance(change, Settle | Cancel | Reschedule):
            named.append(change.job_id)
    return named


def _places(rows: list[list[int]]) -> list[Place]:
    return [(lane, due_at, job_id) for lane, due_at, job_id in rows]


def _first_of_keys(connection: sqlite3.Connection, keys: str, limits: KeyLimits) -> list[Place]:
    """The first of each lane that wait for one of these keys: as many as there is room for."""
    heads: dict[str, list[tuple[int, int, int, str, str]]] = {}  # (due_at, job_id, lane, task, queue) by key
    for key, task, queue, lane, due_at, job_id in rows_of(ask(connection, FIRST_OF_KEYS, (keys,))[0]):
        heads.setdefault(key, []).append((due_at, job_id, lane, task, queue))
    if not heads:
        return []
    held, places = Keys(connection, heads, limits), []
    more: list[tuple[str, int, int]] = []  # key, lane, room for more than one
    for key, firsts in heads.items():
        *_, task, queue = min(firsts)
        room = held.room(key, task, queue)
        if room == 1:
            places += [(lane, due_at, job_id) for due_at, job_id, lane, _, _ in firsts]
        elif room > 1:
            more += [(key, lane, room) for _, _, lane, _, _ in firsts]
    if more:
        most = max(room for _, _, room in more)
        found = rows_of(ask(connection, MORE_OF_KEYS, (encode(more), most))[0])
        for (_, _, room), rows in zip(more, found, strict=True):
            places += _places(rows[:room])
    return places


def _first_of_tasks(connection: sqlite3.Connection, tasks: Mapping[str, int]) -> list[Place]:
    """The first of each lane of these tasks that wait for their task: as many as each task says."""
    wanted = {task: room for task, room in tasks.items() if room > 0}
    if not wanted:
        return []
    lanes: dict[tuple[str, int], list[Place]] = {}
    rows = rows_of(ask(connection, FIRST_OF_TASKS, (encode(list(wanted)), max(wanted.values())))[0])
    for task, some in rows:
        lanes.setdefault((task, some[0][0]), []).extend(_places(some))
    return [place for (task, _), some in lanes.items() for place in sorted(some)[: wanted[task]]]
