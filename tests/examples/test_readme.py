"""README.md tells the truth: its examples run, its commands exist, its tables agree with the code."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from readme_blocks import README, ROOT, Program, anchors_of, blocks_of, commands_of, links_of, programs_of, row_of
from readme_blocks import section_of as section

import timewheel
from timewheel import codec, errors, model, options, policies, tagged, tasks
from timewheel.cli import exits
from timewheel.cli.parser import parser
from timewheel.serve import guard, inputs, jobs
from timewheel.serve.app import create_app
from timewheel.serve.metrics import Metrics
from timewheel.store import backlog, changes, intake, loader
from timewheel.wheel import level

TEXT = README.read_text(encoding="utf-8")
BLOCKS = blocks_of(TEXT)
PROGRAMS = programs_of(BLOCKS)
COMMANDS = commands_of(BLOCKS)
MIB = 1 << 20


# ---- examples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_example_runs(program: Program, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program.run()
    if program.prints is not None:
        assert capsys.readouterr().out == program.prints


def test_a_broken_example_is_noticed(tmp_path, monkeypatch):
    """The test of the test: each of these ways to be wrong makes a program fail."""
    monkeypatch.chdir(tmp_path)
    page = "```python\nx = 1\n```\n<!-- example: continues -->\n```python\n{}\n```\n"
    for wrong in ("assert x == 2", "x.nothing", "from timewheel import Nothing", "await later()", "x ="):
        (program,) = programs_of(blocks_of(page.replace("{}", wrong)))
        with pytest.raises((AssertionError, AttributeError, ImportError, NameError, SyntaxError)):
            program.run()
    (program,) = programs_of(blocks_of(page.replace("{}", "assert x == 1")))
    program.run()


def test_every_python_block_is_tried():
    written = TEXT.count("```python\n") + TEXT.count("<!-- example: then\n")
    assert sum(len(program.blocks) for program in PROGRAMS) == written
    assert {block.language for block in BLOCKS} <= {"python", "sh", "text", "json"}


# ---- the shell -------------------------------------------------------------------------------------------------------


def test_commands_of_timewheel_exist():
    ours = [command for command in COMMANDS if "-m timewheel" in command]
    assert ours
    for command in ours:
        arguments = shlex.split(command.rpartition("-m timewheel")[2])
        assert parser().parse_args(arguments).run, command


def test_every_option_of_serve_is_mentioned():
    text = section(TEXT, "serve")
    missing = [name for name in vars(parser().parse_args(["serve"])) if f"--{name.replace('_', '-')}" not in text]
    assert missing == ["run"]


def test_other_commands_exist():
    steps = (ROOT / ".ci/steps.py").read_text(encoding="utf-8")
    for command in COMMANDS:
        for module in re.findall(r"-m (benchmarks[.\w]*)", command):
            assert importlib.util.find_spec(module), command
        for path in re.findall(r"(?:\.ci|tests)/\w+", command):
            assert (ROOT / path).exists(), command
        for step in re.findall(r"--only (\S+)", command):
            assert all(f'"{name}"' in steps for name in step.split(",")), command
        for extra in re.findall(r"\.\[(\w+)\]", command):
            assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8"), command
    for name in ("serve", "curl", "tests"):
        assert len(re.findall(rf"^<!-- ci:{name} -->\n```sh\n", TEXT, re.MULTILINE)) == 1, name


def paths() -> dict[str, Any]:
    documented: dict[str, Any] = create_app(timewheel.Scheduler("memory://")).openapi()["paths"]
    return documented


def test_urls_of_curl_exist():
    known = [re.sub(r"\{\w+\}", r"[\\w$-]+", path) for path in paths()]
    urls = [url for command in COMMANDS for url in re.findall(r"http://127\.0\.0\.1:8400(/[^'\"\s?]*)", command)]
    assert urls
    for url in urls:
        assert any(re.fullmatch(path, url) for path in known), url


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
async def test_the_curl_shows_the_lag_of_a_job_that_ran(tmp_path):
    """Against a server on a port of its own, and quicker than on the page: .ci/run tries the very commands."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'storage'}"}
    arguments = ("-m", "timewheel", "serve", "--port", "0")
    server = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        line = (await asyncio.wait_for(server.stderr.readline(), 60)).decode()
        address = re.search(r"127\.0\.0\.1:\d+", line)
        assert address is not None, line
        (curl,) = (block.text for block in BLOCKS if "ci: curl" in block.notes)
        script = curl.replace("127.0.0.1:8400", address[0]).replace('"delay_s": 2', '"delay_s": 0.2')
        shell = await asyncio.create_subprocess_exec("sh", "-euc", script, stdout=asyncio.subprocess.PIPE)
        output, _ = await asyncio.wait_for(shell.communicate(), 60)
    finally:
        server.send_signal(signal.SIGTERM)
        await server.communicate()
    assert (shell.returncode, server.returncode) == (0, 0)
    assert b'"state": "SUCCEEDED"' in output
    assert re.search(rb'"start_lag_ms": [\d.]+', output)


