"""The one table of the broker: request code, typed header, handler and permission of each request it answers.

:data:`pymq.broker.handlers.refused.REFUSED_CODES` lists the codes that are refused, each with its reason.
"""

from __future__ import annotations

from typing import Final

from pymq.broker.handlers.handlers import Handlers
from pymq.wire.codes import RequestCode as Code
from pymq.wire.dispatch import Permission, Route
from pymq.wire.headers.admin import (
    BrokerConsumeStatsHeader,
    CloneGroupOffsetHeader,
    ConsumeDirectlyHeader,
    ConsumerConnectionsHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
    CreateTopicHeader,
    DeleteGroupHeader,
    GetConfigHeader,
    GetTopicConfigHeader,
    GroupForbiddenHeader,
    GroupHeader,
    ProducerConnectionsHeader,
    PutGroupHeader,
    QueryConsumeQueueHeader,
    ResetOffsetHeader,
    StatsDataHeader,
    TopicGroupHeader,
    TopicHeader,
    UpdateConfigHeader,
)
from pymq.wire.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from pymq.wire.headers.filter_server import RegisterFilterServerHeader
from pymq.wire.headers.offset import (
    QueryConsumerOffsetHeader,
    QueueOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pymq.wire.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PopMessageHeader,
)
from pymq.wire.headers.pull import PullMessageHeader, QueryMessageHeader, ViewMessageHeader
from pymq.wire.headers.send import (
    ConsumerSendMsgBackHeader,
    RecallMessageHeader,
    SendMessageHeader,
    SendMessageV2Header,
)
from pymq.wire.headers.transaction import EndTransactionHeader, ResumeCheckHeader

OPEN: Final = Permission.OPEN
PUBLISH: Final = Permission.PUBLISH
SUBSCRIBE: Final = Permission.SUBSCRIBE
ADMIN: Final = Permission.ADMIN
INNER: Final = Permission.INNER


