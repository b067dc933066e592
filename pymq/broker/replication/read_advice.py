"""ReadAdvice: which broker of its name a consumer should pull from next, and what a slave makes of a read.

A master sends those to a slave who lie so far behind that the page cache no longer has what they read; a slave sends
them back to the master once they have caught up. Java: PullMessageProcessor.composeResponseHeader,
DefaultMessageStore.nextOffsetCorrection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.broker.replication.roles.role import Role
from pymq.config import BrokerConfig
from pymq.model.route import MASTER_ID
from pymq.model.tables import SubscriptionGroupConfig
from pymq.store.store import GetResult, MessageStore

_UNKNOWN_GROUP = SubscriptionGroupConfig(group_name="")


class Following(Protocol):
    """What is asked of a slave's link."""

    @property
    def is_following(self) -> bool:
        """True while the master is there and its log is being copied."""
        ...


class ReadAdvice:
    """Of one broker in one role. ``ha_client`` is a slave's, set before the first pull."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        memory_bytes: int,
        slave_count: Callable[[], int],
    ) -> None:
        """``memory_bytes``: of the machine; ``slave_count``: slaves in sync that could serve, asked of a master."""
        self._config = config
        self._store = store
        self._own_id = role.broker_id
        self._memory_bytes = memory_bytes
        self._slave_count = slave_count
        self.is_slave = not role.is_master
        # What lies outside our log may well be elsewhere: the consumer's place stays as it is.
        self.keeps_offsets = self.is_slave
        self.ha_client: Following | None = None

    def broker_id(self, group: SubscriptionGroupConfig | None, topic: str, queue_id: int, result: GetResult) -> int:
        """Where a consumer of the group should pull next, given what it gets now. Runs once a pull."""
        if not self._config.slave_read_enable:
            return MASTER_ID
        if self.is_slave and not self._is_following:
            return self._own_id  # its master is away: stay
        group = group or _UNKNOWN_GROUP
        # Most consumers are at the end, and most logs are small: neither needs a look at the queue.
        if result.next_offset < result.max_offset and self._is_far_behind(topic, queue_id, result.next_offset):
            return group.which_broker_when_consume_slowly
        return group.broker_id

    def suspend_ms(self, wanted_ms: int, group: SubscriptionGroupConfig | None) -> int:
        """How long a pull that found nothing may wait here.

        On a slave whose master is back a short while, for it is told to go there. RocketMQ's slave answers such a pull
        at once, again and again where the consumer can't reach the master.
        """
        stays = not self.is_slave or not self._is_following or (group or _UNKNOWN_GROUP).broker_id != MASTER_ID
        return wanted_ms if stays else min(wanted_ms, self._config.short_polling_time_ms)

    @property
    def _is_following(self) -> bool:
        return self.ha_client is not None and self.ha_client.is_following

    def _is_far_behind(self, topic: str, queue_id: int, offset: int) -> bool:
        """True when the message at ``offset`` lies too far from the log's end, and a slave is there to serve it."""
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
