"""The options of `dependencies`."""

from __future__ import annotations

from typing import Any

from timewheel.cli.parser_repairs import add_who
from timewheel.cli.parsing import Parser, run_later, verb

_FORCES = {
    "open": ("open_breakers", "let none of their jobs start, until `auto` or `close`"),
    "close": ("close_breakers", "let all of their jobs start, however many fail, until `auto` or `open`"),
    "auto": ("free_breakers", "let their breakers go by themselves again, beginning closed"),
}


def add(commands: Any) -> None:
    """Add it."""
    about = "breakers and retry budgets of what tasks depend on"
    dependencies = commands.add_parser("dependencies", help=about, description=about, allow_abbrev=False)
    verbs = dependencies.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    verb(verbs, "ls", "how the dependencies stand", _later("list_dependencies"))
    show = verb(verbs, "show", "dependencies in full, with what became of their breakers", _later("show_dependencies"))
    show.add_argument("dependency", nargs="+")
    history = verb(verbs, "history", "what became of a breaker, the newest 100 first", _later("show_history"))
    history.add_argument("dependency")
    for name, (function, text) in _FORCES.items():
        command = verb(verbs, name, text, _later(function))
        command.add_argument("dependency", nargs="+")
        add_who(command)


def _later(function: str) -> Any:
    return run_later("timewheel.cli.dependencies", function)
