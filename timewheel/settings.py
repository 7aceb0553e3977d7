"""What a Scheduler was made with, and what an engine is given by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from timewheel.policies import Queue, Rate
    from timewheel.safeguards import Dependency


@dataclass(frozen=True, slots=True)
class Settings:
    """Its limits."""

    rate: Rate | None
    concurrency: int
    threads: int
    queues: Mapping[str, Queue]
    dependencies: Mapping[str, Dependency]


@dataclass(frozen=True, slots=True)
class Manners:
    """How a scheduler behaves at start and at failure."""

    waits_for_ownership: bool
    imports: tuple[str, ...]
    on_failure: Callable[[BaseException], Any] | None


class Host(Protocol):
    """The scheduler, as the engine sees it."""

    async def engine_ready(self) -> None:
        """The journal is recovered, and nothing runs yet. What this raises comes out of the start."""

    def engine_failed(self, cause: BaseException) -> None:
        """The engine cannot go on; called once."""

    def engine_interrupted(self) -> None:
        """A handler raised KeyboardInterrupt: stop in order."""
