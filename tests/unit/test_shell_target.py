"""`shell.run` with real commands: what each end means, what is kept of the output, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import select
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from timewheel.codec import MAX_RESULT_BYTES, dumps_result
from timewheel.targets import output, process, register
from timewheel.targets.command import Account, Wanted, environment_of
from timewheel.targets.output import HEAD_BYTES, TAIL_BYTES, Kept
from timewheel.targets.process import Launch, Process
from timewheel.targets.shell import ShellTarget
from timewheel.work.classify import Permanent, Transient
from timewheel.work.context import JobContext, enter, leave

LONG_S = 30.0
OWN = pwd.getpwuid(os.geteuid()).pw_name


@pytest_asyncio.fixture
async def shell() -> AsyncIterator[ShellTarget]:
    target = ShellTarget()
    token = enter(JobContext(1 << 40 | 7, 3, 0))
    yield target
    leave(token)
    await target.close()


@pytest.fixture(autouse=True)
def _leaves_no_child() -> Iterator[None]:
    """Whatever a test does, no command of it is left to be reaped, and no thread or descriptor."""
    descriptors = len(os.listdir("/proc/self/fd"))
    yield
    for thread in threading.enumerate():
        if thread.name == "timewheel-shell":
            thread.join(LONG_S)
            assert not thread.is_alive()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 6  # those of the event loop


async def output_of(target: ShellTarget, command: str, **more: Any) -> str:
    result = await asyncio.wait_for(target.run(command, **more), LONG_S)
    assert result["exit_code"] == 0
    text: str = result["output"]
    return text


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A pipe with a name: who reads it waits until a command has written to it."""
    path = tmp_path / "told"
    os.mkfifo(path)
    return path


async def numbers_of(told: Path) -> list[int]:
    """What a command writes into the pipe, once it has."""
    text = await asyncio.wait_for(asyncio.to_thread(told.read_text), LONG_S)
    return [int(word) for word in text.split()]


def notice_of(pid: int) -> int:
    """A descriptor that tells when a process ends, whoever's child it is."""
    return os.pidfd_open(pid)


async def gone(notice: int) -> None:
    """Wait until the process of a notice has ended."""
    poll = select.poll()
    poll.register(notice, select.POLLIN)
    assert await asyncio.to_thread(poll.poll, LONG_S * 1000), "it still runs"
    os.close(notice)


