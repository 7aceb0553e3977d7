"""Who may import whom, and which modules may act at all. The layers themselves stand in .importlinter."""

from __future__ import annotations

import ast
import configparser
import os
import re
import subprocess
import sys

# A module acts if it awaits, reads clocks, files or sockets, or starts threads. Everything that is not named here (or
# lies below a package named here) only decides, and so is tested without waiting. Keep the list short.
MAY_ACT = {
    "timewheel.__main__",
    "timewheel.cli",
    "timewheel.serve",
    "timewheel.targets",
    "timewheel.testing",
    "timewheel.scheduler",
    "timewheel.timetable",
    "timewheel.mending",
    "timewheel.repairs",
    "timewheel.replays",
    "timewheel.errand",
    "timewheel.operations",
    "timewheel.queue_keeper",
    "timewheel.guard_keeper",
    "timewheel.dependencies",
    "timewheel.retention",
    "timewheel.hooks",
    "timewheel.running",
    "timewheel.life",
    "timewheel.lists",
    "timewheel.supervisor",
    "timewheel.forks",
    "timewheel.desk",
    "timewheel.engine",
    "timewheel.housekeeper",
    "timewheel.job",
    "timewheel.standing",
    "timewheel.schedule",
    "timewheel.schedule_views",
    "timewheel.blocking",
    "timewheel.connect",
    "timewheel.verbs",
    "timewheel.waiters",
    "timewheel.alarm",
    "timewheel.system",
    "timewheel.tasks",
    "timewheel.replacing",
    "timewheel.planning.planner",
    "timewheel.planning.rounds",
    "timewheel.planning.edits",
    "timewheel.planning.by_hand",
    "timewheel.planning.calendars",
    "timewheel.planning.accountant",
    "timewheel.planning.roster",
    "timewheel.planning.writing",
    "timewheel.planning.custody",
    "timewheel.planning.ends",
    "timewheel.wheel.ticker",
    "timewheel.dispatch.dispatcher",
    "timewheel.work.worker",
    "timewheel.work.runner",
    "timewheel.store.committer",
    "timewheel.store.intake",
    "timewheel.store.aftermath",
    "timewheel.store.room",
    "timewheel.store.loader",
    "timewheel.store.sweep",
    "timewheel.store.recovery",
    "timewheel_storage.sqlite",
}
ACTS = re.findall(
    r"\w+",
    "_thread aiosqlite asyncio concurrent ctypes fcntl http multiprocessing os pathlib random secrets select selectors "
    "shutil signal socket sqlite3 ssl subprocess tempfile threading time urllib",
)
PURE_PARTS = {"pathlib.PurePath", "pathlib.PurePosixPath", "os.path.basename"}
CLOCKS = {"time", "random", "secrets"}
CLOCK_CALLS = re.compile(r"(^|\.)(datetime\.(now|utcnow|today)|date\.today|uuid[14]|urandom)$")
WAITS = re.compile(r"^asyncio\.(sleep|to_thread)$|\.run_in_executor$|loop(\(\))?\.time$")
OUTSIDE_THE_CORE = ("timewheel.cli", "timewheel.serve", "timewheel.targets", "timewheel.testing", "timewheel.__main__")
ADAPTERS_SEE = (
    "timewheel.store.port",
    "timewheel.store.changes",
    "timewheel.store.key_limits",
    "timewheel.store.letters",
    "timewheel.flow",
    "timewheel.schedule_records",
    "timewheel.model",
    "timewheel.errors",
)


