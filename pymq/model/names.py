"""Topic and group names: which are legal, which are RocketMQ's own, and the names of retry and dead-letter topics."""

from __future__ import annotations

import re

from pymq.errors import UsageError

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 255
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
RAFT_TOPIC = "rmq_sys_raft"  # of what the members of a Raft group tell each other in the log
REPAIR_TOPIC = "PYMQ_REPAIR"  # of blank records, which stand for lost ones
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REPLY_SUFFIX = "_REPLY_TOPIC"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"

# Clients may not send to these. Java's TopicValidator has them all but the timer topic, where one bad record stops all
# timers of a RocketMQ broker.
SEND_FORBIDDEN_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
        RAFT_TOPIC,
    }
)
# Records that no message id shows through another topic: they are not for consumers yet, or never.
HIDDEN_TOPICS = frozenset({HALF_TOPIC, OP_HALF_TOPIC, RAFT_TOPIC})
# Records that no consumer gets by their place in the log, which would be before their time.
WAITING_TOPICS = HIDDEN_TOPICS | {SCHEDULE_TOPIC, TIMER_TOPIC}
SYSTEM_TOPICS = SEND_FORBIDDEN_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
# Java: MixAll and SubscriptionGroupManager.init. These groups always exist.
SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_SYS_RMQ_TRANS",
        "CID_RMQ_SYS_TRANS",
    }
)
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

_ALPHABET = re.compile(r"[%|a-zA-Z0-9_-]+\Z")
# Pop's second form of retry topics joins group and topic with a plus sign.
_RETRY_ALPHABET = re.compile(r"[%|a-zA-Z0-9_+-]+\Z")


def topic_problem(topic: str) -> str | None:
    """Return what is wrong with a topic name, as a sentence for a remark; None when it is legal.

    The alphabet has no ``/`` or ``.``, so a legal name can never leave its directory.
    """
    limit = RETRY_TOPIC_LENGTH_MAX if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else TOPIC_LENGTH_MAX
    if topic.startswith(RETRY_PREFIX) and "+" in topic and _RETRY_ALPHABET.match(topic):
        return _name_problem("topic", topic.replace("+", "_"), limit)
    return _name_problem("topic", topic, limit)


def group_problem(group: str) -> str | None:
    """Return what is wrong with a producer or consumer group name; None when it is legal."""
    return _name_problem("group", group, GROUP_LENGTH_MAX)


def check_topic(topic: str) -> str:
    """Return the topic. Raises UsageError saying what is wrong with it."""
    return _checked(topic, topic_problem(topic))


def check_group(group: str) -> str:
    """Return the group. Raises UsageError saying what is wrong with it."""
    return _checked(group, group_problem(group))


def retry_topic(group: str) -> str:
    """Return ``%RETRY%group``. A namespace follows the prefix, because it is part of the group's name."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return ``%DLQ%group``."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic of the replies to requests that a cluster's brokers store."""
    return cluster + REPLY_SUFFIX


def is_reply_topic(topic: str) -> bool:
    """True for the name of a cluster's topic of replies."""
    return topic.endswith(REPLY_SUFFIX)


def is_system_topic(topic: str) -> bool:
    """True for topics that RocketMQ reserves (not retry or dead-letter topics)."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_send_forbidden(topic: str) -> bool:
    """True for topics that only the broker itself may write: what a client stored there would be taken for its own."""
    return topic in SEND_FORBIDDEN_TOPICS or topic.startswith(REVIVE_TOPIC_PREFIX)


def hidden_text(topic: str) -> str:
    """Return the remark for a look-up of a record in one of :data:`WAITING_TOPICS`."""
    if topic not in HIDDEN_TOPICS:
        return (
            f"can not find message: the record is in {topic}, where messages wait until they are due; ask for the "
            "message once it is delivered"
        )
    if topic == RAFT_TOPIC:
        return f"can not find message: the record is in {topic}, which is for the members of a Raft group alone"
    return (
        f"can not find message: the record is in {topic}, which holds transactions that are still open; ask for the "
        "message once its transaction is committed"
    )


def is_user_topic(topic: str) -> bool:
    """True for an application's topic, not a system, retry or dead-letter topic."""
    return (
        not is_system_topic(topic)
        and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        and not topic.endswith(REPLY_SUFFIX)
    )


def is_system_group(group: str) -> bool:
    """True for groups that exist without a configuration."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def _name_problem(kind: str, name: str, limit: int) -> str | None:
    if not name:
        return f"the {kind} name is empty: give a name of 1 to {limit} characters"
    if len(name) > limit:
        return f"the {kind} name {name[:40]!r}… has {len(name)} characters, the limit is {limit}: shorten it"
    if not _ALPHABET.match(name):
        return f"the {kind} name {name[:60]!r} has a character outside %|a-zA-Z0-9_-: use only those"
    return None


def _checked(name: str, problem: str | None) -> str:
    if problem:
        raise UsageError(problem)
    return name
