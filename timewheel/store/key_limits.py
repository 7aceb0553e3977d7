"""Concurrency keys: how many jobs with one of them may run at a time, and who runs of whom the journal does not say so.

A journal takes a job for one that runs while it is ACTIVE or WAITING (overrun). A handler that cannot be stopped may
outlive that: its job has ended meanwhile (out of attempts, or cancelled), and may even be forgotten. Only the process
that it runs in knows of it, and says so with every Claim and TakeOver; a crash ends the handler and what it held.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class KeyHolder(NamedTuple):
    """A job of this task in this queue holds the concurrency key `key`."""

    key: str
    task: str
    queue: str


class KeyLimits(NamedTuple):
    """How many jobs with one concurrency key may run at a time, as tasks and queues declare it; and who overran.

    The limit that holds for a job is the least of what its task and its queue declare; 1 when neither does. A job may
    begin when fewer jobs hold its key than its own limit says, and than the limit of each holder says.

    `overran`: by job id, those whose handlers could not be stopped and still run: each holds its key (once), whatever
    has become of it.
    """

    tasks: Mapping[str, int] = MappingProxyType({})
    queues: Mapping[str, int] = MappingProxyType({})
    overran: Mapping[int, KeyHolder] = MappingProxyType({})

    def of(self, task: str, queue: str) -> int:
        """The limit that holds for a job of this task in this queue."""
        declared = [limits[name] for limits, name in ((self.tasks, task), (self.queues, queue)) if name in limits]
        return min(declared, default=1)


ONE_OF_A_KEY = KeyLimits()