def broker_routes(h: Handlers) -> list[Route]:
    """Return every row. A slave refuses some of them, see :mod:`pymq.broker.replication.slave.rules`."""
    return [
        # -- Sending and pulling
        Route(Code.SEND_MESSAGE, SendMessageHeader, h.sends.send, PUBLISH),
        Route(Code.SEND_MESSAGE_V2, SendMessageV2Header, h.sends.send, PUBLISH),
        Route(Code.SEND_BATCH_MESSAGE, SendMessageV2Header, h.sends.send_batch, PUBLISH),
        Route(Code.SEND_REPLY_MESSAGE, SendMessageHeader, h.replies.reply, PUBLISH),
        Route(Code.SEND_REPLY_MESSAGE_V2, SendMessageV2Header, h.replies.reply, PUBLISH),
        Route(Code.PULL_MESSAGE, PullMessageHeader, h.pulls.pull, SUBSCRIBE),
        Route(Code.LITE_PULL_MESSAGE, PullMessageHeader, h.pulls.pull, SUBSCRIBE),
        Route(Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackHeader, h.send_back.send_back, SUBSCRIBE),
        # -- Pop consumption
        Route(Code.POP_MESSAGE, PopMessageHeader, h.pops.pop, SUBSCRIBE),
        Route(Code.ACK_MESSAGE, AckMessageHeader, h.pops.ack, SUBSCRIBE),
        Route(Code.BATCH_ACK_MESSAGE, None, h.pops.batch_ack, SUBSCRIBE),
        Route(Code.CHANGE_MESSAGE_INVISIBLETIME, ChangeInvisibleTimeHeader, h.pops.change_invisible_time, SUBSCRIBE),
        Route(Code.PEEK_MESSAGE, PeekMessageHeader, h.pops.peek, SUBSCRIBE),
        Route(Code.NOTIFICATION, NotificationHeader, h.pops.notification, SUBSCRIBE),
        Route(Code.POLLING_INFO, PollingInfoHeader, h.pops.polling_info, SUBSCRIBE),
        Route(Code.QUERY_ASSIGNMENT, None, h.assignments.query, SUBSCRIBE),
        Route(Code.SET_MESSAGE_REQUEST_MODE, None, h.assignments.set_mode, ADMIN),
        # -- Transactions
        Route(Code.END_TRANSACTION, EndTransactionHeader, h.transactions.end, PUBLISH),
        Route(Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader, h.transactions.resume_check, ADMIN),
        Route(Code.RECALL_MESSAGE, RecallMessageHeader, h.timers.recall, PUBLISH),
        # -- Consumers: offsets, heartbeats, locks
        Route(Code.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetHeader, h.offsets.query, SUBSCRIBE),
        Route(Code.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetHeader, h.offsets.update, SUBSCRIBE),
        Route(Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader, h.offsets.search, SUBSCRIBE),
        Route(Code.GET_MAX_OFFSET, QueueOffsetHeader, h.offsets.max_offset, SUBSCRIBE),
        Route(Code.GET_MIN_OFFSET, QueueOffsetHeader, h.offsets.min_offset, SUBSCRIBE),
        Route(Code.GET_EARLIEST_MSG_STORETIME, QueueOffsetHeader, h.offsets.earliest_time, SUBSCRIBE),
        Route(Code.HEART_BEAT, None, h.clients.heartbeat, OPEN),
        Route(Code.UNREGISTER_CLIENT, UnregisterClientHeader, h.clients.unregister, OPEN),
        Route(Code.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader, h.clients.consumer_list, SUBSCRIBE),
        Route(Code.CHECK_CLIENT_CONFIG, None, h.clients.check_client, SUBSCRIBE),
        Route(Code.LOCK_BATCH_MQ, None, h.locks.lock, SUBSCRIBE),
        Route(Code.UNLOCK_BATCH_MQ, None, h.locks.unlock, SUBSCRIBE),
        # -- Looking for messages
        Route(Code.QUERY_MESSAGE, QueryMessageHeader, h.query.by_key, SUBSCRIBE),
        Route(Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader, h.query.by_id, SUBSCRIBE),
        # -- Operators: topics and groups
        Route(Code.UPDATE_AND_CREATE_TOPIC, CreateTopicHeader, h.topics_admin.create, ADMIN),
        Route(Code.UPDATE_AND_CREATE_TOPIC_LIST, None, h.topics_admin.create_list, ADMIN),
        Route(Code.DELETE_TOPIC_IN_BROKER, TopicHeader, h.topics_admin.delete, ADMIN),
        Route(Code.GET_TOPIC_CONFIG, GetTopicConfigHeader, h.topics_admin.config_of, ADMIN),
        Route(Code.GET_ALL_TOPIC_CONFIG, None, h.topics_admin.all_configs, INNER),
        Route(Code.GET_TOPIC_STATS_INFO, TopicHeader, h.topics_admin.stats, ADMIN),
        Route(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, h.topics_admin.system_topics, ADMIN),
        Route(Code.CLEAN_UNUSED_TOPIC, None, h.topics_admin.clean_unused, ADMIN),
        Route(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, PutGroupHeader, h.groups_admin.create, ADMIN),
        Route(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, h.groups_admin.create_list, ADMIN),
        Route(Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader, h.groups_admin.delete, ADMIN),
        Route(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, h.groups_admin.all_configs, INNER),
        Route(Code.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader, h.groups_admin.config_of, ADMIN),
        Route(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, GroupForbiddenHeader, h.groups_admin.forbid, ADMIN),
        # -- Operators: consumers and what they have consumed
        Route(Code.GET_CONSUMER_CONNECTION_LIST, ConsumerConnectionsHeader, h.connections.consumers, ADMIN),
        Route(Code.GET_PRODUCER_CONNECTION_LIST, ProducerConnectionsHeader, h.connections.producers, ADMIN),
        Route(Code.GET_ALL_PRODUCER_INFO, None, h.connections.all_producers, ADMIN),
        Route(Code.GET_CONSUME_STATS, ConsumeStatsHeader, h.consumption.consume_stats, ADMIN),
        Route(Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader, h.consumption.broker_consume_stats, ADMIN),
        Route(Code.QUERY_CONSUME_TIME_SPAN, TopicGroupHeader, h.consumption.time_spans, ADMIN),
        Route(Code.QUERY_CORRECTION_OFFSET, CorrectionOffsetHeader, h.consumption.correction_offsets, ADMIN),
        Route(Code.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader, h.consumption.groups_of_topic, ADMIN),
        Route(Code.QUERY_TOPICS_BY_CONSUMER, GroupHeader, h.consumption.topics_of_group, ADMIN),
        Route(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, TopicGroupHeader, h.consumption.subscription, ADMIN),
        Route(Code.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetHeader, h.resets.reset, ADMIN),
        Route(Code.CLONE_GROUP_OFFSET, CloneGroupOffsetHeader, h.resets.clone, ADMIN),
        Route(Code.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoHeader, h.relay.running_info, ADMIN),
        Route(Code.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, h.relay.consume_directly, ADMIN),
        Route(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ConsumerStatusHeader, h.relay.consumer_status, ADMIN),
        # -- Operators: this broker
        Route(Code.UPDATE_BROKER_CONFIG, UpdateConfigHeader, h.broker_admin.update_config, ADMIN),
        Route(Code.PYMQ_PLAN_BROKER_CONFIG, UpdateConfigHeader, h.broker_admin.plan_config, ADMIN),
        Route(Code.GET_BROKER_CONFIG, GetConfigHeader, h.broker_admin.config, ADMIN),
        Route(Code.GET_BROKER_RUNTIME_INFO, None, h.broker_admin.runtime_info, ADMIN),
        Route(Code.VIEW_BROKER_STATS_DATA, StatsDataHeader, h.broker_admin.stats_data, ADMIN),
        Route(Code.QUERY_CONSUME_QUEUE, QueryConsumeQueueHeader, h.broker_admin.queue_entries, ADMIN),
        Route(Code.CLEAN_EXPIRED_CONSUMEQUEUE, None, h.broker_admin.clean_expired_queues, ADMIN),
        Route(Code.DELETE_EXPIRED_COMMITLOG, None, h.broker_admin.delete_expired_segments, ADMIN),
        # -- Replication: tables, log, status, roles
        Route(Code.GET_ALL_CONSUMER_OFFSET, None, h.tables.consumer_offsets, INNER),
        Route(Code.GET_ALL_DELAY_OFFSET, None, h.tables.delay_offsets, INNER),
        Route(Code.GET_ALL_MESSAGE_REQUEST_MODE, None, h.tables.request_modes, INNER),
        Route(Code.GET_TIMER_CHECK_POINT, None, h.timers.check_point, INNER),
        Route(Code.GET_TIMER_METRICS, None, h.timers.metrics, INNER),
        Route(Code.PYMQ_COPY_METADATA, None, h.replicas.copy_metadata, INNER),
        Route(Code.PYMQ_JOIN_MASTER, None, h.replicas.join, INNER),
        Route(Code.PYMQ_GET_REPLICATION_STATUS, None, h.replication_status.status, ADMIN),
        Route(Code.GET_BROKER_HA_STATUS, None, h.replication_status.ha_status, ADMIN),
        Route(Code.GET_BROKER_EPOCH_CACHE, None, h.replication_status.epochs, ADMIN),
        Route(Code.PYMQ_CHANGE_ROLE, None, h.role_change.change_role, ADMIN),
        Route(Code.PYMQ_LIST_LOG_DIGESTS, None, h.log_copy.digests, INNER),
        Route(Code.PYMQ_READ_LOG, None, h.log_copy.read, INNER),
        # -- Filter servers
        Route(Code.REGISTER_FILTER_SERVER, RegisterFilterServerHeader, h.filter_servers.register, INNER),
    ]