def is_in(module: str, packages) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def test_contracts_of_import_linter_hold(root):
    """In a process of its own: import-linter configures logging, and so silences the loggers of other tests."""
    check = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "storage")])}
    done = subprocess.run([sys.executable, "-c", check], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_has_its_layer(root, core):
    config = configparser.ConfigParser()
    config.read(root / ".importlinter")
    layers = re.findall(r"timewheel[\w.]*", config["importlinter:contract:layers"]["layers"])
    free = ["timewheel.testing"]  # anyone's guest: nothing imports it (below)
    homeless = [
        source.name for source in core if source.path.name != "__init__.py" and not is_in(source.module, layers + free)
    ]
    assert not homeless, f"give these a layer in .importlinter: {homeless}"


def test_packages_of_stages_hold_only_a_docstring(core):
    """`timewheel.wheel` and its like are folders, not facades: whoever needs a thing names the module that has it."""
    exempt = OUTSIDE_THE_CORE
    full = [
        source.name
        for source in core
        if source.path.name == "__init__.py"
        and source.module != "timewheel"
        and not is_in(source.module, exempt)
        and source.imports()
    ]
    assert not full, full


def test_nothing_imports_testing(shipped):
    found = [
        f"{source.name}:{line} imports {name}"
        for source in shipped
        if not is_in(source.module, ["timewheel.testing"])
        for name, line in source.imports()
        if is_in(name, ["timewheel.testing"])
    ]
    assert not found, "\n".join(found)


def test_core_does_not_import_its_own_facade(core):
    """`from timewheel import X` inside the package is a circle waiting to happen."""
    modules = {source.module for source in core}
    found = [
        f"{source.name}:{line} imports {name}"
        for source in core
        if source.module != "timewheel" and not is_in(source.module, OUTSIDE_THE_CORE)
        for name, line in source.imports()
        if re.fullmatch(r"timewheel(\.\w+)?", name) and name not in modules - {"timewheel"}
    ]
    assert not found, "\n".join(found)


def test_adapters_see_only_the_port(adapters):
    found = [
        f"{source.name}:{line} imports {name}"
        for source in adapters
        for name, line in source.imports()
        if is_in(name, ["timewheel"]) and not is_in(name, ADAPTERS_SEE)
    ]
    assert not found, "\n".join(found)


def test_only_the_connection_knows_aiosqlite(shipped):
    found = [
        f"{source.name}:{line} imports {name}"
        for source in shipped
        if source.module != "timewheel_storage.sqlite.connection"
        for name, line in source.imports()
        if is_in(name, ["aiosqlite"])
    ]
    assert not found, "\n".join(found)


def test_deciders_do_not_act(shipped):
    found = []
    for source in shipped:
        if is_in(source.module, MAY_ACT):
            continue
        found += [
            f"{source.name}:{line} imports {name}, but {source.module} only decides"
            for name, line in source.imports(types_too=False)
            if is_in(name, ACTS) and name not in PURE_PARTS
        ]
        found += [
            f"{source.name}:{call.lineno} calls {name}, but {source.module} only decides"
            for name, call in source.calls()
            if name in ("open", "input") or CLOCK_CALLS.search(name)
        ]
    assert not found, "\n".join(found)


def test_only_system_reads_clocks_and_draws_lots(shipped):
    found = []
    for source in shipped:
        if is_in(source.module, (*OUTSIDE_THE_CORE, "timewheel.system")):
            continue
        found += [f"{source.name}:{line} imports {name}" for name, line in source.imports() if is_in(name, CLOCKS)]
        found += [
            f"{source.name}:{call.lineno} calls {name}" for name, call in source.calls() if CLOCK_CALLS.search(name)
        ]
    assert not found, "\n".join(found)


def test_the_core_waits_only_through_its_clock(shipped):
    found = [
        f"{source.name}:{call.lineno} calls {name}"
        for source in shipped
        if not is_in(source.module, (*OUTSIDE_THE_CORE, "timewheel.system"))
        for name, call in source.calls()
        if WAITS.search(name) and ast.unparse(call) != "asyncio.sleep(0)"  # one turn of the loop, no time
    ]
    assert not found, "\n".join(found)


def test_who_may_act_exists(shipped):
    gone = {name for name in MAY_ACT if not any(is_in(source.module, [name]) for source in shipped)}
    assert not gone, f"strike these off MAY_ACT: {sorted(gone)}"
