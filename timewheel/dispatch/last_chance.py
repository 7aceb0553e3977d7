"""Jobs on their last chance run one at a time, so that one which kills the process takes no neighbour with it. Pure.

A claim carries the chance or not; the store claims at most one such job with it, and hands the others back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

Entry = tuple[int, int, int]  # due_us, job_id, lane number


class LastChance:
    """Who has the one chance, and who waits for it."""

    def __init__(self) -> None:
        self._free = True
        self._held: list[Entry] = []

    @property
    def is_free(self) -> bool:
        """Whether nobody has the chance."""
        return self._free

    def take(self) -> int:
        """The chances that a claim may carry: 1 when nobody has it, else 0. Give it back with `free`."""
        chances = int(self._free)
        self._free = False
        return chances

    def free(self) -> list[Entry]:
        """Nobody has the chance any more; the entries that waited for it."""
        self._free = True
        held, self._held = self._held, []
        return held

    def hold(self, hints: Iterable[Entry], job_ids: Collection[int]) -> None:
        """These hints of a claim have to wait for the chance."""
        if job_ids:
            ids = set(job_ids)
            self._held += [entry for entry in hints if entry[1] in ids]

    def held_ids(self) -> Iterator[int]:
        """The ids of those that wait."""
        return (entry[1] for entry in self._held)
