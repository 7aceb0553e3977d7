"""Where the jobs of some requests are put: the kind of each, and the lane in which it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.flow import lane_partition
from timewheel_storage.sqlite.codes import ask, clean, rows_of
from timewheel_storage.sqlite.kinds import Kinds, Memory, find_lane

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from timewheel.model import JobRequest
    from timewheel_storage.sqlite.kinds import LaneKey

PARTITIONS = "SELECT json_group_array(partition) FROM (SELECT DISTINCT partition FROM lanes WHERE queue = ?1)"


class Places:
    """The places of some requests: remembered, or looked up and made while the batch is written."""

    def __init__(self, requests: Sequence[JobRequest], memory: Memory) -> None:
        self._memory = memory
        self._kinds = Kinds(requests, memory)
        self._keys = _partitioned(requests)
        self._remembered = {key: memory.lanes[key] for key in self._keys.values() if key in memory.lanes}
        self._lanes = self._remembered

    @property
    def known(self) -> bool:
        """Whether there is nothing to look up."""
        if not self._keys:
            return self._kinds.known()
        with_lane, without = self._kinds_of(range(len(self._kinds.places)))
        known = self._kinds.known({kind for kind in without if kind not in set(with_lane)})
        return known and self._lanes.keys() >= set(self._keys.values())

    def begin(self) -> None:
        """Before every attempt to write: what an attempt before this one made was rolled back with it."""
        self._kinds.begin()
        self._lanes = dict(self._remembered)

    def find(self, connection: sqlite3.Connection, requests: Iterable[int]) -> None:
        """Look up, or make, the places of these requests; in their order, so far as lanes of partitions go."""
        some = list(requests)
        self._kinds.find(connection, *self._kinds_of(some))
        known: dict[str, set[str]] = {}
        for request in some if self._keys else ():
            key = self._keys.get(request)
            if key is not None and key not in self._lanes:
                self._lanes[key] = _find_partition(connection, key, known)

    def _kinds_of(self, requests: Iterable[int]) -> tuple[list[int], list[int]]:
        """The kinds of those of these requests that begin in the lane of their kind, and of those that do not."""
        kinds, partitioned = self._kinds.places, self._keys
        if not partitioned:
            return [kinds[request] for request in requests], []
        some = list(requests)
        with_lane = [kinds[request] for request in some if request not in partitioned]
        return with_lane, [kinds[request] for request in some if request in partitioned]

    def kinds(self) -> list[int]:
        """The number of the kind of each request; 0: not looked up."""
        numbers = self._kinds.numbers()
        return [numbers[kind] for kind in self._kinds.places]

    def lanes(self) -> list[int]:
        """The lane of each request; -1: not looked up."""
        of_kinds = self._kinds.lanes()
        lanes = [of_kinds[kind] for kind in self._kinds.places]
        for request, key in self._keys.items():
            lanes[request] = self._lanes.get(key, -1)
        return lanes

    def learn(self, importable: Iterable[str] = ()) -> None:
        """After the commit: remember what was found, and these importable tasks."""
        self._kinds.learn(importable)
        if self._lanes:
            self._memory.learn_lanes(self._lanes)


def _partitioned(requests: Sequence[JobRequest]) -> dict[int, LaneKey]:
    """Those of the requests that have a partition key."""
    return {
        place: (one.queue, one.priority, one.clock, one.flow.partition_key)
        for place, one in enumerate(requests)
        if one.flow is not None and one.flow.partition_key is not None
    }


def _find_partition(connection: sqlite3.Connection, key: LaneKey, known: dict[str, set[str]]) -> int:
    """The lane of a partition key; `known`: the partitions of queues, learned on the way."""
    queue, priority, clock, partition_key = key
    if queue not in known:
        known[queue] = set(rows_of(ask(connection, PARTITIONS, (clean(queue),))[0]))
    partition = lane_partition(clean(partition_key), known[queue])
    known[queue].add(partition)
    return find_lane(connection, (queue, priority, clock, partition))
