"""Records the calls of one life: `python -m tests.crash.power_record HOME LIFE [--durability D] [--failing-sync K]`.

Run by power.py with the shim loaded. HOME/journal is the journal's folder; what was told and the log lie beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from tests.crash import iolives, shim
from timewheel_storage.sqlite import connection

UNSAFE = "off"  # the control: a durability that the product does not offer


def main() -> int:
    """Live, and end with the life's code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("life")
    parser.add_argument("--durability", default="power")
    parser.add_argument("--failing-sync", type=int, default=0)
    parser.add_argument("--leave-holes", action="store_true", help="do not make the log certain")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.durability == UNSAFE:
        connection.SYNCHRONOUS["power"] = 0
    if given.leave_holes:
        connection.make_certain = lambda *_: None
    if given.life == "migration":
        iolives.update_to_come()
    journal, told = given.home / "journal", given.home / "told"
    page = shim.Page()
    if given.failing_sync:
        fault = shim.Fault("failing sync", 3, 1, (shim.Operation.SYNC,))
        shim.arm(journal, page, fault, given.failing_sync)
    shim.record(journal, told, given.home / "log")
    durability = "process" if given.durability == "process" else "power"
    life = iolives.live(given.life, journal / "jobs.db", told, durability=durability)
    code = asyncio.run(life)
    (given.home / "hit").write_text(page.hit)
    return code


if __name__ == "__main__":
    sys.exit(main())
