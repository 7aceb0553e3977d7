"""What `serve` can run without any code of the user: `log.message`, and `http.request` once it is allowed.

A target is an ordinary task plus a check of its arguments, so that a request which can never succeed is refused when it
is made, not when it is due.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from timewheel.targets import http, log
from timewheel.targets.hosts import AllowedHosts

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler

__all__ = ["Targets", "register"]


Fault = Callable[[Sequence[Any], Mapping[str, Any]], "str | None"]


class Targets(NamedTuple):
    """The built-in tasks that were registered.

    `faults`: task name -> function of (args, kwargs) that says what is wrong with them, or None.
    """

    faults: dict[str, Fault]
    http: http.HttpTarget | None

    async def close(self) -> None:
        """Close the connections that targets keep."""
        if self.http is not None:
            await self.http.close()


def register(scheduler: Scheduler, *, allow_http: Collection[str], taken: Collection[str] = ()) -> Targets:
    """Register the built-in tasks whose names are not `taken`; `http.request` only when `allow_http` names a host.

    Raises ValueError naming an entry of `allow_http` that is no host.
    """
    faults: dict[str, Fault] = {}
    tasks: dict[str, Callable[..., Any]] = {}
    if log.NAME not in taken:
        tasks[log.NAME], faults[log.NAME] = log.log_message, _bound(log.fault_of)
    target = http.HttpTarget(AllowedHosts(allow_http)) if allow_http and http.NAME not in taken else None
    if target is not None:
        tasks[http.NAME], faults[http.NAME] = target.request, _bound(target.fault_of)
    for name, function in tasks.items():
        scheduler.task(name=name)(function)
    return Targets(faults, target)


def _bound(fault_of: Callable[..., str | None]) -> Fault:
    """A check that also says so when the arguments do not fit the task's signature, which it shares."""
    signature = inspect.signature(fault_of)

    def check(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return fault_of(*args, **kwargs)

    return check
