"""How a queue stands: what is set of it, what waits in it, what runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from timewheel.errors import InvalidOption
from timewheel.model import Now
from timewheel.policies import Queue
from timewheel.queue_settings import QueueSettings
from timewheel.store.port import LaneDepth
from timewheel.times import utc_datetime

NO_LIMITS = Queue()


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at one moment. `limits` are those that hold: set at run time, else declared in code.

    `scheduled` jobs wait for their time or their turn; `due` of them could start, the oldest since `oldest_due_at`
    (UTC). `running` jobs have begun, in this process.
    """

    name: str
    paused: bool
    limits: Queue
    scheduled: int
    due: int
    oldest_due_at: datetime | None
    running: int


def queue_states(
    depths: Iterable[LaneDepth],
    saved: Mapping[str, str],
    declared: Mapping[str, Queue],
    running: Callable[[str], int],
    now: Now,
) -> list[QueueState]:
    """Every queue that is declared, was set at run time or has jobs, by name. `saved`: as Store.queues gives it."""
    scheduled: dict[str, list[LaneDepth]] = {name: [] for name in (*declared, *saved)}
    for depth in depths:
        scheduled.setdefault(depth.lane.queue, []).append(depth)
    return [
        _state(name, scheduled[name], _settings(saved.get(name)), declared.get(name), running(name), now)
        for name in sorted(scheduled)
    ]


def _settings(text: str | None) -> QueueSettings:
    try:
        return QueueSettings() if text is None else QueueSettings.read(text)
    except InvalidOption:  # as at the start, which says so
        return QueueSettings()


def _state(
    name: str, depths: list[LaneDepth], settings: QueueSettings, declared: Queue | None, running: int, now: Now
) -> QueueState:
    limits = settings.update if settings.over == declared else None
    oldest = [
        depth.oldest_due_at - now.on(depth.lane.clock) + now.wall_us
        for depth in depths
        if depth.oldest_due_at is not None
    ]
    return QueueState(
        name,
        settings.paused,
        limits or declared or NO_LIMITS,
        sum(depth.scheduled for depth in depths),
        sum(depth.due for depth in depths),
        utc_datetime(min(oldest)) if oldest else None,
        running,
    )
