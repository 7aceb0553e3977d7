"""Concurrency keys: how many jobs hold each of some keys, and how many more may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel_storage.sqlite.codes import ask, encode, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from timewheel.store.key_limits import KeyLimits

# Holders are ACTIVE, or cannot be stopped. Two seeks: between the two lie all that wait for the key.
_HOLDERS = "SELECT h.value AS key, o.kind FROM json_each(?1) AS h CROSS JOIN jobs AS o ON o.concurrency_key = h.value"
_NOT_TOLD_OF = "o.job_id NOT IN (SELECT t.value FROM json_each(?2) AS t)"  # they count as they were told of
KEY_HOLDERS = f"""
SELECT json_group_array(json_array(key, task, queue, holders)) FROM (
    SELECT f.key, k.task, k.queue, count(*) AS holders FROM (
        {_HOLDERS} WHERE o.state IN (1, 2) AND o.state = 2 AND {_NOT_TOLD_OF}
        UNION ALL
        {_HOLDERS} WHERE o.state IN (1, 2) AND o.state = 1 AND o.reason = 'overrun' AND {_NOT_TOLD_OF}
    ) AS f CROSS JOIN kinds AS k ON k.kind = f.kind
    GROUP BY f.key, f.kind
)
"""


class Keys:
    """Who holds some concurrency keys, as the journal says, and those who have taken them since."""

    def __init__(self, connection: sqlite3.Connection, keys: Collection[str], limits: KeyLimits) -> None:
        self._limits = limits
        self._holders = dict.fromkeys(keys, 0)
        self._least: dict[str, int] = {}  # of the limits of a key's holders
        if keys:
            rows = ask(connection, KEY_HOLDERS, (encode(list(keys)), encode(list(limits.overran))))[0]
            for key, task, queue, holders in rows_of(rows):
                self._hold(key, limits.of(task, queue), holders)
        for holder in limits.overran.values():
            self._hold(holder.key, limits.of(holder.task, holder.queue), 1)

    def _hold(self, key: str, limit: int, holders: int) -> None:
        self._holders[key] = self._holders.get(key, 0) + holders
        self._least[key] = min(limit, self._least.get(key, limit))

    def room(self, key: str, task: str, queue: str) -> int:
        """For how many more there is room, if the next of them is a job of this task in this queue; below 1: none."""
        own = self._limits.of(task, queue)
        return min(own, self._least.get(key, own)) - self._holders.get(key, 0)

    def take(self, job_id: int, key: str, task: str, queue: str) -> bool:
        """Hold the key, if there is room; whether there was."""
        if self.room(key, task, queue) < 1:
            return False
        if job_id not in self._limits.overran:  # else it counts already
            self._hold(key, self._limits.of(task, queue), 1)
        return True
