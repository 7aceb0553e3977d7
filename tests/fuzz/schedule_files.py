"""What the readers of crontabs and of files of schedules must hold, as a function of bytes (see targets.py)."""

from __future__ import annotations

import json

from timewheel.cli.crontab import Format, TooLarge, read
from timewheel.cli.crontab_schedules import schedules_of
from timewheel.cli.desired import NotDesired
from timewheel.cli.desired import read as read_desired
from timewheel.targets.command import Wanted, fault_of_command

SEEDS = [
    b'SHELL=/bin/bash\nMAILTO="a b"\n*/5 * * * * root cd / && run-parts --report /etc/cron.hourly\n@reboot root x\n',
    b"CRON_TZ=Asia/Tokyo\nTZ=UTC\nRANDOM_DELAY=5\n0 9 1,15 * mon-fri me date +\\%d%one%two\\\\%\n",
    b"'A B' = 'c'  \n@daily me [ -x /a ] && if [ ! -d /b ]; then /c; fi\r\n61 * * * * me x\n",
    b'[[calendar]]\nname = "bank"\nexclude = [2026-12-25, [2026-12-28, 2026-12-31]]\nweekend = ["fri"]\n',
    b'[[schedule]]\nid = "x"\nevery = "1.5h"\nargs = [1, {a = [true, 1e3]}]\nstart = 2026-01-05T00:00:00Z\n',
]


def schedule_files(data: bytes) -> None:
    """Every line of a crontab is accounted for once, and what becomes a schedule is JSON that shell.run can judge."""
    for system in (True, False):
        try:
            crontab = read(data, Format(system, "Europe/Berlin", None, lambda user: user in ("root", "me")))
        except TooLarge:
            return
        lines = [entry.line for entry in crontab.entries] + [left.line for left in crontab.left]
        assert len(set(lines)) == len(lines)
        made = schedules_of("crontab", crontab.entries, {}, set())
        assert len({schedule["id"] for schedule in made}) == len(made)
        for schedule in made:
            json.dumps(schedule, allow_nan=False).encode()
            _judge(schedule["args"][0], **schedule["kwargs"])
    try:
        desired = read_desired(data.decode("utf-8", "replace"))
    except NotDesired:
        return
    json.dumps([desired.calendars, desired.schedules], allow_nan=False).encode()


def _judge(command: str, env: object = None, shell: str = "/bin/sh", stdin: object = None, user: object = None) -> None:
    fault_of_command(Wanted(command, env or {}, shell, stdin, user, None))  # type: ignore[arg-type]  # whatever came
