"""What an engine is given by its scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timewheel.policies import Queue, Rate


@dataclass(frozen=True, slots=True)
class Settings:
    """What a Scheduler was made with."""

    rate: Rate | None
    concurrency: int
    threads: int
    queues: Mapping[str, Queue]


class Host(Protocol):
    """The scheduler, as the engine sees it."""

    def engine_failed(self, cause: BaseException) -> None:
        """The engine cannot go on; called once."""

    def engine_interrupted(self) -> None:
        """A handler raised KeyboardInterrupt: stop in order."""
