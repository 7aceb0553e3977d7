"""Small disks of a process's own: a tmpfs in a mount namespace that ends with it. Needs root and `unshare`."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

SCRIPT = 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"'


def on_a_disk_of(size: str, folder: Path) -> tuple[str, ...]:
    """What to put before a command, so that `folder` is such a disk for it."""
    return ("unshare", "--mount", "sh", "-c", SCRIPT, size, str(folder))


def inside(pid: int, folder: Path) -> Path:
    """The folder as the process sees it."""
    return Path(f"/proc/{pid}/root{folder}")


@cache
def why_not() -> str:
    """Why there are no such disks here; empty when there are."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "needs unshare, as root"
    tried = subprocess.run([*on_a_disk_of("64k", Path("/mnt")), "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


def fill(folder: Path) -> None:
    """Use every block that is left, down to the last."""
    with (folder / "rest").open("ab", buffering=0) as rest:
        try:
            while True:
                rest.write(bytes(4096))
        except OSError:
            return
