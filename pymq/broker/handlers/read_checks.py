"""Whether a group may read a queue: the checks that pulls and pops share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.errors import Refusal
from pymq.model.tables import PERM_READ, TopicConfig
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.metadata.groups import GroupManager
    from pymq.broker.metadata.topics import TopicManager
    from pymq.config import BrokerConfig


def check_broker_reads(config: BrokerConfig) -> None:
    """Raise Refusal(NO_PERMISSION) for a broker without the read permission."""
    if not config.broker_permission & PERM_READ:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker {config.broker_name} serves no reads (brokerPermission {config.broker_permission}): set it to "
            "6",
        )


def check_group_reads(groups: GroupManager, group: str, topic: str) -> None:
    """Raise Refusal(NO_PERMISSION) for a group that may not consume the topic. A new group is made."""
    if not groups.ensure(group).consume_enable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"consumer group {group} may not consume (consumeEnable is false)")
    if groups.is_forbidden(group, topic):
        raise Refusal(ResponseCode.NO_PERMISSION, f"consumer group {group} is forbidden to read {topic}")


def topic_to_read(topics: TopicManager, name: str, queue_id: int, *, or_all: bool = False) -> TopicConfig:
    """Return the configuration of a topic whose queue can be read; -1 stands for all queues if ``or_all``.

    Raises Refusal: TOPIC_NOT_EXIST, NO_PERMISSION, INVALID_PARAMETER.
    """
    topic = topics.require(name)
    if not topic.perm & PERM_READ:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"topic {name} has permission {topic.perm} without read (4): change it with updateTopicPerm",
        )
    if not -or_all <= queue_id < topic.read_queue_nums:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queue {queue_id} of topic {name} can't be read: it has read queues 0 to {topic.read_queue_nums - 1}"
            + ("; -1 stands for all" if or_all else ""),
        )
    return topic
