"""ReadAdvice: which broker of the group a consumer should pull from next.

A master sends a consumer to a slave when the consumer is so far behind that its messages are no longer in the page
cache. A slave sends it back once it has caught up. Java: PullMessageProcessor.composeResponseHeader,
DefaultMessageStore.nextOffsetCorrection.
"""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.replication.roles.role import Role
from pymq.config import BrokerConfig
from pymq.model.route import MASTER_ID
from pymq.model.tables import SubscriptionGroupConfig
from pymq.store.store import GetResult, MessageStore

_UNKNOWN_GROUP = SubscriptionGroupConfig(group_name="")


class ReadAdvice:
    """Serves one broker in one role."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        memory_bytes: int,
        slave_count: Callable[[], int],
        is_following: Callable[[], bool],
        is_tail_fenced: Callable[[], bool],
    ) -> None:
        """``memory_bytes`` is the machine's memory; ``slave_count`` returns a master's number of slaves in sync.
        ``is_following`` returns True while a slave copies its master's log, ``is_tail_fenced`` while this log may still
        grow by what other brokers have of it."""
        self._config = config
        self._store = store
        self._own_id = role.broker_id
        self._memory_bytes = memory_bytes
        self._slave_count = slave_count
        self._is_following = is_following
        self._is_tail_fenced = is_tail_fenced
        self.is_slave = not role.is_master

    @property
    def keeps_offsets(self) -> bool:
        """True when a consumer whose offset is outside this log keeps it: its messages may be on another broker."""
        return self.is_slave or self._is_tail_fenced()

    def broker_id(self, group: SubscriptionGroupConfig | None, topic: str, queue_id: int, result: GetResult) -> int:
        """Return the id of the broker that a consumer of the group should pull from next. Runs once a pull."""
        if not self._config.slave_read_enable:
            return MASTER_ID
        if self.is_slave and not self._is_following():
            return self._own_id  # the master is away
        group = group or _UNKNOWN_GROUP
        # Most consumers are at the end, and most logs are small: neither needs a look at the queue.
        if result.next_offset < result.max_offset and self._is_far_behind(topic, queue_id, result.next_offset):
            return group.which_broker_when_consume_slowly
        return group.broker_id

    def suspend_ms(self, wanted_ms: int, group: SubscriptionGroupConfig | None) -> int:
        """Return how long a pull that found nothing may wait here, in milliseconds.

        On a slave whose master is back it waits a short while only: the answer sends the consumer to the master.
        RocketMQ's slave answers such a pull at once, and a consumer that can't reach the master pulls without pause.
        """
        stays = not self.is_slave or not self._is_following() or (group or _UNKNOWN_GROUP).broker_id != MASTER_ID
        return wanted_ms if stays else min(wanted_ms, self._config.short_polling_time_ms)

    def _is_far_behind(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return True when the message at ``offset`` is too far from the log's end, and a slave can serve it."""
        store = self._store
        limit = self._memory_bytes * self._config.access_message_in_memory_max_ratio // 100
        end = store.physical_max_offset
        if end - store.physical_min_offset <= limit:
            return False
        queue = store.queue_view(topic, queue_id)
        if queue is None:
            return False
        physical_offset, size, _ = queue.unit(offset)
        return size > 0 and end - physical_offset > limit and (self.is_slave or self._slave_count() > 0)
