"""Mutants that no test can find, each with its reason (survivors.toml)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.mutation.modules import MODULES
from tests.mutation.mutants import ROOT, Mutant


class Survivor(NamedTuple):
    """The changed line of a module, what it becomes, and why that is the same."""

    module: str
    was: str
    becomes: str
    why: str


class Survivors:
    """The table. A mutant is known by its lines: mutmut's numbers change with every edit."""

    def __init__(self, path: Path) -> None:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        self._entries = {
            (module, one["was"], one["becomes"]): Survivor(module, **one) for module in table for one in table[module]
        }
        unknown = [name for name in table if name not in MODULES]
        assert not unknown, f"{path.name}: no such module: {unknown}"
        unexplained = [entry for entry in self._entries.values() if not entry.why.strip()]
        assert not unexplained, f"{path.name}: say why: {unexplained}"

    def explains(self, mutant: Mutant) -> bool:
        """Whether the table says why no test finds it."""
        return (mutant.module, mutant.was, mutant.becomes) in self._entries

    def unknown(self, modules: set[str]) -> list[Survivor]:
        """Entries whose line does not stand in its module any more."""
        lines = {
            name: {line.strip() for line in (ROOT / MODULES[name].path).read_text(encoding="utf-8").splitlines()}
            for name in modules
        }
        return [
            entry
            for entry in self._entries.values()
            if entry.module in modules and entry.was not in lines[entry.module]
        ]
