"""A limit on everything, the code too. Who is above a limit stands in excused.toml, with the reason."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

MOST_LINES = 60  # of any function
FEW_LINES = 25  # of nearly every function
SHARE_ABOVE_FEW = 0.10  # how many functions may be above FEW_LINES: lower it when you can, never raise it
MOST_ARGUMENTS = 8
MOST_LINES_OF_A_FILE = 250

EXCUSED = tomllib.loads(Path(__file__).with_name("excused.toml").read_text(encoding="utf-8"))


def functions(source):
    """Every function of the file as (`path::Class.function`, node); a nested one also counts for the outer one."""
    waiting = [(source.tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}{child.name}" if hasattr(child, "name") and isinstance(child.name, str) else ""
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{source.name}::{name}", child
            waiting.append((child, f"{name}." if isinstance(child, NAMED) else prefix))


NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of(function) -> int:
    """Lines from `def` on, without decorators and docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.end_lineno - function.lineno + 1 - (first.end_lineno - first.lineno + 1 if documented else 0)


def arguments_of(function) -> int:
    """Parameters a caller can give, `*args` and `**options` as one each; the instance does not count."""
    signature = function.args
    named = [one.arg for one in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)]
    several = [one for one in (signature.vararg, signature.kwarg) if one]
    return len(named) + len(several) - (named[:1] in (["self"], ["cls"]))


def check(measured: dict[str, int], limit: int, kind: str) -> None:
    """Nobody above the limit without an excuse, and no excuse without a need."""
    excused = EXCUSED[kind]
    above = {name: size for name, size in measured.items() if size > limit}
    unit = "arguments" if kind == "arguments" else "lines"
    wrong = [f"{name}: {size} {unit}, at most {limit}" for name, size in above.items() if name not in excused]
    wrong += [f"{name} needs no excuse any more: strike it off [{kind}]" for name in excused if name not in above]
    wrong += [f"{name}: say why in excused.toml" for name, reason in excused.items() if not str(reason).strip()]
    assert not wrong, "\n".join(wrong)


def test_functions_are_short(shipped):
    check({name: lines_of(node) for source in shipped for name, node in functions(source)}, MOST_LINES, "lines")


def test_functions_take_few_arguments(shipped):
    sizes = {name: arguments_of(node) for source in shipped for name, node in functions(source)}
    check(sizes, MOST_ARGUMENTS, "arguments")


def test_files_are_short(shipped):
    check({source.name: len(source.lines) for source in shipped}, MOST_LINES_OF_A_FILE, "files")


def test_most_functions_are_very_short(shipped):
    sizes = {name: lines_of(node) for source in shipped for name, node in functions(source)}
    long = {name: size for name, size in sizes.items() if size > FEW_LINES}
    allowed = int(len(sizes) * SHARE_ABOVE_FEW)
    worst = sorted(long.items(), key=lambda item: -item[1])
    assert len(long) <= allowed, f"{len(long)} functions above {FEW_LINES} lines, at most {allowed}: {worst}"