def lives(pid: int) -> bool:
    """Whether a process still runs; one that ended and is nobody's child any more does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ---- how it ends -----------------------------------------------------------------------------------------------------


async def test_success_keeps_both_outputs_in_their_order(shell: ShellTarget) -> None:
    assert await shell.run("echo one; echo two >&2; echo three") == {"exit_code": 0, "output": "one\ntwo\nthree\n"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo first; echo last words >&2; exit 3", "exit code 3: first\nlast words"),
        ("exit 75", "exit code 75, without output"),
        ("kill -KILL $$", "ended by SIGKILL, without output"),
        ("no-such-program-at-all", "exit code 127: /bin/sh:"),
    ],
)
async def test_another_end_is_a_failure_that_is_retried(shell: ShellTarget, command: str, said: str) -> None:
    with pytest.raises(Transient) as failure:
        await shell.run(command)
    assert str(failure.value).startswith(said)


async def test_the_error_of_a_failure_holds_the_end_of_a_long_output(shell: ShellTarget) -> None:
    with pytest.raises(Transient) as failure:
        await shell.run("seq 100000; exit 1")
    assert str(failure.value).endswith("\n99999\n100000")
    assert len(str(failure.value)) < 2_000


@pytest.mark.parametrize(
    "more",
    [
        {"shell": "/no/such/shell"},
        {"shell": "/etc/passwd"},
        {"cwd": "/no/such/folder"},
        {"cwd": "/etc/passwd"},
        pytest.param({"user": "no-such-user-at-all"}),
    ],
)
async def test_what_never_could_start_is_dead_at_once(shell: ShellTarget, more: dict[str, Any]) -> None:
    with pytest.raises(Permanent):
        await shell.run("true", **more)


# ---- what it gets ----------------------------------------------------------------------------------------------------


async def test_its_environment_is_small_and_holds_none_of_ours(
    shell: ShellTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "hunter2")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    found = dict(line.split("=", 1) for line in (await output_of(shell, "env", env={"MINE": "a = b"})).splitlines())
    assert found.items() >= {"MINE": "a = b", "PATH": "/usr/bin:/bin", "LOGNAME": OWN, "TZ": "Asia/Tokyo"}.items()
    assert found.items() >= {"TIMEWHEEL_JOB_ID": "job-0000100000007", "TIMEWHEEL_ATTEMPT": "3"}.items()
    ours = {"HOME", "USER", "SHELL", "LANG", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"}
    assert not found.keys() - ours - {"MINE", "PATH", "LOGNAME", "TZ", "TIMEWHEEL_JOB_ID", "TIMEWHEEL_ATTEMPT"}


def test_its_own_variables_replace_all_but_the_name_of_the_account() -> None:
    wanted = Wanted("true", {"HOME": "/h", "PATH": "/p", "LOGNAME": "root", "TZ": "UTC"}, "/bin/sh", None, None, None)
    found = environment_of(wanted, Account("me", 7, 7, "/home/me"), {"TZ": "Asia/Tokyo", "LANG": "C"}, "job-1", 1)
    assert found == {
        "HOME": "/h", "PATH": "/p", "LOGNAME": "me", "USER": "me", "SHELL": "/bin/sh", "LANG": "C", "TZ": "UTC",
        "TIMEWHEEL_JOB_ID": "job-1", "TIMEWHEEL_ATTEMPT": "1",
    }  # fmt: skip


async def test_it_reads_what_it_is_given_and_otherwise_nothing(shell: ShellTarget) -> None:
    assert await output_of(shell, "cat", stdin="line\nzwölf\n") == "line\nzwölf\n"
    assert await output_of(shell, "wc -c", stdin="x" * 300_000) == "300000\n"
    assert await output_of(shell, "cat") == ""
    assert await output_of(shell, "true", stdin="nobody reads this" * 10_000) == ""


async def test_its_folder_is_its_home_unless_told_otherwise(shell: ShellTarget, tmp_path: Path) -> None:
    assert await output_of(shell, "pwd", cwd=str(tmp_path)) == f"{tmp_path}\n"
    assert await output_of(shell, "pwd", env={"HOME": str(tmp_path)}) == f"{tmp_path}\n"
    assert await output_of(shell, "pwd", env={"HOME": "/no/such/home"}) == "/\n"


async def test_another_shell(shell: ShellTarget) -> None:
    assert await output_of(shell, 'echo "${BASH_VERSION:+yes} $SHELL"', shell="/bin/bash") == "yes /bin/bash\n"


async def test_naming_oneself_changes_nothing(shell: ShellTarget) -> None:
    assert await output_of(shell, "id -un", user=OWN) == f"{OWN}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run as another user")
async def test_root_may_run_as_another_user_with_his_groups_and_home(shell: ShellTarget) -> None:
    other = pwd.getpwnam("nobody")
    said = await output_of(shell, "id -u; id -g; id -G; echo $LOGNAME $HOME", user="nobody")
    assert said.split() == [str(other.pw_uid), str(other.pw_gid), str(other.pw_gid), "nobody", other.pw_dir]


async def test_others_may_not(shell: ShellTarget) -> None:
    shell._own = Account("somebody", 12345, 12345, "/")
    assert "only root" in (shell.fault_of("true", user="root") or "")
    with pytest.raises(Permanent, match="only root"):
        await shell.run("true", user="root")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": ""}, "command"),
        ({"command": 7}, "command"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "x" * 200_000}, "bytes"),
        ({"command": "\ud800"}, "UTF-8"),
        ({"env": {"A=B": "x"}}, "not a name"),
        ({"env": {"": "x"}}, "not a name"),
        ({"env": {"A": 7}}, "env: A"),
        ({"env": {"A": "a\0b"}}, "NUL"),
        ({"env": ["A"]}, "env"),
        ({"env": {str(number): "x" * 30_000 for number in range(10)}}, "at most"),
        ({"shell": "sh"}, "absolute"),
        ({"cwd": "here"}, "absolute"),
        ({"stdin": 7}, "stdin"),
        ({"user": ""}, "user"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused_before_and_when_it_runs(
    shell: ShellTarget, more: dict[str, Any], said: str
) -> None:
    arguments = {"command": "true", **more}
    assert said in (shell.fault_of(**arguments) or "")
    with pytest.raises(Permanent, match=said):
        await shell.run(**arguments)


# ---- what is kept ----------------------------------------------------------------------------------------------------


async def test_of_a_long_output_the_beginning_and_the_end_are_kept(shell: ShellTarget) -> None:
    result = await asyncio.wait_for(shell.run("seq 1000000"), LONG_S)
    whole = "".join(f"{number}\n" for number in range(1, 1_000_001))
    head, tail, cut = result["output"], result["output_end"], result["output_cut_bytes"]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + cut + len(tail) == len(whole)
    assert len(head) > 20_000
    assert len(tail) > 20_000
    assert dumps_result(result)[1] is None


@given(st.lists(st.one_of(st.binary(max_size=5_000), st.text(max_size=900).map(str.encode)), max_size=8), st.data())
def test_what_is_kept_fits_and_is_right(pieces: list[bytes], data: Any) -> None:
    times = data.draw(st.sampled_from([1, 40, 400]))
    kept = Kept()
    for piece in pieces * times:
        kept.add(piece)
    whole = b"".join(pieces) * times
    found = kept.output()
    result = {"exit_code": 0, "output": found.head, "output_cut_bytes": found.cut_bytes, "output_end": found.tail}
    assert len(orjson.dumps(result)) <= MAX_RESULT_BYTES
    if not found.cut_bytes:
        assert found.head == whole.decode("utf-8", "replace")
        assert found.tail == ""
    else:
        head, tail = found.head.encode(), found.tail.encode()
        if b"\xef\xbf\xbd" not in head + tail:  # text: then bytes can be compared
            assert whole.startswith(head)
            assert whole.endswith(tail)
            assert len(head) + found.cut_bytes + len(tail) == len(whole)
    if len(whole) <= HEAD_BYTES + TAIL_BYTES and output.json_bytes(whole.decode("utf-8", "replace")) <= 60_000:
        assert not found.cut_bytes


@pytest.mark.parametrize("before", range(9))
def test_a_character_is_never_cut_in_two(before: int) -> None:
    kept = Kept()
    text = "ä€𝄞" * 20_000
    kept.add(b"x" * before + text.encode() + b"y" * before)
    found = kept.output()
    assert found.cut_bytes
    assert "\ufffd" not in found.head + found.tail


# ---- stopping --------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_the_whole_group(shell: ShellTarget, told: Path) -> None:
    task = asyncio.create_task(shell.run(f"sleep 600 & echo $! $$ > {told}; wait"))
    notices = [notice_of(pid) for pid in await numbers_of(told)]
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LONG_S)
    assert time.monotonic() - began < process.KILL_AFTER_S
    for notice in notices:
        await gone(notice)


async def test_what_ignores_sigterm_is_killed(shell: ShellTarget, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.Process.stop, "__defaults__", (0.2,))
    task = asyncio.create_task(
        shell.run(f"trap '' TERM; (while :; do sleep 1; done) & echo $! $$ > {told}; wait; wait")
    )
    notices = [notice_of(pid) for pid in await numbers_of(told)]
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LONG_S)
    for notice in notices:
        await gone(notice)


@pytest.mark.parametrize("to", ["", "> /dev/null 2>&1"])
async def test_what_outlives_its_leader_is_killed_too(
    shell: ShellTarget, told: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.setattr(process.Process.stop, "__defaults__", (0.2,))
    child = f"trap '' TERM; echo $$ $PPID > {told}; while :; do sleep 1; done"
    task = asyncio.create_task(shell.run(f'sh -c "$CHILD" {to} & wait', env={"CHILD": child}))
    notices = [notice_of(pid) for pid in await numbers_of(told)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LONG_S)
    for notice in notices:
        await gone(notice)


async def test_a_handler_of_sigterm_gets_time_to_clean_up(shell: ShellTarget, told: Path, tmp_path: Path) -> None:
    done = tmp_path / "done"
    command = f"trap 'sleep 0.3; echo cleaned > {done}; exit 1' TERM; echo 1 > {told}; while :; do sleep 0.05; done"
    task = asyncio.create_task(shell.run(command))
    await numbers_of(told)
    for _ in range(3):  # further cancels do not shorten it, nor leave the command alone
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LONG_S)
    assert done.read_text() == "cleaned\n"


async def test_close_kills_what_still_runs(told: Path) -> None:
    target = ShellTarget()
    token = enter(JobContext(1, 1, 0))
    task = asyncio.create_task(target.run(f"trap '' TERM; echo $$ > {told}; while :; do sleep 0.1; done"))
    leave(token)
    [leader] = await numbers_of(told)
    await target.close()
    assert not lives(leader)
    with pytest.raises(Transient, match="SIGKILL"):
        await task


async def test_what_is_left_in_the_background_is_not_waited_for_and_left_alone(shell: ShellTarget, told: Path) -> None:
    running = asyncio.create_task(output_of(shell, f"sleep 600 & echo $! > {told}; echo started"))
    [left] = await numbers_of(told)
    assert await running == "started\n"
    assert lives(left)
    os.kill(left, signal.SIGKILL)


def test_one_that_was_stopped_before_it_began_never_begins(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = Process(lambda: Launch(["/bin/sh", "-c", f"echo > {mark}"], {}, "/", None, None))
    command.stop()
    with pytest.raises(InterruptedError):
        command.run()
    command.stop()  # harmless when it is over
    assert not mark.exists()


async def test_without_exit_notices_an_end_is_seen_all_the_same(
    shell: ShellTarget, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> int:
        raise OSError("not on this system")

    monkeypatch.setattr(os, "pidfd_open", none)
    running = asyncio.create_task(output_of(shell, f"sleep 600 & echo $! > {told}; echo started"))
    [left] = await numbers_of(told)
    assert await running == "started\n"
    os.kill(left, signal.SIGKILL)
    assert await output_of(shell, "exec >&- 2>&-; sleep 0.2") == ""


@pytest.mark.parametrize("lacks", ["descriptors", "threads"])
async def test_what_a_command_that_cannot_be_followed_took_is_given_back(
    shell: ShellTarget, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """Else a process that is out of descriptors, or of threads, for a moment would lose two for ever with each try."""
    assert await output_of(shell, "echo before") == "before\n"
    descriptors = len(os.listdir("/proc/self/fd"))
    pipe, calls = os.pipe, iter(range(100))

    def every_second() -> tuple[int, int]:
        if next(calls) % 2:
            raise OSError(errno.EMFILE, "too many open files")
        return pipe()

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        if lacks == "descriptors":
            patched.setattr(os, "pipe", every_second)
        else:
            patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(10):
            with pytest.raises(Transient, match="cannot be started"):
                await shell.run("true")
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert await output_of(shell, "echo after") == "after\n"


async def test_many_at_once(shell: ShellTarget) -> None:
    texts = await asyncio.gather(*(output_of(shell, f"sleep 0.1; echo {number}") for number in range(40)))
    assert texts == [f"{number}\n" for number in range(40)]


# ---- registered ------------------------------------------------------------------------------------------------------


def test_it_is_there_only_when_it_is_allowed() -> None:
    from timewheel.scheduler import Scheduler

    off, on, taken = Scheduler("memory://"), Scheduler("memory://"), Scheduler("memory://")
    targets = register(off, allow_http=())
    assert "shell.run" not in off.task_names()
    assert "--allow-shell" in targets.absent["shell.run"]
    targets = register(on, allow_http=(), allow_shell=True)
    assert "shell.run" in on.task_names()
    assert "shell.run" not in targets.absent
    assert targets.faults["shell.run"](["true"], {}) is None
    assert targets.faults["shell.run"]([], {}) is not None
    targets = register(taken, allow_http=(), allow_shell=True, taken=("shell.run",))
    assert (targets.shell, "shell.run" in targets.absent) == (None, False)