# ---- names -----------------------------------------------------------------------------------------------------------


def code() -> str:
    """Everything on the page that is set as code."""
    return "\n".join([*(block.text for block in BLOCKS), *re.findall(r"`([^`\n]+)`", TEXT)])


def test_every_public_name_is_mentioned():
    words = set(re.findall(r"\w+", code()))
    assert [name for name in timewheel.__all__ if name not in words] == []


def test_every_error_has_its_row():
    text = section(TEXT, "Errors")
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TimewheelError)]
    public = {kind.__name__ for kind in kinds if not kind.__name__.startswith("_")}
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", text, re.MULTILINE))))
    assert rows == public - {"TimewheelError"}


def test_the_options_are_those_of_the_code():
    table = re.findall(r"^\| (`[^|]*) \| (yes|no) \| (yes|no) \|", section(TEXT, "Schedule"), re.MULTILINE)
    rows = [(name, *places) for names, *places in table for name in re.findall(r"`(\w+)`", names)]
    assert {name for name, on_job, _ in rows if on_job == "yes"} == options.ONE_SHOT_NAMES
    assert {name for name, _, on_task in rows if on_task == "yes"} == options.TASK_NAMES


def test_the_states_are_those_of_the_code():
    text = section(TEXT, "Look, wait, change")
    for name in [*model.JobState, *timewheel.CancelAnswer.__members__, *timewheel.RescheduleAnswer.__members__]:
        assert re.search(rf"\b{name}\b", text), name


