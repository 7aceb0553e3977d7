"""Where a scheduler lives: its process, and its event loop. A generation is cheaper to ask for than a process id."""

from __future__ import annotations

import asyncio
import os

from timewheel.errors import ForkedScheduler, WrongThread

_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class Place:
    """The process and the running event loop in which it was made."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._generation = _generation

    def is_here(self) -> bool:
        """Whether the caller runs in this process and on this loop."""
        try:
            return asyncio.get_running_loop() is self.loop and self._generation == _generation
        except RuntimeError:
            return False

    def check_process(self) -> None:
        """Raise ForkedScheduler in a forked child."""
        if self._generation != _generation:
            raise ForkedScheduler(
                f"this scheduler was started in process {self._pid} and is used in its forked child {os.getpid()}: "
                f"make and start one in the child"
            )

    def check(self) -> None:
        """Raise ForkedScheduler or WrongThread unless the caller is here."""
        self.check_process()
        if not self.is_here():
            raise WrongThread(
                "this scheduler runs on another event loop: from a thread or another loop use scheduler.blocking, "
                "for instance scheduler.blocking.after(5, fn)"
            )
