"""`verify`: the offline audit of a journal. It only reads, so it may run beside the journal's owner."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from timewheel.cli import output
from timewheel.cli.exits import DATA, OK, Exit, code_of
from timewheel.connect import audit
from timewheel.errors import JournalError

SHOWN = 100


def verify(options: Namespace) -> int:
    """Print what is wrong with the journal; 65 when anything is."""
    path = Path(options.db)
    if not path.exists():
        raise Exit(DATA, f"{path} does not exist: name the journal with --db")
    try:
        findings = audit(str(path))
    except JournalError as error:
        raise Exit(code_of(error, starting=True), str(error)) from error
    if options.json:
        output.json_line({"path": str(path), "findings": findings})
        return DATA if findings else OK
    for finding in findings[:SHOWN]:
        output.result(finding)
    if len(findings) > SHOWN:
        output.say(f"... and {len(findings) - SHOWN} more; --json lists them all")
    output.say(f"{path}: {len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'}")
    return DATA if findings else OK
