"""Which messages of a topic are wanted, and who applies that: the broker, a filter server or this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pymq.client import StoredMessage
from pymq.client.local_filter import LocalFilter
from pymq.clock import SystemClock
from pymq.errors import ExpressionError, UsageError
from pymq.operations.filters import PluginChoice, check_sql
from pymq.operations.message.content import ReadBody, content
from pymq.operations.message.fields import Condition, PropertyCondition


class MessageSelection:
    """The messages to show. The broker applies ``tag`` or ``sql``, a filter server or this process applies ``plugin``.

    This process checks key, pattern and conditions; it looks at bodies as ``read`` returns them.
    """

    def __init__(
        self,
        tag: str = "*",
        key: str | None = None,
        grep: str | None = None,
        sql: str | None = None,
        plugin: PluginChoice | None = None,
        where: Sequence[Condition] = (),
        read: ReadBody = content,
        *,
        text: str | None = None,
        having: Sequence[PropertyCondition] = (),
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Raise UsageError for tags with SQL, for either with a filter server, and for a wrong expression.

        ``grep``: a regular expression that bodies match. ``text``: what bodies have in them, in UTF-8. ``where``:
        conditions on JSON bodies; ``having``: on properties. ``note`` hears about text of ``sql`` that brokers ignore.
        """
        self._tag = tag or "*"
        self._sql = sql
        self._remote = plugin if plugin is not None and plugin.via is not None else None
        self._plugin = None if plugin is None or self._remote is not None else _plugin_filter(plugin)
        if self._remote is not None and (sql is not None or self._tag != "*"):
            raise UsageError(
                "--via excludes --tag and --sql: filter servers run one filter, for example --filter sql92"
            )
        if sql is not None:
            if self._tag != "*":
                raise UsageError("--tag and --sql exclude each other: write TAGS = 'A' in the SQL")
            check_sql(sql, note)
        self._key = key
        self._where = where
        self._having = having
        self._text = None if text is None else text.encode("utf-8", "surrogatepass")
        self._read = read
        try:
            self._pattern = re.compile(grep) if grep is not None else None
        except re.error as error:
            raise UsageError(f"--grep {grep!r} is not a regular expression: {error}") from error

    @property
    def is_everything(self) -> bool:
        """True if no message is left out."""
        return (
            self._tag == "*"
            and not self._where
            and not self._having
            and all(
                one is None for one in (self._sql, self._remote, self._plugin, self._key, self._pattern, self._text)
            )
        )

    def pull_arguments(self) -> dict[str, Any]:
        """Return the arguments for :meth:`PullConsumer.pull`."""
        if self._remote is not None:
            name, expression, via = self._remote
            return {"filter": name, "expression": expression, "via": via}
        return {"expression": self._tag, "sql": self._sql}

    @property
    def failed_count(self) -> int:
        """The number of messages on which the plugin failed, and which are left out for that."""
        return 0 if self._plugin is None else self._plugin.running.stats.errors

    def keep(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return those messages of one pull that match the plugin."""
        return messages if self._plugin is None or not messages else self._plugin.keep(messages).messages

    def matches(self, message: StoredMessage) -> bool:
        """Return whether key, pattern and conditions hold."""
        if self._key is not None and self._key not in message.keys.split() and self._key != message.message_id:
            return False
        if not all(condition.holds(message.properties) for condition in self._having):
            return False
        if self._pattern is None and self._text is None and not self._where:
            return True
        body = self._read(message)
        if self._text is not None and self._text not in body:
            return False
        if self._pattern is not None and self._pattern.search(body.decode("utf-8", "replace")) is None:
            return False
        return all(condition.holds(body) for condition in self._where)


def _plugin_filter(plugin: PluginChoice) -> LocalFilter:
    from pymq.filter.registry import installed_filters  # noqa: PLC0415 - plugins are loaded where one is wanted
    from pymq.filter.running import RunningFilter  # noqa: PLC0415

    try:
        found = installed_filters().find(plugin.name)
        return LocalFilter(RunningFilter(found, plugin.expression, clock=SystemClock()))
    except ExpressionError as error:
        raise UsageError(f"--filter {plugin.name}: the expression is wrong at {error}") from error
