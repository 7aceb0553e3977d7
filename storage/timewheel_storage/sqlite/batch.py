"""A batch of changes: sorted by kind and encoded for SQLite, then written in one transaction, then answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from timewheel.errors import NotOwner
from timewheel.store import changes as ch
from timewheel.store import letters as lt
from timewheel_storage.sqlite.codes import do
from timewheel_storage.sqlite.faults import transaction
from timewheel_storage.sqlite.kinds import Memory
from timewheel_storage.sqlite.write_claim import Claims
from timewheel_storage.sqlite.write_letters import Letters
from timewheel_storage.sqlite.write_plan import Plans
from timewheel_storage.sqlite.write_rest import Others
from timewheel_storage.sqlite.write_schedules import Standings
from timewheel_storage.sqlite.write_settle import Again, Settles
from timewheel_storage.sqlite.write_submit import Submits
from timewheel_storage.sqlite.write_take_over import TakeOvers
from timewheel_storage.sqlite.write_verbs import Cancels, Reschedules

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from timewheel.store.port import Stamp

STAMP = """
UPDATE meta SET commits = commits + 1, boot_id = ?1, boot_us = ?2, wall_us = ?3, steady_us = ?4
WHERE one = 1 AND epoch = ?5
"""


class Part(Protocol):
    """The changes of one kind in a batch."""

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them, inside the transaction and in the connection's thread."""

    def outcomes(self) -> list[ch.Outcome]:
        """Their outcomes in order, after the commit."""


class Batch:
    """One batch. Encoded when made; `write` runs in the connection's thread; `outcomes` after it."""

    def __init__(self, changes: Sequence[ch.Change], memory: Memory) -> None:
        self._size = len(changes)
        places: dict[str, list[int]] = {}
        for place, change in enumerate(changes):
            places.setdefault(_TOPICS[type(change)], []).append(place)
        self.begins_something = not changes or bool(_BEGINNINGS & places.keys())
        self.ends_something = "settle" in places and not self.begins_something
        self._parts: list[tuple[list[int], Part]] = []
        freed: list[Callable[[], Sequence[int]]] = []
        for topic in _ORDER:
            if topic in places:
                some: list[Any] = [changes[place] for place in places[topic]]
                part = TakeOvers(some, changes, freed) if topic == "take over" else _part(topic, some, memory)
                if isinstance(part, Submits | Plans | Others):
                    freed.append(part.freed)
                self._parts.append((places[topic], part))

    def write(self, connection: sqlite3.Connection, path: str, stamp: Stamp, boot_id: str) -> None:
        """Write it durably, or raise and write nothing (but see JournalUnknown)."""

        def work() -> None:
            written = do(connection, STAMP, (boot_id, stamp.boot_us, *stamp.now, stamp.epoch)).rowcount
            if written != 1:
                raise NotOwner(
                    f"epoch {stamp.epoch} may not write to {path}: it was given up, or a newer owner took over; "
                    "nothing was written"
                )
            for _, part in self._parts:
                part.write(connection, stamp)

        try:
            transaction(connection, path, work)
        except Again:
            transaction(connection, path, work)

    def outcomes(self) -> list[ch.Outcome]:
        """The outcomes in the order of the changes."""
        outcomes: list[Any] = [None] * self._size
        for places, part in self._parts:
            if len(places) == self._size:
                return part.outcomes()
            for place, outcome in zip(places, part.outcomes(), strict=True):
                outcomes[place] = outcome
        return outcomes


_TOPICS = {
    ch.Settle: "settle",
    ch.Cancel: "cancel",
    ch.Reschedule: "reschedule",
    lt.Replay: "letters",
    lt.Discard: "letters",
    ch.Submit: "submit",
    ch.PutSchedule: "standing",
    ch.DropSchedule: "standing",
    ch.PutCalendar: "standing",
    ch.PlanOccurrences: "plan",
    ch.Claim: "claim",
    ch.Unhold: "rest",
    ch.Defer: "rest",
    ch.SaveLimits: "rest",
    ch.PutQueue: "rest",
    ch.AddEntry: "rest",
    ch.PruneKeys: "rest",
    lt.Prune: "rest",
    lt.PutOperation: "rest",
    ch.TakeOver: "take over",
}
_BEGINNINGS = frozenset({"cancel", "reschedule", "letters", "submit", "standing", "plan", "claim"})
_ORDER = ("settle", "cancel", "reschedule", "letters", "submit", "standing", "plan", "claim", "rest", "take over")
# cancels and moves are of different jobs


def _part(topic: str, changes: list[Any], memory: Memory) -> Part:
    if topic == "submit":
        return Submits(changes, memory)
    if topic == "plan":
        return Plans(changes, memory)
    parts = {
        "settle": Settles,
        "cancel": Cancels,
        "reschedule": Reschedules,
        "letters": Letters,
        "standing": Standings,
        "claim": Claims,
        "rest": Others,
    }
    part: Part = parts[topic](changes)
    return part
