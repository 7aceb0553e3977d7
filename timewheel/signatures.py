"""Whether the arguments of a call fit a handler: found out once per task, so that most calls cost a comparison.

Pure. What counts is the callable itself, not what a wrapper wraps: a decorator may add or take arguments, and a call
that would run must never be refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

_UNBOUNDED = 1 << 30
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(slots=True, frozen=True, eq=False)
class CallShape:
    """What a callable accepts, prepared for quick answers.

    least, most: how many positional arguments fit a call without keywords; most = -1 when none does.
    by_count: for n positional arguments the keywords that must and those that may be given; it ends where only the
    full signature can tell. hidden: positional-only names that **keywords takes too, which `Signature.bind` overlooks.
    """

    full: inspect.Signature
    least: int
    most: int
    by_count: tuple[tuple[frozenset[str], frozenset[str]], ...]
    hidden: frozenset[str]

    def misfit(self, args: Collection[Any], kwargs: dict[str, Any]) -> str | None:
        """Why these arguments do not fit, in Python's words, or None when they do."""
        count = len(args)
        if not kwargs:
            if self.least <= count <= self.most:
                return None
        elif count < len(self.by_count):
            must, may = self.by_count[count]
            if must <= kwargs.keys() <= may:
                return None
        try:
            self.full.bind(*args, **{name: kwargs[name] for name in kwargs if name not in self.hidden})
        except TypeError as error:
            return str(error)
        return None

    def unexpected(self, kwargs: dict[str, Any]) -> list[str]:
        """The keywords that no parameter takes."""
        parameters = self.full.parameters
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
            return []
        names = [name for name, parameter in parameters.items() if parameter.kind is not Parameter.POSITIONAL_ONLY]
        return [name for name in kwargs if name not in names]


def shape_of(fn: Callable[..., Any]) -> CallShape | None:
    """The shape of a callable, or None when it does not tell its signature (some built-ins): anything fits then."""
    try:
        full = inspect.signature(fn, follow_wrapped=False)
    except (ValueError, TypeError):
        return None
    parameters = list(full.parameters.values())
    positional = [parameter for parameter in parameters if parameter.kind in _BY_POSITION]
    keyword_only = [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    kinds = {parameter.kind for parameter in parameters}
    greedy = Parameter.VAR_KEYWORD in kinds
    most = _UNBOUNDED if Parameter.VAR_POSITIONAL in kinds else len(positional)
    if any(parameter.default is Parameter.empty for parameter in keyword_only):
        most = -1
    return CallShape(
        full=full,
        least=sum(parameter.default is Parameter.empty for parameter in positional),
        most=most,
        by_count=() if greedy else _keywords_by_count(positional, keyword_only),
        hidden=frozenset(one.name for one in positional if greedy and one.kind is Parameter.POSITIONAL_ONLY),
    )


def _keywords_by_count(
    positional: list[Parameter], keyword_only: list[Parameter]
) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    table = []
    for count in range(len(positional) + 1):
        rest = [*positional[count:], *keyword_only]
        must = [parameter.name for parameter in rest if parameter.default is Parameter.empty]
        may = [parameter.name for parameter in rest if parameter.kind is not Parameter.POSITIONAL_ONLY]
        table.append((frozenset(must), frozenset(may)))
    return tuple(table)
