"""Calls and names that do not fit: what was meant instead, said in errors of timewheel and not in Python's words.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from timewheel.checks import shown

P = ParamSpec("P")
R = TypeVar("R")
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_LIKE = 0.65  # how much of two names must be the same
_LONGEST = 100  # a longer name is like no other


class FieldError(Protocol):
    """An error class that names a field: InvalidRule, InvalidOption."""

    def __call__(self, message: str, /, *, field: str) -> Exception:
        """One of them."""


class Misfit(NamedTuple):
    """How a call does not fit: an argument that it lacks, or one too many (its name, or None and its value)."""

    missing: bool
    name: str | None
    value: Any = None
    names: tuple[str, ...] = ()  # that can be given


def instead(name: object, names: Iterable[str]) -> str:
    """What to write for a name that is not one of `names`: `did you mean state?`, or all that there are.

    >>> instead("stat", ["state", "task"]), instead("colour", ["state", "task"])
    ('did you mean state?', 'available: state, task')
    """
    known = sorted(names)
    short = isinstance(name, str) and len(name) <= _LONGEST
    near = difflib.get_close_matches(str(name), known, cutoff=_LIKE) if short else []
    return f"did you mean {' or '.join(near)}?" if near else f"available: {', '.join(known) or 'none'}"


def explained(say: Callable[[tuple[Any, ...], Misfit], Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a call that does not fit the function raise what `say(args, misfit)` gives. One that fits costs no more."""

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return fn(*args, **kwargs)
            except TypeError:
                misfit = _misfit(signature, args, kwargs)
                if misfit is None:  # it came from within
                    raise
                error = say(args, misfit)
            raise error

        return call

    return decorate


def told(
    called: str, error: FieldError, needs: Mapping[str, str] | None = None, elsewhere: Mapping[str, str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`explained` for a call like `Civil(...)`. `needs`: how to write what it must have; `elsewhere`: other names."""

    def say(_: tuple[Any, ...], misfit: Misfit) -> Exception:
        missing, name, value, names = misfit
        if missing:
            text = f"{called} needs {(needs or {}).get(str(name), f'{name}=')}"
        elif name is None:
            text = f"{called} does not take {shown(value)} there: give it by its name, one of {', '.join(names)}"
        else:
            text = f"{called} takes no {name}; {(elsewhere or {}).get(name) or instead(name, names)}"
        return error(text, field=name or "")

    return explained(say)


def _misfit(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Misfit | None:
    """The first fault of a call; None when it fits."""
    parameters = list(signature.parameters.values())
    positional = [one.name for one in parameters if one.kind in _BY_POSITION]
    by_name = [one.name for one in parameters if one.kind not in (Parameter.POSITIONAL_ONLY, Parameter.VAR_KEYWORD)]
    names = tuple(name for name in by_name if name != "self")
    for name, value in kwargs.items():
        if name not in by_name:
            return Misfit(False, name, value, names)
    if len(args) > len(positional):
        return Misfit(False, None, args[len(positional)], names)
    given = {*positional[: len(args)], *kwargs}
    for one in parameters:
        if one.default is Parameter.empty and one.name not in given:
            return Misfit(True, one.name, None, names)
    return None
