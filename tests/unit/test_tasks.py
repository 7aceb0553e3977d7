"""Which targets can be made durable, under which name, and with which arguments."""

from __future__ import annotations

import functools
import importlib
import json
import operator
import os
import re
import subprocess
import sys
import types
import weakref
from pathlib import Path

import pytest
import task_targets as targets

from timewheel.errors import InvalidOption, InvalidTask
from timewheel.model import FaultClass, RetryPolicy
from timewheel.options import TASK_NAMES, Rate
from timewheel.task import Task
from timewheel.tasks import TaskRegistry, check_call


@pytest.fixture
def registry():
    return TaskRegistry()


def message(call, *args, **kwargs):
    with pytest.raises(InvalidTask) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, TypeError)
    return str(caught.value)


# Names and options


def test_a_registered_function_has_its_name_and_the_options_it_was_given(registry):
    task = registry.register(targets.plain, queue="mail", priority=1, retry=3, timeout_s=2, tags=["a"])
    assert (task.name, task.fn, task.is_async) == ("task_targets:plain", targets.plain, False)
    assert (task.queue, task.priority, task.timeout_us, task.tags) == ("mail", 1, 2_000_000, ("a",))
    assert task.retry == RetryPolicy(max_attempts=3)
    for target in (targets.plain, "task_targets:plain"):
        assert registry.resolve(target) == (task, (), {})
    assert registry.find("task_targets:plain") is task
    assert registry.names() == ["task_targets:plain"]


def test_a_task_has_every_option_that_is_its_own(registry):
    given = {
        "heartbeat_timeout_s": 5, "idempotent": False, "dependency": "stripe", "rate": Rate(5), "concurrency": 3,
        "key_rate": Rate(1), "key_concurrency": 2, "cancel_grace_s": 1.5, "classify": {ValueError: "PERMANENT"},
    }  # fmt: skip
    assert given.keys() == TASK_NAMES - {"queue", "priority", "retry", "timeout_s", "tags"}
    task = registry.register(targets.plain, **given)
    assert (task.heartbeat_timeout_us, task.idempotent, task.dependency) == (5_000_000, False, "stripe")
    assert (task.rate, task.concurrency, task.key_rate, task.key_concurrency) == (Rate(5), 3, Rate(1), 2)
    assert task.cancel_grace_us == 1_500_000
    assert task.classify is not None
    assert task.classify(ValueError("no")) is FaultClass.PERMANENT
    plain = registry.register(targets.coroutine)
    assert (plain.heartbeat_timeout_us, plain.idempotent, plain.dependency, plain.classify) == (None, True, None, None)
    assert (plain.rate, plain.concurrency, plain.key_rate, plain.key_concurrency) == (None, None, None, None)
    assert plain.cancel_grace_us == 0


def test_silence_leaves_the_schedulers_defaults(registry):
    task = registry.register(targets.plain, name="mail.send")
    assert task.name == "mail.send"
    assert (task.queue, task.priority, task.retry, task.timeout_us, task.tags) == (None, None, None, None, ())
    assert registry.register(targets.coroutine, retry=None).retry == RetryPolicy(max_attempts=1)


def test_a_bad_option_is_refused_by_the_one_place_that_judges(registry):
    with pytest.raises(InvalidOption, match="did you mean queue"):
        registry.register(targets.plain, queu="x")
    assert registry.names() == []


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 5, b"x"])
def test_a_bad_name_is_refused(registry, name):
    text = message(registry.register, targets.plain, name=name)
    assert repr(name)[:40] in text
    assert "task_targets:plain" in text
    assert "1 to 200 printable" in text


def test_a_function_may_have_several_names_and_its_own_is_the_first(registry):
    new = registry.register(targets.plain, name="new", queue="a")
    old = registry.register(targets.plain, name="old")
    assert registry.resolve(targets.plain)[0] is new
    assert registry.resolve("old")[0] is old is registry.find("old")
    assert registry.names() == ["new", "old"]
    again = registry.register(targets.plain, name="new", queue="b")
    assert registry.resolve(targets.plain)[0] is registry.resolve("new")[0] is again


