"""What plans say of flow control, as data: limits of tasks, options of jobs; and what of the API that means.

The tasks of flow control are handlers like any other; `limits["tasks"]` of a plan says how they are declared.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from timewheel import Breaker, Dependency, Queue, Rate, Retention, Retry, RetryBudget, Unique

What = dict[str, Any]

RETRIES: dict[str, Retry | None] = {
    "none": None,
    "thrice": Retry(max_attempts=3, base_s=0.5, cap_s=2),
    "flat": Retry(max_attempts=4, base_s=0.2, factor=1, cap_s=0.2, jitter=0),
    "gives up": Retry(max_attempts=9, base_s=0.5, cap_s=1, give_up_after_s=1.2),
}
CLASSES = {LookupError: "PERMANENT", ArithmeticError: "THROTTLED", OSError: "AMBIGUOUS"}  # what `fragile` says
PLAIN = ("queue", "priority", "timeout_s", "misfire_grace_s", "concurrency_key")
OF_FLOW = ("rate_key", "cost", "partition_key", "heartbeat_timeout_s", "expires_after_s", "deadline_after_s")
BANK = "bank"  # what the task `brittle` depends on
KEYED = "keyed"  # the queue whose keys have limits
THRIFTY = "thrifty"  # the queue with a retry budget


def draw_limits(chance: random.Random) -> What:
    """How the tasks of flow control and the queue of keys are declared in one plan."""
    rate = {"count": chance.choice([3, 8]), "per_s": 1, "burst": chance.choice([1, 3])}
    tasks: What = {
        "metered": {"rate": rate, "key_rate": {"count": 2, "per_s": 1, "burst": 3}},
        "slotted": {"concurrency": chance.choice([1, 2, 4]), "key_concurrency": chance.choice([None, 2, 3])},
        "fragile": {"idempotent": False, "classify": True},
    }
    keys = {"key_rate": {"count": 3, "per_s": 1, "burst": 2}, "key_concurrency": chance.choice([2, 3]), "weight": 3}
    limits: What = {"tasks": tasks, "queues": {KEYED: keys}}
    if chance.random() < 0.4:
        ages = ("completed_s", "cancelled_s", "skipped_s", "dead_s", "discarded_s")
        limits["retention"] = {name: chance.choice([0, 2, 300, None]) for name in ages}
    return limits


def draw_guards(chance: random.Random, limits: What) -> What:
    """The same limits with a task whose dependency has a breaker, perhaps a retry budget."""
    breaker = {"failures": chance.choice([2, 3]), "window_s": 5, "open_s": chance.choice([0.5, 2]), "closes_after": 2}
    breaker |= {"probes": chance.choice([1, 2])}
    budget = chance.choice([None, {"share": 0.3, "window_s": 4, "at_least": 1}])
    tasks = {**limits["tasks"], "brittle": {"dependency": BANK}}
    return {**limits, "tasks": tasks, "dependencies": {BANK: {"breaker": breaker, "retry_budget": budget}}}


def dependencies_of(what: Mapping[str, Any]) -> dict[str, Dependency]:
    """What protects dependencies."""
    found = {}
    for name, guards in what.items():
        budget = budget_of(guards["retry_budget"])
        found[name] = Dependency(breaker=Breaker(**guards["breaker"]), retry_budget=budget)
    return found


def budget_of(what: Mapping[str, Any] | None) -> RetryBudget | None:
    """A RetryBudget, or none."""
    return None if what is None else RetryBudget(**what)


def rate_of(what: Mapping[str, Any] | None) -> Rate | None:
    """A Rate, or none."""
    return Rate(**what) if what else None


def task_options(what: Mapping[str, Any]) -> What:
    """What a task is declared with."""
    options = dict(what)
    for name in ("rate", "key_rate"):
        if name in options:
            options[name] = rate_of(options[name])
    if options.get("classify"):
        options["classify"] = CLASSES
    return options


def queue_of(what: Mapping[str, Any]) -> Queue:
    """The limits of a queue."""
    return Queue(**queue_options(what))


def queue_options(what: Mapping[str, Any]) -> What:
    """The same as options of `update`."""
    return {
        "rate": rate_of(what.get("rate")),
        "concurrency": what.get("concurrency"),
        "weight": what.get("weight", 1),
        "key_rate": rate_of(what.get("key_rate")),
        "key_concurrency": what.get("key_concurrency"),
        "retry_budget": budget_of(what.get("retry_budget")),
    }


def retention_of(what: Mapping[str, Any] | None) -> Retention | None:
    """How long jobs are kept."""
    return Retention(**what) if what else None


def job_options(what: Mapping[str, Any], ids: Mapping[str, str], now: datetime) -> What:
    """The options of a job; `ids` are the jobs that are known, by tag: others it cannot wait for."""
    options = {name: what[name] for name in PLAIN + OF_FLOW if name in what}
    options["retry"] = RETRIES[what.get("retry", "thrice")]
    if "key" in what:
        options["idempotency_key"] = what["key"]
    if "unique" in what:
        options["unique"] = Unique(by=("key",), **what["unique"])
    for name in ("expires_at", "deadline"):
        if name in what:
            options[name] = now + timedelta(seconds=what[name])
    if waited := [ids[tag] for tag in what.get("wait_for", ()) if tag in ids]:
        options |= {"wait_for": waited, "if_dependency_fails": what["if_dependency_fails"]}
    return options
