"""Where the loader puts what it reads: the wheels and the ready queues, as it sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from timewheel.model import ClockKind, Lane


class Wheels(Protocol):
    """The ticker, as the loader sees it."""

    def insert(self, kind: ClockKind, due_us: int, job_id: int, lane: int) -> None:
        """Keep a job until it is due."""

    def extend(self, kind: ClockKind, lane: int, keys: Sequence[tuple[int, int]], *, fresh: bool = False) -> None:
        """Keep many jobs of one lane."""

    def size(self, kind: ClockKind, lane: int) -> int:
        """Entries of a lane in its wheel."""

    def drop(self, kind: ClockKind) -> None:
        """Forget a whole wheel."""

    def lags(self, kind: ClockKind) -> bool:
        """Whether jobs that are due wait in the wheel."""

    def fired_until_us(self, kind: ClockKind) -> int:
        """Whatever is due before this instant is not in the wheel."""

    def rebuild(self) -> AbstractAsyncContextManager[None]:
        """Fresh wheels in the place of the old ones."""

    def __len__(self) -> int: ...


class Queued(Protocol):
    """The ready queues and the claims under way, as the loader sees them."""

    def add_lane(self, lane: Lane) -> None:
        """Make a lane known."""

    def ready_size(self, lane: int) -> int:
        """Entries of a lane that wait for a claim."""

    def known_ids(self, lane: int) -> Collection[int]:
        """Ids of a lane that are in ready, in a claim under way, or claimed."""

    def clear(self, lane: int) -> None:
        """Forget the entries of a lane that wait for a claim."""

    def __len__(self) -> int: ...