def test_a_name_belongs_to_one_function(registry):
    registry.register(targets.plain, name="mail")
    text = message(registry.register, targets.coroutine, name="mail")
    for part in ("'mail'", "task_targets:plain", "task_targets:coroutine", "@scheduler.task(name=...)"):
        assert part in text
    assert registry.resolve("mail")[0].fn is targets.plain
    assert "task_targets:coroutine" not in registry.names()


def test_a_reloaded_module_replaces_its_functions(registry, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reloaded.py").write_text(
        "import task_targets\ndef f(): return 1\n@task_targets.wrapped\ndef g(): return 1\n"
    )
    module = importlib.import_module("reloaded")
    before_f, before_g = module.f, module.g
    for name in "fg":
        registry.register(getattr(module, name))
    importlib.reload(module)
    tasks = [registry.register(getattr(module, name), queue="new") for name in "fg"]
    assert [registry.resolve(f"reloaded:{name}")[0] for name in "fg"] == tasks
    assert [registry.resolve(getattr(module, name))[0] for name in "fg"] == tasks
    # Whoever still holds the old function means the task of its name.
    assert [registry.resolve(fn)[0] for fn in (before_f, before_g)] == tasks
    del sys.modules["reloaded"]


def test_two_closures_of_one_factory_are_two_functions(registry):
    registry.register(targets.closure(1))
    assert "give it a name of its own" in message(registry.register, targets.closure(2))
    registry.register(targets.closure(2), name="second")
    registry.register(targets.outer())
    registry.register(targets.outer())  # without a closure they are alike


def test_what_was_replaced_is_not_kept_alive(registry):
    def make():
        def handler():
            return None

        return handler

    first = make()
    registry.register(first)
    registry.register(make())
    gone = weakref.ref(first)
    del first
    assert gone() is None


@pytest.mark.parametrize("make", [targets.outer, lambda: targets.closure(1), lambda: targets.service.method])
def test_what_is_registered_is_accepted_wherever_it_is_defined(registry, make):
    fn = make()
    task = registry.register(fn)
    assert registry.resolve(fn)[0] is task
    assert registry.resolve(task.name)[0] is task


def test_a_registered_method_is_found_through_its_object_only(registry):
    task = registry.register(targets.service.method)
    assert task.name == "task_targets:Service.method"
    assert registry.resolve(targets.service.method)[0] is task
    assert "bound method" in message(registry.resolve, targets.Service().method)
    assert "belongs to" in message(registry.register, targets.Service().method)


@pytest.mark.parametrize(
    "make",
    [lambda: targets.nameless, targets.SyncCallable, targets.Unhashable, lambda: functools.partial(targets.plain, 1)],
)
def test_what_has_no_name_of_its_own_needs_one(registry, make):
    fn = make()
    assert "write @scheduler.task(name=...)" in message(registry.register, fn)
    task = registry.register(fn, name="given")
    assert registry.resolve(fn) == (task, (), {})
    assert registry.register(fn, name="given", queue="again").queue == "again"
    assert registry.resolve(fn)[0].queue == "again"


def test_a_function_is_not_taken_for_another_of_its_name(registry):
    registry.register(targets.first_shadowed)
    assert "its name belongs to another function" in message(registry.resolve, targets.shadowed)
    registry.register(targets.coroutine, name="task_targets:plain")
    assert "another function, task_targets:coroutine" in message(registry.resolve, targets.plain)


def test_a_decorator_without_wraps_gives_all_its_functions_one_name(registry):
    def bare(fn):
        return lambda: fn()

    def named(fn):
        def wrapper():
            return fn()

        return wrapper

    registry.register(named(targets.plain))
    assert "belongs to" in message(registry.register, named(targets.coroutine))
    assert "name=..." in message(registry.register, bare(targets.plain))


