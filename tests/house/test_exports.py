"""What is public: exactly these names, and nothing by accident."""

from __future__ import annotations

import re
import types

import pytest

import timewheel
from timewheel import errors

PUBLIC = re.findall(
    r"\w+",
    """
    Ambiguous Breaker Calendar CancelAnswer Civil Cron DeadLetters Dependency DiscardAnswer Draft Every Fold
    ForkedScheduler Gap
    IdempotencyConflict InvalidOption InvalidRule InvalidTask InvalidTime Job JobCancelled JobDead JobNotFound
    JobSkipped JobState JournalBusy JournalCorrupt JournalError JournalFull JournalNewer JournalOwned
    JournalTruncated JournalUnavailable JournalUnknown JournalUnsafe Misfire NotInJob NotOwner NotSerializable
    NotStarted Operation OperationNotFound Overlap Overloaded Page PartlyScheduled Permanent Query Queue Rate
    ReplayAnswer RescheduleAnswer ResultOmitted Retention Retry RetryBudget Schedule ScheduleExists ScheduleIdRequired
    ScheduleNotFound ScheduleState Scheduler SchedulerFailed Snooze Throttled TimewheelError Transient Unique
    UniqueConflict VersionConflict WaitTimeout WrongThread current
""",
)


def test_all_is_exactly_the_public_names():
    assert list(timewheel.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_can_be_imported_and_says_what_it_is(name):
    thing = getattr(timewheel, name)
    assert thing.__doc__, f"{name} has no docstring"
    if isinstance(thing, type):  # an inherited docstring describes something else
        assert thing.__dict__.get("__doc__"), f"{name} has no docstring of its own"


def test_nothing_else_lies_about():
    """Submodules become attributes when imported; any other public attribute must be in `__all__`."""
    extra = [
        name
        for name, value in vars(timewheel).items()
        if not name.startswith("_") and name not in PUBLIC and not isinstance(value, types.ModuleType)
        if name != "annotations"
    ]
    assert not extra


def tree(base: type) -> list[type]:
    """`base` and all classes below it."""
    return [base, *(found for below in base.__subclasses__() for found in tree(below))]


def public_errors() -> set[str]:
    return {
        error.__name__
        for error in tree(errors.TimewheelError)
        if not error.__name__.startswith("_") and error.__module__ == "timewheel.errors"
    }


def test_every_error_is_public():
    assert public_errors() <= set(PUBLIC)


def test_the_drawn_tree_is_the_real_one():
    assert errors.__doc__
    drawing = errors.__doc__.split("TimewheelError\n", 1)[1].split("\n\n", 1)[0]
    drawn = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+|\bOverloaded\b", drawing))
    builtin = {"ValueError", "TypeError", "LookupError", "TimeoutError"}
    assert drawn - builtin | {"TimewheelError"} == public_errors()


def test_typing_information_is_shipped(root):
    assert (root / "timewheel/py.typed").is_file()
    assert (root / "storage/timewheel_storage/py.typed").is_file()
