"""Which messages of a range are wanted: what the broker or a filter server leaves out, and what the reader does."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pymq.clock import Clock
from pymq.errors import ExpressionError, UsageError
from pymq.filter.class_names import FILTER_SERVER, class_text
from pymq.filter.sql92 import compile_sql

EVERYTHING = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(slots=True, frozen=True)
class Selection:
    """Tags or SQL92, which brokers know, and a filter, which the reader runs or, with ``via``, a filter server.

    ``make_prefilter`` is SQL92 that holds for every row that is looked at afterwards: a broker may leave the others out.
    """

    tag: str = EVERYTHING
    sql: str | None = None
    filter: str | None = None
    expression: str | None = None
    on_error: str = "skip"
    via: str | None = None
    make_prefilter: str | None = None

    @property
    def tags(self) -> frozenset[str] | None:
        """The tags wanted; None for all."""
        return parse_tags(self.tag)

    @property
    def is_all(self) -> bool:
        """True when every message of a range is wanted."""
        return self.tags is None and self.sql is None and self.filter is None

    @property
    def runs_here(self) -> bool:
        """True when the reader itself runs a filter."""
        return self.filter is not None and self.via is None

    def of_pull(self) -> tuple[str, str]:
        """A pull's subscription and its type, without the prefilter."""
        if self.via is not None:
            return class_text(self.filter or "", self.expression or "", self.on_error), TAG
        if self.sql is not None:
            return self.sql, SQL92
        return (self.tag if self.tags is not None else EVERYTHING), TAG

    def narrowed(self, tag: str | None, sql: str | None) -> Selection:
        """With conditions that hold anyway, where a pull has room for them: tags rather than SQL92."""
        if self.via is not None or self.sql is not None or self.tags is not None:
            return self
        return replace(self, make_prefilter=sql) if tag is None else replace(self, tag=tag)


ALL = Selection()


def checked(selection: Selection, clock: Clock) -> Selection:
    """The selection in its simplest form: brokers are left what they know. Compiles what is not left to others.

    Raises UsageError for what can't be meant or is not installed, ExpressionError for a wrong expression.
    """
    parse_tags(selection.tag)
    if selection.sql is not None:
        if selection.tags is not None:
            raise UsageError("tag and sql exclude each other: write TAGS = 'A' in the SQL")
        compile_sql(selection.sql)
    if selection.filter is None:
        if selection.expression is not None or selection.via is not None:
            raise UsageError("an expression or a place to run it, and no filter: name the filter too")
        return selection
    if selection.expression is None:
        raise UsageError(f"filter {selection.filter!r} has no expression: give one")
    if selection.via is not None:
        return _checked_served(selection)
    return _checked_plugin(selection, selection.filter, selection.expression, clock)


def _checked_served(selection: Selection) -> Selection:
    from pymq.filter.running import parse_on_error

    if selection.via != FILTER_SERVER:
        raise UsageError(f"filters run here or via {FILTER_SERVER!r}, not {selection.via!r}")
    if selection.sql is not None or selection.tags is not None:
        raise UsageError("a filter server runs one filter (sql92 is one too): leave tag and sql out")
    parse_on_error(selection.on_error)
    selection.of_pull()
    return selection


def _checked_plugin(selection: Selection, name: str, expression: str, clock: Clock) -> Selection:
    from pymq.filter.registry import installed_filters
    from pymq.filter.running import RunningFilter, parse_on_error

    policy = parse_on_error(selection.on_error)
    plugin = installed_filters().find(name)
    if plugin.name in (TAG.lower(), SQL92.lower()):
        if selection.sql is not None or selection.tags is not None:
            raise UsageError(f"filter {plugin.name} excludes tag and sql: give one of them")
        plain = replace(selection, filter=None, expression=None, on_error="skip")
        left = replace(plain, tag=expression) if plugin.name == TAG.lower() else replace(plain, sql=expression)
        return checked(left, clock)
    if getattr(plugin, "keeps_state", False):
        raise UsageError(
            f"filter {plugin.name} must see all messages, tasks read parts of them: use a query, or a filter server"
        )
    try:
        RunningFilter(plugin, expression, clock=clock, on_error=policy)
    except ExpressionError as error:
        raise ExpressionError(error.column, f"{error.reason} (filter {plugin.name})") from error
    return selection


def parse_tags(expression: str) -> frozenset[str] | None:
    """``"A || B"`` -> {"A", "B"}; ``*`` and nothing mean all: None. Raises UsageError when there is no tag in it."""
    if expression.strip() in ("", EVERYTHING):
        return None
    tags = frozenset(part.strip() for part in expression.split("||") if part.strip())
    if not tags:
        raise UsageError(f"{expression!r} names no tag: write one tag, or several with || between")
    return None if EVERYTHING in tags else tags
