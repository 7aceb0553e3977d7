"""All stores side by side, whatever befalls them: they agree, the laws hold, and nothing was left out.

`HYPOTHESIS_PROFILE=deep` searches for an evening.
"""

from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.factories import FACTORIES
from tests.conformance.machine_faults import FaultyMachine
from tests.conformance.seen import WANTED

ROUNDS = 8
SEARCH = [Phase.explicit, Phase.reuse, Phase.generate]  # without shrinking, which takes many minutes on files

TestAgreement = FaultyMachine.TestCase
TestAgreement.settings = settings(
    max_examples=max(30, settings().max_examples // 10), stateful_step_count=40, phases=SEARCH
)


def test_every_change_every_outcome_and_every_fault_is_drawn():
    quick = {"factories": {name: FACTORIES[name] for name in ("memory", "sqlite in memory")}}
    machine = type("Quick", (FaultyMachine,), quick)
    FaultyMachine.seen.clear()
    few = settings(max_examples=20, stateful_step_count=40, database=None, phases=[Phase.generate])
    for number in range(ROUNDS):
        run_state_machine_as_test(seed(number)(machine), settings=few)
        missing = WANTED - FaultyMachine.seen.keys()
        if not missing:
            break
    assert not missing, f"never drawn: {sorted(missing)}"
