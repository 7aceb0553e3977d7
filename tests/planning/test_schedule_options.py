"""The options of a schedule: which exist, what they become, and how a bad one is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from timewheel.errors import InvalidOption, InvalidRule, InvalidTime, TimewheelError
from timewheel.flow import Terms
from timewheel.model import RetryPolicy
from timewheel.planning.definition import Definition
from timewheel.planning.options import schedule_options
from timewheel.planning.policies import Misfire, MisfirePolicy, Overlap, OverlapKind, OverlapPolicy
from timewheel.policies import Rate
from timewheel.recurrence.choices import Fold, Gap
from timewheel.recurrence.interval import Every

SECOND = 1_000_000


@dataclass(frozen=True)
class Task:
    name: str = "report"
    queue: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    timeout_us: int | None = None
    tags: tuple[str, ...] = ()
    heartbeat_timeout_us: int | None = None
    idempotent: bool = True
    key_rate: Rate | None = None


def definition(task=None, **options):
    return schedule_options(options).definition(Every(60), task or Task(), "[]")


def test_nothing_given_is_the_written_defaults():
    assert definition() == Definition(rule=Every(60), task="report")
    assert definition().misfire == MisfirePolicy(Misfire.LATEST, 10 * SECOND, 100, 1.0)
    assert definition().overlap == OverlapPolicy(OverlapKind.SKIP)
    choices = schedule_options({})
    assert (choices.id, choices.if_exists, choices.zone_options()) == (None, "update", {})


def test_a_tasks_own_defaults_are_those_of_its_schedules_jobs():
    task = Task("t", "mail", 0, RetryPolicy(2), 7, ("a",))
    plain = definition(task)
    assert (plain.task, plain.queue, plain.priority, plain.retry, plain.timeout_us, plain.tags) == (
        "t", "mail", 0, RetryPolicy(2), 7, ("a",),
    )  # fmt: skip
    own = definition(task, queue="slow", priority=9, retry=None, timeout_s=None, tags=[])
    assert (own.queue, own.priority, own.retry, own.timeout_us, own.tags) == ("slow", 9, RetryPolicy(1), None, ())


def test_every_option_is_read_into_the_units_of_the_model():
    start, end = datetime(2026, 1, 5, tzinfo=UTC), 1_800_000_000
    made = definition(
        concurrency_key="k", misfire="ALL", misfire_grace_s=1.5, catch_up_max=1000, catch_up_per_s=None,
        overlap=Overlap.ALLOW(limit=3), jitter_s=20, start=start, end=end, max_runs=5,
    )  # fmt: skip
    assert made.misfire == MisfirePolicy(Misfire.ALL, 1_500_000, 1000, None)
    assert made.overlap == OverlapPolicy(OverlapKind.ALLOW, 3)
    assert (made.concurrency_key, made.jitter_us, made.max_runs) == ("k", 20 * SECOND, 5)
    assert (made.start_us, made.end_us) == (1_767_571_200 * SECOND, 1_800_000_000 * SECOND)
    assert definition(jitter_s=timedelta(minutes=1)).jitter_us == 60 * SECOND
    choices = schedule_options(
        {"id": "a/b c", "tz": "Europe/Berlin", "gap": "SKIP", "fold": Fold.BOTH, "if_exists": "keep"}
    )
    assert (choices.id, choices.if_exists) == ("a/b c", "keep")
    assert choices.zone_options() == {"tz": "Europe/Berlin", "gap": Gap.SKIP, "fold": Fold.BOTH}


def test_an_update_changes_what_is_given_and_nothing_else():
    before = definition(misfire="ALL", catch_up_max=7, overlap="ALLOW", jitter_s=3, end=1_800_000_000, queue="q")
    assert schedule_options({}).applied(before) == before
    after = schedule_options({"misfire_grace_s": 0, "jitter_s": 0, "end": None, "tags": ["x"]}).applied(before)
    assert after.misfire == MisfirePolicy(Misfire.ALL, 0, 7, 1.0)
    assert (after.jitter_us, after.end_us, after.tags) == (0, None, ("x",))
    assert (after.overlap, after.queue) == (before.overlap, "q")


def test_flow_control_is_kept_as_durations_after_each_jobs_time():
    made = definition(
        heartbeat_timeout_s=2, expires_after_s=60, deadline_after_s=timedelta(hours=1), rate_key="k", cost=3,
        partition_key="p",
    )  # fmt: skip
    assert made.terms == Terms("k", 3, 2 * SECOND, 60 * SECOND, 3600 * SECOND, True, "p")
    assert definition().terms == Terms()
    task = Task(heartbeat_timeout_us=5, idempotent=False)
    assert definition(task).terms == Terms(heartbeat_timeout_us=5, idempotent=False)
    assert definition(task, heartbeat_timeout_s=None).terms == Terms(idempotent=False)


def test_an_update_of_flow_control_changes_what_is_given_and_nothing_else():
    before = definition(Task(idempotent=False), rate_key="k", expires_after_s=60)
    after = schedule_options({"cost": 3, "expires_after_s": None}).applied(before)
    assert after.terms == Terms(rate_key="k", cost=3, idempotent=False)
    with pytest.raises(InvalidOption, match="cost=3"):
        schedule_options({"rate_key": None}).applied(after)


def test_a_cost_above_the_burst_of_the_tasks_key_is_refused():
    task = Task(key_rate=Rate(10, burst=2))
    assert definition(task, rate_key="k", cost=2).terms.cost == 2
    with pytest.raises(InvalidOption, match=r"cost=3 is above the burst of the task report, .*at least 3"):
        definition(task, rate_key="k", cost=3)


def test_a_member_is_as_good_as_its_name():
    for kind in Misfire:
        assert definition(misfire=kind) == definition(misfire=kind.name)
    for name in ("SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL"):
        assert definition(overlap=name) == definition(overlap=getattr(Overlap, name))


def test_a_limit_belongs_to_the_policies_that_have_one():
    assert Overlap.ALLOW.policy.limit == Overlap.QUEUE_ALL.policy.limit == 100
    assert Overlap.QUEUE_ALL(limit=5).policy == OverlapPolicy(OverlapKind.QUEUE_ALL, 5)
    assert repr(Overlap.ALLOW(limit=5)) == "Overlap.ALLOW(limit=5)"
    assert repr(Overlap.SKIP) == "Overlap.SKIP"
    assert repr(Overlap.SERIALIZE("k")) == "Overlap.SERIALIZE('k')"
    with pytest.raises(InvalidOption, match=r"SKIP takes no limit"):
        Overlap.SKIP(limit=5)
    with pytest.raises(InvalidOption, match=r"limit=0"):
        Overlap.ALLOW(limit=0)


def test_serialize_is_the_concurrency_key_of_the_jobs():
    made = definition(overlap=Overlap.SERIALIZE("account"))
    assert (made.concurrency_key, made.job_key) == (None, "account")
    assert definition(concurrency_key="own").job_key == "own"
    with pytest.raises(InvalidOption, match="give one of them"):
        definition(overlap=Overlap.SERIALIZE("account"), concurrency_key="own")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"overlapp": "SKIP"}, InvalidOption, ["'overlapp'", "scheduler.recurring(...)", "did you mean overlap?"]),
        ({"idempotency_key": "k"}, InvalidOption, ["one of a single job", "scheduler.options(idempotency_key=...)"]),
        ({"name": "x"}, InvalidOption, ["@scheduler.task(name=...)"]),
        ({"unique": True}, InvalidOption, ["one of a single job", "scheduler.options(unique=...)"]),
        ({"deadline": 1_900_000_000}, InvalidOption, ["one of a single job"]),
        ({"key_rate": Rate(1)}, InvalidOption, ["@scheduler.task(key_rate=...)"]),
        ({"cost": 2}, InvalidOption, ["cost=2", "rate_key=..."]),
        ({"expires_after_s": 0}, InvalidOption, ["expires_after_s=0", "above 0"]),
        ({"priority": 10}, InvalidOption, ["priority=10", "0 to 9"]),
        ({"misfire": "latest"}, InvalidOption, ["misfire='latest'", "did you mean 'LATEST'"]),
        ({"misfire": None}, InvalidOption, ["misfire=None", "SKIP, LATEST, COALESCE, ALL"]),
        ({"overlap": "queue-one"}, InvalidOption, ["did you mean 'QUEUE_ONE'", "Overlap.SERIALIZE"]),
        ({"overlap": "SERIALIZE"}, InvalidOption, ["needs a key"]),
        ({"overlap": 5}, InvalidOption, ["overlap=5"]),
        ({"misfire_grace_s": -1}, InvalidOption, ["misfire_grace_s=-1", "at least 0"]),
        ({"misfire_grace_s": float("nan")}, InvalidOption, ["misfire_grace_s=nan"]),
        ({"catch_up_max": 0}, InvalidOption, ["catch_up_max=0", "1 to 1000"]),
        ({"catch_up_max": 1001}, InvalidOption, ["catch_up_max=1001"]),
        ({"catch_up_max": True}, InvalidOption, ["catch_up_max=True"]),
        ({"catch_up_per_s": 0}, InvalidOption, ["catch_up_per_s=0", "above 0", "None"]),
        ({"catch_up_per_s": 1001}, InvalidOption, ["catch_up_per_s=1001"]),
        ({"jitter_s": -1}, InvalidOption, ["jitter_s=-1"]),
        ({"jitter_s": timedelta(days=367)}, InvalidOption, ["jitter_s=", "366 days"]),
        ({"jitter_s": None}, InvalidOption, ["jitter_s=None"]),
        ({"start": datetime(2026, 1, 5)}, InvalidTime, ["start:", "naive"]),
        ({"end": 60}, InvalidTime, ["end:", "timedelta(seconds=60)"]),
        ({"start": 1_800_000_000, "end": 1_800_000_000}, InvalidOption, ["end=2027", "not after start"]),
        ({"max_runs": 0}, InvalidOption, ["max_runs=0"]),
        ({"if_exists": "replace"}, InvalidOption, ["if_exists='replace'", "'update', 'keep', 'fail'"]),
        ({"id": ""}, InvalidOption, ["id=''"]),
        ({"id": "a\nb"}, InvalidOption, ["no control characters"]),
        ({"id": "x" * 201}, InvalidOption, ["1 to 200"]),
        ({"tz": "Mars/Olympus"}, InvalidRule, ["tz='Mars/Olympus'"]),
        ({"gap": "skip"}, InvalidRule, ["gap='skip'", "did you mean 'SKIP'"]),
        ({"fold": 1}, InvalidRule, ["fold=1"]),
    ],
)
def test_a_bad_option_is_refused_naming_it_and_the_way_out(options, error, words):
    with pytest.raises(TimewheelError) as caught:
        definition(**options)
    assert type(caught.value) is error
    for part in words:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 500
