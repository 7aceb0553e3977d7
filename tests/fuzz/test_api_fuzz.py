"""A bounded share of the API's fuzzing.

`python -m tests.fuzz.api --examples 1000` is the whole, and with `--phases coverage` it tries each field's edges.
"""

from __future__ import annotations

import pytest

from tests.fuzz.api import fuzz


@pytest.mark.parametrize(
    ("phases", "examples", "at_least"),
    [
        ("examples,fuzzing,stateful", 10, 100),
    ],
)
def test_the_api_keeps_its_own_document(phases: str, examples: int, at_least: int) -> None:
    found = fuzz(examples, phases)
    assert not found.violations, "\n".join([found.output, *found.broken])
    assert found.operations == 42
    assert found.cases >= at_least
