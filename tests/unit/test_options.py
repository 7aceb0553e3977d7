"""Options: which exist, where they belong, which values they may have."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass
from datetime import UTC, datetime, timedelta

import pytest

from timewheel.errors import InvalidOption, InvalidTime
from timewheel.flow import DependencyFails
from timewheel.model import MAX_TIME_US, RetryPolicy
from timewheel.options import (
    JobOptions,
    OneShotOptions,
    Options,
    Queue,
    Rate,
    Retry,
    ScheduleOptions,
    TaskOptions,
    Unique,
    as_policy,
    one_shot_options,
    task_options,
)
from timewheel.planning.options import schedule_options

COMMON_NAMES = {"queue", "priority", "retry", "timeout_s", "heartbeat_timeout_s", "tags"}
TASK_NAMES = COMMON_NAMES | {"classify", "idempotent", "dependency", "cancel_grace_s"}
TASK_NAMES |= {"rate", "concurrency", "key_rate", "key_concurrency"}
JOB_NAMES = COMMON_NAMES | {"expires_after_s", "deadline_after_s"}
JOB_NAMES |= {"concurrency_key", "rate_key", "cost", "partition_key"}
ONCE_NAMES = {"idempotency_key", "misfire_grace_s", "unique", "expires_at", "deadline"}
ONCE_NAMES |= {"wait_for", "if_dependency_fails"}
RULE_NAMES = {"tz", "gap", "fold", "start", "end", "max_runs", "jitter_s"}
POLICY_NAMES = {"misfire", "misfire_grace_s", "catch_up_max", "catch_up_per_s", "overlap"}


@dataclass
class Known:
    """A job, as `wait_for` sees it."""

    id: str
    number: int


def message(call, *args, **kwargs):
    with pytest.raises(InvalidOption) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_the_typed_options_have_exactly_these_names():
    assert set(JobOptions.__annotations__) == JOB_NAMES
    assert set(TaskOptions.__annotations__) == TASK_NAMES
    assert set(ScheduleOptions.__annotations__) == JOB_NAMES | RULE_NAMES | POLICY_NAMES | {"id", "if_exists"}
    assert set(OneShotOptions.__annotations__) == JOB_NAMES | ONCE_NAMES
    for kind in (JobOptions, TaskOptions, OneShotOptions, ScheduleOptions):
        assert not kind.__total__


def test_nothing_given_is_nothing_set():
    assert one_shot_options({}) == task_options({}) == Options()


def test_every_option_is_read_into_the_units_of_the_model():
    given = {
        "queue": "mail",
        "priority": 0,
        "retry": 3,
        "timeout_s": 1.5,
        "tags": ["b", "a", "b"],
        "idempotency_key": "k-1",
        "misfire_grace_s": 0,
        "concurrency_key": "account-7",
        "heartbeat_timeout_s": 2,
        "expires_after_s": timedelta(hours=1),
        "deadline": 1_900_000_000,
        "rate_key": "tenant-3",
        "cost": 7,
        "partition_key": "tenant-3",
        "unique": Unique(by=("key",), key="k"),
        "wait_for": ["job-0000100000007", Known("job-0000100000008", 1 << 40 | 8), "job-0000100000007"],
        "if_dependency_fails": "RUN",
    }
    assert one_shot_options(given) == Options(
        concurrency_key="account-7",
        queue="mail",
        priority=0,
        retry=RetryPolicy(max_attempts=3),
        retry_given=True,
        timeout_us=1_500_000,
        timeout_given=True,
        tags=("b", "a"),
        idempotency_key="k-1",
        misfire_grace_us=0,
        heartbeat_timeout_us=2 * 10**6,
        heartbeat_given=True,
        expires_after_us=3600 * 10**6,
        deadline=1_900_000_000 * 10**6,
        rate_key="tenant-3",
        cost=7,
        partition_key="tenant-3",
        unique=Unique(by=("key",), key="k"),
        wait_for=(1 << 40 | 7, 1 << 40 | 8),
        if_dependency_fails=DependencyFails.RUN,
        asks_flow=True,
    )
    other = {"expires_at": datetime(2030, 1, 1, tzinfo=UTC), "deadline_after_s": 0.5}
    read = one_shot_options(other)
    assert (read.expires_at, read.deadline_after_us) == (1_893_456_000 * 10**6, 500_000)


def test_every_option_of_a_task_is_read_into_the_units_of_the_model():
    read = task_options(
        {
            "idempotent": False,
            "dependency": "stripe",
            "rate": Rate(5),
            "concurrency": 3,
            "key_rate": Rate(1, burst=4),
            "key_concurrency": 2,
            "cancel_grace_s": timedelta(seconds=1.5),
            "heartbeat_timeout_s": 10,
            "classify": {ValueError: "PERMANENT"},
        }
    )
    assert (read.idempotent, read.dependency, read.rate, read.concurrency) == (False, "stripe", Rate(5), 3)
    assert (read.key_rate, read.key_concurrency, read.cancel_grace_us) == (Rate(1, burst=4), 2, 1_500_000)
    assert (read.heartbeat_timeout_us, read.heartbeat_given) == (10 * 10**6, True)
    assert read.classify is not None
    assert task_options({"classify": None, "cancel_grace_s": 0, "rate": None, "key_concurrency": None}) == Options()


@pytest.mark.parametrize(
    "given",
    [
        {"heartbeat_timeout_s": None},
        {"expires_at": None},
        {"deadline": None, "deadline_after_s": 5},
        {"expires_at": 1_900_000_000, "expires_after_s": None},
        {"unique": None, "wait_for": None, "rate_key": None, "partition_key": None},
        {"wait_for": [], "if_dependency_fails": "WAIT"},
        {"cost": 1},
        {"rate_key": "k", "cost": 1000},
        {"deadline": 1_900_000_000, "expires_at": 1_900_000_001},
    ],
)
def test_values_that_mean_nothing_in_particular_are_taken(given):
    assert one_shot_options(given).asks_flow


def test_options_of_no_flow_control_ask_for_none():
    assert not one_shot_options({"queue": "q", "concurrency_key": "k", "misfire_grace_s": 1}).asks_flow


def test_jobs_of_a_set_are_waited_for_in_an_order_that_is_always_the_same():
    ids = [f"job-000010000000{n}" for n in range(8)]
    given = [one_shot_options({"wait_for": kind(ids)}).wait_for for kind in (list, tuple, set, frozenset)]
    assert len(set(given)) == 1


@pytest.mark.parametrize(
    ("given", "field", "parts"),
    [
        ({"expires_at": 1_900_000_000, "expires_after_s": 5}, "expires_after_s", ["expires_at=19", "give one of"]),
        ({"deadline": 1_900_000_000, "deadline_after_s": 5}, "deadline_after_s", ["deadline=19", "give one of them"]),
        ({"cost": 2}, "cost", ["cost=2", "give rate_key=..."]),
        ({"cost": 2, "rate_key": None}, "cost", ["cost=2", "give rate_key=..."]),
        ({"if_dependency_fails": "RUN"}, "if_dependency_fails", ["'RUN'", "wait_for=[job]"]),
    ],
)
def test_options_that_exclude_or_need_one_another(given, field, parts):
    with pytest.raises(InvalidOption) as caught:
        one_shot_options(given)
    assert caught.value.field == field
    for part in parts:
        assert part in str(caught.value)


def test_none_is_told_from_silence():
    options = task_options({"retry": None, "timeout_s": None})
    assert options.retry == RetryPolicy(max_attempts=1)
    assert options.retry_given
    assert options.timeout_us is None
    assert options.timeout_given


@pytest.mark.parametrize(
    ("timeout", "us"), [(1, 10**6), (0.25, 250_000), (timedelta(minutes=2), 120 * 10**6), (1e-12, 1), (5e-324, 1)]
)
def test_timeouts(timeout, us):
    assert one_shot_options({"timeout_s": timeout}).timeout_us == us


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("queue", "", "1 to 100 printable"),
        ("queue", "q" * 101, "1 to 100 printable"),
        ("queue", "a\nb", "no control characters"),
        ("queue", "\ud800", "printable"),
        ("queue", None, "must be a str"),
        ("queue", 5, "must be a str"),
        ("priority", -1, "int from 0 to 9"),
        ("priority", 10, "int from 0 to 9"),
        ("priority", True, "int from 0 to 9"),
        ("priority", 5.0, "int from 0 to 9"),
        ("priority", "5", "int from 0 to 9"),
        ("retry", 0, "int from 1 to 1000000"),
        ("retry", -1, "int from 1"),
        ("retry", True, "attempts in all"),
        ("retry", 1.5, "None (one attempt)"),
        ("retry", "3", "must be a Retry"),
        ("timeout_s", 0, "above 0"),
        ("timeout_s", -1, "above 0"),
        ("timeout_s", math.nan, "finite seconds above 0"),
        ("timeout_s", math.inf, "finite seconds above 0"),
        ("timeout_s", True, "finite seconds above 0"),
        ("timeout_s", "5", "or None"),
        ("timeout_s", 10**400, "finite seconds above 0"),
        ("timeout_s", timedelta(), "a timedelta above 0"),
        ("timeout_s", timedelta(seconds=-1), "a timedelta above 0"),
        ("timeout_s", timedelta.max, "a timedelta above 0"),
        ("tags", {"a": 1}, "list, tuple, set or frozenset"),
        ("tags", None, "list, tuple, set or frozenset"),
        ("idempotency_key", "", "1 to 255"),
        ("idempotency_key", "k" * 256, "1 to 255"),
        ("idempotency_key", None, "must be a str"),
        ("idempotency_key", 7, "must be a str"),
        ("misfire_grace_s", -0.1, "at least 0"),
        ("misfire_grace_s", math.inf, "at least 0"),
        ("misfire_grace_s", True, "at least 0"),
        ("misfire_grace_s", None, "at least 0"),
        ("misfire_grace_s", "10", "at least 0"),
        ("heartbeat_timeout_s", 0, "above 0"),
        ("heartbeat_timeout_s", "5", "or None"),
        ("expires_after_s", -1, "above 0"),
        ("expires_after_s", timedelta(), "a timedelta above 0"),
        ("deadline_after_s", math.inf, "finite seconds above 0"),
        ("concurrency_key", "", "1 to 255"),
        ("rate_key", "k" * 256, "1 to 255"),
        ("rate_key", 7, "must be a str"),
        ("cost", 0, "int from 1 to 1000"),
        ("cost", 1001, "int from 1 to 1000"),
        ("cost", 1.5, "int from 1 to 1000"),
        ("cost", None, "int from 1 to 1000"),
        ("partition_key", "", "1 to 255"),
        ("unique", True, "Unique(by="),
        ("unique", "key", "Unique(by="),
        ("wait_for", "job-0000100000007", "wait_for=[job]"),
        ("wait_for", Known("job-0000100000007", 7), "wait_for=[job]"),
        ("wait_for", 7, "list, tuple, set or frozenset"),
        ("if_dependency_fails", "cancel", "'CANCEL', 'RUN', 'WAIT'"),
        ("if_dependency_fails", None, "'CANCEL', 'RUN', 'WAIT'"),
    ],
)
def test_a_bad_value_is_refused_with_the_field_the_value_and_the_range(name, value, allowed):
    text = message(one_shot_options, {name: value})
    assert text.startswith(f"{name}=")
    assert repr(value)[:40] in text
    assert allowed in text
    with pytest.raises(InvalidOption) as caught:
        one_shot_options({name: value})
    assert caught.value.field == name
    if name in COMMON_NAMES:
        assert message(task_options, {name: value}) == text


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("idempotent", 1, "True or False"),
        ("idempotent", None, "True or False"),
        ("dependency", "", "1 to 100"),
        ("dependency", "d" * 101, "1 to 100"),
        ("rate", 5, "Rate(10, per_s=1)"),
        ("key_rate", "5/s", "Rate(10, per_s=1)"),
        ("concurrency", 0, "from 1 to 100000"),
        ("key_concurrency", True, "from 1 to 100000"),
        ("cancel_grace_s", -1, "at least 0"),
        ("cancel_grace_s", timedelta(seconds=-1), "at least 0"),
        ("cancel_grace_s", None, "at least 0"),
        ("classify", 5, "it must be a dict"),
    ],
)
def test_a_bad_value_of_a_task_is_refused_likewise(name, value, allowed):
    text = message(task_options, {name: value})
    assert text.startswith(f"{name}={value!r}"[:60])
    assert allowed in text


@pytest.mark.parametrize("name", ["expires_at", "deadline"])
def test_an_instant_that_is_none_is_refused_by_name(name):
    for value, part in [(5, "timedelta(seconds=5)"), (datetime(2030, 1, 1), "naive"), ("soon", "is not a time")]:
        with pytest.raises(InvalidTime, match=f"^{name}: ") as caught:
            one_shot_options({name: value})
        assert part in str(caught.value)


def test_what_is_no_job_cannot_be_waited_for():
    for value in ("job", "job-000010000000!", 7, None, [], object(), Known("x", "7")):
        text = message(one_shot_options, {"wait_for": ["job-0000100000007", value]})
        assert text.startswith("wait_for[1]=")
        assert "job-0000100000007" in text
    many = [Known("", number) for number in range(1, 1_002)]
    assert "1,001 jobs; at most 1,000" in message(one_shot_options, {"wait_for": many})
    assert len(one_shot_options({"wait_for": many[1:]}).wait_for) == 1_000


@pytest.mark.parametrize("tags", [["a", "b"], ("a", "b"), {"b", "a"}, frozenset({"b", "a"})])
def test_tags_of_every_kind(tags):
    assert one_shot_options({"tags": tags}).tags == ("a", "b")


def test_bad_tags():
    assert "write tags=['mail']" in message(one_shot_options, {"tags": "mail"})
    assert "tag=''" in message(one_shot_options, {"tags": ["a", ""]})
    assert "tag=5" in message(one_shot_options, {"tags": ["a", 5]})
    assert "1 to 100" in message(one_shot_options, {"tags": ["t" * 101]})
    assert "21 tags; at most 20" in message(one_shot_options, {"tags": [f"t{n}" for n in range(21)]})
    assert len(one_shot_options({"tags": [f"t{n % 20}" for n in range(40)]}).tags) == 20


@pytest.mark.parametrize(
    ("read", "name", "parts"),
    [
        (one_shot_options, "queu", ["'queu' is not an option of scheduler.options(...)", "did you mean queue?"]),
        (one_shot_options, "timeout", ["did you mean timeout_s?"]),
        (one_shot_options, "retries", ["did you mean retry?"]),
        (
            one_shot_options,
            "zzz",
            ["available: concurrency_key, cost, deadline, deadline_after_s, expires_after_s, expires_at, heart"],
        ),
        (one_shot_options, "name", ["@scheduler.task(name=...)"]),
        (one_shot_options, "key_rate", ["it is declared with the task", "@scheduler.task(key_rate=...)"]),
        (schedule_options, "idempotent", ["@scheduler.task(idempotent=...)"]),
        (task_options, "unique", ["scheduler.options(unique=...).at(...)"]),
        (one_shot_options, "overlap", ["one of a schedule", "scheduler.recurring(overlap=...).cron(...)"]),
        (task_options, "overlap", ["@scheduler.task(...)", "scheduler.recurring(overlap=...).cron(...)"]),
        (task_options, "concurrency_key", ["scheduler.options(concurrency_key=...).at(...)"]),
        (task_options, "idempotency_key", ["@scheduler.task(...)", "scheduler.options(idempotency_key=...).at(...)"]),
        (task_options, "misfire_grace_s", ["scheduler.options(misfire_grace_s=...).at(...)"]),
        (task_options, "partition_key", ["scheduler.options(partition_key=...).at(...)"]),
        (task_options, "prioritty", ["did you mean priority?"]),
        (task_options, 5, ["5 is not an option"]),
        (schedule_options, "calendar", ["Cron(..., calendar=...)"]),
        (schedule_options, "timezone", ["did you mean tz?"]),
        (schedule_options, "coalesce", ["misfire='LATEST'"]),
        (schedule_options, "max_instances", ["Overlap.ALLOW(limit=...)"]),
    ],
)
def test_an_unknown_option_says_where_to_go(read, name, parts):
    text = message(read, {name: 1})
    for part in parts:
        assert part in text


def test_retry_becomes_the_stored_policy():
    assert Retry().policy() == RetryPolicy()
    assert as_policy(Retry(3, 0.5, 1.5, 60, 0, 3600)) == RetryPolicy(3, 500_000, 1.5, 60 * 10**6, 0.0, 3600 * 10**6)
    assert type(Retry(factor=2, jitter=1).policy().factor) is float
    assert as_policy(4) == RetryPolicy(max_attempts=4)
    assert as_policy(None).max_attempts == 1
    assert as_policy(RetryPolicy(7)) == RetryPolicy(7)
    assert Retry(base_s=0, cap_s=0).policy().cap_us == 0


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"max_attempts": 0}, ["max_attempts=0", "from 1 to"]),
        ({"max_attempts": 2.0}, ["max_attempts=2.0", "int"]),
        ({"max_attempts": True}, ["max_attempts=True"]),
        ({"max_attempts": 10**7}, ["max_attempts=10000000", "1000000"]),
        ({"base_s": -1}, ["base_s=-1", "at least 0"]),
        ({"base_s": math.nan}, ["base_s=nan", "finite"]),
        ({"base_s": "1"}, ["base_s='1'"]),
        ({"base_s": 301}, ["base_s=301", "cap_s=300", "raise cap_s"]),
        ({"factor": 0.9}, ["factor=0.9", "at least 1"]),
        ({"factor": math.inf}, ["factor=inf", "finite"]),
        ({"cap_s": math.inf}, ["cap_s=inf", "finite", "at least base_s"]),
        ({"cap_s": MAX_TIME_US}, ["cap_s=", "finite"]),
        ({"jitter": -0.1}, ["jitter=-0.1", "at least 0"]),
        ({"jitter": math.inf}, ["jitter=inf", "finite"]),
        ({"jitter": None}, ["jitter=None"]),
        ({"give_up_after_s": 0}, ["give_up_after_s=0", "above 0, or None"]),
        ({"give_up_after_s": math.inf}, ["give_up_after_s=inf"]),
    ],
)
def test_a_bad_retry_is_refused_when_it_is_made(fields, parts):
    text = message(Retry, **fields)
    for part in parts:
        assert part in text


@pytest.mark.parametrize("name", ["base_s", "factor", "cap_s", "jitter", "give_up_after_s"])
def test_a_number_that_no_float_can_hold_is_refused_like_any_other(name):
    assert message(Retry, **{name: 10**400}).startswith(f"{name}=1000")


def test_rate_and_queue():
    assert (Rate(10).count, Rate(10).per_s, Rate(10).burst) == (10, 1, 1)
    assert Rate(1, 60, 5) == Rate(count=1, per_s=60, burst=5)
    assert Queue() == Queue(rate=None, concurrency=None)
    assert Queue(rate=Rate(1), concurrency=4).concurrency == 4
    with pytest.raises(TypeError):
        Queue(Rate(1))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: Rate(0), ["count=0", "from 1"]),
        (lambda: Rate(1.5), ["count=1.5", "int"]),
        (lambda: Rate(True), ["count=True"]),
        (lambda: Rate(1, per_s=0), ["per_s=0", "above 0"]),
        (lambda: Rate(1, per_s=math.nan), ["per_s=nan", "finite"]),
        (lambda: Rate(1, burst=0), ["burst=0", "from 1"]),
        (lambda: Rate(1_000_001), ["count=1000001", "at most 1,000,000 a second", "give no rate"]),
        (lambda: Rate(1, per_s=1e-7), ["per_s=1e-07", "too fast"]),
        (lambda: Queue(rate=5), ["rate=5", "Rate(10, per_s=1)"]),
        (lambda: Queue(concurrency=0), ["concurrency=0", "from 1 to 100000"]),
        (lambda: Queue(concurrency=True), ["concurrency=True"]),
        (lambda: Queue(weight=0), ["weight=0", "from 1 to 1000"]),
        (lambda: Queue(weight=1.5), ["weight=1.5"]),
        (lambda: Queue(weight=None), ["weight=None"]),
        (lambda: Queue(key_rate=5), ["key_rate=5", "Rate(10, per_s=1)"]),
        (lambda: Queue(key_concurrency=0), ["key_concurrency=0", "from 1 to 100000"]),
    ],
)
def test_a_bad_limit_is_refused_when_it_is_made(make, parts):
    text = message(make)
    for part in parts:
        assert part in text


@pytest.mark.parametrize(("record", "field"), [(Retry(), "jitter"), (Rate(1), "count"), (Queue(), "rate")])
def test_records_are_frozen(record, field):
    with pytest.raises(FrozenInstanceError):
        setattr(record, field, 2)


class Nasty:
    def __repr__(self):
        raise SystemExit("no")


def test_a_value_without_a_repr_is_still_refused_in_words():
    assert "<tests." in message(one_shot_options, {"queue": Nasty()}) or "Nasty" in message(
        one_shot_options, {"queue": Nasty()}
    )
