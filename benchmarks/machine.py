"""What the benchmarks ask of the machine: what it is, its loop, a folder for journals, its memory, its fsync."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

T = TypeVar("T")
MIB = 1 << 20


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, when it is installed; otherwise None, asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fresh loop, uvloop where it is installed, with nothing left for the collector before."""
    gc.collect()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def describe(folder: Path) -> dict[str, object]:
    """The machine, as far as it bears on the numbers. `load` is the load average when this was asked."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "uvloop": version_of("uvloop"),
        "filesystem": _filesystem(folder),
    }


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _filesystem(folder: Path) -> str:
    """The type of the file system that holds the folder."""
    here = folder.resolve()
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    holding = [(len(mount[1]), mount[2]) for mount in mounts if here.is_relative_to(mount[1])]
    return max(holding)[1] if holding else "unknown"


@contextmanager
def folder_in(parent: str | None) -> Iterator[Path]:
    """A new folder for journals, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="timewheel-benchmarks-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def memory_mib(which: str) -> float:
    """VmRSS (resident now) or VmHWM (at its highest) of this process, in MiB."""
    found = re.search(rf"^{which}:\s*(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None, f"/proc/self/status has no {which}"
    return int(found[1]) / 1024


def forget_peak() -> None:
    """Begin a new VmHWM of this process at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def fsync_us(folder: Path, samples: int) -> list[int]:
    """How long appending 4 KiB and fdatasync took, each time, in microseconds."""
    block = os.urandom(4096)
    path = folder / "fsync"
    took = []
    with path.open("ab", buffering=0) as file:
        for _ in range(samples):
            began = perf_counter_ns()
            file.write(block)
            os.fdatasync(file.fileno())
            took.append((perf_counter_ns() - began) // 1000)
    path.unlink()
    return took


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]


def child(module: str, *arguments: str) -> str:
    """Run `python -m module` in a process of its own; what it printed. Its standard error is ours."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout


def arguments(docstring: str | None) -> argparse.Namespace:
    """The options every benchmark takes."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes: to see that it works, not what it costs")
    size.add_argument("--full", action="store_true", help="large sizes")
    parser.add_argument("--dir", metavar="FOLDER", help="where to put the journals (default: the system's)")
    return parser.parse_args()


def print_rows(rows: Sequence[dict[str, object]]) -> None:
    """Print rows of equal keys under their names."""
    widths = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in rows[0]}
    print("  ".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in rows:
        print("  ".join(f"{row[name]!s:>{width}}" for name, width in widths.items()))
