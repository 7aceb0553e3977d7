"""Names in a request that its models do not have: what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_type_hints

from timewheel.misfits import instead
from timewheel.serve.inputs import Given

Models = tuple[type[Given], ...]
_PARTS = ("body", "query")


def models_of(endpoint: Any) -> Models:
    """The models that the handler of a path takes."""
    return _taken_by(getattr(endpoint, "__func__", endpoint))


@functools.cache
def _taken_by(function: Any) -> Models:
    hints = get_type_hints(function, include_extras=True)
    return tuple(model for name, hint in hints.items() if name != "return" for model in _within(hint))


def there_is_no(location: Sequence[Any], models: Models) -> str:
    """What to say of an unknown member or parameter at this place of a request that was to fit one of the models."""
    kind = "parameter" if location[:1] == ("query",) else "field"
    *steps, name = location[1:] if location[:1] and location[0] in _PARTS else location
    for step in steps:  # a branch of a union, or the number of an item, leads nowhere else
        models = tuple(_below(models, step)) or models
    for model in models:
        if name in model.not_here:
            return model.not_here[name]
    told = f"; {instead(name, {field for model in models for field in _names(model)})}" if models else ""
    return f"there is no such {kind}{told}"


def _names(model: type[Given]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def _below(models: Iterable[type[Given]], step: Any) -> Iterator[type[Given]]:
    for model in models:
        for name, field in model.model_fields.items():
            if step == (field.alias or name):
                yield from _within(field.annotation)


def _within(annotation: Any) -> Iterator[type[Given]]:
    """The models that an annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, Given):
        yield annotation
    for part in get_args(annotation):
        yield from _within(part)
