"""Does the machine find bugs? Each planted one must be found, beside the model and, where the laws suffice, alone.

The latter takes many more examples, and a few bugs do beside the model, too: they are looked for by
HYPOTHESIS_PROFILE=deep python -m pytest tests/conformance -m slow
"""

import os
import sys

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance import planted, planted_flow, planted_schedules
from tests.conformance.factories import FACTORIES
from tests.conformance.machine_faults import FaultyMachine
from timewheel.errors import JournalError

pytestmark = pytest.mark.slow

PLANTED = planted.PLANTED | planted_schedules.PLANTED | planted_flow.PLANTED
BESIDE, ALONE = ("memory", "sqlite in memory"), ("sqlite in memory",)
OFTEN = 200  # what is found in fewer examples is looked for at every run
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
CASES = [(name, BESIDE) for name, bug in PLANTED.items() if DEEP or bug.examples < OFTEN]
CASES += [(name, ALONE) for name, bug in PLANTED.items() if DEEP and bug.alone]


def examples_until_found(stores, most):
    """How many examples the machine took to fail on these stores; None when it did not within `most`."""

    class Searching(FaultyMachine):
        begun = 0

        def __init__(self):
            Searching.begun += 1
            super().__init__()

    Searching.factories = {name: FACTORIES[name] for name in stores}
    quick = settings(
        max_examples=most,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(1)(Searching), settings=quick)
    except Exception as error:
        return Searching.begun - 1, error  # it is run once more, to tell
    return None, None


@pytest.mark.parametrize(
    ("name", "stores"), CASES, ids=lambda value: value if isinstance(value, str) else "+".join(value)
)
def test_a_planted_bug_is_found(name, stores, monkeypatch):
    bug = PLANTED[name]
    bug.plant(monkeypatch)
    found, error = examples_until_found(stores, bug.examples)
    assert found is not None, f"{bug.sentence}: not found in {bug.examples} examples"
    assert isinstance(error, AssertionError | JournalError), "the plant itself broke"
    sys.stdout.write(f"found by example {found}: {type(error).__name__}: {str(error).splitlines()[0]}\n")
