"""What requests have in common: kept once, in `kinds`, with the lane in which the jobs of a kind begin.

Jobs with a partition key begin in lanes of their own, whatever their kind (see `timewheel_storage.sqlite.places`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from timewheel_storage.sqlite.codes import ask, clean, do, encode, retry_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from timewheel.model import ClockKind, JobRequest, RetryPolicy

    KindKey: TypeAlias = tuple[str, str, int, ClockKind, RetryPolicy, int | None]
    LaneKey: TypeAlias = tuple[str, int, ClockKind, str]  # queue, priority, clock, partition key

FIND_KIND = """
SELECT kind, lane FROM kinds
WHERE task = ?1 AND queue = ?2 AND priority = ?3 AND clock = ?4 AND retry = ?5 AND timeout_us IS ?6
"""
ADD_KIND = "INSERT INTO kinds (task, queue, priority, clock, retry, timeout_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
ADD_LANE = "INSERT INTO lanes (queue, priority, clock, partition) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING"
FIND_LANE = "SELECT lane FROM lanes WHERE queue = ?1 AND priority = ?2 AND clock = ?3 AND partition = ?4"
SET_LANE = "UPDATE kinds SET lane = ?2 WHERE kind = ?1"

ADD_IMPORTABLE = "INSERT INTO importable (task) SELECT value FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING"


class Kind(NamedTuple):
    """Where the common part of some requests is kept, and the lane their jobs begin in (None: not used yet)."""

    number: int
    lane: int | None


class Memory:
    """What the owner remembers of committed rows, so as not to look them up again. Losing it costs only time."""

    LIMIT = 10_000

    def __init__(self) -> None:
        self.kinds: dict[KindKey, Kind] = {}
        self.lanes: dict[LaneKey, int] = {}
        self.importable: set[str] = set()

    def learn_lanes(self, lanes: dict[LaneKey, int]) -> None:
        """Remember the lanes of partition keys, as a commit wrote or found them."""
        if len(self.lanes) + len(lanes) > self.LIMIT:
            self.lanes.clear()
        self.lanes.update(lanes)

    def learn(self, kinds: dict[KindKey, Kind], importable: Iterable[str] = ()) -> None:
        """Remember what a commit wrote or found."""
        if len(self.kinds) + len(kinds) > self.LIMIT:
            self.kinds.clear()
        if len(self.importable) > self.LIMIT:
            self.importable.clear()
        self.kinds.update(kinds)
        self.importable.update(importable)


class Kinds:
    """The kinds of some requests: remembered, or looked up and made while the batch is written."""

    def __init__(self, requests: Sequence[JobRequest], memory: Memory) -> None:
        self._memory = memory
        kinds: dict[KindKey, int] = {}
        self.places = [kinds.setdefault(_kind_key(one), len(kinds)) for one in requests]  # by request
        self._keys = list(kinds)
        self._remembered = [memory.kinds.get(key) for key in kinds]
        self._found = self._remembered

    def known(self, without_lane: Iterable[int] = ()) -> bool:
        """Whether there is nothing to look up; of the jobs of some kinds no lane."""
        return all(kind and kind.lane for kind in self._found) or (
            None not in self._found
            and {place for place, kind in enumerate(self._found) if kind and not kind.lane} <= set(without_lane)
        )

    def begin(self) -> None:
        """Before every attempt to write: what an attempt before this one made was rolled back with it."""
        self._found = list(self._remembered)

    def find(self, connection: sqlite3.Connection, places: Iterable[int], without_lane: Iterable[int] = ()) -> None:
        """Look up, or make, those of these places that are not known; of some without their lane."""
        for place in dict.fromkeys(places):
            known = self._found[place]
            if known is None or known.lane is None:
                self._found[place] = _with_lane(connection, self._keys[place])
        for place in dict.fromkeys(without_lane):
            if self._found[place] is None:
                self._found[place] = _find_kind(connection, self._keys[place])

    def numbers(self) -> list[int]:
        """The numbers of the kinds; 0: not looked up."""
        return [0 if kind is None else kind.number for kind in self._found]

    def lanes(self) -> list[int]:
        """The lanes in which their jobs begin; -1: not looked up."""
        return [-1 if kind is None or kind.lane is None else kind.lane for kind in self._found]

    def learn(self, importable: Iterable[str] = ()) -> None:
        """After the commit: remember what was found, and these importable tasks."""
        found = zip(self._keys, self._found, strict=True)
        self._memory.learn({key: kind for key, kind in found if kind is not None}, importable)


def add_importable(connection: sqlite3.Connection, tasks: set[str]) -> None:
    """Note tasks that a later process may import."""
    if tasks:
        do(connection, ADD_IMPORTABLE, (encode(sorted(tasks)),))


def _kind_key(one: JobRequest) -> KindKey:
    return (one.task, one.queue, one.priority, one.clock, one.retry, one.timeout_us)


def _find_kind(connection: sqlite3.Connection, key: KindKey) -> Kind:
    task, queue, priority, clock, retry, timeout_us = key
    values = (clean(task), clean(queue), priority, int(clock), retry_text(retry), timeout_us)
    found = ask(connection, FIND_KIND, values)
    return Kind(*(found or (int(do(connection, ADD_KIND, values).lastrowid or 0), None)))


def _with_lane(connection: sqlite3.Connection, key: KindKey) -> Kind:
    kind = _find_kind(connection, key)
    if kind.lane is None:
        kind = Kind(kind.number, find_lane(connection, (*key[1:4], "")))
        do(connection, SET_LANE, kind)
    return kind


def find_lane(connection: sqlite3.Connection, key: LaneKey) -> int:
    """The lane of this queue, priority, clock and partition, made when there is none."""
    queue, priority, clock, partition = key
    values = (clean(queue), priority, int(clock), clean(partition))
    do(connection, ADD_LANE, values)
    (lane,) = ask(connection, FIND_LANE, values)
    return int(lane)
