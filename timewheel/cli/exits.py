"""Exit codes, those of sysexits.h, and which error ends the process with which.

0   clean
64  usage: an option or argument makes no sense
65  data: a journal that is damaged, truncated, foreign or newer; lines of a file that were refused; an unknown job
69  dependency: a missing extra, an application that cannot be imported, a server that is not reachable
70  an error of timewheel itself
71  operating system: a port in use, no file descriptors, a file system without working locks
73  the journal cannot be created
74  I/O: the journal cannot be written or is gone
75  the journal is owned by another process
77  permission
130 interrupted (Ctrl-C)
"""

from __future__ import annotations

import errno

from timewheel import errors

OK = 0
USAGE = 64
DATA = 65
UNAVAILABLE = 69
SOFTWARE = 70
SYSTEM = 71
CANNOT_CREATE = 73
IO = 74
OWNED = 75
PERMISSION = 77
INTERRUPTED = 130

_CHAIN = 10


class _Leaving:
    """How the process is to end: `at_once`, when something in it would not."""

    at_once = False


LEAVING = _Leaving()


class Exit(Exception):
    """End the process with `code`, after `message` on stderr."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


_BY_TYPE: tuple[tuple[type[BaseException], int], ...] = (
    (errors.JournalOwned, OWNED),
    (errors.JournalBusy, OWNED),
    (errors.JournalCorrupt, DATA),
    (errors.JournalTruncated, DATA),
    (errors.JournalNewer, DATA),
    (errors.JournalUnsafe, SYSTEM),
    (errors.JournalFull, IO),
    (errors.JournalUnknown, IO),
    (errors.InvalidOption, USAGE),
    (errors.InvalidTime, USAGE),
    (errors.InvalidTask, USAGE),
    (errors.InvalidRule, USAGE),
)
_CANNOT_CREATE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP})


def code_of(error: BaseException, *, starting: bool) -> int:
    """The exit code of an error; `starting` tells a journal that cannot be created from one that is gone."""
    if isinstance(error, errors.SchedulerFailed):
        return code_of(error.cause, starting=starting)
    for kind, code in _BY_TYPE:
        if isinstance(error, kind):
            return code
    causes = _causes(error)
    if any(_is_permission(cause) for cause in causes):
        return PERMISSION
    if isinstance(error, errors.JournalError):
        return CANNOT_CREATE if starting else IO
    system = next((cause for cause in causes if isinstance(cause, OSError)), None)
    if system is not None:
        return CANNOT_CREATE if system.errno in _CANNOT_CREATE else SYSTEM
    return SOFTWARE


def _causes(error: BaseException) -> list[BaseException]:
    chain = [error]
    while len(chain) < _CHAIN:
        cause = chain[-1].__cause__ or chain[-1].__context__
        if cause is None or cause in chain:
            break
        chain.append(cause)
    return chain


def _is_permission(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM)