# Functions that were not registered


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (targets.plain, "task_targets:plain"),
        (targets.coroutine, "task_targets:coroutine"),
        (targets.Service.static, "task_targets:Service.static"),
        (targets.Service.build, "task_targets:Service.build"),
        (targets.Child.build, "task_targets:Child.build"),
        (targets.sync_in_wrapper, "task_targets:sync_in_wrapper"),
        (targets.cached, "task_targets:cached"),
        (targets.shadowed, "task_targets:shadowed"),
        (json.dumps, "json:dumps"),
        (os.getcwd, "posix:getcwd"),
        (print, "builtins:print"),
    ],
)
def test_an_importable_function_needs_no_registration(registry, fn, name):
    task, args, kwargs = registry.resolve(fn)
    assert (task.name, args, kwargs) == (name, (), {})
    assert task.fn == fn
    assert registry.resolve(fn)[0] is task is registry.find(name)
    assert registry.names() == []
    assert "no task is registered" in message(registry.resolve, name)  # a text names registered tasks only


def test_registering_it_later_takes_over(registry):
    adopted = registry.resolve(targets.plain)[0]
    task = registry.register(targets.plain, name="task_targets:plain", queue="q")
    assert registry.resolve(targets.plain)[0] is registry.find("task_targets:plain") is task is not adopted
    adopted = registry.resolve(targets.coroutine)[0]
    renamed = registry.register(targets.coroutine, name="renamed")
    assert registry.resolve(targets.coroutine)[0] is renamed
    assert registry.find("task_targets:coroutine") is adopted  # jobs that were made before still find it


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (targets.nameless, ["task_targets:<lambda>", "a lambda has no name", "def at module level"]),
        (targets.outer(), ["outer.<locals>.inner", "function inside a function", "move it to module level"]),
        (targets.closure(1), ["closure.<locals>.handler", "function inside a function"]),
        (targets.service.method, ["task_targets:Service.method", "bound method", "finds the object by its id"]),
        (targets.Service, ["task_targets:Service", "it is a class; write a function"]),
        (dict, ["builtins:dict", "it is a class"]),
        (targets.SyncCallable(), ["SyncCallable object", "has no name to find it by", "@scheduler.task(name=...)"]),
        (targets.Unhashable(), ["Unhashable object", "has no name to find it by"]),
        (targets.generator, ["task_targets:generator", "a handler must not be a generator", "replace yield"]),
        (targets.async_generator, ["task_targets:async_generator", "a handler must not be a generator"]),
        (targets.GeneratorCallable(), ["a handler must not be a generator"]),
        (targets.first_shadowed, ["task_targets:shadowed gives another object", "@scheduler.task(name=...)"]),
        (5, ["5 cannot be scheduled", "no callable but a int", "registered task"]),
        (None, ["None cannot be scheduled"]),
        ([1], ["[1] cannot be scheduled", "no callable but a list"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else getattr(value, "__qualname__", type(value).__name__),
)
def test_what_no_fresh_process_could_find_is_refused_with_the_fix(registry, target, parts):
    for call in (
        registry.resolve,
        lambda fn: registry.resolve(functools.partial(fn)) if callable(fn) else registry.resolve(fn),
    ):
        text = message(call, target)
        for part in parts:
            assert part in text
        assert len(text) < 500


def test_a_function_whose_name_leads_nowhere_is_refused(registry):
    lost = types.FunctionType(targets.plain.__code__, {"__name__": "task_targets"}, "lost")
    lost.__module__, lost.__qualname__ = "task_targets", "lost"
    assert "task_targets has no lost; define it at module level" in message(registry.resolve, lost)
    lost.__module__ = "no_such_module"
    assert "module no_such_module is not loaded" in message(registry.resolve, lost)


def test_an_awaitable_was_called_too_early(registry):
    called = targets.coroutine(1)
    for call in (registry.resolve, registry.register):
        assert "give the function and its arguments: at(when, fn, arg), not at(when, fn(arg))" in message(call, called)
    called.close()


@pytest.mark.parametrize(
    "fn", [targets.generator, targets.async_generator, targets.GeneratorCallable(), targets.Service, 5]
)
def test_what_can_be_no_handler_cannot_be_registered_either(registry, fn):
    assert "cannot be registered: " in message(registry.register, fn, name="x")
    assert registry.names() == []


def test_a_wrapper_above_the_task_is_refused(registry):
    registry.register(targets.sync_in_wrapper.__wrapped__)
    text = message(registry.resolve, targets.sync_in_wrapper)
    assert "it wraps the task task_targets:sync_in_wrapper" in text
    assert "put @scheduler.task outermost" in text
    assert "put @scheduler.task outermost" in message(registry.resolve, targets.wrapped(targets.sync_in_wrapper))


def test_a_text_that_names_no_task_lists_the_near_ones(registry):
    registry.register(targets.plain, name="mail.send")
    assert "did you mean mail.send?" in message(registry.resolve, "mail.snd")
    text = message(registry.resolve, "qqqq")
    assert "no task is registered as 'qqqq'; registered: mail.send" in text
    assert "import the module that registers it" in text
    assert "registered: none" in message(TaskRegistry().resolve, "x")
    assert len(message(registry.resolve, "x" * 10_000)) < 400


# Partials


def test_a_partial_is_unfolded_into_stored_arguments(registry):
    task = registry.register(targets.plain)
    inner = functools.partial(targets.plain, 1, c=5)
    assert registry.resolve(inner) == (task, (1,), {"c": 5})

    inner.note = "Python itself flattens partials, but not one with attributes"
    assert registry.resolve(functools.partial(inner, 2, c=6, d=7)) == (task, (1, 2), {"c": 6, "d": 7})
    assert registry.resolve(functools.partial(json.dumps, 1))[0].name == "json:dumps"
    first = registry.resolve(targets.plain)
    first[2]["x"] = 1
    assert registry.resolve(targets.plain)[2] == {}


# Where a handler runs


@pytest.mark.parametrize(
    ("fn", "is_async"),
    [
        (targets.plain, False),
        (targets.coroutine, True),
        (targets.async_in_wrapper, True),
        (targets.sync_in_wrapper, False),
        (targets.wrapped(targets.wrapped(targets.coroutine)), True),
        (targets.AsyncCallable(), True),
        (targets.SyncCallable(), False),
        (functools.partial(targets.coroutine, 1), True),
        (functools.partial(targets.AsyncCallable(), 1), True),
        (functools.partial(targets.plain, 1), False),
        (targets.service.async_method, True),
        (targets.service.method, False),
        (print, False),
    ],
)
def test_async_handlers_and_what_wraps_them_run_on_the_loop(registry, fn, is_async):
    assert registry.register(fn, name="x").is_async is is_async


def test_an_object_that_invents_attributes_does_not_hang_the_registry(registry):
    class Inventive:
        def __getattr__(self, name):
            if name == "__wrapped__":
                return Inventive()
            raise AttributeError(name)

        def __call__(self):
            return None

    assert registry.register(Inventive(), name="x").is_async is False


# Importing by a stored name


def test_only_recorded_names_are_imported(registry, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late.py").write_text("def f(a): return a\nclass C:\n    @staticmethod\n    def s(): return 1\n")
    assert registry.importable("late:f", ()) == (None, "no task is registered as 'late:f', and it may not be imported")
    assert "late" not in sys.modules
    allowed = {"late:f", "late:C.s", "late:gone"}
    task, reason = registry.importable("late:f", allowed)
    assert (task.name, task.fn(7), reason) == ("late:f", 7, "")
    assert registry.importable("late:f", ())[0] is registry.find("late:f") is task
    assert registry.importable("late:C.s", allowed)[0].fn() == 1
    assert registry.importable("late:gone", allowed) == (None, "no task is registered as 'late:gone': late has no gone")
    assert registry.names() == []
    del sys.modules["late"]


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("no_such_module_here:f", None, "importing no_such_module_here failed: ModuleNotFoundError"),
        ("broken:f", "raise ValueError('at import')", "importing broken failed: ValueError: at import"),
        ("exits:f", "raise SystemExit(2)", "importing exits failed: SystemExit: 2"),
        ("cls:C", "class C: pass", "it is a class"),
        ("value:x", "x = 5", "no callable"),
        ("gen:g", "def g(): yield 1", "must not be a generator"),
        ("nested:f.<locals>.g", "def f(): pass", "nested has no f.<locals>.g"),
        ("plainname", None, "'plainname' is not of the form module:qualname"),
        (":f", None, "is not of the form"),
        ("m:", None, "is not of the form"),
        ("..up:f", None, "importing ..up failed"),
    ],
)
def test_a_name_that_cannot_be_imported_says_why(registry, tmp_path, monkeypatch, name, source, reason):
    monkeypatch.syspath_prepend(tmp_path)
    module = name.partition(":")[0]
    if source is not None:
        (tmp_path / f"{module}.py").write_text(source)
    task, why = registry.importable(name, {name})
    assert task is None
    assert reason in why
    assert name in why
    sys.modules.pop(module, None)


