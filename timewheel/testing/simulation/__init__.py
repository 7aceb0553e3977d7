"""Simulation: the real scheduler, unchanged, in virtual time, under seeded use and seeded faults.

    from timewheel.testing.simulation import first_failure, run_seed

    outcome = run_seed(7, "sqlite")
    assert outcome.violation is None

    python -m timewheel.testing.simulation --seeds 0..999 --store memory,sqlite

A seed is drawn into a *plan* (`draw_plan`): several lives of one journal, what users do in each, what the machine and
the journal do to them. `run_plan` plays it, then lets peace come, in which everything must drain, and has one checker
an invariant look at what the handlers saw, what the verbs answered, and what the journal held after each life.
"""

from __future__ import annotations

from timewheel.testing.simulation.drawing import draw_plan
from timewheel.testing.simulation.plan import Fault, Life, Move, Plan
from timewheel.testing.simulation.running import Outcome, Violation, first_failure, run_plan, run_seed

__all__ = [
    "Fault",
    "Life",
    "Move",
    "Outcome",
    "Plan",
    "Violation",
    "draw_plan",
    "first_failure",
    "run_plan",
    "run_seed",
]
