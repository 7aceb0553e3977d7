"""Which modules are mutated, and the tests that are to notice: pure ones, without a scheduler."""

from typing import NamedTuple

LEAST_SCORE = 90  # per cent, of every module

_WHEEL = ("tests/property/test_wheel.py", "tests/unit/test_wheel_places.py", "tests/unit/test_wheel_docs.py")
_PLANNING = tuple(
    f"tests/planning/test_{name}.py" for name in ("plan_cases", "positions", "fixed_delay", "plan_against_reference")
)
_RULES = tuple(
    f"tests/recurrence/test_{name}.py"
    for name in ("civil_rule", "rules", "user_reports", "cron_cases", "day_times", "dates", "sweep")
)


class Module(NamedTuple):
    """A file, and the tests of it."""

    path: str
    tests: tuple[str, ...]


MODULES = {
    "wheel": Module("timewheel/wheel/wheel.py", _WHEEL),
    "level": Module("timewheel/wheel/level.py", _WHEEL),
    "bucket": Module("timewheel/dispatch/bucket.py", ("tests/property/test_bucket.py",)),
    "lifecycle": Module("timewheel/work/lifecycle.py", ("tests/property/test_lifecycle.py",)),
    "backoff": Module("timewheel/work/backoff.py", ("tests/unit/test_backoff.py",)),
    "plan": Module("timewheel/planning/plan.py", _PLANNING),
    "drafts": Module("timewheel/planning/drafts.py", (*_PLANNING, "tests/planning/test_jitter.py")),
    "overlap": Module("timewheel/planning/overlap.py", _PLANNING),
    "position": Module("timewheel/planning/position.py", _PLANNING),
    "slots": Module("timewheel/planning/slots.py", (*_PLANNING, "tests/planning/test_tail.py")),
    "civil": Module("timewheel/recurrence/civil.py", _RULES),
}

TOO_SLOW = (
    "tests/property/test_wheel.py::test_a_million_operations_against_a_heap",
    "tests/recurrence/test_sweep.py::test_random_rules_around_changes_agree_with_brute_force",
)
"""Left out: under a mutant each takes many times as long as all the others, which find the same."""
