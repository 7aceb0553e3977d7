"""`main`: run a command, and end with the exit code that says how it went (`timewheel.cli.exits`)."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence

from timewheel.cli import exits, output
from timewheel.cli.exits import Exit
from timewheel.cli.parser import DISTRIBUTION, parser

_EXTRA = frozenset({"aiohttp", "fastapi", "prometheus_client", "pydantic", "rich", "starlette", "uvicorn", "yarl"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the process's exit code. Ends the process itself if a handler keeps it from ending."""
    code = _run(arguments)
    if exits.LEAVING.at_once:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = parser().parse_args(arguments)
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except Exit as end:
        output.say(f"timewheel: {end}")
        return end.code
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            return _unexpected()
        missing = f"this command needs {error.name}: pip install '{DISTRIBUTION}[serve]'"
        output.say(f"timewheel: {missing}")
        return exits.UNAVAILABLE
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except Exception:  # noqa: BLE001 - the last place that can turn an error into an exit code
        return _unexpected()


def _unexpected() -> int:
    traceback.print_exc()
    output.say("timewheel: this is an error of timewheel itself; the lines above say where")
    return exits.SOFTWARE
