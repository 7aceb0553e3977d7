"""Which failures are one and the same? Those with equal fingerprints: the same class from the same place in the code.

The place is the module and function of the innermost frame of the user's code: not of timewheel, nor of what came with
Python or was installed beside it, while there is a frame of somebody else. Line numbers and messages do not count: they
differ from one release, and from one job, to the next. Pure: no source is read.

>>> fingerprint_of("ValueError", "app.billing:charge") == fingerprint_of("ValueError", "app.billing:charge")
True
"""

from __future__ import annotations

import hashlib
import sysconfig
from typing import TYPE_CHECKING

from timewheel.checks import storable, type_name

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_LETTERS = 16  # of the digest
_MOST_FRAMES = 10_000
_MOST_MEMBERS = 5  # kinds of exceptions in a group
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_STDLIB = tuple({sysconfig.get_path(name).replace("\\", "/") + "/" for name in ("stdlib", "platstdlib")})


def fingerprint(error: BaseException | None, otherwise: str, kind: str | None = None) -> str:
    """The fingerprint of a failure. Never raises.

    `otherwise` is its place where there is no traceback, as of a call that failed itself, or no exception at all: the
    task. `kind` is what it counts as, where that is not the exception's class.
    """
    place = None if error is None else place_of(error.__traceback__)
    return fingerprint_of(kind or ("" if error is None else kind_of(error)), place or otherwise)


def fingerprint_of(kind: str, place: str) -> str:
    """The fingerprint of a failure of this kind at this place: 16 hex digits."""
    return hashlib.sha256(storable(f"{kind}\n{place}").encode()).hexdigest()[:_LETTERS]


def place_of(trace: TracebackType | None) -> str | None:
    """`module:function` of the frame that counts in a traceback; None when there is no frame at all."""
    found: FrameType | None = None
    best = -1
    for _ in range(_MOST_FRAMES):
        if trace is None:
            break
        nearness = _nearness(trace.tb_frame)
        if nearness >= best:  # the innermost of the nearest
            found, best = trace.tb_frame, nearness
        trace = trace.tb_next
    return None if found is None else f"{_module_of(found)}:{found.f_code.co_qualname}"


def _nearness(frame: FrameType) -> int:
    """2: the user's code; 1: installed, or Python's own; 0: ours."""
    module = _module_of(frame)
    if module == "timewheel" or module.startswith("timewheel."):
        return 0
    path = frame.f_code.co_filename.replace("\\", "/")
    if path.startswith(("<frozen ", *_STDLIB)) or not _INSTALLED.isdisjoint(path.split("/")):
        return 1
    return 2


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else "?"


def kind_of(error: BaseException) -> str:
    """The name of an exception's class; of a group with the kinds of its members, which tell one from another."""
    kind = type_name(type(error))
    if not issubclass(type(error), BaseExceptionGroup):
        return kind
    members = BaseExceptionGroup.exceptions.__get__(error)
    kinds = sorted({type_name(type(member)) for member in members})
    return f"{kind}[{', '.join(kinds[:_MOST_MEMBERS])}]"
