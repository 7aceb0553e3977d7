"""The pytest plugin, in runs of pytest as users make them: with each async plugin, with what they override, misused."""

from __future__ import annotations

import re
import tomllib

import pytest
from anyio import pytest_plugin as anyio_plugin
from runs import ANYIO, ASYNCIO, ROOT, run_pytest, run_python

EVERYDAY = """
import asyncio
from datetime import timedelta
import pytest
from timewheel import Scheduler
from timewheel.testing import Clock, assert_drained, assert_not_scheduled, assert_scheduled

{mark}
ran = []

async def remind(user_id):
    ran.append(user_id)

async def test_reminder(scheduler, clock):
    ran.clear()
    await scheduler.after(3600, remind, 42)
    assert_scheduled(remind, at=clock.now() + timedelta(hours=1), args=(42,))
    await clock.advance("2h")
    assert_not_scheduled(remind)
    assert ran == [42]
    assert_drained()

class TestMethods:
    @pytest.mark.parametrize("hours", [1, 2])
    async def test_a_method_with_parameters(self, hours, scheduler):
        job = await scheduler.after(hours * 3600, remind, 1)
        await asyncio.sleep(hours * 3600)
        assert (await job.wait()).state == "COMPLETED"

@pytest.mark.timewheel(inline=True)
async def test_inline(scheduler):
    assert (await scheduler.now(remind, 7)).state == "COMPLETED"

@pytest.mark.timewheel(seed=7)
async def test_seed(clock, scheduler):
    assert clock.seed == 7

{async_fixture}
async def started(clock):
    async with Scheduler("memory://", system=clock.system) as scheduler:
        await scheduler.after(60, remind, 3)
        yield scheduler
        assert (await scheduler.jobs()).items[0].state == "COMPLETED"

async def test_a_fixture_that_runs_its_own(started, clock):
    assert_scheduled(remind, at="1m")
    await clock.advance("1m")

async def test_threads_of_asyncio(clock):
    assert await asyncio.to_thread(lambda: 5) == 5

async def test_nothing_of_ours():
    await asyncio.sleep(0)

@pytest.mark.filterwarnings("ignore:The test <Function test_a_sync_test>")  # of the mark of the whole file
def test_a_sync_test(clock):
    assert isinstance(clock, Clock)
"""
ANYIO_BACKEND = "anyio_backend = pytest.fixture(lambda: 'asyncio')"
RUNNERS = {
    "pytest-asyncio auto": ((*ASYNCIO, "-o", "asyncio_mode=auto"), "", "@pytest.fixture"),
    "pytest-asyncio strict": (
        (*ASYNCIO, "-o", "asyncio_mode=strict"),
        "import pytest_asyncio; pytestmark = pytest.mark.asyncio",
        "@pytest_asyncio.fixture",
    ),
    "pytest-asyncio, one loop": (
        (*ASYNCIO, "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=session"),
        "pytestmark = pytest.mark.asyncio(loop_scope='session')",
        "@pytest.fixture",
    ),
    "anyio": (ANYIO, f"pytestmark = pytest.mark.anyio; {ANYIO_BACKEND}", "@pytest.fixture"),
    "anyio auto": ((*ANYIO, "-o", "anyio_mode=auto"), ANYIO_BACKEND, "@pytest.fixture"),
    "both": ((*ASYNCIO, *ANYIO, "-o", "asyncio_mode=auto"), "", "@pytest.fixture"),
    "both, anyio's mark": (
        (*ASYNCIO, *ANYIO, "-o", "asyncio_mode=strict"),
        f"pytestmark = pytest.mark.anyio; {ANYIO_BACKEND}",
        "@pytest.fixture",
    ),
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_works_with(runner, tmp_path):
    plugins, mark, async_fixture = RUNNERS[runner]
    if runner == "anyio auto" and not hasattr(anyio_plugin, "_is_auto_mode"):
        pytest.skip("this anyio has no auto mode")
    run = run_pytest(tmp_path, EVERYDAY.format(mark=mark, async_fixture=async_fixture), plugins=plugins)
    assert (run.passed, run.failed, run.errors, run.warnings) == (9, 0, 0, 0), run.text


def test_trio_is_refused_with_the_way_out(tmp_path):
    pytest.importorskip("trio")
    run = run_pytest(
        tmp_path,
        """
        import pytest
        @pytest.mark.anyio
        async def test_it(scheduler): ...
        """,
        plugins=ANYIO,
    )
    assert (run.passed, run.failed) == (1, 1), run.text
    assert "override the fixture anyio_backend" in run.text


def test_uvloop_is_refused_with_the_way_out(tmp_path):
    pytest.importorskip("uvloop")
    run = run_pytest(
        tmp_path,
        """
        import pytest
        pytestmark = pytest.mark.anyio
        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"use_uvloop": True}
        async def test_it(scheduler): ...
        """,
        plugins=ANYIO,
    )
    assert run.failed == 1, run.text
    assert "NotVirtual: virtual time needs asyncio's own event loop" in run.text


def test_a_failure_shows_the_time_the_seed_and_the_jobs(tmp_path):
    run = run_pytest(
        tmp_path,
        """
        import pytest
        from timewheel.testing import assert_drained
        async def mail(user_id):
            raise ValueError("no such user")
        async def later(): ...
        @pytest.mark.timewheel(seed=11)
        async def test_it(scheduler, clock):
            await scheduler.options(retry=2).now(mail, 5)
            await scheduler.after(86_400, later)
            await clock.advance("1h")
            assert_drained()
        """,
    )
    assert run.failed == 1
    section = run.text.partition("Captured timewheel call")[2]
    assert "it is 2026-01-05 01:00:00+00:00 on the test's clock, 1:00:00 after its start" in section
    assert "--timewheel-seed=11" in section
    assert re.search(r"failed: 1\n  test_it:mail\(5\) .*DEAD \(exhausted\)\n    ValueError: no such user", section)
    assert re.search(r'File ".*test_it.py", line 5, in mail', section)
    assert re.search(r"left to run: 1\n  test_it:later\(\) .*\(in 23:00:00\)", section)
    assert "plugin.py" not in run.text.partition("FAILURES")[2].partition("Captured")[0]


def test_a_random_seed_can_be_replayed(tmp_path):
    text = """
        import asyncio
        async def test_order(scheduler, clock):
            order = []
            async def step(n):
                order.append(n)
            await asyncio.gather(*(asyncio.create_task(step(n)) for n in range(30)))
            print("order:", order)
            assert 0
        """
    first = run_pytest(tmp_path, text, "--timewheel-seed=random")
    seed = re.search(r"--timewheel-seed=(\d+)", first.text)[0]
    again = run_pytest(tmp_path, text, seed)
    order = r"order: (\[[\d, ]+\])"
    assert re.search(order, first.text)[1] == re.search(order, again.text)[1] != str(list(range(30)))
    assert "give a whole number" in run_pytest(tmp_path, text, "--timewheel-seed=x").text


def test_an_applications_scheduler_is_borrowed_for_each_test(tmp_path):
    (tmp_path / "app.py").write_text(
        "from timewheel import Scheduler\n"
        "scheduler = Scheduler('sqlite:////nowhere/at/all.db')\n"
        "sent = []\n"
        "@scheduler.task(name='mail')\n"
        "async def mail(user_id):\n    sent.append(user_id)\n"
        "async def sign_up(user_id):\n    return await scheduler.after(900, mail, user_id)\n"
    )
    run = run_pytest(
        tmp_path,
        """
        import app, pytest
        from timewheel.testing import assert_scheduled
        @pytest.mark.parametrize("n", range(3))
        async def test_sign_up(clock, scheduler, n):
            assert scheduler is app.scheduler
            app.sent.clear()
            await app.sign_up(n)
            assert_scheduled(app.mail, at="15m", args=(n,), count=1)
            await clock.advance("15m")
            assert app.sent == [n]
        def test_afterwards():
            assert (app.scheduler.state, app.scheduler.path) == ("NEW", "/nowhere/at/all.db")
        """,
        conftest="""
        import app, pytest
        @pytest.fixture
        def scheduler(clock):
            return clock.borrow(app.scheduler)
        """,
    )
    assert (run.passed, run.failed, run.errors) == (4, 0, 0), run.text


def test_misuse_says_the_way_out(tmp_path):
    run = run_pytest(
        tmp_path,
        """
        import asyncio, pytest
        from timewheel import Scheduler
        kept = []

        class TestRealTime:
            @pytest.fixture
            def scheduler(self):
                return Scheduler("memory://")
            async def test_it(self, scheduler, clock): ...

        @pytest.mark.timewheel(inlined=True)
        async def test_unknown_option(scheduler): ...

        @pytest.mark.timewheel(7)
        async def test_unnamed_option(scheduler): ...

        @pytest.mark.timewheel(inline="yes")
        async def test_wrong_inline(scheduler): ...

        @pytest.mark.timewheel(inline=True)
        async def test_inline_of_nothing(clock): ...

        async def test_deadlock(scheduler):
            await asyncio.Event().wait()

        async def test_keeps_it(scheduler, clock):
            kept.extend([scheduler, clock])

        async def test_after_its_test():
            with pytest.raises(Exception) as caught:
                await kept[0].now(asyncio.sleep, 0)
            assert type(caught.value).__name__ == "NotStarted"
            await kept[1].advance("1s")

        def test_blocking(scheduler):
            scheduler.blocking.start()

        def test_blocking_verb(scheduler):
            scheduler.blocking.now(print)
        """,
    )
    assert (run.passed, run.failed, run.errors) == (1, 7, 2), run.text
    for message in (
        "NotVirtual: the fixture `scheduler` gave a scheduler that lives in real time",
        "InvalidOption: @pytest.mark.timewheel does not take inlined=; it takes inline, seed, start",
        "InvalidOption: @pytest.mark.timewheel does not take an argument without a name",
        "InvalidOption: inline='yes': True",
        "InvalidOption: inline= needs the fixture `scheduler`",
        "Deadlock: nothing is ready to run and no job is to come",
        "NotVirtual: this clock's test is over",
        "NotVirtual: this clock belongs to another thread: write the test as `async def`",
        "NotStarted: the scheduler is not started",
    ):
        assert message in run.text, message


def test_fixtures_of_the_same_name_are_left_alone(tmp_path):
    run = run_pytest(
        tmp_path,
        """
        import asyncio, time, pytest
        @pytest.fixture
        def clock():
            return time.monotonic
        @pytest.fixture
        def scheduler():
            return "mine"
        async def test_it(clock, scheduler):
            await asyncio.sleep(0.01)
            assert clock() > 0 and scheduler == "mine"
            assert "run_in_executor" not in vars(asyncio.get_running_loop())
        """,
    )
    assert run.passed == 1, run.text


# ---- what it costs those who do not use it ---------------------------------------------------------------------------


def test_the_plugin_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"timewheel.testing.plugin": "timewheel.testing.plugin"}


def test_the_plugin_imports_nothing_heavy():
    """pytest imports it at every start of everybody who has timewheel installed."""
    code = "import sys, pytest, timewheel.testing.plugin; print(*sorted(n for n in sys.modules if 'timewheel' in n))"
    assert run_python(code).split() == ["timewheel", "timewheel.testing", "timewheel.testing.plugin"]


def test_the_kit_needs_no_pytest():
    code = """
        import sys
        sys.modules["pytest"] = sys.modules["_pytest"] = None
        import timewheel.testing
        print(*(getattr(timewheel.testing, name).__name__ for name in timewheel.testing.__all__))
        """
    import timewheel.testing

    assert run_python(code).split() == timewheel.testing.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = timewheel.testing.nothing
