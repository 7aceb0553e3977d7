"""Flow control as SQLite keeps it: one JSON array, its fields in the order of a Flow's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from timewheel.flow import Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel_storage.sqlite.codes import encode

EXPIRES_AT, DEADLINE, WAIT_FOR = (Flow._fields.index(name) for name in ("expires_at", "deadline", "wait_for"))
POLICY = f"$[{WAIT_FOR}][{Dependencies._fields.index('if_one_fails')}]"  # in the JSON of a flow: a DependencyFails


@lru_cache(maxsize=4096)
def flow_text(flow: Flow) -> str:
    """A flow as it is stored; Uniqueness and Dependencies are arrays in it, and members of enums their values.

    >>> flow_text(Flow(cost=3, wait_for=Dependencies((1, 2))))
    '[null,3,null,null,null,true,null,null,[[1,2],"CANCEL"]]'
    """
    *plain, unique, wait_for = flow
    return encode([*plain, unique and tuple(unique), wait_for and tuple(wait_for)])


@lru_cache(maxsize=4096)
def flow_of(text: str | None) -> Flow | None:
    """The flow that was stored. Raises one of NONSENSE for a text that is none.

    >>> flow_of(flow_text(Flow(rate_key="mail", unique=Uniqueness("d", ("ACTIVE",)))))
    ... # doctest: +NORMALIZE_WHITESPACE
    Flow(rate_key='mail', cost=1, heartbeat_timeout_us=None, expires_at=None, deadline=None, idempotent=True,
        partition_key=None, unique=Uniqueness(digest='d', states=('ACTIVE',),
        on_conflict=<OnConflict.KEEP: 'keep'>, period_us=None), wait_for=None)
    """
    if text is None:
        return None
    rate_key, cost, heartbeat_us, expires_at, deadline, idempotent, partition_key, unique, wait_for = orjson.loads(text)
    fine = (
        _is_text_or_none(rate_key)
        and _is_text_or_none(partition_key)
        and type(cost) is int
        and type(idempotent) is bool
        and all(value is None or type(value) is int for value in (heartbeat_us, expires_at, deadline))
    )
    if not fine:
        raise TypeError(f"no flow: {text[:80]}")
    rest = (heartbeat_us, expires_at, deadline, idempotent, partition_key)
    return Flow(rate_key, cost, *rest, _uniqueness_of(unique), _dependencies_of(wait_for))


def _uniqueness_of(values: Any) -> Uniqueness | None:
    if values is None:
        return None
    digest, states, on_conflict, period_us = values
    if type(digest) is not str or not all(type(state) is str for state in states):
        raise TypeError("no uniqueness")
    if period_us is not None and type(period_us) is not int:
        raise TypeError("no uniqueness")
    return Uniqueness(digest, tuple(states), OnConflict(on_conflict), period_us)


def _dependencies_of(values: Any) -> Dependencies | None:
    if values is None:
        return None
    job_ids, policy = values
    if not all(type(job_id) is int for job_id in job_ids):
        raise TypeError("no dependencies")
    return Dependencies(tuple(job_ids), DependencyFails(policy))


def _is_text_or_none(value: Any) -> bool:
    return value is None or type(value) is str
