"""The source files as syntax trees, for the tests of the house's rules."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file of the project."""

    path: Path
    root: Path  # the folder on the import path that it is found through

    @property
    def name(self) -> str:
        """The path as people write it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The dotted name it is imported by."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.name)

    @cached_property
    def run_time_nodes(self) -> list[ast.AST]:
        """Every node except what stands under `if TYPE_CHECKING:`."""
        found: list[ast.AST] = []
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            found.append(node)
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                waiting.extend(node.orelse)
            else:
                waiting.extend(ast.iter_child_nodes(node))
        return found

    def imports(self, *, types_too: bool = True) -> list[tuple[str, int]]:
        """What is imported: full dotted names (`from a import b` counts as a.b), and the line."""
        found = []
        for node in ast.walk(self.tree) if types_too else self.run_time_nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    package = self.module.split(".")
                    keep = len(package) - node.level + (self.path.name == "__init__.py")
                    base = ".".join([*package[:keep], *([base] if base else [])])
                found += [(f"{base}.{alias.name}", node.lineno) for alias in node.names]
        return found

    def calls(self) -> list[tuple[str, ast.Call]]:
        """What is called, as written (`time.sleep`), and the call."""
        return [(ast.unparse(node.func), node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]


def _under(folder: str, root: str = ".") -> list[Source]:
    return [Source(path, (ROOT / root).resolve()) for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.fixture(scope="session")
def core() -> list[Source]:
    """Every module of the package `timewheel`."""
    return _under("timewheel")


@pytest.fixture(scope="session")
def adapters() -> list[Source]:
    """Every module of `timewheel_storage`."""
    return _under("storage", "storage")


@pytest.fixture(scope="session")
def shipped(core: list[Source], adapters: list[Source]) -> list[Source]:
    """Every module that is installed."""
    return core + adapters


@pytest.fixture(scope="session")
def tests() -> list[Source]:
    """Every file of tests."""
    return _under("tests")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT
