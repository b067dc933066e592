"""OrderInfos: what orderly pops handed out last of each queue of each group; saved in ``consumerOrderInfo.json``.

Java: ConsumerOrderInfoManager, whose slaves do not copy it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile
from typing import Any

from pymq.broker.metadata.often_changed_table import OftenChangedTable
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.lite_topics import is_light_queue, parent_of, split_group_key
from pymq.model.order_info import OrderInfo, from_saved, to_saved

log = logging.getLogger(__name__)

MEMBER = "table"
# What no pop has used for this long is dropped, as in RocketMQ: the group pops no more, or the queue is gone.
UNUSED_MS = 24 * 3600 * 1000
_SEPARATOR = "@"

_Key = tuple[str, str]  # topic and group
_Infos = dict[_Key, dict[int, OrderInfo]]


class OrderInfos(OftenChangedTable):
    """Order information by (topic, group) and queue. Saved by :meth:`tick`, not by each pop.

    It has at most one entry for each committed offset, so their limit is its limit.
    """

    def __init__(self, table: TableSaver, *, clock: Clock, config: BrokerConfig) -> None:
        super().__init__(table, "the order information of pops could not be saved, trying again")
        self._clock = clock
        self._config = config
        self._infos: _Infos = {}
        # Changes are numbered, so that a slave gets only those that it lacks.
        self.change_count = 0
        self._changed: dict[_Key, int] = {}  # the number of each last change, in the order of numbers
        self._removed_at = 0  # the number of the last change that removed a key
        self._next_save_ms = clock.monotonic_ms() + table.interval_ms(config.flush_consumer_offset_interval_ms)

    def load(self) -> None:
        """Read the file."""
        self._infos.update(_read(self._table.load()))

    def fit(self, queue_end: Callable[[str, int], int | None]) -> None:
        """Drop hand-outs of messages past their queue's end: a power loss or a fail-over took these messages.

        A receipt of one of them must not acknowledge the message that gets its offset. ``queue_end`` returns None for a
        queue that is not here.
        """
        for topic, group, queue_id, info in list(self.all()):
            end = queue_end(topic, queue_id)
            if end is not None and info.offsets[-1] >= end:
                self.forget(topic, group, queue_id)

    # -- entries -------------------------------------------------------------------------------------------------

    def get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        """Return the last hand-out of a queue; None when there is none."""
        queues = self._infos.get((topic, group))
        return None if queues is None else queues.get(queue_id)

    def all(self) -> Iterator[tuple[str, str, int, OrderInfo]]:
        """Yield topic, group, queue id and order information of all queues."""
        for (topic, group), queues in self._infos.items():
            for queue_id, info in queues.items():
                yield topic, group, queue_id, info

    @property
    def light_count(self) -> int:
        """The number of lite topics of groups with a hand-out that is not acknowledged."""
        return sum(is_light_queue(topic) for topic, _ in self._infos)

    def put(self, topic: str, group: str, queue_id: int, info: OrderInfo) -> None:
        """Set the last hand-out of a queue."""
        self._infos.setdefault((topic, group), {})[queue_id] = info
        self._note_change((topic, group))

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """Drop the last hand-out of a queue: from now on its receipts mean nothing."""
        queues = self._infos.get((topic, group), {})
        if queues.pop(queue_id, None) is None:
            return
        self._note_change((topic, group))
        if not queues:
            self._remove((topic, group))

    def forget_all(self, *, topics: Collection[str] = (), groups: Collection[str] = ()) -> None:
        """Drop all entries of topics or groups that are gone."""
        for key in [key for key in self._infos if key[0] in topics or key[1] in groups or parent_of(key[0]) in topics]:
            self._remove(key)

    def _note_change(self, key: _Key) -> None:
        self._dirty = True
        self.change_count += 1
        self._changed.pop(key, None)
        self._changed[key] = self.change_count

    def _remove(self, key: _Key) -> None:
        del self._infos[key]
        self._changed.pop(key, None)
        self._dirty = True
        self.change_count += 1
        self._removed_at = self.change_count

    # -- slaves --------------------------------------------------------------------------------------------------

    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""
        return _to_table(self._infos)

    def changes_since(self, number: int) -> dict[str, Any] | None:
        """Return :meth:`as_table` with only the keys that changed after ``number``, a past ``change_count``.

        None when a key was removed since then: the caller needs the whole table.
        """
        if number < self._removed_at:
            return None
        changed = takewhile(lambda key: self._changed[key] > number, reversed(self._changed))
        return _to_table({key: self._infos[key] for key in changed})

    def take_over(self, table: dict[str, Any], *, is_part: bool) -> None:
        """Take a master's table, or with ``is_part`` the keys of it that changed."""
        taken = _read(table)
        if not is_part:
            self._infos.clear()
        self._infos.update(taken)
        self._dirty = True

    # -- persistence ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Save in a worker thread when something changed and ``flushConsumerOffsetInterval`` has passed."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_save_ms or not self._dirty or self._table.is_busy:
            return
        self._next_save_ms = now_ms + self._table.interval_ms(self._config.flush_consumer_offset_interval_ms)
        self._drop_unused()
        copy = {key: dict(queues) for key, queues in self._infos.items()}
        self._save_soon(lambda: _to_table(copy))

    def _drop_unused(self) -> None:
        limit_ms = self._clock.now_ms() - UNUSED_MS
        for topic, group, queue_id, info in list(self.all()):
            if max(info.last_used_ms, info.free_ms(0)) < limit_ms:
                self.forget(topic, group, queue_id)


def _to_table(infos: _Infos) -> dict[str, Any]:
    return {
        MEMBER: {
            f"{topic}{_SEPARATOR}{group}": {str(queue_id): to_saved(info) for queue_id, info in queues.items()}
            for (topic, group), queues in infos.items()
        }
    }


def _read(table: dict[str, Any]) -> _Infos:
    """Return the usable entries of a saved object; others are logged."""
    infos: _Infos = {}
    for name, queues in (table.get(MEMBER) or {}).items():
        topic, group = split_group_key(str(name))
        known = infos[topic, group] = {}
        if not isinstance(queues, dict):
            log.warning("an entry of consumerOrderInfo.json was left out: %s is no map of queues", name)
            continue
        for queue_id, entry in queues.items():
            try:
                known[int(queue_id)] = from_saved(entry)
            except (ValueError, TypeError) as error:
                log.warning("an entry of consumerOrderInfo.json was left out: %s queue %s: %s", name, queue_id, error)
    return infos
