"""What `serve` can run without any code of the user: `log.message`, and once allowed `http.request` and `shell.run`.

A target is an ordinary task plus a check of its arguments, so that a request which can never succeed is refused when it
is made, not when it is due.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from timewheel.targets import http, log, shell
from timewheel.targets.hosts import AllowedHosts

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler

__all__ = ["Targets", "register"]


Fault = Callable[[Sequence[Any], Mapping[str, Any]], "str | None"]


class Targets(NamedTuple):
    """The built-in tasks that were registered.

    `faults`: task name -> function of (args, kwargs) that says what is wrong with them, or None. `absent`: names of
    those that are off -> how to have them.
    """

    faults: dict[str, Fault]
    absent: dict[str, str]
    http: http.HttpTarget | None = None
    shell: shell.ShellTarget | None = None

    async def close(self) -> None:
        """End what targets keep: connections, and commands that still run."""
        if self.http is not None:
            await self.http.close()
        if self.shell is not None:
            await self.shell.close()


def register(
    scheduler: Scheduler, *, allow_http: Collection[str], allow_shell: bool = False, taken: Collection[str] = ()
) -> Targets:
    """Register the built-in tasks whose names are not `taken`.

    `http.request` only when `allow_http` names a host, `shell.run` only with `allow_shell`. Raises ValueError naming
    an entry of `allow_http` that is no host.
    """
    faults: dict[str, Fault] = {}
    absent = {
        http.NAME: "start serve with --allow-http HOST... to have it",
        shell.NAME: "start serve with --allow-shell to have it; whoever reaches its port can run commands then",
    }
    tasks: dict[str, Callable[..., Any]] = {}
    if log.NAME not in taken:
        tasks[log.NAME], faults[log.NAME] = log.log_message, _bound(log.fault_of)
    calls = http.HttpTarget(AllowedHosts(allow_http)) if allow_http and http.NAME not in taken else None
    if calls is not None:
        tasks[http.NAME], faults[http.NAME] = calls.request, _bound(calls.fault_of)
    commands = shell.ShellTarget() if allow_shell and shell.NAME not in taken else None
    if commands is not None:
        tasks[shell.NAME], faults[shell.NAME] = commands.run, _bound(commands.fault_of)
    for name, function in tasks.items():
        scheduler.task(name=name)(function)
    return Targets(faults, {name: how for name, how in absent.items() if name not in {*tasks, *taken}}, calls, commands)


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
