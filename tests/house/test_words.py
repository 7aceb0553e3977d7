"""What the source never says: errors swallowed in silence, dangerous tools, unfinished work, real sleep in tests, and
what a library must not do to the application it is a guest in.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest

AT_THE_DOOR = ("timewheel/cli/", "timewheel/__main__.py")  # the process is theirs
DANGEROUS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
DANGEROUS_CALLS = {"eval", "exec", "compile", "__import__"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError\b")
GUESTS_DO_NOT = re.compile(
    r"^(sys\.exit|exit|quit|os\._exit|os\.abort|signal\.signal|signal\.setitimer|faulthandler\.enable"
    r"|asyncio\.set_event_loop_policy|uvloop\.install|zoneinfo\.reset_tzpath|reset_tzpath"
    r"|logging\.basicConfig|logging\.config\.\w+|logging\.disable|warnings\.(simplefilter|filterwarnings)"
    r"|locale\.setlocale|time\.tzset|os\.chdir|os\.umask|os\.putenv|sys\.setrecursionlimit|sys\.setswitchinterval"
    r"|gc\.(disable|freeze|set_threshold))$"
    r"|\.(add_signal_handler|addHandler|setLevel|set_exception_handler|set_default_executor|set_debug)$"
)
SERVES = ("timewheel/serve/runner.py",)  # runs the process for the command `serve`: takes signals, prints nothing
# A guest's guest: the test helpers run loops of their own, and so may treat them as they like.
OWN_LOOPS = ("timewheel/testing/",)


def places(found: list[str]) -> str:
    return "\n" + "\n".join(found)


def test_no_error_is_swallowed_without_a_word(shipped):
    found = []
    for source in shipped:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and is_silent(node.body):
                words = "".join(source.lines[node.lineno - 2 : node.end_lineno]).partition("#")[2]
                if not re.sub(r"noqa:? ?[\w, ]*", "", words).strip():
                    found.append(f"{source.name}:{node.lineno} swallows an error; say why, or let it go up")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
                caught = [ast.unparse(argument) for argument in node.args]
                if {"Exception", "BaseException"} & set(caught) and "#" not in source.lines[node.lineno - 1]:
                    found.append(f"{source.name}:{node.lineno} suppresses {', '.join(caught)}; say why")
    assert not found, places(found)


def is_silent(body: list[ast.stmt]) -> bool:
    """Only `pass`, `...`, `continue`, or a bare return."""
    return all(
        isinstance(step, ast.Pass | ast.Continue)
        or (isinstance(step, ast.Return) and step.value is None)
        or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        for step in body
    )


def test_nothing_unpickles_or_evaluates(shipped):
    found = [
        f"{source.name}:{line} imports {name}"
        for source in shipped
        for name, line in source.imports()
        if name.split(".")[0] in DANGEROUS
    ]
    found += [
        f"{source.name}:{call.lineno} calls {name}"
        for source in shipped
        for name, call in source.calls()
        if name.removeprefix("builtins.") in DANGEROUS_CALLS
    ]
    assert not found, places(found)


def test_only_the_commands_print(shipped):
    found = [
        f"{source.name}:{call.lineno} calls {name}"
        for source in shipped
        if not source.name.startswith(AT_THE_DOOR)
        for name, call in source.calls()
        if name in ("print", "pprint", "pprint.pprint", "sys.stdout.write", "sys.stderr.write", "breakpoint")
    ]
    assert not found, places(found)


def test_nothing_is_left_unfinished(shipped, tests):
    here = "tests/house/test_words.py"
    found = [
        f"{source.name}:{number} {line.strip()}"
        for source in shipped + tests
        if source.name != here
        for number, line in enumerate(source.lines, 1)
        if UNFINISHED.search(line)
    ]
    assert not found, places(found)


def test_tests_never_sleep_on_the_real_clock(tests):
    """`asyncio.sleep` is allowed where a virtual loop runs it: a test says so with `# virtual` on the line.

    tests/crash is excused: real processes are killed there at moments that are drawn, and a moment needs a clock.
    """
    found = []
    for source in tests:
        if source.name.startswith(("tests/house/", "tests/typing/", "tests/examples/", "tests/crash/")):
            continue
        for name, call in source.calls():
            if not (name.endswith(("time.sleep", "asyncio.sleep")) or name == "sleep"):
                continue
            if call.args and ast.unparse(call.args[0]) == "0":
                continue
            if "# virtual" not in source.lines[call.lineno - 1]:
                found.append(f"{source.name}:{call.lineno} {ast.unparse(call)}")
    assert not found, places(found)


def test_the_library_behaves_as_a_guest(shipped):
    found = [
        f"{source.name}:{call.lineno} calls {name}"
        for source in shipped
        if not source.name.startswith(AT_THE_DOOR + SERVES + OWN_LOOPS)
        for name, call in source.calls()
        if GUESTS_DO_NOT.search(name)
    ]
    assert not found, places(found)


def test_no_abbreviated_units(shipped):
    """A time's unit comes last in its name, spelled as everywhere: `_us`, `_ms` or `_s`; a rate may be per minute."""
    short = re.compile(r"(?<!_per)_(sec|secs|seconds|millis|msec|micros|usec|ns_|mins?)$")
    found = [
        f"{source.name}:{node.lineno} {node.arg}"
        for source in shipped
        for node in ast.walk(source.tree)
        if isinstance(node, ast.arg) and short.search(node.arg)
    ]
    assert not found, places(found)


@pytest.mark.parametrize("word", ["type: ignore", "noqa"])
def test_every_excuse_to_a_checker_is_exact(word, shipped):
    """`# noqa` and `# type: ignore` name the rule they set aside."""
    exact = {"type: ignore": r"type: ignore\[[\w-]+", "noqa": r"noqa: [A-Z]+\d+"}[word]
    found = [
        f"{source.name}:{token.start[0]} {token.string}"
        for source in shipped
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type == tokenize.COMMENT and word in token.string and not re.search(exact, token.string)
    ]
    assert not found, places(found)
