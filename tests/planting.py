"""Puts a bug into the product for as long as a block runs: what mutation tests do.

A bug names the function that it breaks as an object (``CommitLog.truncate``), never as text: a rename or a move of that
function changes the reference too. A ``Seam`` swaps the function for a broken version of it. ``Text`` replaces a piece
of the function's source, where the step that goes wrong has no name of its own.
"""

from __future__ import annotations
import __future__

import functools
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

PACKAGE = "pymq"
# A function, a method as its class gives it, or a property. It is no more than an attribute of its module or class.
Target = Callable[..., Any] | property


class SeedMismatchError(Exception):
    """A seeded bug's text is not in its function, or more than once: the product has changed."""


class Seam(NamedTuple):
    """``broken`` is called in place of ``target``, with the real function before the arguments of the call."""

    target: Target
    broken: Callable[..., Any]

    def version(self, name: str) -> FunctionType:
        """Return the function to plant."""
        real, broken = function_of(self.target), self.broken

        @functools.wraps(real)
        def planted(*args: Any, **kwargs: Any) -> Any:
            return broken(real, *args, **kwargs)

        return function_of(planted)


def does_nothing(real: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """A broken version that leaves its step out."""


def gives(answer: object) -> Callable[..., Any]:
    """Return a broken version that always answers the same."""
    return lambda real, *args, **kwargs: answer


class Text(NamedTuple):
    """``old`` becomes ``new`` in the source of ``target``, which holds it once."""

    target: Target
    old: str
    new: str

    def version(self, name: str) -> FunctionType:
        """Return the function to plant. Raises SeedMismatchError."""
        real = function_of(self.target)
        source = textwrap.dedent(inspect.getsource(real))
        count = source.count(self.old)
        if count != 1:
            place = f"{inspect.getsourcefile(real)}:{real.__code__.co_firstlineno}"
            raise SeedMismatchError(
                f"seeded bug {name!r} replaces a text that {real.__qualname__} ({place}) holds {count} times, not "
                f"once:\n\n{self.old}\n\nThe function has changed: write the seed's old and new text as the function "
                "stands now, or swap a smaller function for a broken one with Seam"
            )
        flags = __future__.annotations.compiler_flag
        code = compile(source.replace(self.old, self.new), f"<bug {name}>", "exec", flags=flags, dont_inherit=True)
        found: dict[str, Any] = {}
        exec(code, real.__globals__, found)
        return function_of(found[real.__name__])


class Bug(NamedTuple):
    """One wrong step that one could write. ``suites``: what catches it, cheapest first, in the words of its suite."""

    name: str
    mutation: Seam | Text
    suites: tuple[str, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Put the bug into the product for as long as the block runs. Raises SeedMismatchError."""
        fake = self.mutation.version(self.name)
        holders, real = _holders(self.mutation.target)
        planted = property(fake, real.fset, real.fdel) if isinstance(real, property) else fake
        for holder, attribute in holders:
            setattr(holder, attribute, planted)
        try:
            yield
        finally:
            for holder, attribute in holders:
                setattr(holder, attribute, real)

    def __str__(self) -> str:
        how = f": {self.mutation.old!r} -> {self.mutation.new!r}" if isinstance(self.mutation, Text) else " swapped"
        return f"{self.name} ({function_of(self.mutation.target).__qualname__}{how})"


def is_caught(bug: Bug, run: Callable[[str], None]) -> bool:
    """Return True when one of the bug's suites fails while the bug is planted; ``run`` runs a suite by its name."""
    for suite in bug.suites:
        with bug.planted():
            try:
                run(suite)
            except (Exception, pytest.fail.Exception):
                return True
    return False


def run_test(test: Callable[..., Any]) -> None:
    """Run a test that needs at most the fixture ``monkeypatch``, with each set of its parameters."""
    for arguments in arguments_of(test):
        with pytest.MonkeyPatch.context() as patch:
            fixtures = {"monkeypatch": patch} if "monkeypatch" in inspect.signature(test).parameters else {}
            test(**arguments, **fixtures)


def arguments_of(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Yield each set of a test's parameters: one empty set when it has none."""
    marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for chosen in itertools.product(*(values for _, values in marks)):
        arguments: dict[str, Any] = {}
        for (names, _), value in zip(marks, chosen, strict=True):
            named = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
            arguments |= zip(named, _values(value, is_alone=names == named[0]), strict=True)
        yield arguments


def _values(value: Any, *, is_alone: bool) -> Sequence[Any]:
    """Return the values of a set, as pytest takes it."""
    if hasattr(value, "marks") and hasattr(value, "values"):  # pytest.param
        return value.values
    return [value] if is_alone else value


def follow(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Have a test module use the product's functions as they are now, with the bug: it imported the real ones."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and value.__module__.partition(".")[0] == PACKAGE:
            patch.setattr(module, name, getattr(sys.modules[value.__module__], value.__name__, value))


def function_of(target: Target) -> FunctionType:
    """Return the function itself; a property's is its getter."""
    function = target.fget if isinstance(target, property) else target
    assert isinstance(function, FunctionType), f"{target!r} is neither a function nor a property"
    return function


def _holders(target: Target) -> tuple[list[tuple[Any, str]], Any]:
    """Return where the product finds the function, and what is there: its class, or each module that imported it."""
    function = function_of(target)
    *owners, attribute = function.__qualname__.split(".")
    owner: Any = sys.modules[function.__module__]
    for name in owners:
        owner = getattr(owner, name)
    real = inspect.getattr_static(owner, attribute)
    assert function_of(real) is function, f"{function.__qualname__} is planted already"
    if owners:
        return [(owner, attribute)], real
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == PACKAGE]
    return [(module, name) for module in modules for name, value in list(vars(module).items()) if value is real], real
