"""Finds filters: the built-in ones, and those of installed packages.

A package that fails to load is listed with its error and does not affect other filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import pluggy

from pymq import __version__
from pymq.errors import UsageError
from pymq.filter.builtin import BuiltinFilters
from pymq.filter.plugins import ENTRY_POINTS, PROJECT, FilterHooks, FilterPlugin

OWN_PACKAGE = "pymq-toolkit"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True)
class FilterSource:
    """A filter and its package. When the package can't be used, ``filter`` is None and ``error`` says why."""

    name: str
    filter: FilterPlugin | None
    package: str
    version: str
    error: str | None = None


class FilterRegistry:
    """All filters by name. The first package with a name gets it; any other is listed with an error."""

    def __init__(self, find_entry_points: Callable[[], Iterable[EntryPoint]]) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(FilterHooks)
        self._sources: dict[str, FilterSource] = {}
        self._unusable: list[FilterSource] = []
        self._add(BuiltinFilters(), OWN_PACKAGE, __version__, None)
        for entry in find_entry_points():
            self._load(entry)

    def find(self, name: str) -> FilterPlugin:
        """Return the filter of this name, in any case. Raises UsageError that lists the known names."""
        source = self._sources.get(name.lower())
        if source is not None and source.filter is not None:
            return source.filter
        broken = next((one for one in self._unusable if one.name == name.lower()), None)
        if broken is not None:
            raise UsageError(f"filter {name!r} of {broken.package} can't be used: {broken.error}")
        close = get_close_matches(name.lower(), self._sources, n=1)
        hint = f"did you mean {close[0]}?" if close else "install the package that brings it (see pymq filter list)"
        raise UsageError(f"no filter {name!r}; there are {', '.join(sorted(self._sources))}: {hint}")

    def sources(self) -> list[FilterSource]:
        """Return all filters: the built-in ones, then the others by name, then packages that can't be used."""
        usable = sorted(self._sources.values(), key=lambda source: (source.package != OWN_PACKAGE, source.name))
        return usable + self._unusable

    def _load(self, entry: EntryPoint) -> None:
        package = entry.dist.name if entry.dist is not None else entry.module
        version = entry.dist.version if entry.dist is not None else ""
        try:
            self._add(entry.load(), package, version, entry.name)
        except Exception as error:  # a foreign package may raise anything while it is imported
            text = f"{type(error).__name__}: {error}"
            self._unusable.append(FilterSource(entry.name, None, package, version, text))

    def _add(self, plugin: object, package: str, version: str, entry_name: str | None) -> None:
        self._manager.register(plugin, name=f"{package}:{entry_name}")
        hooks = self._manager.subset_hook_caller(
            "pymq_filters", [other for other in self._manager.get_plugins() if other is not plugin]
        )
        for filters in hooks():
            for one in filters:
                self._take(one, package, version)

    def _take(self, one: FilterPlugin, package: str, version: str) -> None:
        error = None
        if not _NAME.fullmatch(one.name):
            error = f"{one.name!r} is not a valid filter name: use lower-case letters, digits and -"
        elif one.name in self._sources:
            error = f"{self._sources[one.name].package} has a filter of this name already"
        if error is None:
            self._sources[one.name] = FilterSource(one.name, one, package, version)
        else:
            self._unusable.append(FilterSource(one.name, None, package, version, error))


@cache
def installed_filters() -> FilterRegistry:
    """The registry of this process."""
    return FilterRegistry(lambda: entry_points(group=ENTRY_POINTS))
