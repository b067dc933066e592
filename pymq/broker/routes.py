"""The one table of the broker: what it does with each request, in each role, and what the sender must be allowed.

:data:`pymq.broker.handlers.refused.REFUSED_CODES` lists the codes that are refused, each with its reason.
"""

from __future__ import annotations

from pymq.broker import row_access as access
from pymq.broker.handlers.handlers import Handlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.request_row import (
    LEAVES,
    NO_CHANGES,
    NO_LOCKS,
    NO_POPS,
    NO_RECALLS,
    NO_SENDS,
    NO_TRANSACTIONS,
    SERVES,
    Row,
    Rule,
)
from pymq.wire.codes import RequestCode as Code
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
    DeleteTopicHeader,
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
    TopicStatsHeader,
    UpdateConfigHeader,
)
from pymq.wire.headers.auth import DeleteAclHeader, ListAclsHeader, ListUsersHeader, SubjectHeader, UserHeader
from pymq.wire.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from pymq.wire.headers.filter_server import RegisterFilterServerHeader
from pymq.wire.headers.lites import (
    LiteClientHeader,
    LiteGroupHeader,
    LiteTopicHeader,
    ParentTopicHeader,
    PopLiteHeader,
    TriggerLiteHeader,
)
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


def broker_rows(h: Handlers) -> list[Row]:
    """Return every row. :mod:`pymq.broker.assembly.wiring` makes a role's table of them."""
    return [
        # -- Sending and pulling
        Row(Code.SEND_MESSAGE, SendMessageHeader, h.sends.send, access.PUBLISH, NO_SENDS, Rule.LARGE_BODY),
        Row(Code.SEND_MESSAGE_V2, SendMessageV2Header, h.sends.send, access.PUBLISH, NO_SENDS, Rule.LARGE_BODY),
        Row(
            Code.SEND_BATCH_MESSAGE, SendMessageV2Header, h.sends.send_batch, access.PUBLISH, NO_SENDS, Rule.LARGE_BODY
        ),
        Row(Code.SEND_REPLY_MESSAGE, SendMessageHeader, h.replies.reply, access.REPLY, NO_SENDS, Rule.LARGE_BODY),
        Row(Code.SEND_REPLY_MESSAGE_V2, SendMessageV2Header, h.replies.reply, access.REPLY, NO_SENDS, Rule.LARGE_BODY),
        Row(Code.PULL_MESSAGE, PullMessageHeader, h.pulls.pull, access.CONSUME, SERVES),
        Row(Code.LITE_PULL_MESSAGE, PullMessageHeader, h.pulls.pull, access.CONSUME, SERVES),
        Row(Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackHeader, h.send_back.send_back, access.SEND_BACK, NO_SENDS),
        # -- Pop consumption
        Row(Code.POP_MESSAGE, PopMessageHeader, h.pops.pop, access.CONSUME, NO_POPS, Rule.FENCED),
        Row(Code.ACK_MESSAGE, AckMessageHeader, h.pops.ack, access.USE_RECEIPT, NO_POPS, Rule.FENCED),
        Row(Code.BATCH_ACK_MESSAGE, None, h.pops.batch_ack, access.USE_RECEIPTS, NO_POPS, Rule.FENCED),
        Row(
            Code.CHANGE_MESSAGE_INVISIBLETIME,
            ChangeInvisibleTimeHeader,
            h.pops.change_invisible_time,
            access.USE_RECEIPT,
            NO_POPS,
            Rule.FENCED,
        ),
        Row(Code.POP_LITE_MESSAGE, PopLiteHeader, h.lite_pops.pop, access.CONSUME, NO_POPS, Rule.FENCED),
        Row(
            Code.LITE_SUBSCRIPTION_CTL,
            None,
            h.lite_pops.subscribe,
            access.SUBSCRIBE_LITE,
            NO_POPS,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(Code.PEEK_MESSAGE, PeekMessageHeader, h.pops.peek, access.CONSUME, NO_POPS, Rule.FENCED),
        Row(Code.NOTIFICATION, NotificationHeader, h.pops.notification, access.CONSUME, NO_POPS, Rule.FENCED),
        Row(Code.POLLING_INFO, PollingInfoHeader, h.pops.polling_info, access.SEE_QUEUE_OF_GROUP, NO_POPS, Rule.FENCED),
        Row(Code.QUERY_ASSIGNMENT, None, h.assignments.query, access.ASSIGN, SERVES),
        Row(Code.SET_MESSAGE_REQUEST_MODE, None, h.assignments.set_mode, access.SET_MODE, NO_CHANGES, Rule.FENCED),
        # -- Transactions
        Row(Code.END_TRANSACTION, EndTransactionHeader, h.transactions.end, access.END_TRANSACTION, NO_TRANSACTIONS),
        Row(
            Code.RESUME_CHECK_HALF_MESSAGE,
            ResumeCheckHeader,
            h.transactions.resume_check,
            access.RESUME_CHECK,
            NO_TRANSACTIONS,
        ),
        Row(Code.RECALL_MESSAGE, RecallMessageHeader, h.timers.recall, access.PUBLISH, NO_RECALLS),
        # -- Consumers: offsets, heartbeats, locks
        Row(
            Code.QUERY_CONSUMER_OFFSET,
            QueryConsumerOffsetHeader,
            h.offsets.query,
            access.QUERY_OFFSET,
            SERVES,
            Rule.CURRENT,
        ),
        Row(
            Code.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetHeader,
            h.offsets.update,
            access.UPDATE_OFFSET,
            SERVES,
            Rule.AWAITS_OFFSETS,
        ),
        Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader, h.offsets.search, access.READ_TOPIC, SERVES),
        Row(Code.GET_MAX_OFFSET, QueueOffsetHeader, h.offsets.max_offset, access.READ_TOPIC, SERVES, Rule.CURRENT),
        Row(Code.GET_MIN_OFFSET, QueueOffsetHeader, h.offsets.min_offset, access.READ_TOPIC, SERVES),
        Row(Code.GET_EARLIEST_MSG_STORETIME, QueueOffsetHeader, h.offsets.earliest_time, access.READ_TOPIC, SERVES),
        Row(Code.HEART_BEAT, None, h.clients.heartbeat, access.HEARTBEAT, SERVES),
        Row(Code.UNREGISTER_CLIENT, UnregisterClientHeader, h.clients.unregister, access.UNREGISTER, SERVES),
        Row(Code.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader, h.clients.consumer_list, access.LIST_MEMBERS, SERVES),
        Row(Code.CHECK_CLIENT_CONFIG, None, h.clients.check_client, access.CHECK_FILTER, SERVES),
        Row(Code.LOCK_BATCH_MQ, None, h.locks.lock, access.LOCK, NO_LOCKS),
        Row(Code.UNLOCK_BATCH_MQ, None, h.locks.unlock, access.LOCK, NO_LOCKS),
        # -- Looking for messages
        Row(Code.QUERY_MESSAGE, QueryMessageHeader, h.query.by_key, access.READ_TOPIC, SERVES),
        Row(Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader, h.query.by_id, access.VIEW_MESSAGE, SERVES),
        # -- Operators: topics and groups
        Row(
            Code.UPDATE_AND_CREATE_TOPIC,
            CreateTopicHeader,
            h.topics_admin.create,
            access.CREATE_TOPIC,
            NO_CHANGES,
            Rule.FENCED,
        ),
        Row(
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            None,
            h.topics_admin.create_list,
            access.CREATE_TOPICS,
            NO_CHANGES,
            Rule.FENCED,
        ),
        Row(
            Code.DELETE_TOPIC_IN_BROKER,
            DeleteTopicHeader,
            h.topics_admin.delete,
            access.DELETE_TOPIC,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(
            Code.DELETE_TOPIC_IN_BROKER_LIST,
            None,
            h.topics_admin.delete_list,
            access.DELETE_TOPICS,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(Code.GET_TOPIC_CONFIG, GetTopicConfigHeader, h.topics_admin.config_of, access.SEE_TOPIC, SERVES),
        Row(Code.GET_ALL_TOPIC_CONFIG, None, h.topics_admin.all_configs, access.SEE_BROKER, SERVES),
        Row(Code.GET_TOPIC_STATS_INFO, TopicStatsHeader, h.topics_admin.stats, access.SEE_ENDS, SERVES),
        Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, h.topics_admin.system_topics, access.SEE_BROKER, SERVES),
        Row(Code.CLEAN_UNUSED_TOPIC, None, h.topics_admin.clean_unused, access.DELETE_DATA, LEAVES),
        Row(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            PutGroupHeader,
            h.groups_admin.create,
            access.CREATE_GROUP,
            NO_CHANGES,
            Rule.FENCED,
        ),
        Row(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            None,
            h.groups_admin.create_list,
            access.CREATE_GROUPS,
            NO_CHANGES,
            Rule.FENCED,
        ),
        Row(
            Code.DELETE_SUBSCRIPTIONGROUP,
            DeleteGroupHeader,
            h.groups_admin.delete,
            access.DELETE_GROUP,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(
            Code.DELETE_SUBSCRIPTION_GROUP_LIST,
            None,
            h.groups_admin.delete_list,
            access.DELETE_GROUPS,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, h.groups_admin.all_configs, access.SEE_BROKER, SERVES),
        Row(Code.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader, h.groups_admin.config_of, access.SEE_GROUP, SERVES),
        Row(
            Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
            GroupForbiddenHeader,
            h.groups_admin.forbid,
            access.CHANGE_TOPIC_OF_GROUP,
            NO_CHANGES,
            Rule.FENCED,
        ),
        # -- Operators: consumers and what they have consumed
        Row(
            Code.GET_CONSUMER_CONNECTION_LIST,
            ConsumerConnectionsHeader,
            h.connections.consumers,
            access.SEE_CONNECTIONS,
            SERVES,
        ),
        Row(
            Code.GET_PRODUCER_CONNECTION_LIST,
            ProducerConnectionsHeader,
            h.connections.producers,
            access.SEE_BROKER,
            SERVES,
        ),
        Row(Code.GET_ALL_PRODUCER_INFO, None, h.connections.all_producers, access.SEE_BROKER, SERVES),
        Row(Code.GET_CONSUME_STATS, ConsumeStatsHeader, h.consumption.consume_stats, access.SEE_LAG, SERVES),
        Row(
            Code.GET_BROKER_CONSUME_STATS,
            BrokerConsumeStatsHeader,
            h.consumption.broker_consume_stats,
            access.SEE_BROKER,
            SERVES,
        ),
        Row(
            Code.QUERY_CONSUME_TIME_SPAN, TopicGroupHeader, h.consumption.time_spans, access.SEE_TOPIC_OF_GROUP, SERVES
        ),
        Row(
            Code.QUERY_CORRECTION_OFFSET,
            CorrectionOffsetHeader,
            h.consumption.correction_offsets,
            access.COMPARE_GROUPS,
            SERVES,
        ),
        Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader, h.consumption.groups_of_topic, access.SEE_TOPIC, SERVES),
        Row(Code.QUERY_TOPICS_BY_CONSUMER, GroupHeader, h.consumption.topics_of_group, access.SEE_GROUP, SERVES),
        Row(
            Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
            TopicGroupHeader,
            h.consumption.subscription,
            access.SEE_TOPIC_OF_GROUP,
            SERVES,
        ),
        Row(
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetHeader,
            h.resets.reset,
            access.CHANGE_TOPIC_OF_GROUP,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(
            Code.CLONE_GROUP_OFFSET,
            CloneGroupOffsetHeader,
            h.resets.clone,
            access.CLONE_OFFSETS,
            NO_CHANGES,
            Rule.FENCED | Rule.AWAITS_OFFSETS,
        ),
        Row(
            Code.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoHeader, h.relay.running_info, access.SEE_MEMBERS, SERVES
        ),
        Row(
            Code.CONSUME_MESSAGE_DIRECTLY,
            ConsumeDirectlyHeader,
            h.relay.consume_directly,
            access.CONSUME_DIRECTLY,
            SERVES,
            Rule.LARGE_BODY,
        ),
        Row(
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            ConsumerStatusHeader,
            h.relay.consumer_status,
            access.SEE_TOPIC_OF_GROUP,
            SERVES,
        ),
        # -- Operators: lite topics
        Row(Code.GET_BROKER_LITE_INFO, None, h.lites.broker, access.SEE_BROKER, SERVES),
        Row(Code.GET_PARENT_TOPIC_INFO, ParentTopicHeader, h.lites.parent, access.SEE_TOPIC, SERVES),
        Row(Code.GET_LITE_TOPIC_INFO, LiteTopicHeader, h.lites.lite_topic, access.SEE_PARENT, SERVES),
        Row(Code.GET_LITE_CLIENT_INFO, LiteClientHeader, h.lites.client, access.SEE_PARENT_OF_GROUP, SERVES),
        Row(Code.GET_LITE_GROUP_INFO, LiteGroupHeader, h.lites.group, access.SEE_LITE_LAG, SERVES),
        Row(Code.TRIGGER_LITE_DISPATCH, TriggerLiteHeader, h.lite_pops.trigger, access.CHANGE_GROUP, NO_POPS),
        # -- Operators: this broker
        Row(Code.UPDATE_BROKER_CONFIG, UpdateConfigHeader, h.settings.update_config, access.CHANGE_SETTINGS, SERVES),
        Row(Code.PYMQ_PLAN_BROKER_CONFIG, UpdateConfigHeader, h.settings.plan_config, access.SEE_BROKER, SERVES),
        Row(Code.GET_BROKER_CONFIG, GetConfigHeader, h.settings.config, access.SEE_BROKER, SERVES),
        Row(Code.GET_BROKER_RUNTIME_INFO, None, h.figures.runtime_info, access.SEE_BROKER, SERVES),
        Row(Code.VIEW_BROKER_STATS_DATA, StatsDataHeader, h.figures.stats_data, access.SEE_BROKER, SERVES),
        Row(
            Code.QUERY_CONSUME_QUEUE,
            QueryConsumeQueueHeader,
            h.store_admin.queue_entries,
            access.SEE_QUEUE_OF_GROUP,
            SERVES,
        ),
        Row(Code.CLEAN_EXPIRED_CONSUMEQUEUE, None, h.store_admin.clean_expired_queues, access.DELETE_DATA, SERVES),
        Row(Code.DELETE_EXPIRED_COMMITLOG, None, h.store_admin.delete_expired_segments, access.DELETE_DATA, SERVES),
        # -- Replication: tables, log, status, roles
        Row(Code.GET_ALL_CONSUMER_OFFSET, None, h.tables.consumer_offsets, access.SEE_BROKER, SERVES),
        Row(Code.GET_ALL_DELAY_OFFSET, None, h.tables.delay_offsets, access.SEE_BROKER, SERVES),
        Row(Code.GET_ALL_MESSAGE_REQUEST_MODE, None, h.tables.request_modes, access.SEE_BROKER, SERVES),
        Row(Code.GET_TIMER_CHECK_POINT, None, h.timers.check_point, access.SEE_BROKER, SERVES),
        Row(Code.GET_TIMER_METRICS, None, h.timers.metrics, access.SEE_BROKER, SERVES),
        Row(Code.PYMQ_COPY_METADATA, None, h.replicas.copy_metadata, access.PEERS, SERVES),
        Row(Code.PYMQ_JOIN_MASTER, None, h.replicas.join, access.PEERS, SERVES),
        Row(Code.PYMQ_GET_REPLICATION_STATUS, None, h.replication_status.status, access.SEE_BROKER, SERVES),
        Row(Code.GET_BROKER_HA_STATUS, None, h.replication_status.ha_status, access.SEE_BROKER, SERVES),
        Row(Code.GET_BROKER_EPOCH_CACHE, None, h.replication_status.epochs, access.SEE_BROKER, SERVES),
        Row(Code.PYMQ_CHANGE_ROLE, None, h.role_change.change_role, access.CHANGE_BROKER, SERVES),
        Row(Code.PYMQ_CHANGE_RAFT_GROUP, None, h.raft_group.change, access.CHANGE_BROKER, SERVES),
        Row(Code.PYMQ_LIST_LOG_DIGESTS, None, h.log_copy.digests, access.PEERS, SERVES),
        Row(Code.PYMQ_READ_LOG, None, h.log_copy.read, access.PEERS, SERVES),
        *raft_rows(h.raft),
        # -- Operators: users and what they may do
        Row(Code.AUTH_CREATE_USER, UserHeader, h.auth.create_user, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_UPDATE_USER, UserHeader, h.auth.update_user, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_DELETE_USER, UserHeader, h.auth.delete_user, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_GET_USER, UserHeader, h.auth.get_user, access.SEE_BROKER, SERVES),
        Row(Code.AUTH_LIST_USER, ListUsersHeader, h.auth.list_users, access.SEE_BROKER, SERVES),
        Row(Code.AUTH_CREATE_ACL, SubjectHeader, h.auth.put_acl, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_UPDATE_ACL, SubjectHeader, h.auth.put_acl, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_DELETE_ACL, DeleteAclHeader, h.auth.delete_acl, access.CHANGE_BROKER, LEAVES, Rule.FENCED),
        Row(Code.AUTH_GET_ACL, SubjectHeader, h.auth.get_acl, access.SEE_BROKER, SERVES),
        Row(Code.AUTH_LIST_ACL, ListAclsHeader, h.auth.list_acls, access.SEE_BROKER, SERVES),
        # -- Filter servers
        Row(Code.REGISTER_FILTER_SERVER, RegisterFilterServerHeader, h.filter_servers.register, access.PEERS, SERVES),
    ]


def raft_rows(raft: RaftHandlers) -> list[Row]:
    """Return the rows of a Raft group's members, which are answered while the broker changes its role as well."""
    return [
        Row(Code.PYMQ_RAFT_MESSAGE, None, raft.message, access.PEERS, SERVES),
        Row(Code.PYMQ_RAFT_APPEND, None, raft.log_bytes, access.PEERS, SERVES, Rule.LARGE_BODY),
        Row(Code.PYMQ_RAFT_NODE, None, raft.node, access.PEERS, SERVES),
    ]
