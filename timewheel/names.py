"""Names of functions: which name a fresh process could find a function by, and what stands under a name.

The name of a function is `module:qualname`. To Python a file that is run (`python jobs.py`) is `__main__`; here its
functions have the name that others would import them by (`jobs:send`), so that running and importing the file agree.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any

from timewheel.checks import shown, type_name
from timewheel.failures import error_line

_MAIN = ("__main__", "__mp_main__")  # the second is what multiprocessing calls it in a spawned child
_CHAIN = 50  # wrappers around wrappers; an object that invents attributes must not hold us for ever


def default_name(fn: Callable[..., Any]) -> str | None:
    """The name `module:qualname` of a function or of a method of a class, or None for what has no such name."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if isinstance(fn, MethodType) and isinstance(fn.__self__, type):
        # Base.build called as Child.build is another handler: it is named by the class it is bound to.
        module, qualname = fn.__self__.__module__, f"{fn.__self__.__qualname__}.{fn.__name__}"
    if not isinstance(module, str) or not isinstance(qualname, str):
        return None
    return f"{_public_module(module)}:{qualname}"


def _public_module(module: str) -> str:
    return (main_module() or module) if module in _MAIN else module


def main_module() -> str | None:
    """The name others would import the running `__main__` by, or None when it is no file (REPL, -c, notebook)."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    path = getattr(main, "__file__", None)
    if not isinstance(path, str) or path.startswith("<"):  # "<stdin>"
        return None
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")


def describe(fn: object) -> str:
    """How a target stands in a message."""
    name = default_name(fn) if callable(fn) else None
    return name if name is not None and len(name) <= 200 else shown(fn)


def innermost(fn: Any) -> list[Any]:
    """`fn` and what it wraps, outermost first: through partial's function, `__wrapped__` and a method's function."""
    chain = [fn]
    while len(chain) < _CHAIN:
        last = chain[-1]
        inner = last.func if isinstance(last, functools.partial) else getattr(last, "__wrapped__", None)
        if not callable(inner) or any(inner is layer for layer in chain):
            break
        chain.append(inner)
    return chain


def runs_on_loop(fn: Any) -> bool:
    """Whether a call gives an awaitable: a coroutine function, a wrapper around one, an object whose call is one."""
    return any(_either(inspect.iscoroutinefunction, layer) for layer in innermost(fn))


def _either(test: Callable[[Any], bool], fn: Any) -> bool:
    return test(fn) or (not inspect.isroutine(fn) and test(getattr(type(fn), "__call__", None)))  # noqa: B004


def unfit(fn: object) -> str | None:
    """Why an object can be no handler under any name (reason and fix), or None."""
    if inspect.isawaitable(fn):
        return (
            "it has been called already; give the function and its arguments: at(when, fn, arg), not at(when, fn(arg))"
        )
    if not callable(fn):
        return f"it is no callable but a {type_name(type(fn))}; give a function, or the name of a registered task"
    if isinstance(fn, type):
        return "it is a class; write a function that makes and uses the object"
    if _either(inspect.isgeneratorfunction, fn) or _either(inspect.isasyncgenfunction, fn):
        return "a handler must not be a generator, whose body would never run; replace yield by return or a loop"
    return None


def unreachable(fn: Callable[..., Any]) -> str | None:
    """Why a fresh process could not find an unregistered function (reason and fix), or None when it could."""
    name = default_name(fn)
    register = "register it with @scheduler.task"
    if name is None:
        return f"an object like this has no name to find it by; {register}(name=...) or give a function"
    module, _, qualname = name.partition(":")
    if qualname.endswith("<lambda>"):
        return f"a lambda has no name to find it by; write a def at module level, or {register}(name=...)"
    if "<locals>" in qualname:
        return f"a function inside a function cannot be found from outside; move it to module level, or {register}"
    if isinstance(fn, MethodType) and not isinstance(fn.__self__, type):
        return "a bound method needs its object; give a function that finds the object by its id, or " + register
    if module in _MAIN:
        return (
            f"it was defined in no file (REPL, notebook, -c), which no other process has; save it in one, or {register}"
        )
    found, reason = _walk(module, qualname, load=False)
    if reason is not None:
        return f"{reason}; define it at module level under its own name, or {register}"
    # A bound class method is made anew at each access: equal, but not identical.
    if found is not fn and not (isinstance(fn, MethodType) and found == fn):
        return f"importing {name} gives another object ({shown(found)}); give that one, or {register}(name=...)"
    return None


def replaces(new: Callable[..., Any], old: Callable[..., Any]) -> bool:
    """Whether `new` may take the name of `old`: it is the same function, or its successor after a module's reload.

    Closures of one factory share the code but not the cells: taking one for another would run the wrong one.
    """
    if old is new:
        return True
    if isinstance(new, MethodType):
        return old == new
    if default_name(old) is None or default_name(old) != default_name(new):
        return False
    # The innermost functions are compared: a decorator's wrapper has the same code around every function.
    before, after = innermost(old)[-1], innermost(new)[-1]
    same_code = getattr(before, "__code__", before) is getattr(after, "__code__", after)
    return not (same_code and (getattr(before, "__closure__", None) or getattr(after, "__closure__", None)))


def one_source(left: Any, right: Any) -> bool:
    """Whether two functions come from one place of one file: a module's copies before and after a reload, or run as
    `__main__` and imported. Methods and closures of one place differ in what they hold, so they never do.
    """
    if isinstance(left, MethodType) or isinstance(right, MethodType) or "<locals>" in str(default_name(right)):
        return False
    codes = [getattr(innermost(fn)[-1], "__code__", None) for fn in (left, right)]
    places = [code and (code.co_filename, code.co_firstlineno, code.co_qualname) for code in codes]
    return places[0] is not None and places[0] == places[1]


def load(name: str) -> tuple[Any, str | None]:
    """(the object under `module:qualname`, None), importing its module, or (None, why there is none).

    Imports code: the caller vouches for the name.
    """
    module, colon, qualname = name.partition(":")
    if not colon or not module or not qualname:
        return None, f"{shown(name)} is not of the form module:qualname"
    return _walk(module, qualname, load=True)


def _walk(module: str, qualname: str, *, load: bool) -> tuple[Any, str | None]:
    try:
        found: Any = _module(module, load)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs a user's module, which may do anything
        return None, f"importing {module} failed: {error_line(error)}"
    if found is None:
        return None, f"module {module} is not loaded"
    for part in qualname.split("."):
        try:
            found = getattr(found, part)
        except Exception:  # noqa: BLE001 - a module's __getattr__ may raise anything
            return None, f"{module} has no {qualname}"
    return found, None


def _module(module: str, load: bool) -> ModuleType | None:
    if module == main_module():
        return sys.modules.get("__main__")
    return importlib.import_module(module) if load else sys.modules.get(module)
