"""What all tests share: the Hypothesis profiles, and that databases in memory are closed.

    HYPOTHESIS_PROFILE=dev   (default)   other examples at each run; a failure prints the blob that replays it
    HYPOTHESIS_PROFILE=ci    (if CI)     the same examples at each run, so that CI never fails by chance
    HYPOTHESIS_PROFILE=deep              a search for an evening
    HYPOTHESIS_PROFILE=mutation          as ci, but a failure is not shrunk: that it fails is all (tests.mutation)

No profile has a deadline: a busy machine is no failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import databases

_SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "ci", max_examples=60, stateful_step_count=30, derandomize=True, database=None, deadline=None, print_blob=True,
    suppress_health_check=_SLOW,
)  # fmt: skip
settings.register_profile(
    "dev", max_examples=60, stateful_step_count=30, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "deep", max_examples=5_000, stateful_step_count=200, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile("mutation", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(autouse=True)
def _close_databases() -> Iterator[None]:
    yield
    databases.close_all()
