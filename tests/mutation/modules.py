"""Which modules are mutated, and the tests that are to notice: pure ones, without a scheduler."""

from typing import NamedTuple

LEAST_SCORE = 90  # per cent, of every module

_WHEEL = ("tests/property/test_wheel.py", "tests/unit/test_wheel_places.py", "tests/unit/test_wheel_docs.py")


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
}

TOO_SLOW = ("tests/property/test_wheel.py::test_a_million_operations_against_a_heap",)
"""Left out: under a mutant each takes many times as long as all the others, which find the same."""
