"""Bugs to plant in the SQLite adapter's flow control and dead letters (see `tests.conformance.planted`)."""

from dataclasses import replace

from tests.conformance.planted import Plant, both, edited
from timewheel.flow import DependencyFails
from timewheel.store.letters import Replay
from timewheel_storage.sqlite import (
    admission,
    codes,
    keys,
    places,
    read_letters,
    take_over_dependents,
    write_claim,
    write_letters,
    write_rest,
    write_settle,
    write_take_over,
)

DEFERRALS = ("LANES_OF_DEFERRED", "BEFORE_DEFERS", "DEFERS")
DEPENDENTS = ("DEPENDENTS_OF_THESE", "DEPENDENTS_OF_ALL")


def _instead(module, name, made):
    """Replaces a function by what `made` makes of it."""

    def plant(monkeypatch):
        monkeypatch.setattr(module, name, made(getattr(module, name)))

    return plant


def _without_a_period(honest):
    return lambda self, unique, now: honest(self, unique._replace(period_us=None), now)


def _any_state(honest):
    every = tuple(state.value for state in codes.JOB_CODES)
    return lambda self, unique, now: honest(self, unique._replace(states=every), now)


def _its_own_limit(_):
    return lambda self, key, task, queue: self._limits.of(task, queue) - self._holders.get(key, 0)


def _without_the_overran(honest):
    return lambda self, connection, names, limits: honest(self, connection, names, limits._replace(overran={}))


def _without_keys(honest):
    return lambda self, connection, stamp, one: honest(self, connection, stamp, replace(one, keys=frozenset()))


PLANTED = {
    "after the deadline": Plant(
        "a job begins when its deadline has passed",
        _instead(write_claim, "_late", lambda _: lambda job, now: None),
    ),
    "what has begun expires": Plant(
        "a job that has failed, and is to be tried again, expires as if it had never begun",
        _instead(write_claim, "_late", lambda honest: lambda job, now: honest(job._replace(failures=0, losses=0), now)),
        examples=400,
    ),
    "nobody is asked": Plant(
        "a job with a rate key begins, and its rate was not asked",
        _instead(write_claim, "_governs", lambda honest: lambda by, job: honest(by._replace(rate_keys=False), job)),
    ),
    "its own limit alone": Plant(
        "a job begins beside one that allows fewer with its key than that job itself",
        _instead(keys.Keys, "room", _its_own_limit),
        examples=400,
    ),
    "nobody overran": Plant(
        "a job begins beside a handler with its key that does not stop and whose job has ended",
        _instead(keys.Keys, "__init__", _without_the_overran),
    ),
    "overran and counted twice": Plant(
        "a handler that does not stop holds its key twice while its job is not final",
        edited(keys, "KEY_HOLDERS", f"AND {keys._NOT_TOLD_OF}", ""),
        examples=300,
    ),
    "keys that nobody looks at": Plant(
        "a take-over passes over the keys that it names",
        _instead(write_take_over.TakeOvers, "_take_over", _without_keys),
        examples=300,
    ),
    "unique for ever": Plant(
        "a job stands in the way of another when its period is over",
        _instead(admission.Admission, "_newest_equal", _without_a_period),
        examples=300,
    ),
    "unique in any state": Plant(
        "a job stands in the way of another in a state that does not count",
        _instead(admission.Admission, "_newest_equal", _any_state),
        examples=300,
    ),
    "a failure is no matter": Plant(
        "a job runs though what it waited for did not complete",
        _instead(take_over_dependents, "_policy", lambda _: lambda job_id, text: DependencyFails.RUN),
    ),
    "one is enough": Plant(
        "a job goes on when the first of those that it waits for has ended",
        both(
            *(
                edited(take_over_dependents, name, "AND p.state < 3)", "AND p.state < 3 AND false)")
                for name in DEPENDENTS
            )
        ),
    ),
    "deferred by surprise": Plant(
        "a job that was moved since it was judged is moved again",
        both(*(edited(write_rest, name, "AND j.due_at = d.value ->> 1", "") for name in DEFERRALS)),
    ),
    "no partitions": Plant(
        "jobs of all partitions lie in one lane",
        _instead(places, "lane_partition", lambda _: lambda key, known: ""),
    ),
    "another's fingerprint": Plant(
        "a failure without a fingerprint has that of the failure before",
        edited(
            write_settle,
            "ANY_END",
            "CASE WHEN r.fault IS NULL THEN j.fingerprint ELSE r.fingerprint END",
            "coalesce(r.fingerprint, j.fingerprint)",
        ),
    ),
    "a success runs again": Plant(
        "a job that completed is replayed",
        _instead(
            write_letters,
            "_may_be",
            lambda honest: (
                lambda one, state, discarded: (
                    honest(one, state, discarded) or (isinstance(one, Replay) and state == codes.COMPLETED)
                )
            ),
        ),
    ),
    "replayed into its deadline": Plant(
        "a replayed job is given up at once for the deadline that ended it",
        edited(write_letters, "REPLAYS", f", '$[{write_letters.DEADLINE}]', NULL", ""),
    ),
    "replayed and cancelled": Plant(
        "a replayed job is cancelled by the request that ended it",
        edited(write_letters, "REPLAYS", "cancel_requested = NULL, ", ""),
        examples=300,
    ),
    "discarded twice": Plant(
        "a second click discards a letter again, at another time",
        _instead(write_letters, "_may_be", lambda honest: lambda one, state, _: honest(one, state, 0)),
    ),
    "letters are forgotten": Plant(
        "retention forgets a dead letter that nobody has discarded",
        edited(write_letters, "TO_FORGET", "OR r.letters OR j.discarded_at < r.ended_before", "OR true"),
        examples=600,
    ),
    "forgotten with its key": Plant(
        "retention forgets a job whose idempotency key is held",
        edited(write_letters, "TO_FORGET", "AND j.holds_key IS NULL", ""),
    ),
    "groups of all tasks": Plant(
        "dead letters of two tasks are shown as one failure",
        edited(read_letters, "GROUPS", "GROUP BY j.fingerprint, k.task", "GROUP BY j.fingerprint"),
        examples=300,
    ),
}
