"""`classify=` of a task, compiled: which failure has which class. Checked when the task is declared, never stored.

    classify={CardDeclined: "PERMANENT", Timeout: "AMBIGUOUS", 409: "TRANSIENT"}
    classify=lambda error: "THROTTLED" if "slow down" in str(error) else None

A mapping names exception types and HTTP statuses (see `timewheel.work.foreign`). A status that it names goes before any
type; of the types the most specific one wins, as in a chain of `except` clauses that is in order. A function is asked
for each exception and answers a class, its name, or None. What they do not say is judged as without `classify`.
"""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from timewheel.checks import shown, type_name
from timewheel.errors import InvalidOption
from timewheel.failures import error_line
from timewheel.model import FaultClass
from timewheel.names import describe
from timewheel.work.foreign import http_status
from timewheel.work.signals import HandlerSignal

Classifier: TypeAlias = Callable[[BaseException], FaultClass | None]  # None: it has no opinion

_log = logging.getLogger("timewheel")
_NAMES = {fault.name: fault for fault in FaultClass}
_ALLOWED = f"one of {', '.join(_NAMES)}"


def classifier(value: object) -> Classifier:
    """The compiled form of a `classify=` value; it never raises. Later changes of a mapping do not touch it.

    Raises InvalidOption, with the fix, for a value that is neither a mapping nor a function, and for an entry of a
    mapping that makes no sense. A function that raises or answers nonsense is told of in the log, once, and what it
    was asked of counts as TRANSIENT.
    """
    if isinstance(value, Mapping):
        return _by_table(value)
    if isinstance(value, type) or not callable(value):
        raise InvalidOption(
            f"classify={shown(value)}: it must be a dict, like {{ValueError: 'PERMANENT', 429: 'THROTTLED'}}, or a "
            f"function of the exception that answers {_ALLOWED}, or None"
        )
    if inspect.iscoroutinefunction(value):
        raise InvalidOption(f"classify={shown(value)}: it must answer at once; write it with def, not async def")
    return _by_function(value)


def _by_table(table: Mapping[Any, Any]) -> Classifier:
    types: dict[type, FaultClass] = {}
    statuses: dict[int, FaultClass] = {}
    for key, value in table.items():
        fault = _fault_of(value)
        if fault is None:
            _refuse_class(key, value)
        if isinstance(key, int) and not isinstance(key, bool) and 100 <= key <= 599:
            statuses[int(key)] = fault
        elif isinstance(key, type) and issubclass(key, BaseException):
            types[key] = fault
        else:
            raise InvalidOption(
                f"classify: {shown(key)} must be a type of exception, like ValueError, or an HTTP status, 100 to 599"
            )
        if isinstance(key, type) and issubclass(key, HandlerSignal):
            raise InvalidOption(f"classify: {type_name(key)} says itself what it means; leave it out")

    def classify(error: BaseException) -> FaultClass | None:
        kind = type(error)
        status = http_status(error) if statuses and issubclass(kind, Exception) else None
        if status is not None and status in statuses:
            return statuses[status]
        try:
            return next((types[each] for each in type.mro(kind) if each in types), None)
        except BaseException:  # noqa: BLE001 - a metaclass may make a type that cannot be looked up
            return None

    return classify


def _by_function(function: Callable[..., Any]) -> Classifier:
    told = False

    def classify(error: BaseException) -> FaultClass | None:
        nonlocal told
        try:
            answer = function(error)
            if answer is None:
                return None
            fault = _fault_of(answer)
            trouble = f"answered {shown(answer)}, which is not {_ALLOWED} or None" if fault is None else ""
        except BaseException as raised:  # noqa: BLE001 - a user's function may raise anything
            fault, trouble = None, f"raised {error_line(raised)}"
        if fault is not None:
            return fault
        if not told:
            told = True
            _log.warning("classify: %s %s: such failures count as TRANSIENT", describe(function), trouble)
        return FaultClass.TRANSIENT

    return classify


def _fault_of(value: Any) -> FaultClass | None:
    """A class, or its name in either case."""
    return _NAMES.get(value.upper()) if isinstance(value, str) else None


def _refuse_class(key: Any, value: Any) -> NoReturn:
    near = difflib.get_close_matches(value.upper(), _NAMES, 1) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    name = type_name(key) if isinstance(key, type) else shown(key)
    raise InvalidOption(f"classify: {name}: {shown(value)} must be {_ALLOWED}{hint}")