def test_importing_may_register_the_task(registry, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    hook = types.ModuleType("hook")
    hook.registry = registry
    monkeypatch.setitem(sys.modules, "hook", hook)
    (tmp_path / "registers.py").write_text("import hook\ndef f(): pass\nhook.registry.register(f, queue='q')\n")
    assert registry.importable("registers:f", ["registers:f"])[0].queue == "q"
    assert registry.names() == ["registers:f"]
    del sys.modules["registers"]


MAIN = """
import functools, sys
from timewheel.tasks import TaskRegistry
from timewheel.errors import InvalidTask
def send(a): return a
registry = TaskRegistry()
def show(make):
    try:
        print(make().name)
    except InvalidTask as error:
        print(error)
if __name__ == "__main__":
    show(lambda: registry.resolve(send)[0])
    show(lambda: registry.register(send))
    task, reason = TaskRegistry().importable("NAME:send", ["NAME:send"])
    print(task and task.fn is send, "jobs" in sys.modules)
"""


def run(args, cwd, stdin=None):
    path = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        input=stdin,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_function_of_the_file_that_is_run_has_the_files_name(tmp_path):
    (tmp_path / "jobs.py").write_text(MAIN.replace("NAME", "jobs"))
    expected = ["jobs:send", "jobs:send", "True False"]
    assert run(["jobs.py"], tmp_path) == expected
    assert run(["-m", "jobs"], tmp_path) == expected
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "work.py").write_text(MAIN.replace("NAME", "package.work"))
    assert run(["-m", "package.work"], tmp_path) == ["package.work:send", "package.work:send", "True False"]
    # A fresh process that imports the file finds the function under the same name.
    program = """
from timewheel.tasks import TaskRegistry
print(TaskRegistry().importable('jobs:send', ['jobs:send'])[0].fn(3))
"""
    assert run(["-c", program], tmp_path) == ["3"]


