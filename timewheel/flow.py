"""What a job says of when it may start and when it is given up, beyond its queue and its due time: its flow control.

Pure, and below the model: most jobs have none of it, and pay for it with one empty column.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32


class OnConflict(StrEnum):
    """What becomes of a submission whose unique job is there already."""

    KEEP = "keep"  # nothing is made; the caller gets the job that is there
    REPLACE = "replace"  # the job that is there is cancelled, if it has not begun; else as KEEP
    RESCHEDULE = "reschedule"  # the job that is there is moved to the new time, if it has not begun; else as KEEP
    FAIL = "fail"  # UniqueConflict


class Uniqueness(NamedTuple):
    """Of what there may be one job at a time.

    `digest`: what is unique, as SHA-256 (hex): equal digests, equal jobs. `states`: names of the job states in which a
    job stands in the way of another. `period_us`: only one that was created less than this before; None: any.
    """

    digest: str
    states: tuple[str, ...]
    on_conflict: OnConflict = OnConflict.KEEP
    period_us: int | None = None


class DependencyFails(StrEnum):
    """What becomes of a job when all that it waits for are final and one of them did not complete."""

    CANCEL = "CANCEL"  # it ends CANCELLED (reason "dependency")
    RUN = "RUN"  # it runs all the same
    WAIT = "WAIT"  # it waits on: until that one was replayed and completed


class Dependencies(NamedTuple):
    """The jobs (ids) that a job waits for, and what becomes of it when one of them does not complete."""

    job_ids: tuple[int, ...]
    if_one_fails: DependencyFails = DependencyFails.CANCEL


class Flow(NamedTuple):
    """The flow control of one job. Instants are wall microseconds, durations microseconds.

    `rate_key`, with `cost`: the key of key_rate, and how many of its tokens a start takes. `expires_at`: a job that has
    neither failed nor been lost does not start from then on. `deadline`: the job is given up then, whatever it has
    begun. `heartbeat_timeout_us`: the longest silence of a running handler. `idempotent`: False: an attempt whose end
    is not known for sure makes the job DEAD. `partition_key`: within a queue, jobs with different ones share fairly.
    """

    rate_key: str | None = None
    cost: int = 1
    heartbeat_timeout_us: int | None = None
    expires_at: int | None = None
    deadline: int | None = None
    idempotent: bool = True
    partition_key: str | None = None
    unique: Uniqueness | None = None
    wait_for: Dependencies | None = None


NO_FLOW = Flow()


class Terms(NamedTuple):
    """Flow control as it is declared, when a job's instants are not known yet: durations after its scheduled_at.

    The other fields are those of Flow. `expires_after_us`, `deadline_after_us`: above 0, or None.
    """

    rate_key: str | None = None
    cost: int = 1
    heartbeat_timeout_us: int | None = None
    expires_after_us: int | None = None
    deadline_after_us: int | None = None
    idempotent: bool = True
    partition_key: str | None = None

    def flow(self) -> Flow:
        """What of it needs no instant."""
        return Flow(
            rate_key=self.rate_key,
            cost=self.cost,
            heartbeat_timeout_us=self.heartbeat_timeout_us,
            idempotent=self.idempotent,
            partition_key=self.partition_key,
        )

    def put(self, flow: Flow, scheduled_at: int, latest: int) -> Flow:
        """The flow with the instants of a job that is scheduled at this wall instant; none is after `latest`."""
        expires_at, deadline = flow.expires_at, flow.deadline
        if self.expires_after_us is not None:
            expires_at = min(scheduled_at + self.expires_after_us, latest)
        if self.deadline_after_us is not None:
            deadline = min(scheduled_at + self.deadline_after_us, latest)
        return flow._replace(expires_at=expires_at, deadline=deadline)


NO_TERMS = Terms()
MOST_PARTITIONS = 1_000  # of one queue that get lanes of their own
SHARED_PARTITIONS = 100  # in which all further ones lie, by a hash of their key


def lane_partition(key: str | None, known: Collection[str]) -> str:
    """The partition whose lanes hold the jobs with this key; `known`: the partitions that the queue has lanes of.

    Those without a key, in the partition "", do not count.

    >>> lane_partition("tenant 7", ()), lane_partition(None, ())
    ('tenant 7', '')
    """
    if key is None:
        return ""
    if key in known or len(known) - ("" in known) < MOST_PARTITIONS:
        return key
    return f"~{crc32(key.encode()) % SHARED_PARTITIONS:02d}"
