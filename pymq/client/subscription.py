"""A consumer's selection of a topic's messages: tags or an SQL92 expression.

The broker compares hashes of tags, so the client compares the tags themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymq.client.local_filter import LocalFilter
from pymq.clock import Clock
from pymq.errors import RefusedError, UsageError
from pymq.filter.refusals import with_next_step
from pymq.filter.sql92 import compile_sql
from pymq.model.javahash import string_hash

EVERYTHING = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(slots=True)
class Subscription:
    """A topic and its expression. ``version`` (Unix ms) grows with each change that brokers must know.

    ``local``: a filter that this client runs on the messages it receives. ``class_filter``: ``expression`` names a
    filter that a filter server runs.
    """

    topic: str
    expression: str
    tags: frozenset[str]
    version: int
    expression_type: str = TAG
    local: LocalFilter | None = None
    class_filter: bool = False

    @property
    def tag_codes(self) -> list[int]:
        """Java hashes of the tags, as the broker compares them."""
        return [string_hash(tag) for tag in sorted(self.tags)]

    def accepts(self, tag: str) -> bool:
        """Return True when a message with ``tag`` (may be empty) matches. The broker has checked SQL already."""
        return not self.tags or tag in self.tags


def parse_subscription(
    topic: str, expression: str | None, version: int, expression_type: str = TAG, sql: str | None = None
) -> Subscription:
    """Parse an expression: ``"TagA || TagB"`` is two tags; ``*``, empty and None mean all messages.

    ``sql`` excludes an expression. SQL is checked here too, because an Apache broker answers a pull with a wrong
    expression as if it had none. Raises UsageError for ``||`` alone, ExpressionError for wrong SQL.
    """
    text = (expression or "").strip() or EVERYTHING
    if sql is not None:
        if text != EVERYTHING or expression_type not in (TAG, SQL92):
            raise UsageError(f"give {text!r} or sql={sql!r}, not both")
        text, expression_type = sql, SQL92
    if expression_type == SQL92:
        compile_sql(text)
    if expression_type != TAG:
        return Subscription(topic, text, frozenset(), version, expression_type)
    if text == EVERYTHING:
        return Subscription(topic, EVERYTHING, frozenset(), version)
    tags = frozenset(part.strip() for part in text.split("||")) - {""}
    if not tags:
        raise UsageError(f"{expression!r} names no tag: write TagA || TagB, or * for everything")
    if EVERYTHING in tags:
        return Subscription(topic, EVERYTHING, frozenset(), version)
    return Subscription(topic, " || ".join(sorted(tags)), tags, version)


def filtered_subscription(
    topic: str, name: str, expression: str, version: int, *, clock: Clock, on_error: str
) -> Subscription:
    """Return a subscription through the filter ``name``; the broker itself runs ``tag`` and ``sql92``.

    Raises UsageError for an unknown filter or policy, ExpressionError for a wrong expression.
    """
    # Plugins load on first use: importing a client imports none.
    from pymq.filter.registry import installed_filters  # noqa: PLC0415
    from pymq.filter.running import RunningFilter, parse_on_error  # noqa: PLC0415

    policy = parse_on_error(on_error)
    plugin = installed_filters().find(name)
    if plugin.name == TAG.lower():
        return parse_subscription(topic, expression, version)
    if plugin.name == SQL92.lower():
        return parse_subscription(topic, EVERYTHING, version, sql=expression)
    subscription = parse_subscription(topic, EVERYTHING, version)
    subscription.local = LocalFilter(RunningFilter(plugin, expression, clock=clock, on_error=policy))
    return subscription


def explained(error: RefusedError, subscription: Subscription) -> RefusedError:
    """Add the next step to the refusal of a broker that has SQL92 switched off; return other errors as they are."""
    return with_next_step(error) if subscription.expression_type == SQL92 else error
