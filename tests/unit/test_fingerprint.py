"""Which failures are one and the same: by class, and by the place in the user's code, whatever lies around it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import pytest

from timewheel.work.fingerprint import fingerprint, fingerprint_of, kind_of, place_of

TASK = "tasks:charge"
HERE = __name__


def raised(call: Callable[..., Any], *args: Any) -> BaseException:
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


def code(name: str, source: str, path: str) -> dict[str, Any]:
    """A module of this name, with this source, that lies at this path."""
    module = types.ModuleType(name)
    exec(compile(source, path, "exec"), vars(module))
    return vars(module)


INSTALLED = code("requests.api", "def call(fn, *args): return fn(*args)\ndef fail(): raise OSError('x')",
                 "/srv/app/.venv/lib/python3.11/site-packages/requests/api.py")  # fmt: skip
OURS = code("timewheel.targets.http", "def request(fn, *args): return fn(*args)\ndef fail(): raise OSError('x')",
            "/srv/app/timewheel/http.py")  # fmt: skip
USER = code("app.billing", "def charge(fn, *args): return fn(*args)\ndef refund(fn, *args): return fn(*args)\n"
            "def fail(): raise OSError('x')\nclass Card:\n  def pay(self, fn): return fn()",
            "/srv/app/billing.py")  # fmt: skip
TOP = code("timewheel", "def fail(): raise OSError('x')", "/srv/app/timewheel/__init__.py")
NAMELESS = code("app.nameless", "def call(fn): return fn()", "/srv/app/nameless.py")
NAMELESS["__name__"] = 7


def place(call: Callable[..., Any], *args: Any) -> str | None:
    """Where that fails, seen from the user's code on."""
    trace = raised(call, *args).__traceback__
    assert trace is not None
    return place_of(trace.tb_next)  # without the frame of this very file


def test_the_innermost_frame_of_the_users_code_counts() -> None:
    assert place(USER["charge"], USER["fail"]) == "app.billing:fail"
    assert place(USER["charge"], INSTALLED["fail"]) == "app.billing:charge"
    assert place(USER["charge"], INSTALLED["call"], USER["refund"], INSTALLED["fail"]) == "app.billing:refund"
    assert place(USER["Card"]().pay, INSTALLED["fail"]) == "app.billing:Card.pay"
    assert place(USER["charge"], json.loads, "{") == "app.billing:charge"
    assert place(USER["charge"], OURS["request"], INSTALLED["fail"]) == "app.billing:charge"


def test_without_code_of_the_user_that_of_others_counts_and_ours_last() -> None:
    assert place(OURS["request"], INSTALLED["call"], INSTALLED["fail"]) == "requests.api:fail"
    assert place(OURS["request"], json.loads, "{") == "json.decoder:JSONDecoder.raw_decode"
    assert place(OURS["request"], OURS["fail"]) == "timewheel.targets.http:fail"
    assert place(INSTALLED["call"], OURS["request"], OURS["fail"]) == "requests.api:call"
    assert place(INSTALLED["call"], TOP["fail"]) == "requests.api:call"


@pytest.mark.parametrize(
    "path",
    [
        "<frozen importlib._bootstrap>",
        r"C:\app\venv\Lib\site-packages\requests\api.py",
        "/usr/lib/python3/dist-packages/requests/api.py",
        f"{sysconfig.get_path('stdlib')}/json/decoder.py",
    ],
)
def test_what_was_installed_is_nobodys_code(path: str) -> None:
    library = code("library", "def fail(): raise OSError('x')", path)
    assert place(USER["charge"], library["fail"]) == "app.billing:charge"
    assert place(library["fail"]) == "library:fail"


@pytest.mark.parametrize("path", ["/srv/site-packages-of-mine/x.py", "/srv/frozen/x.py", "<string>", "x.py"])
def test_what_only_looks_like_it_is_the_users(path: str) -> None:
    module = code("app.x", "def fail(): raise OSError('x')", path)
    assert place(USER["charge"], module["fail"]) == "app.x:fail"


def test_a_module_without_a_name_is_a_place_too() -> None:
    assert place(NAMELESS["call"], INSTALLED["fail"]) == "?:call"


def test_a_traceback_without_end_is_looked_at_as_far_as_it_takes() -> None:
    def deeper() -> None:
        deeper()

    assert place_of(raised(deeper).__traceback__) == f"{HERE}:{deeper.__qualname__}"


def test_without_a_traceback_the_task_is_the_place() -> None:
    error = ValueError("x")
    assert place_of(error.__traceback__) is None
    assert fingerprint(error, TASK) == fingerprint_of("ValueError", TASK) != fingerprint(error, "tasks:other")


def test_messages_lines_and_release_paths_do_not_count() -> None:
    source = "def fail(n):\n    raise ValueError(n)\n"
    before = code("app.mail", source, "/srv/release-1/mail.py")
    after = code("app.mail", "import os\n\n\n" + source, "/srv/release-2/mail.py")
    prints = {fingerprint(raised(module["fail"], n), TASK) for module in (before, after) for n in (1, 2)}
    assert len(prints) == 1
    assert re.fullmatch("[0-9a-f]{16}", prints.pop())


def test_a_traceback_goes_before_the_task() -> None:
    error = raised(USER["fail"])
    assert fingerprint(error, TASK) == fingerprint(error, "tasks:other") != fingerprint(OSError("x"), TASK)


def test_a_failure_may_count_as_another_kind_or_be_no_exception() -> None:
    error = raised(USER["fail"])
    assert fingerprint(error, TASK, "TimeoutError") == fingerprint_of("TimeoutError", "app.billing:fail")
    assert fingerprint(None, TASK, "TimeoutError") == fingerprint_of("TimeoutError", TASK)


def test_the_class_counts() -> None:
    found = {fingerprint(kind("x"), TASK) for kind in (ValueError, TypeError, OSError)}
    assert len(found) == 3


def test_groups_differ_by_what_is_in_them() -> None:
    def group(*kinds: type[Exception]) -> str:
        return kind_of(ExceptionGroup("several", [kind("x") for kind in kinds]))

    assert group(ValueError) == "ExceptionGroup[ValueError]"
    assert (
        group(ValueError, KeyError, ValueError) == group(KeyError, ValueError) == "ExceptionGroup[KeyError, ValueError]"
    )
    assert group(*[type(f"E{n}", (Exception,), {}) for n in range(9)]).count(",") == 4


def test_a_cancelled_handler_is_placed_where_it_hung() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def main() -> BaseException:
        task = asyncio.create_task(hangs())
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return error
        raise AssertionError

    trace = asyncio.run(main()).__traceback__
    assert place_of(trace) == f"{HERE}:{hangs.__qualname__}"


@pytest.mark.parametrize("text", ["\0", "\ud800", "x" * 100_000])
def test_any_text_is_a_place(text: str) -> None:
    assert len(fingerprint_of("E", text)) == 16


def test_python_itself_is_nobodys_code() -> None:
    trace = raised(lambda: __import__("a module that is not there")).__traceback__
    assert place_of(trace) == f"{HERE}:test_python_itself_is_nobodys_code.<locals>.<lambda>"
    assert sys.modules["json"].__file__ is not None
