"""How a bug is planted: a function of the product is compiled once more with a few words of it exchanged.

    with edited(Bucket, "spend", ("after > now", "after > 2 * now")):
        ...  # every bucket of this process has the bug

The words must occur exactly once in the function, so that a bug whose place is gone from the product says so instead
of planting nothing. What a function closes over cannot be edited; methods and plain functions can.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from unittest.mock import patch

from timewheel.dispatch import dispatcher
from timewheel.store import aftermath, backlog, loader, recovery, sweep
from timewheel.wheel import ticker
from timewheel_storage import memory_batch

Swap = tuple[str, str]
Planting = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """One bug that is planted on purpose, and what must come of it.

    `plant()` is entered while seeds are played. One of the seeds 0 to `seeds` - 1 must find it on `store`, by one of
    `invariants`. `near`: the seed that found it when this was written, tried first by the test to save time.
    """

    name: str
    wrong: str  # a sentence: what the product does wrong now
    plant: Planting
    invariants: frozenset[str]
    seeds: int
    near: int = 0
    store: str = "memory"

    def order(self) -> Iterator[int]:
        """Every seed that is allowed, from `near` on."""
        yield from range(self.near, self.seeds)
        yield from range(self.near)


def _indented(new: str, source: str, old: str) -> str:
    """Several lines in the place of words of one: as deep as that line stands."""
    if not new.startswith("\n"):
        return new
    line = source[source.rindex("\n", 0, source.index(old)) + 1 :]
    depth = line[: len(line) - len(line.lstrip())]
    return textwrap.indent(textwrap.dedent(new).strip(), depth).removeprefix(depth)


def _recompiled(function: FunctionType, swaps: tuple[Swap, ...], names: Mapping[str, Any]) -> FunctionType:
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in swaps:
        if source.count(old) != 1:
            raise LookupError(f"{function.__qualname__} has {old!r} {source.count(old)} times: plant it elsewhere")
        source = source.replace(old, _indented(new, source, old))
    source = source[source.index("async def " if inspect.iscoroutinefunction(function) else "def ") :]
    flags = __future__.annotations.compiler_flag
    module = compile(source, f"<planted in {function.__qualname__}>", "exec", flags, dont_inherit=True)
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    made = FunctionType(code, {**function.__globals__, **names}, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@contextmanager
def edited(owner: Any, name: str, *swaps: Swap, **names: Any) -> Iterator[None]:
    """Exchange words of a method or function; `names` are what the new words need beside its module's names.

    `owner`: a class, or a module; other modules that have imported the function by name get it too.
    """
    found = inspect.getattr_static(owner, name)
    wrapper = type(found) if isinstance(found, staticmethod | classmethod | property) else None
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    made: Any = _recompiled(function, swaps, names)
    with ExitStack() as stack:
        stack.enter_context(patch.object(owner, name, wrapper(made) if wrapper else made))
        for module in [] if inspect.isclass(owner) else list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is function:
                stack.enter_context(patch.object(module, name, made))
        yield


@contextmanager
def reworded(module: Any, name: str, *swaps: Swap) -> Iterator[None]:
    """Exchange words of a text of a module, say of an SQL statement."""
    text = getattr(module, name)
    for old, new in swaps:
        if text.count(old) != 1:
            raise LookupError(f"{name} has {old!r} {text.count(old)} times: plant it elsewhere")
        text = text.replace(old, new)
    with patch.object(module, name, text):
        yield


@contextmanager
def all_of(*plantings: AbstractContextManager[Any]) -> Iterator[None]:
    """Several at once: a bug that another line of the product would mend."""
    with ExitStack() as stack:
        for planting in plantings:
            stack.enter_context(planting)
        yield


SMALL: dict[Any, dict[str, int]] = {
    loader: {"PAGE": 4, "LOW": 2, "LANE_LIMIT": 8, "STALE_FLOOR": 2},
    sweep: {"SWEEP_PAGE": 3, "SWEEP_LANES": 4},
    recovery: {"PAGE": 2},
    backlog: {"BATCH_CHANGES": 6, "HOUSEKEEPING_CHANGES": 1},
    aftermath: {"PORTION": 3},
    dispatcher: {"PORTION": 2, "MOST_HINTS": 5},
    ticker: {"PORTION": 3},
}


@contextmanager
def small() -> Iterator[None]:
    """Pages, batches and portions so small that simulated lives fill them. No bug: everything must hold."""
    with ExitStack() as stack:
        for module, sizes in SMALL.items():
            for name, size in sizes.items():
                stack.enter_context(patch.object(module, name, size))
        yield


def _of_now(batch: Any, change: Any) -> Any:
    return getattr(batch, memory_batch._VERBS[type(change)].__name__)(change)


def verbs_as_now() -> AbstractContextManager[Any]:
    """No bug: what the memory's `Batch.apply` finds in its table is as it is now, not as when the table was made."""
    return edited(
        memory_batch.Batch, "apply", ("_VERBS[type(change)](self, change)", "_of_now(self, change)"), _of_now=_of_now
    )


def edit_verb(owner: Any, name: str, old: str, new: str, **names: Any) -> Planting:
    """A bug that is one edit of a method which the memory's batch has in its table."""
    return lambda: all_of(edited(owner, name, (old, new), **names), verbs_as_now())


def edit(owner: Any, name: str, old: str, new: str, **names: Any) -> Planting:
    """A bug that is one edit of a function."""
    return lambda: edited(owner, name, (old, new), **names)


def into(bugs: list[Bug]) -> Callable[..., None]:
    """The way to add a bug to a list: `bug(name, wrong, plant, "I1 I2", seeds, near=..., store=...)`."""

    def bug(
        name: str, wrong: str, plant: Planting, invariants: str, seeds: int, near: int = 0, store: str = "memory"
    ) -> None:
        bugs.append(Bug(name, wrong, plant, frozenset(invariants.split()), seeds, near, store))

    return bug
