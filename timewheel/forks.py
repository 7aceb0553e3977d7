"""Whether this process was forked: cheaper to ask than the process id, which is a system call."""

from __future__ import annotations

import os

_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1


def generation() -> int:
    """How many forks lie between the process that imported timewheel and this one."""
    return _generation


os.register_at_fork(after_in_child=_forked)
