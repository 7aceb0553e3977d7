"""The meters of all tasks and keys: made when they are asked for, saved when they change, forgotten when idle. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from timewheel.dispatch.meter import Meter
from timewheel.dispatch.told import Memory

if TYPE_CHECKING:
    from timewheel.policies import Rate

SEPARATOR = "\t"  # in the names of meters; names of queues, tasks and keys are printable
LOOKS = 16  # at meters that may be idle, a save, beyond two for each that is saved


class Meters:
    """Every meter, by the name under which it is saved. One that is as a new one is forgotten, here and in the journal.

    `saved`: the journal's values; a meter that is asked for goes on from its own, however late it is declared.
    """

    def __init__(self, saved: Mapping[str, int]) -> None:
        self._saved = {name: tat for name, tat in saved.items() if SEPARATOR in name}
        self._meters: dict[str, Meter] = {}
        self._memory = Memory()
        self._stored = set(self._saved)  # the names that are in the journal
        self._turn = deque(self._saved)  # the names that are in the journal or here: each is looked at in turn
        self._unsaved: dict[str, None] = {}  # those whose state the journal does not hold, or only with promises

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, name: str, rate: Rate, now_us: int) -> Meter:
        """The meter of this name, at this rate."""
        meter = self._meters.get(name)
        if meter is None:
            if name not in self._saved:
                self._turn.append(name)
            meter = self._meters[name] = Meter(rate, self._saved.pop(name, None), now_us, self._memory)
        elif meter.rate != rate:
            meter.rerate(rate, now_us)
            self._unsaved[name] = None
        return meter

    def promised(self, name: str) -> Meter:
        """The meter of this name, tokens of which are promised, at whatever rate."""
        return self._meters[name]

    def once_promised(self, name: str, rate: Rate, now_us: int) -> Meter:
        """The meter of this name, tokens of which were promised once: at this rate if it was forgotten meanwhile."""
        return self._meters.get(name) or self.of(name, rate, now_us)

    def changed(self, name: str) -> None:
        """Tokens of this meter were promised or taken: the journal is to hear of it."""
        self._unsaved[name] = None

    def to_save(self, latest_start_us: int, now_us: int) -> dict[str, int | None]:
        """What the journal is to hold now, by name: only what has changed; None: forget it."""
        values = self._forget_idle(2 * len(self._unsaved) + LOOKS, now_us)
        for name in self._unsaved:
            values[name] = self._meters[name].to_save(latest_start_us)
        self._stored.update(self._unsaved)
        self._unsaved = {name: None for name in self._unsaved if self._meters[name].promised}
        return values

    def _forget_idle(self, looks: int, now_us: int) -> dict[str, int | None]:
        forgotten: dict[str, int | None] = {}
        for _ in range(min(looks, len(self._turn))):
            name = self._turn.popleft()
            meter = self._meters.get(name)
            if name in self._unsaved or not (self._saved[name] <= now_us if meter is None else meter.is_idle(now_us)):
                self._turn.append(name)
                continue
            self._saved.pop(name, None)
            if meter is not None:
                meter.forget_told()
                del self._meters[name]
            if name in self._stored:
                self._stored.discard(name)
                forgotten[name] = None
        return forgotten
