"""README.md as parts that can be tested: its fenced blocks, its programs, its tables, its links.

A program is a Python block and the blocks that go on from it. What a reader does not see stands in comments:

    <!-- example: continues -->      the next Python block goes on from the program before it
    <!-- example: prints -->         the next block is what the program before it has printed
    <!-- example: then               what is tried after the program before it
    CODE
    -->

A program that awaits at its top level runs on a loop of its own; any other one runs as it stands.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_FENCE = re.compile(r"```(\w*)")
_NOTE = re.compile(r"<!-- (\w+): ?([\w ]+?)(?: -->)?")


class Block(NamedTuple):
    """A fenced block, or the code in a comment; `line` is where its first line stands; `notes` are those above it."""

    language: str
    text: str
    line: int
    notes: frozenset[str]


@dataclass
class Program:
    """Blocks that run one after another in one namespace; `prints` is what must have been printed at the end."""

    blocks: list[Block]
    prints: str | None = None
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "readme_example"})

    @property
    def name(self) -> str:
        """Where it begins."""
        return f"line {self.blocks[0].line}"

    def run(self) -> None:
        """Run all of it; a failure shows the line of the README."""
        parts = [self._code(block) for block in self.blocks]
        if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
            asyncio.run(self._run_on_a_loop(parts))
        else:
            for part in parts:
                types.FunctionType(part, self.namespace)()

    async def _run_on_a_loop(self, parts: list[types.CodeType]) -> None:
        for part in parts:
            outcome = types.FunctionType(part, self.namespace)()
            if part.co_flags & inspect.CO_COROUTINE:
                await outcome

    @staticmethod
    def _code(block: Block) -> types.CodeType:
        tree = ast.parse(block.text, README.name)
        ast.increment_lineno(tree, block.line - 1)
        return compile(tree, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks_of(text: str) -> list[Block]:
    """The blocks, in order."""
    found: list[Block] = []
    notes: set[str] = set()
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        fence, note = _FENCE.fullmatch(line), _NOTE.fullmatch(line)
        if fence is not None:
            found.append(Block(fence[1], _until(lines, "```"), number + 1, frozenset(notes)))
            notes.clear()
        elif note is not None and line.endswith("-->"):
            notes.add(f"{note[1]}: {note[2]}")
        elif note is not None:
            found.append(Block("python", _until(lines, "-->"), number + 1, frozenset({"example: continues"})))
        elif line.strip():
            notes.clear()
    return found


def _until(lines: Iterator[tuple[int, str]], end: str) -> str:
    taken = []
    for _, line in lines:
        if line == end:
            return "\n".join(taken) + "\n"
        taken.append(line)
    raise AssertionError(f"README.md ends inside a block that began with {taken[:1]}")


def programs_of(blocks: list[Block]) -> list[Program]:
    """The programs, in order."""
    found: list[Program] = []
    for block in blocks:
        if "example: prints" in block.notes:
            found[-1].prints = block.text
        elif block.language == "python" and "example: continues" in block.notes:
            found[-1].blocks.append(block)
        elif block.language == "python":
            found.append(Program([block]))
    return found


def commands_of(blocks: list[Block]) -> list[str]:
    """Every command of the shell blocks, lines that end in a backslash joined."""
    shell = [block.text.replace("\\\n", " ") for block in blocks if block.language == "sh"]
    return [line.strip() for text in shell for line in text.splitlines() if line.strip()]


def row_of(text: str, label: str) -> str:
    """The rest of the table row whose first cell is `label`."""
    found = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", text, re.MULTILINE)
    assert len(found) == 1, f"README.md has {len(found)} table rows {label!r}"
    return str(found[0])


def section_of(text: str, title: str) -> str:
    """A section, from its heading to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert found is not None, f"README.md has no section {title!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", _without_code(rest), re.MULTILINE)
    return rest if end is None else rest[: end.start()]


def anchors_of(text: str) -> set[str]:
    """What a link within the page may name: the headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", _without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(text: str) -> list[str]:
    """The targets of the links."""
    return re.findall(r"\]\(([^)\s]+)\)", _without_code(text))


def _without_code(text: str) -> str:
    """The text with its fenced blocks blanked, every place kept."""
    return re.sub(r"^```.*?^```$", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.MULTILINE | re.DOTALL)
