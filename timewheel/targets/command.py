"""What a shell command may look like, and the environment it gets. Pure: no asyncio, clock, files or sockets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SHELL = "/bin/sh"
PATH = "/usr/bin:/bin"  # what cron gives a command that names no PATH
MAX_COMMAND_BYTES = 100_000  # the kernel takes 128 KiB in one argument
MAX_STDIN_BYTES = 512 * 1024
MAX_VARIABLES = 200
MAX_VARIABLE_BYTES = 32 * 1024  # name and value
MAX_ENVIRONMENT_BYTES = 256 * 1024


class Account(NamedTuple):
    """The account that a command runs as."""

    name: str
    uid: int
    gid: int
    home: str


class Wanted(NamedTuple):
    """A command as it was asked for; see `timewheel.targets.shell`."""

    command: str
    env: Mapping[str, str]
    shell: str
    stdin: str | None
    user: str | None
    cwd: str | None


def fault_of_command(wanted: Wanted) -> str | None:
    """What is wrong with a command, or None; whether its user may be taken is another question."""
    return (
        _fault_of_text("command", wanted.command, MAX_COMMAND_BYTES, least=1)
        or _fault_of_environment(wanted.env)
        or _fault_of_path("shell", wanted.shell)
        or (None if wanted.cwd is None else _fault_of_path("cwd", wanted.cwd))
        or (None if wanted.stdin is None else _fault_of_text("stdin", wanted.stdin, MAX_STDIN_BYTES, zero=True))
        or (None if wanted.user is None else _fault_of_text("user", wanted.user, 256, least=1))
    )


def environment_of(
    wanted: Wanted, account: Account, given: Mapping[str, str], job_id: str, attempt: int
) -> dict[str, str]:
    """The environment of a command: little, like cron's, so that no secret of ours gets into it.

    HOME, LOGNAME, USER, SHELL and PATH; LANG, LC_ALL and TZ as `given` to this process; then the command's own, which
    may replace all but LOGNAME; then TIMEWHEEL_JOB_ID (the same for every attempt) and TIMEWHEEL_ATTEMPT.
    """
    variables = {"HOME": account.home, "LOGNAME": account.name, "USER": account.name}
    variables |= {"SHELL": wanted.shell, "PATH": PATH}
    variables |= {name: given[name] for name in ("LANG", "LC_ALL", "TZ") if name in given}
    variables |= {**wanted.env, "LOGNAME": account.name}
    variables |= {"TIMEWHEEL_JOB_ID": job_id, "TIMEWHEEL_ATTEMPT": str(attempt)}
    return variables


def _fault_of_text(name: str, value: Any, most_bytes: int, *, least: int = 0, zero: bool = False) -> str | None:
    if not isinstance(value, str):
        return f"{name}: it must be text, got {type(value).__name__}"
    if "\0" in value and not zero:
        return f"{name}: it must not hold a NUL character"
    size = _bytes(value)
    if size is None:
        return f"{name}: it must be text that UTF-8 can hold"
    if not least <= size <= most_bytes:
        return f"{name}: it has {size:,} bytes; {least} to {most_bytes:,} are allowed"
    return None


def _fault_of_path(name: str, value: Any) -> str | None:
    fault = _fault_of_text(name, value, 4096, least=1)
    if fault is None and not value.startswith("/"):
        fault = f"{name}={value!r:.80}: it must be an absolute path"
    return fault


def _fault_of_environment(env: Any) -> str | None:
    if not isinstance(env, Mapping) or len(env) > MAX_VARIABLES:
        return f"env: it must be an object of at most {MAX_VARIABLES} names with texts"
    total = 0
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or not name.isprintable():
            return f"env: {name!r:.80} is not a name of a variable"
        fault = _fault_of_text(f"env: {name:.80}", value, MAX_VARIABLE_BYTES)
        if fault is not None:
            return fault
        total += (_bytes(name) or 0) + (_bytes(value) or 0)
    if total > MAX_ENVIRONMENT_BYTES:
        return f"env: {total:,} bytes; at most {MAX_ENVIRONMENT_BYTES:,} are allowed"
    return None


def _bytes(text: str) -> int | None:
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return None