def test_the_endpoints_are_those_of_the_code():
    table = "\n".join(re.findall(r"^\| `.*", section(TEXT, "serve"), re.MULTILINE))
    rows = set(re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /\S+)`", table))
    assert rows == {
        "GET /openapi.json",
        *(f"{method.upper()} {path}" for path, methods in paths().items() for method in methods),
    }


def test_the_exit_codes_are_those_of_the_code():
    named = re.findall(r"`(\d+)`", section(TEXT, "serve").partition("**Exit codes.**")[2])
    assert named == re.findall(r"^(\d+) ", exits.__doc__ or "", re.MULTILINE)


async def test_the_metrics_are_those_of_the_code(tmp_path):
    async with timewheel.Scheduler(f"sqlite:///{tmp_path}/jobs.db") as scheduler:
        metrics = Metrics(scheduler)
        shown = (await metrics.text()).decode()
        metrics.close()
    known = set(re.findall(r"^# TYPE (timewheel_\w+)", shown, re.MULTILINE))
    assert set(re.findall(r"\btimewheel_\w+", section(TEXT, "serve"))) == known
    stage = section(TEXT, "When to move to the next stage")
    assert set(re.findall(r"\btimewheel_\w+", stage)) <= known


# ---- numbers ---------------------------------------------------------------------------------------------------------


def default(name: str) -> Any:
    return inspect.signature(timewheel.Scheduler).parameters[name].default


ROWS = {
    "arguments of a call": [f"{codec.MAX_CALL_BYTES // MIB} MiB", f"{tagged.MAX_DEPTH} levels"],
    "result of a handler": [f"{codec.MAX_RESULT_BYTES // 1024} KiB"],
    "types": [kind.__name__ for kind in tagged._SUPPORTED],
    "names": [f"task {tasks.MAX_NAME} ", f"tag {options.MAX_NAME},", f"key {options.MAX_KEY};"],
    "`concurrency`": [f"{default('concurrency')} jobs", f"1 to {policies.MAX_CONCURRENCY:,}"],
    "`threads`": [f"{default('threads')} sync", "1 to 1,000"],
    "`Rate`": [f"{policies.MAX_RATE_PER_S:,}"],
    "submissions waiting for the journal": [f"{intake.QUEUE_LIMIT:,}"],
    "one commit": [f"{backlog.BATCH_CHANGES:,} changes", f"{backlog.BATCH_BYTES // MIB} MiB"],
    "a page of a list": ["100 jobs", f"{inputs.PAGE_JOBS:,}"],
    "pending jobs": [
        f"{loader.HORIZON_US // 60_000_000} minutes",
        f"{loader.LANE_LIMIT:,} a lane",
        f"{level.ENTRY_BYTES} bytes",
    ],
}


@pytest.mark.parametrize("label", ROWS)
def test_a_limit_is_that_of_the_code(label):
    row = row_of(section(TEXT, "Limits"), label)
    assert [number for number in ROWS[label] if number not in row] == []


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Limits", f"{options.MAX_TAGS} tags a job"),
        ("The contract", f"until {changes.KEY_KEEPING_US // 86_400_000_000} days after the job is final"),
        ("Attempts that end badly", f"A job may lose {model.LAST_CHANCE_LOSSES}\n"),
        ("Fail and retry", f"`max_attempts={timewheel.Retry().max_attempts}`"),
        ("Fail and retry", f"`base_s={timewheel.Retry().base_s}`"),
        ("Fail and retry", f"`factor={timewheel.Retry().factor}`"),
        ("Fail and retry", f"`cap_s={timewheel.Retry().cap_s}`"),
        ("Fail and retry", f"`jitter={timewheel.Retry().jitter}`"),
        ("Queues, rates, pause", f"concurrency={default('concurrency')}"),
        ("Sync handlers and other threads", f"threads={default('threads')}"),
        ("Schedule", f"{model.DEFAULT_PRIORITY} without one"),
        ("serve", f"Bodies may have {guard.BODY_BYTES // MIB} MiB (a batch {jobs.BATCH_BYTES // MIB} MiB)"),
        ("serve", f"{guard.REQUESTS_AT_ONCE:,} requests are"),
        ("serve", f"up to {inputs.BATCH_JOBS:,}"),
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(title, said):
    assert said in section(TEXT, title)


# ---- the page itself -------------------------------------------------------------------------------------------------


def test_links_lead_somewhere():
    anchors = anchors_of(TEXT)
    assert links_of(TEXT)
    for link in links_of(TEXT):
        assert link[1:] in anchors if link.startswith("#") else (ROOT / link.partition("#")[0]).exists(), link


def test_paths_that_are_named_exist():
    tables = section(TEXT, "How to change it")
    for name in re.findall(r"`((?:\w+/)*\w+(?:\.py|\.toml|/))`", tables):
        places = [ROOT / name, ROOT / "timewheel" / name, ROOT / "storage/timewheel_storage" / name]
        assert any(Path(place).exists() for place in places), name


def test_the_page_is_short():
    """Nine minutes: the tables that commands print do not count."""
    text = re.sub(r"<!-- (benchmarks|proof):begin -->.*<!-- \1:end -->", "", TEXT, flags=re.DOTALL)
    assert len(text.splitlines()) <= 880
