"""Schedules that are declared in code: what is refused at the decorator, and what is noted for the start."""

from __future__ import annotations

import types

import pytest

from timewheel import Every, InvalidOption, InvalidRule, InvalidTask, ScheduleExists, ScheduleIdRequired, Scheduler


@pytest.fixture
def scheduler():
    return Scheduler("memory://", tz="Europe/Berlin")


def noted(scheduler):
    return {one.schedule: one.definition for one in scheduler._periodic.all()}


def sweep(depth=1):
    return depth


def needs(user_id):
    return user_id


def test_it_returns_the_function_registers_it_and_notes_the_declaration(scheduler):
    assert scheduler.periodic("0 9 * * *", queue="q")(sweep) is sweep
    (name,) = scheduler.task_names()
    assert name == f"{__name__}:sweep"
    definition = noted(scheduler)[name]
    assert (definition.task, definition.queue, definition.declared) == (name, "q", "code")
    assert definition.rule.tz == "Europe/Berlin"


def test_a_task_keeps_its_name_and_options(scheduler):
    scheduler.task(name="sweep", queue="low")(sweep)
    scheduler.periodic(Every(60))(sweep)
    assert scheduler.task_names() == ["sweep"]
    assert noted(scheduler)["sweep"].queue == "low"


@pytest.mark.parametrize("wrong", [needs, lambda *, key: key])
def test_a_handler_with_required_arguments_is_refused_and_not_registered(scheduler, wrong):
    with pytest.raises(InvalidTask, match=r"nobody gives it arguments.*missing a required"):
        scheduler.periodic("@daily")(wrong)
    assert (scheduler.task_names(), noted(scheduler)) == ([], {})


def test_what_can_be_no_task_is_refused(scheduler):
    with pytest.raises(InvalidTask, match="it has no name of its own"):
        scheduler.periodic("@daily")(lambda: None)


@pytest.mark.parametrize(
    ("rule", "options", "error"),
    [
        ("0 9 * *", {}, InvalidRule),
        ("@daily", {"misfre": "ALL"}, InvalidOption),
        ("@daily", {"if_exists": "fail"}, InvalidOption),
        (Every(60), {"tz": "UTC"}, InvalidOption),
    ],
)
def test_a_wrong_rule_or_option_is_refused_where_it_stands(scheduler, rule, options, error):
    with pytest.raises(error):
        scheduler.periodic(rule, **options)(sweep)
    assert noted(scheduler) == {}


def test_several_rules_for_one_function_need_ids(scheduler):
    scheduler.periodic("@daily")(sweep)
    scheduler.periodic("@daily")(sweep)  # equal: nothing new
    with pytest.raises(ScheduleIdRequired):
        scheduler.periodic("@hourly")(sweep)
    scheduler.periodic("@hourly", id="hourly")(sweep)
    assert sorted(noted(scheduler)) == ["hourly", f"{__name__}:sweep"]


def test_two_declarations_cannot_share_an_id(scheduler):
    scheduler.periodic("@daily", id="one")(sweep)
    scheduler.periodic("@daily", id="one")(sweep)
    with pytest.raises(ScheduleExists, match="give one of them another id") as caught:
        scheduler.periodic("@hourly", id="one")(sweep)
    assert caught.value.schedule == "one"
    with pytest.raises(ScheduleExists):
        scheduler.periodic("@daily", id="one")(needs_nothing)
    assert noted(scheduler)["one"].task == f"{__name__}:sweep"


def needs_nothing():
    return None


@pytest.mark.parametrize("options", [{}, {"id": "one"}])
def test_a_module_that_is_loaded_again_brings_its_new_rule(scheduler, options):
    for rule in ("@daily", "@hourly"):
        module = types.ModuleType("reloaded")
        exec(compile("def sweep(): return 1", "reloaded.py", "exec"), module.__dict__)
        scheduler.periodic(rule, **options)(module.sweep)
    (definition,) = noted(scheduler).values()
    assert definition.rule.expr == "@hourly"
