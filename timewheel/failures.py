"""An exception as text, whatever it is: its type, its message, where it came from, what caused it.

Pure: no source lines are read. Nothing here raises: an exception is a user's object, and its `__str__` may do anything.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from timewheel.checks import storable, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_FRAMES = 5  # the innermost ones
_CAUSES = 3
_MEMBERS = 5  # of an exception group


def error_text(exc: BaseException, limit: int = 4096) -> tuple[str, str]:
    """(kind, text) of an exception: its type's name, and message, last frames, causes and group members. Never raises.

    `text` has at most `limit` characters, `kind` at most 200; both can be stored as UTF-8.
    """
    try:
        text = "\n".join(_lines(exc, limit))
    except BaseException:  # noqa: BLE001 - the attributes of a foreign exception may raise anything
        text = error_line(exc, limit)
    return type_name(type(exc)), _cut(text, limit)


def error_line(exc: BaseException, limit: int = 200) -> str:
    """`type: message` of an exception in at most `limit` characters. Never raises."""
    kind = type_name(type(exc))
    try:
        message = str.__getitem__(str(exc), slice(limit + 1))  # __str__ may return a subclass with a will of its own
    except BaseException as error:  # noqa: BLE001 - a foreign __str__ may raise anything
        message = f"<no message: its __str__ raised {type_name(type(error))}>"
    return _cut(f"{kind}: {message}" if message else kind, limit)


def _lines(exc: BaseException, limit: int) -> Iterator[str]:
    yield error_line(exc, limit // 2)
    yield from _frames(exc.__traceback__)
    if isinstance(exc, BaseExceptionGroup):
        members = exc.exceptions
        yield from (f"  + {error_line(member)}" for member in members[:_MEMBERS])
        if len(members) > _MEMBERS:
            yield f"  + {len(members) - _MEMBERS} more"
    for cause in islice(_causes(exc), _CAUSES):
        yield f"caused by {error_line(cause, limit // 4)}"
        yield from _frames(cause.__traceback__)


def _frames(trace: TracebackType | None) -> Iterator[str]:
    last: deque[TracebackType] = deque(maxlen=_FRAMES)
    while trace is not None:
        last.append(trace)
        trace = trace.tb_next
    for entry in last:
        code = entry.tb_frame.f_code
        yield f'  File "{code.co_filename[-200:]}", line {entry.tb_lineno}, in {code.co_qualname[-100:]}'


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """What led to `exc`, nearest first; the chain may contain itself, so the caller takes a few."""
    cause = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _cut(text: str, limit: int) -> str:
    text = storable(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"