@pytest.mark.parametrize("as_file", [False, True])
def test_a_function_of_no_file_is_refused_unless_registered(tmp_path, as_file):
    lines = run(["-"] if as_file else ["-c", MAIN], tmp_path, MAIN if as_file else None)
    assert "__main__:send cannot be scheduled: it was defined in no file (REPL, notebook, -c)" in lines[0]
    assert lines[1] == "__main__:send"


# Arguments


def call_of(fn):
    task = TaskRegistry().register(fn, name="t")
    return lambda *args, **kwargs: check_call(task, args, kwargs)


def everything(a, b=1, /, c=2, *rest, d, e=3, **more): ...
def two(a, b): ...
def defaults(a, b=1, *, c=2): ...
def required_keyword(*, c): ...
def catch_all(*args, **kwargs): ...
def takes_options(queue, **kwargs): ...
def nothing(): ...
def positional_only(a, b=1, /): ...
def rest_and_keyword(a, *rest, c=1): ...


@pytest.mark.parametrize(
    "fn",
    [
        everything, two, defaults, required_keyword, catch_all, takes_options, nothing, positional_only,
        rest_and_keyword, targets.service.method, targets.Service.static, targets.with_database, targets.SyncCallable(),
        functools.partial(two, 1), functools.partial(two, b=1),
    ],
)  # fmt: skip
def test_the_quick_answer_is_pythons_own(fn):
    """Every small call is judged as Python judges it when it makes the call."""
    check = call_of(fn)
    names = ["a", "b", "c", "d", "x", "queue", "rest"]
    for count in range(5):
        for chosen in range(1 << len(names)):
            kwargs = {name: 0 for place, name in enumerate(names) if chosen >> place & 1}
            args = (0,) * count
            try:
                fn(*args, **kwargs)
                fits = True
            except TypeError:
                fits = False
            try:
                check(*args, **kwargs)
                accepted = True
            except InvalidTask:
                accepted = False
            assert accepted == fits, (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "parts"),
    [
        (two, (), {}, ["t(a, b)", "missing a required argument: 'a'"]),
        (two, (1, 2, 3), {}, ["too many positional arguments"]),
        (two, (1, 2), {"x": 1}, ["got an unexpected keyword argument 'x'"]),
        (two, (1, 2), {"a": 1}, ["multiple values for argument 'a'"]),
        (required_keyword, (), {}, ["missing a required", "'c'"]),
        (targets.service.method, (), {}, ["missing a required argument: 'a'"]),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(fn, args, kwargs, parts):
    text = message(call_of(fn), *args, **kwargs)
    for part in ["the arguments do not fit t", *parts]:
        assert part in text
    assert "scheduler.options" not in text


@pytest.mark.parametrize(
    "option", ["queue", "priority", "retry", "timeout_s", "tags", "idempotency_key", "misfire_grace_s"]
)
def test_an_option_among_the_arguments_is_told_where_it_belongs(option):
    text = message(call_of(two), 1, 2, **{option: 3})
    assert f"{option} is an option: write scheduler.options({option}=...).at(...)" in text
    call_of(catch_all)(**{option: 3})  # whoever takes any keyword gets it


def test_several_misplaced_options_are_named_together():
    text = message(call_of(two), 1, 2, queue="q", priority=1, x=1)
    assert "scheduler.options(queue=..., priority=...).at(...)" in text
    call_of(takes_options)("mail", priority=1)
    assert "multiple values" in message(call_of(takes_options), "mail", queue="x")


def test_a_builtin_without_a_signature_takes_anything(registry):
    fn = next(fn for fn in (operator.methodcaller("x"), operator.itemgetter(0), min, print) if _no_signature(fn))
    task = registry.register(fn, name="x")
    assert task.signature is None
    check_call(task, (1, 2, 3), {"anything": 1})


def _no_signature(fn):
    import inspect

    try:
        inspect.signature(fn)
    except ValueError:
        return True
    return False


def test_a_decorator_that_supplies_an_argument_decides_the_signature():
    check = call_of(targets.with_database)
    check(5)
    assert "too many" in message(check, "database", 5)


def test_a_task_cannot_be_changed(registry):
    task = registry.register(targets.plain)
    assert isinstance(task, Task)
    with pytest.raises(AttributeError):
        task.name = "x"
    assert re.match(r"Task\(name='task_targets:plain'", repr(task))
