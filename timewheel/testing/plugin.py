"""The pytest plugin of timewheel: the fixtures `clock` and `scheduler`. It comes with the package; nothing to set up.

    async def test_reminder(scheduler, clock):
        await scheduler.after(3600, remind, 42)
        assert_scheduled(remind, at="1h", args=(42,))
        await clock.advance("2h")
        assert_drained()

`clock` is a `timewheel.testing.Clock`: time on the loop of the test is virtual. `scheduler` has a journal in memory
and that clock; it runs from the first to the last line of the test. To test your application's own scheduler, say so
once in conftest.py:

    @pytest.fixture
    def scheduler(clock):
        return clock.borrow(app.scheduler)

Whatever a fixture named `scheduler` gives is started for the test if it is not, and stopped after it. Async fixtures
run before that; one that needs it running starts it itself (`async with scheduler: yield scheduler`).

Works with pytest-asyncio (auto and strict) and with anyio's plugin on asyncio. Options of a test:

    @pytest.mark.timewheel(inline=True)   jobs that are due run to their end before the verb returns; a job that ends
                                          DEAD raises JobDead there, or with inline="keep" is returned
    @pytest.mark.timewheel(seed=7)        the order of what is ready at one moment, and chance, are drawn from the seed
    @pytest.mark.timewheel(start=...)     what the wall clock shows at first: an aware datetime

Time stands still for calls in threads that can be seen (asyncio.to_thread, aiosqlite, a journal in SQLite), and waits
a moment for open sockets; see `timewheel.testing.kit.takeover`. With Hypothesis, or without pytest, make a clock inside
the test: `async with Clock() as clock, clock.scheduler() as scheduler: ...`.

`--timewheel-seed=7` gives every test a seed, `--timewheel-seed=random` a new one each run. A failed test shows its
seed, its time, and the jobs that failed or were left.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler
    from timewheel.testing.kit.clock import Clock

OPTIONS = ("inline", "seed", "start")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --timewheel-seed."""
    parser.getgroup("timewheel").addoption(
        "--timewheel-seed",
        metavar="NUMBER",
        help="draw the order of what is ready at one moment from this seed, in tests with `clock`; or 'random'",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and draw a random seed once."""
    config.addinivalue_line(
        "markers", "timewheel(*, inline=False, seed=None, start=None): options of the fixtures clock and scheduler"
    )
    given = config.getoption("timewheel_seed")
    if given == "random":
        config.option.timewheel_seed = str(random.randrange(1_000_000))
    elif given is not None and not given.isdecimal():
        raise pytest.UsageError(f"--timewheel-seed={given}: give a whole number, or 'random'")


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Iterator[Clock]:
    """Virtual time for this test: now(), `await advance("2h")`, step(), suspend(), system, scheduler(), borrow()."""
    from timewheel.testing.kit.clock import Clock
    from timewheel.testing.virtual import T0

    options = _options(request.node)
    seed = options.get("seed", request.config.getoption("timewheel_seed"))
    clock = Clock(seed=None if seed is None else int(seed), start=options.get("start") or T0)
    clock.open()
    try:
        yield clock
    finally:
        clock.close()


@pytest.fixture
def scheduler(clock: Clock) -> Scheduler:
    """A scheduler with a journal in memory, on the fixture `clock`; it runs while the test runs."""
    return clock.scheduler()


def _options(item: pytest.Item) -> dict[str, Any]:
    marks = list(item.iter_markers("timewheel"))
    options = {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}
    unknown = [name for name in options if name not in OPTIONS]
    if unknown or any(mark.args for mark in marks):
        from timewheel.errors import InvalidOption

        what = f"{unknown[0]}=" if unknown else "an argument without a name"
        raise InvalidOption(f"@pytest.mark.timewheel does not take {what}; it takes {', '.join(OPTIONS)}")
    return options


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let the test's coroutine run in virtual time with its scheduler started, whichever plugin drives it."""
    __tracebackhide__ = True
    clock = _clock_of(item)
    if clock is None or not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return (yield)
    test = item.obj
    notes: list[str] = []
    item.obj = _in_virtual_time(test, clock, item, notes)
    try:
        return (yield)
    finally:
        item.obj = test
        if notes:
            item.add_report_section("call", "timewheel", "\n".join(notes))


def _clock_of(item: pytest.Item) -> Clock | None:
    module = sys.modules.get("timewheel.testing.kit.clock")  # not imported: no test has asked for a clock yet
    fixtures = getattr(item, "funcargs", {}).values()
    return None if module is None else next((one for one in fixtures if isinstance(one, module.Clock)), None)


def _in_virtual_time(
    test: Callable[..., Any], clock: Clock, item: pytest.Function, notes: list[str]
) -> Callable[..., Any]:
    from timewheel.testing.kit.session import Session

    session = Session(clock, item.funcargs.get("scheduler"), _options(item).get("inline", False))

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with clock.watching():
            async with session:
                try:
                    return await test(*args, **kwargs)
                finally:
                    notes.extend(session.notes())

    return run
