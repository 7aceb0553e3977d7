"""From a line of a crontab to a schedule of `shell.run`, as `POST /api/v1/schedules` takes it. Pure.

A schedule's id is made of the file's name and the line alone, so that importing a crontab again changes nothing, and a
changed environment changes the schedules, not their names:

    sysstat-debian-sa1-50f8a1      file, what the command runs, six digits of a hash of the line
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from timewheel.cli.crontab import SHELL, Entry

TASK = "shell.run"
TAG = "crontab"
_HASH = 6
_MOST = 24  # characters of a part of an id
_SUBSTITUTED = re.compile(r"\$\([^()]*\)|`[^`]*`|'[^']*'|\"[^\"]*\"")
_PARTS = re.compile(r"&&|\|\||[;|&(){}\n]|(?<!\S)(?:if|then|else|elif|fi|while|until|do|done)(?!\S)")
_ASSIGNMENT = re.compile(r"\w+=\S*")
_ASIDE = frozenset(
    {"[", "[[", "test", "cd", "sleep", "command", "true", "false", ":", "exit", "export", "set", "umask"}
)
_AROUND = frozenset({"nice", "ionice", "env", "exec", "nohup", "sudo", "chronic", "time", "setsid", "!"})


def schedules_of(
    name: str, entries: Iterable[Entry], options: Mapping[str, Any], taken: set[str]
) -> list[dict[str, Any]]:
    """The schedules of the lines of one file. `options`: what all of them get. `taken`: ids so far; grows."""
    return [{**_schedule(name, entry, _unused(_id(name, entry), taken)), **options} for entry in entries]


def _schedule(name: str, entry: Entry, schedule_id: str) -> dict[str, Any]:
    given = {"env": entry.env or None, "stdin": entry.stdin, "user": entry.user}
    kwargs: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if entry.shell != SHELL:
        kwargs["shell"] = entry.shell
    made: dict[str, Any] = {"id": schedule_id, "cron": entry.rule.expr, "tz": entry.rule.tz, "task": TASK}
    made |= {"args": [entry.command], "kwargs": kwargs, "tags": [TAG, f"{TAG}:{name:.80}"]}
    return made | ({"jitter_s": entry.jitter_s} if entry.jitter_s else {})


def _id(name: str, entry: Entry) -> str:
    parts = (name, entry.rule.expr, entry.user or "", entry.command, entry.stdin or "")
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_HASH]
    return "-".join(part for part in (_slug(name), _slug(program_of(entry.command)), digest) if part)


def _unused(wanted: str, taken: set[str]) -> str:
    """The id, or the first of id-2, id-3, ... that is free: a crontab may hold a line twice."""
    number, free = 1, wanted
    while free in taken:
        number += 1
        free = f"{wanted}-{number}"
    taken.add(free)
    return free


def program_of(command: str) -> str:
    """What a command runs, as well as can be told: for people to know it by.

    >>> program_of("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }")
    'run-parts cron.daily'
    >>> program_of("[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean")
    'sessionclean'
    """
    plain = _SUBSTITUTED.sub(" ", command)
    found = [words for words in map(_program, _PARTS.split(plain)) if words]
    return " ".join(found[0]) if found else command


def _program(part: str) -> list[str]:
    """The program of a simple command and, where its last word is a path, what that leads to; [] for a mere test."""
    words = part.split()
    around = False
    while words and (_ASSIGNMENT.fullmatch(words[0]) or _base(words[0]) in _AROUND or (around and words[0][0] == "-")):
        around = True
        words = words[1:]
    if not words or _base(words[0]) in _ASIDE:
        return []
    last = words[-1]
    of_path = last.startswith(("/", "./", "~")) and len(words) > 1 and ">" not in part
    return [_base(words[0]), *([_base(last)] if of_path else [])]


def _base(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:_MOST].strip("-._")
