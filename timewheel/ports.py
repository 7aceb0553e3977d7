"""What the core asks of the machine: clocks, chance and threads, as protocols. `timewheel.system` has the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.timeline import Reading


class Timer(Protocol):
    """A callback that was asked for; `cancel` takes it back."""

    def cancel(self) -> None:
        """Take it back; harmless when it has run."""


class Clock(Protocol):
    """The machine's clocks, and the only way to wait. Microseconds."""

    @property
    def boot_id(self) -> str:
        """Names this boot of the machine."""

    @property
    def longest_sleep_s(self) -> float:
        """How long a doer may wait without a look at the clocks: a second where they are set without a word."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called when a clock is set or the machine has slept, if this clock can tell; returns the way
        to end that."""

    def wall_us(self) -> int:
        """The wall clock: since the Unix epoch, UTC."""

    def boot_us(self) -> int:
        """Elapsed since boot, suspends included; never goes back."""

    def read(self) -> Reading:
        """All clocks at one moment."""

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        """Call `callback` on the running event loop after `delay_s` awake seconds."""


class Threads(Protocol):
    """Where sync handlers run."""

    def start(self, call: Callable[[], Any]) -> None:
        """Run `call` in a thread as soon as one is free. `call` does its own reporting and never raises."""

    def close(self) -> None:
        """Take no more calls; threads end when their call does. Never blocks."""


class Watchdog(Protocol):
    """Looks at an event loop from outside, so that a blocked one can be explained."""

    def beat(self) -> None:
        """The loop says that it is alive."""

    def culprit(self) -> str | None:
        """What the loop was doing while it did not beat: the innermost frames, newest last. Forgotten once asked."""

    def stop(self) -> None:
        """Look no more."""
