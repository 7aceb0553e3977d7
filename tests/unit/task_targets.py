"""Targets of the tests of the task registry: everything people hand to a scheduler."""

from __future__ import annotations

import functools


def plain(a, b=1, /, c=2, *, d=3):
    return a, b, c, d


async def coroutine(a):
    return a


def generator(a):
    yield a


async def async_generator(a):
    yield a


nameless = lambda: None  # noqa: E731


def outer():
    def inner():
        return None

    return inner


def closure(value):
    def handler():
        return value

    return handler


class Service:
    def method(self, a):
        return a

    async def async_method(self, a):
        return a

    @classmethod
    def build(cls):
        return cls

    @staticmethod
    def static(a):
        return a


class Child(Service):
    pass


service = Service()


class AsyncCallable:
    async def __call__(self, a):
        return a


class SyncCallable:
    def __call__(self, a):
        return a


class GeneratorCallable:
    def __call__(self, a):
        yield a


class Unhashable(SyncCallable):
    __hash__ = None  # type: ignore[assignment]


def wrapped(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


@wrapped
def sync_in_wrapper(a):
    return a


@wrapped
async def async_in_wrapper(a):
    return a


def injected(fn):
    @functools.wraps(fn)
    def wrapper(a):
        return fn("database", a)

    return wrapper


@injected
def with_database(database, a):
    return database, a


@functools.lru_cache
def cached(a):
    return a


replaced = plain


def shadowed():
    return 1


first_shadowed = shadowed


def shadowed():
    return 2
