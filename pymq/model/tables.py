"""Topic and group configurations and their version: the same JSON on the wire and in ``config/*.json``."""

from __future__ import annotations

from typing import Any

import msgspec

PERM_PRIORITY = 8
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
PERM_READ_WRITE = PERM_READ | PERM_WRITE
SYS_FLAG_UNIT = 0x1  # bits of topicSysFlag (Java: TopicSysFlag)
SYS_FLAG_UNIT_SUBSCRIPTION = 0x2
QUEUE_COUNT_MAX = 65535


def perm_text(perm: int) -> str:
    """Return permissions as mqadmin prints them: ``RW-`` and the like."""
    return (
        ("R" if perm & PERM_READ else "-") + ("W" if perm & PERM_WRITE else "-") + ("X" if perm & PERM_INHERIT else "-")
    )


class DataVersion(msgspec.Struct, rename="camel", frozen=True):
    """The version of a table; it changes on every write to it."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        return DataVersion(self.counter + 1, self.state_version, now_ms)


class TopicConfig(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One topic on one broker. The numbers of read and write queues differ while a topic shrinks."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}

    @property
    def readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)

    @property
    def queue_count(self) -> int:
        """The number of existing queues: the larger of the two numbers."""
        return max(self.read_queue_nums, self.write_queue_nums)

    def existing_queue(self, queue_id: int) -> int:
        """Return ``queue_id``, or another queue when the topic has fewer by now: no consumer would read that one."""
        return queue_id if queue_id < self.queue_count else queue_id % self.write_queue_nums


class GroupRetryPolicy(msgspec.Struct, rename="camel", frozen=True):
    """How a group spaces its retries; CUSTOMIZED means by the delay levels."""

    type: str = "CUSTOMIZED"


class SubscriptionGroupConfig(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One consumer group on one broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = {}
