"""The wheel's worked example is true."""

import doctest

from timewheel.wheel import wheel


def test_the_worked_example_of_the_wheel() -> None:
    results = doctest.testmod(wheel)
    assert results.attempted > 5
    assert results.failed == 0
