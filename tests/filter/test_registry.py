"""Filters are found by name; a broken package is listed with its error and affects no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.errors import UsageError
from pymq.filter.plugins import EachMessage, hookimpl
from pymq.filter.registry import FilterRegistry


class Entry:
    """An entry point of a package that is not installed."""

    def __init__(self, name: str, plugin: Any, package: str = "pymq-filter-x") -> None:
        self.name = name
        self.module = "x"
        self.dist = SimpleNamespace(name=package, version="1.2")
        self._plugin = plugin

    def load(self) -> Any:
        if isinstance(self._plugin, Exception):
            raise self._plugin
        return self._plugin


class One:
    """A package with one filter."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.doc = f"{name}: all messages"

    def compile(self, expression: str) -> EachMessage:
        return EachMessage(lambda message: True)

    @hookimpl
    def pymq_filters(self) -> list[One]:
        return [self]


def registry(*entries: Any) -> FilterRegistry:
    return FilterRegistry(lambda: entries)


def test_built_in_filters_need_no_entry_points() -> None:
    assert [source.name for source in registry().sources()] == ["sql92", "tag"]
    assert {source.package for source in registry().sources()} == {"pymq-toolkit"}


def test_filters_of_packages_are_found_in_any_case() -> None:
    filters = registry(Entry("all", One("all")))
    assert filters.find("ALL").name == "all"
    [*_, source] = filters.sources()
    assert (source.name, source.package, source.version, source.error) == ("all", "pymq-filter-x", "1.2", None)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no filter 'sql'; there are sql92, tag: did you mean sql92\?"):
        registry().find("sql")
    with pytest.raises(UsageError, match="install the package that brings it"):
        registry().find("jsonpath")


def test_a_package_that_cannot_be_imported_is_listed_with_its_error() -> None:
    filters = registry(Entry("broken", ImportError("no module named y")), Entry("all", One("all")))
    assert filters.find("all") and filters.find("sql92")
    assert filters.sources()[-1].error == "ImportError: no module named y"
    with pytest.raises(UsageError, match="'broken' of pymq-filter-x can't be used: ImportError"):
        filters.find("broken")


def test_a_name_belongs_to_the_first_package_that_uses_it() -> None:
    filters = registry(Entry("tag", One("tag"), "other"), Entry("a", One("a"), "first"), Entry("a", One("a"), "second"))
    assert filters.find("tag").doc.startswith("The message's tag")
    errors = [(source.package, source.error) for source in filters.sources() if source.error]
    assert errors == [
        ("other", "pymq-toolkit has a filter of this name already"),
        ("second", "first has a filter of this name already"),
    ]


@pytest.mark.parametrize("name", ["", "Upper", "with blank", "a" * 64, "-a"])
def test_a_name_must_be_easy_to_type(name: str) -> None:
    [*_, source] = registry(Entry("x", One(name))).sources()
    assert source.error is not None and "is not a valid filter name" in source.error


def test_the_longest_name() -> None:
    assert registry(Entry("x", One("a" * 63))).find("a" * 63)


def test_a_real_entry_point_is_loaded() -> None:
    entry = EntryPoint("own", "pymq.filter.builtin:BuiltinFilters", "pymq.filters")
    # The entry point is a class, not an instance with hooks, so it has no usable filter: an error, not a crash.
    [*_, source] = registry(entry).sources()
    assert source.error is not None and source.package == "pymq.filter.builtin"


def test_a_broker_and_a_client_start_without_plugins() -> None:
    program = "import sys, json, pymq.broker.assembly.parts, pymq.client, pymq.client.push_consumer, pymq.cli.main"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(json.dumps(sorted(sys.modules)))"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(json.loads(done.stdout)) & {"pluggy", "lark", "re2", "jsonpath", "cel", "pymq.filter.registry"}
