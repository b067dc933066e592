"""The needs of requests that name their topics and groups in the body: functions for the table's access column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pymq.config.runtime import parse_changes
from pymq.config.values import RETENTION_KEYS
from pymq.model.access import Action, Need, cluster_need, group_need, topic_need
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.access import Claim
from pymq.wire.bodies_admin import GroupConfigList, ListedGroups, ListedTopics, TopicConfigList, decode_admin_body
from pymq.wire.bodies_client import HeartbeatData, LockRequest, decode_body
from pymq.wire.bodies_lites import decode_lite_subscriptions
from pymq.wire.bodies_pop import AssignmentRequest, RequestMode, decode_batch_acks
from pymq.wire.command import Command


def subscriptions(body: bytes, cluster: str) -> Iterator[Need]:
    """HEART_BEAT (34): what each consumer group subscribes to. Producers need nothing until they send."""
    beat: HeartbeatData = decode_body(HeartbeatData, body)
    for consumer in beat.consumer_data_set or ():
        yield group_need(consumer.group_name, Action.SUB)
        for subscription in consumer.subscription_data_set or ():
            yield topic_need(subscription.topic, Action.SUB)


def locked_queues(body: bytes, cluster: str) -> Iterator[Need]:
    """LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""
    asked: LockRequest = decode_body(LockRequest, body)
    yield group_need(asked.consumer_group, Action.SUB)
    for queue in asked.mq_set:
        yield topic_need(queue.topic, Action.SUB)


def acknowledged(body: bytes, cluster: str) -> Iterator[Need]:
    """BATCH_ACK_MESSAGE (200151). Its topics are those that were popped, never retry topics."""
    for ack in decode_batch_acks(body):
        yield group_need(ack.group, Action.SUB)
        yield topic_need(ack.topic, Action.SUB)


def lite_subscriptions(body: bytes, cluster: str) -> Iterator[Need]:
    """LITE_SUBSCRIPTION_CTL (200071). The handler refuses entries without a name."""
    for group, topic in {(entry.group, entry.topic) for entry in decode_lite_subscriptions(body)}:
        if group and topic:
            yield group_need(group, Action.SUB)
            yield topic_need(topic, Action.SUB)


def assigned(body: bytes, cluster: str) -> Iterator[Need]:
    """QUERY_ASSIGNMENT (400)."""
    asked: AssignmentRequest = decode_body(AssignmentRequest, body)
    yield group_need(asked.consumer_group, Action.SUB)
    yield topic_need(asked.topic, Action.SUB)


def request_mode(body: bytes, cluster: str) -> Iterator[Need]:
    """SET_MESSAGE_REQUEST_MODE (401): changes how all members of the group consume."""
    mode: RequestMode = decode_body(RequestMode, body)
    yield group_need(mode.consumer_group, Action.SUB, Action.UPDATE)
    yield topic_need(mode.topic, Action.SUB, Action.UPDATE)


def created_topics(body: bytes, cluster: str) -> Iterator[Need]:
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""
    for topic in decode_admin_body(TopicConfigList, body).topic_config_list:
        yield topic_need(topic.topic_name, Action.CREATE)


def deleted_topics(body: bytes, cluster: str) -> Iterator[Need]:
    """DELETE_TOPIC_IN_BROKER_LIST (5002)."""
    for topic in decode_admin_body(ListedTopics, body).topic_list:
        yield topic_need(topic, Action.DELETE)


def deleted_groups(body: bytes, cluster: str) -> Iterator[Need]:
    """DELETE_SUBSCRIPTION_GROUP_LIST (5003)."""
    for group in decode_admin_body(ListedGroups, body).group_name_list:
        yield group_need(group, Action.DELETE)


def created_group(body: bytes, cluster: str) -> Iterator[Need]:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200)."""
    yield group_need(decode_admin_body(SubscriptionGroupConfig, body).group_name, Action.CREATE)


def created_groups(body: bytes, cluster: str) -> Iterator[Need]:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225)."""
    for group in decode_admin_body(GroupConfigList, body).group_config_list:
        yield group_need(group.group_name, Action.CREATE)


def _changed_settings(request: Command, header: Any, cluster: str) -> Iterator[Need]:
    yield cluster_need(cluster, Action.UPDATE)
    forgotten = {key.strip() for key in header.forget.split(";")}
    changed = parse_changes(request.body, may_be_empty=True).keys() | forgotten
    if changed & RETENTION_KEYS:
        yield cluster_need(cluster, Action.DELETE)


# UPDATE_BROKER_CONFIG (25): a setting that makes retention delete more needs the permission to delete.
changed_settings: Final = Claim(("forget",), _changed_settings, (Action.UPDATE,))
