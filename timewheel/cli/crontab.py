"""Crontabs, read as cron reads them: which commands they run, when, and in which environment.

Pure: no files, clock or environment of this process. A line that cannot become a schedule is listed with its number and
the reason, and harms no other. What cron does, and we keep to:

- a line `NAME = value` holds for the lines below it; quotes around name or value are taken off, nothing is expanded
- five fields or one @name, then, in system crontabs alone, a user, then the command up to the end of the line
- the first % of a command ends it; what follows is what it reads, each further % a new line; a backslash saves a %

CRON_TZ= names the zone of the times below it, RANDOM_DELAY= (minutes) spreads them. TZ= is the command's own zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron

MAX_BYTES = 1 << 20
MAX_LINES = 10_000
MAX_DELAY_MINUTES = 24 * 60
SHELL = "/bin/sh"
_A_USER = "its command begins with root: if that is the user, as in /etc/crontab, say --system"
_REBOOT = "@reboot is no time: nothing is run at a boot; start the command where you start timewheel"
_FIELDS = 5


class Entry(NamedTuple):
    """A line that becomes a schedule. `text`: the line as it stands; `user`: None for whoever runs the server."""

    line: int
    text: str
    rule: Cron
    user: str | None
    command: str
    stdin: str | None
    env: dict[str, str]
    shell: str
    jitter_s: float


class Remark(NamedTuple):
    """A line that is left out, or that does not mean here all that it means to cron, and why."""

    line: int
    text: str
    reason: str


class Crontab(NamedTuple):
    """What a crontab says: its schedules, the lines that cannot become one, and what else to know."""

    entries: list[Entry]
    left: list[Remark]
    remarks: list[Remark]


class Format(NamedTuple):
    """How to read a crontab. `system`: its lines name users. `zone`: of its times until CRON_TZ says otherwise.

    `owner`: whose crontab it is, where that is known. `may_be`: whether commands may be run as a user.
    """

    system: bool
    zone: str
    owner: str | None
    may_be: Callable[[str], bool]


class TooLarge(ValueError):
    """A file that is no crontab of any size that cron takes."""


def read(data: bytes, form: Format) -> Crontab:
    """Every line of a crontab. Raises TooLarge."""
    lines = data.split(b"\n")
    if len(data) > MAX_BYTES or len(lines) > MAX_LINES:
        raise TooLarge(f"it has {len(data):,} bytes and {len(lines):,} lines; at most {MAX_BYTES:,} and {MAX_LINES:,}")
    reader = _Reader(form)
    for number, raw in enumerate(lines, 1):
        reader.take(number, raw)
    return Crontab(reader.entries, reader.left, reader.remarks)


class _Reader:
    """The lines one after another, and the environment as it stands."""

    def __init__(self, form: Format) -> None:
        self.entries: list[Entry] = []
        self.left: list[Remark] = []
        self.remarks: list[Remark] = []
        self._form = form
        self._env: dict[str, str] = {}
        self._zone = form.zone
        self._jitter_s = 0.0

    def take(self, number: int, raw: bytes) -> None:
        try:
            text = raw.decode("utf-8").strip("\r").strip(" \t")
        except UnicodeDecodeError as error:
            shown = raw.decode("utf-8", "replace").strip()
            self.left.append(Remark(number, shown, f"it is not UTF-8: {error.reason} at byte {error.start + 1}"))
            return
        if not text or text.startswith("#"):
            return
        try:
            variable = variable_of(text)
            if variable is not None:
                self._set(number, text, *variable)
            else:
                self.entries.append(self._entry(number, text))
        except ValueError as error:
            self.left.append(Remark(number, text, str(error)))

    def _set(self, number: int, text: str, name: str, value: str) -> None:
        if name == "CRON_TZ":
            self._zone = value or self._form.zone
            return
        if name == "RANDOM_DELAY":
            if not re.fullmatch(r"\d{1,4}", value, re.ASCII) or int(value) > MAX_DELAY_MINUTES:
                raise ValueError(f"RANDOM_DELAY is a number of minutes, at most {MAX_DELAY_MINUTES}")
            self._jitter_s = 60.0 * int(value)
            return
        self._env[name] = value
        if name == "MAILTO" and value:
            self.remarks.append(Remark(number, text, "nothing is mailed: the output is kept with each job"))
        if name == "TZ":
            why = f"this is the zone of the commands; when they run counts in {self._zone} (CRON_TZ= would change that)"
            self.remarks.append(Remark(number, text, why))

    def _entry(self, number: int, text: str) -> Entry:
        """Raises ValueError saying why the line cannot become a schedule."""
        when, rest = _when(text)
        if when == "@reboot":
            raise ValueError(_REBOOT)
        try:
            rule = Cron(when, tz=self._zone)
        except InvalidRule as error:
            raise ValueError(str(error)) from None
        user = self._form.owner
        if self._form.system:
            user, rest = _word(rest)
            if not user or not rest:
                raise ValueError("a line of a system crontab names a user before its command (else say --no-system)")
        elif _word(rest)[0] == "root":
            self.remarks.append(Remark(number, text, _A_USER))
        if not rest:
            raise ValueError("it has no command")
        if user is not None and not self._form.may_be(user):
            raise ValueError(f"it runs as {user}: only root may run commands as others")
        command, stdin = split_percent(rest)
        env = {name: value for name, value in self._env.items() if name != "SHELL"}
        shell = self._env.get("SHELL", SHELL)
        return Entry(number, text, rule, user, command, stdin, env, shell, self._jitter_s)


def variable_of(text: str) -> tuple[str, str] | None:
    """The name and the value that a line sets, or None for a line that sets none. Raises ValueError.

    >>> variable_of('MAILTO = "ops team"')
    ('MAILTO', 'ops team')
    >>> variable_of("*/5 * * * * A=b run") is None
    True
    """
    quote = text[0] if text[0] in "\"'" else ""
    if quote:
        name, closed, rest = text[1:].partition(quote)
        if not closed:
            return None
    else:
        end = next((place for place, character in enumerate(text) if character in " \t="), len(text))
        name, rest = text[:end], text[end:]
    rest = rest.lstrip(" \t")
    if not name or not rest.startswith("="):
        return None
    value = rest[1:].lstrip(" \t")
    if value[:1] not in ("'", '"') or not value:
        return name, value.rstrip(" \t")
    inside, closed, after = value[1:].partition(value[0])
    if not closed or after.strip(" \t"):
        raise ValueError("the quotes around the value do not end at its end")
    return name, inside


def split_percent(text: str) -> tuple[str, str | None]:
    r"""The command, and what it reads (None: nothing), of the last field of a line.

    >>> split_percent(r"date +\%d%one%two")
    ('date +%d', 'one\ntwo\n')
    """
    command: list[str] = []
    place = 0
    while place < len(text):
        character = text[place]
        if character == "%":
            return "".join(command), _lines(text[place + 1 :])
        if character == "\\" and text[place + 1 : place + 2] in ("%", "\\"):
            place += 1
            character = text[place]
        elif character == "\\" and place + 1 < len(text):  # any other stays as it is, its backslash too
            command.append(character)
            place += 1
            character = text[place]
        command.append(character)
        place += 1
    return "".join(command), None


def _lines(text: str) -> str:
    r"""What a command reads: % is a new line, \% a %, and the last line is a whole one."""
    made = re.sub(r"\\%|%", lambda found: "%" if found[0] == "\\%" else "\n", text)
    return made if not made or made.endswith("\n") else made + "\n"


def _when(text: str) -> tuple[str, str]:
    """The rule of a line, and the rest. Raises ValueError."""
    if text.startswith("@"):
        return _word(text)
    fields: list[str] = []
    rest = text
    while rest and len(fields) < _FIELDS:
        field, rest = _word(rest)
        fields.append(field)
    if len(fields) < _FIELDS:
        raise ValueError(f"it is neither NAME=value nor five fields and a command: it has {len(fields)} words")
    return " ".join(fields), rest


def _word(text: str) -> tuple[str, str]:
    """The first word, and what follows the blanks behind it."""
    parts = re.split(r"[ \t]+", text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""
