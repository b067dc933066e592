"""The selection of messages of a range, by the broker, a filter server and the reader."""

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
    """Tags or SQL92, which brokers apply, and a filter, which the reader or, with ``via``, a filter server runs.

    ``pushed_sql`` is SQL92 from a query's WHERE: it holds for every row of the result, so a broker may apply it.
    """

    tag: str = EVERYTHING
    sql: str | None = None
    filter: str | None = None
    expression: str | None = None
    on_error: str = "skip"
    via: str | None = None
    pushed_sql: str | None = None

    @property
    def tags(self) -> frozenset[str] | None:
        """The selected tags; None for all."""
        return parse_tags(self.tag)

    @property
    def is_all(self) -> bool:
        """True when every message of a range is selected."""
        return self.tags is None and self.sql is None and self.filter is None

    @property
    def runs_here(self) -> bool:
        """True when the reader itself runs a filter."""
        return self.filter is not None and self.via is None

    def pull_subscription(self) -> tuple[str, str]:
        """Return a pull's subscription and its type, without the pushed SQL."""
        if self.via is not None:
            return class_text(self.filter or "", self.expression or "", self.on_error), TAG
        if self.sql is not None:
            return self.sql, SQL92
        return (self.tag if self.tags is not None else EVERYTHING), TAG

    def with_pushdown(self, tag: str | None, sql: str | None) -> Selection:
        """Add conditions that hold for every row, if a pull can carry them; prefers tags to SQL92."""
        if self.via is not None or self.sql is not None or self.tags is not None:
            return self
        return replace(self, pushed_sql=sql) if tag is None else replace(self, tag=tag)


ALL = Selection()


def checked(selection: Selection, clock: Clock) -> Selection:
    """Check a selection and simplifies it: brokers run the filters they know. Compiles expressions that run here.

    Raises UsageError for options that exclude each other or a missing filter, ExpressionError for a wrong expression.
    """
    parse_tags(selection.tag)
    if selection.sql is not None:
        if selection.tags is not None:
            raise UsageError("tag and sql exclude each other: write TAGS = 'A' in the SQL")
        compile_sql(selection.sql)
    if selection.filter is None:
        if selection.expression is not None or selection.via is not None:
            raise UsageError("an expression and via need a filter: name the filter too")
        return selection
    if selection.expression is None:
        raise UsageError(f"filter {selection.filter!r} has no expression: give one")
    if selection.via is not None:
        return _checked_via_filter_server(selection)
    return _checked_plugin(selection, selection.filter, selection.expression, clock)


def _checked_via_filter_server(selection: Selection) -> Selection:
    from pymq.filter.running import parse_on_error

    if selection.via != FILTER_SERVER:
        raise UsageError(
            f"via {selection.via!r} is unknown: use {FILTER_SERVER!r}, or leave it out to run the filter in the tasks"
        )
    if selection.sql is not None or selection.tags is not None:
        raise UsageError("a filter server runs only one filter (sql92 is one too): leave out tag and sql")
    parse_on_error(selection.on_error)
    selection.pull_subscription()
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
            f"filter {plugin.name} must see all messages, but each task reads a part: use a query, or a filter server"
        )
    try:
        RunningFilter(plugin, expression, clock=clock, on_error=policy)
    except ExpressionError as error:
        raise ExpressionError(error.column, f"{error.reason} (filter {plugin.name})") from error
    return selection


def parse_tags(expression: str) -> frozenset[str] | None:
    """Parse ``"A || B"`` into {"A", "B"}; ``*`` and an empty text mean all (None). Raises UsageError without a tag."""
    if expression.strip() in ("", EVERYTHING):
        return None
    tags = frozenset(part.strip() for part in expression.split("||") if part.strip())
    if not tags:
        raise UsageError(f"{expression!r} names no tag: write one tag, or several separated by ||")
    return None if EVERYTHING in tags else tags
