"""From a call to a declaration, before anything is started: which id, which rule in which zone, which options."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta

import pytest

from timewheel import (
    Calendar,
    Civil,
    Cron,
    Every,
    Fold,
    Gap,
    InvalidOption,
    InvalidRule,
    InvalidTask,
    InvalidTime,
    Misfire,
    Overlap,
    Retry,
    ScheduleIdRequired,
)
from timewheel.codec import loads_call
from timewheel.declarations import Declarations
from timewheel.planning.definition import definition_from_text
from timewheel.recurring import Call
from timewheel.tasks import TaskRegistry

NOON = datetime(2030, 1, 5, 12, tzinfo=UTC)


def greet(name="you", *, loud=False):
    return name.upper() if loud else name


def declarations(tz="UTC", **task):
    registry = TaskRegistry()
    registry.register(greet, name="greet", **task)
    return Declarations(registry, tz)


def declared(rule="@daily", *args, tz="UTC", options=None, task=None, **kwargs):
    """What a call of the verbs declares."""
    return declarations(tz, **(task or {})).declare(Call(rule, greet, args, kwargs, options or {}))


# ---- the rule and its zone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "scheduler_tz", "options", "made"),
    [
        ("0 9 * * *", "UTC", {}, Cron("0 9 * * *", tz="UTC")),
        ("0 9 * * *", "Europe/Berlin", {}, Cron("0 9 * * *", tz="Europe/Berlin")),
        ("0 9 * * *", "Europe/Berlin", {"tz": "Asia/Tokyo"}, Cron("0 9 * * *", tz="Asia/Tokyo")),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "Europe/Berlin", {}, Cron("0 9 * * *", tz="Asia/Tokyo")),
        ("0 9 * * *", "UTC", {"gap": "SKIP", "fold": Fold.BOTH}, Cron("0 9 * * *", tz="UTC", gap="SKIP", fold="BOTH")),
        (Cron("0 9 * * *"), "Europe/Berlin", {}, Cron("0 9 * * *", tz="Europe/Berlin")),
        (Cron("0 9 * * *", tz="Asia/Tokyo"), "Europe/Berlin", {}, Cron("0 9 * * *", tz="Asia/Tokyo")),
        (
            Civil(weeks=2, anchor=datetime(2026, 1, 9, 9)),
            "Europe/Berlin",
            {},
            Civil(weeks=2, anchor=datetime(2026, 1, 9, 9), tz="Europe/Berlin"),
        ),
        (Every(60), "Europe/Berlin", {}, Every(60)),
    ],
)
def test_a_rule_without_a_zone_gets_that_of_the_options_else_that_of_the_scheduler(rule, scheduler_tz, options, made):
    assert declared(rule, tz=scheduler_tz, options=options).definition.rule == made


@pytest.mark.parametrize("rule", [Cron("0 9 * * *"), Every(60), Civil(days=1, anchor=datetime(2026, 1, 9))])
@pytest.mark.parametrize("option", [{"tz": "UTC"}, {"gap": "SKIP"}, {"fold": Fold.FIRST}])
def test_zone_options_beside_a_rule_object_are_refused(rule, option):
    with pytest.raises(InvalidOption, match="is for rules given as text"):
        declared(rule, options=option)


def test_two_zones_that_differ_are_refused():
    with pytest.raises(InvalidRule, match="names its zone"):
        declared("CRON_TZ=Asia/Tokyo 0 9 * * *", options={"tz": "UTC"})


@pytest.mark.parametrize("rule", [60, None, 3.5, [], timedelta(5), b"@daily"])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(InvalidRule, match="is no rule: give Cron, Every, Civil"):
        declared(rule)


# ---- id, task, options -----------------------------------------------------------------------------------------------


def test_without_an_id_it_has_its_tasks_name():
    plain, named = declared(), declared(options={"id": "morning"})
    assert (plain.schedule, plain.named) == ("greet", False)
    assert (named.schedule, named.named) == ("morning", True)


def test_options_go_before_those_of_the_task_and_those_before_the_defaults():
    task = {"queue": "mail", "priority": 1, "retry": 2, "timeout_s": 3, "tags": ["a"]}
    bare, of_task, of_call = (
        declared().definition,
        declared(task=task).definition,
        declared(
            task=task, options={"queue": "q", "priority": 0, "retry": None, "timeout_s": None, "tags": []}
        ).definition,
    )
    fields = [
        (one.queue, one.priority, one.retry.max_attempts, one.timeout_us, one.tags) for one in (bare, of_task, of_call)
    ]
    assert fields == [
        ("default", 5, Retry().max_attempts, None, ()),
        ("mail", 1, 2, 3_000_000, ("a",)),
        ("q", 0, 1, None, ()),
    ]


def test_arguments_and_policies_are_in_the_definition_and_come_back_from_its_text():
    calendar = Calendar("bank", [date(2026, 12, 25)])
    options = {
        "misfire": "ALL",
        "misfire_grace_s": 2,
        "catch_up_max": 7,
        "catch_up_per_s": None,
        "overlap": Overlap.ALLOW(limit=3),
        "jitter_s": 1.5,
        "start": NOON,
        "end": NOON + timedelta(days=1),
        "max_runs": 9,
        "concurrency_key": "db",
    }
    rule = Cron("0 18 L * *", calendar=calendar, roll="preceding")
    made = declared(rule, "Ada", loud=True, options=options).definition
    assert made.misfire[:] == (Misfire.ALL, 2_000_000, 7, None)
    assert (made.overlap.limit, made.jitter_us, made.max_runs, made.concurrency_key) == (3, 1_500_000, 9, "db")
    assert definition_from_text(made.to_text(), {"bank": calendar}) == made
    with pytest.raises(InvalidRule, match="'bank' is not saved"):
        definition_from_text(made.to_text(), {})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"misfire": "latest"}, InvalidOption, "did you mean 'LATEST'"),
        ({"overlap": "SERIALIZE"}, InvalidOption, "needs a key"),
        ({"idempotency_key": "k"}, InvalidOption, "is not an option of scheduler.recurring"),
        ({"if_exists": "replace"}, InvalidOption, "'update', 'keep', 'fail'"),
        ({"id": ""}, InvalidOption, "id=''"),
        ({"jitter_s": -1}, InvalidOption, "jitter_s=-1"),
        ({"start": datetime(2030, 1, 1)}, InvalidTime, "is naive"),
        ({"start": NOON, "end": NOON}, InvalidOption, "nothing would ever run"),
        ({"tz": "Mars/Base"}, InvalidRule, "is not a time zone"),
        ({"overlap": Overlap.SERIALIZE("a"), "concurrency_key": "b"}, InvalidOption, "give one of them"),
    ],
)
def test_a_bad_option_is_refused_with_the_fix(options, error, words):
    with pytest.raises(error) as caught:
        declared(options=options)
    assert words in str(caught.value)


def test_a_call_that_does_not_fit_is_refused():
    with pytest.raises(InvalidTask, match="too many positional arguments"):
        declared("@daily", 1, 2)


def test_a_partial_of_a_task_is_unfolded_into_the_arguments():
    call = Call("@daily", functools.partial(greet, "Ada", loud=False), (), {"loud": True}, {})
    made = declarations().declare(call).definition
    assert (made.task, loads_call(made.arguments)) == ("greet", (["Ada"], {"loud": True}))
    call = Call("@daily", functools.partial(pair, "first"), ("second",), {}, {})
    known = declarations()
    known.registry.register(pair, name="pair")
    assert loads_call(known.declare(call).definition.arguments)[0] == ["first", "second"]


def pair(left, right):
    return left, right


# ---- without an id ---------------------------------------------------------------------------------------------------


def test_a_second_and_different_one_without_an_id_is_refused_until_the_next_start():
    known = declarations()
    first, other = (known.declare(Call("@daily", greet, (name,), {}, {})) for name in ("Ada", "Bob"))
    assert known.claim_unnamed(first)
    assert not known.claim_unnamed(first)  # declaring again is no other one
    with pytest.raises(ScheduleIdRequired, match=r"recurring\(id=\.\.\.\)") as caught:
        known.claim_unnamed(other)
    assert caught.value.schedule == "greet"
    known.claim_unnamed(known.declare(Call("@daily", greet, ("Bob",), {}, {"id": "bob"})))  # it has its own
    known.begin()
    assert known.claim_unnamed(other)


def test_where_it_is_declared_does_not_make_it_another_one():
    known = declarations()
    call = Call("@daily", greet, (), {}, {})
    assert known.claim_unnamed(known.declare(call, declared="code"))
    assert not known.claim_unnamed(known.declare(call))


# ---- edits -----------------------------------------------------------------------------------------------------------


def changed(before, rule=None, **options):
    return declarations("Europe/Berlin").change(rule, options).apply(before)


def test_an_edit_changes_what_is_named_and_leaves_the_rest():
    before = declared("0 9 * * *", "Ada", options={"misfire": "ALL", "catch_up_max": 7, "queue": "mail"}).definition
    after = changed(before, misfire_grace_s=1, priority=2, tags=["x"])
    assert after.misfire == before.misfire._replace(grace_us=1_000_000)
    assert (after.priority, after.tags, after.queue, after.arguments) == (2, ("x",), "mail", before.arguments)
    assert after.rule == before.rule
    assert changed(before) == before


def test_an_edit_may_bring_another_rule_and_a_text_keeps_the_zone_that_it_does_not_name():
    before = declared("0 9 * * *", options={"gap": "SKIP"}).definition
    assert changed(before, "0 10 * * *").rule == Cron("0 10 * * *", tz="UTC", gap="SKIP")
    assert changed(before, "0 10 * * *", tz="Asia/Tokyo").rule == Cron("0 10 * * *", tz="Asia/Tokyo", gap="SKIP")
    assert changed(before, "CRON_TZ=Asia/Tokyo 0 10 * * *", gap="AUTO").rule == Cron("0 10 * * *", tz="Asia/Tokyo")
    assert changed(before, Cron("0 10 * * *")).rule == Cron("0 10 * * *", tz="Europe/Berlin")
    elapsed = changed(before, Every(5))
    assert elapsed.rule == Every(5)
    assert changed(elapsed, "0 10 * * *").rule == Cron("0 10 * * *", tz="Europe/Berlin")


def test_an_edit_of_the_zone_alone_keeps_the_rule_and_its_calendar():
    calendar = Calendar("bank", [date(2026, 12, 25)])
    before = declared(Cron("0 18 L * *", tz="UTC", calendar=calendar, roll="preceding", gap="SKIP")).definition
    after = changed(before, tz="Asia/Tokyo")
    assert after.rule == Cron("0 18 L * *", tz="Asia/Tokyo", calendar=calendar, roll="preceding", gap=Gap.SKIP)
    with pytest.raises(InvalidOption, match="counts elapsed time"):
        changed(declared(Every(5)).definition, tz="Asia/Tokyo")


@pytest.mark.parametrize("option", [{"id": "x"}, {"if_exists": "keep"}])
def test_an_edit_cannot_change_what_belongs_to_the_declaration(option):
    with pytest.raises(InvalidOption, match="cannot be updated"):
        changed(declared().definition, **option)
    with pytest.raises(InvalidOption, match=r"args cannot be updated: .*recurring\(id=...\)\.schedule\(") as caught:
        changed(declared().definition, args=[1])
    assert caught.value.field == "args"
