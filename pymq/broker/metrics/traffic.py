"""Messages in and out by topic and group; sends, pulls and delayed messages that wait.

Names, labels and units of ``rocketmq_…`` are those of RocketMQ 5.3.3 (Java: BrokerMetricsManager). The meters don't
know a message's type, so ``message_type`` is RocketMQ's word for an unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.stats.stats_manager import Meter
from pymq.metrics.family import Family, Reading, bounded, counter, gauge, single
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_GROUP_PREFIX, is_system_topic

UNKNOWN_TYPE = "unspecified"
GroupMeter = tuple[tuple[str, str], Meter]  # by topic and group

PERMISSION = gauge("rocketmq_broker_permission", "What clients may do: 2 write, 4 read, 6 both.")
TOPICS = gauge("rocketmq_topic_number", "Topics, including system topics.")
GROUPS = gauge("rocketmq_consumer_group_number", "Configured consumer groups.")
_IN = ("topic", "message_type", "is_system")
_OUT = ("topic", "consumer_group", "is_system")
MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages stored for clients' sends.", *_IN)
BYTES_IN = counter("rocketmq_throughput_in_total", "Bytes of their records.", *_IN, unit="bytes")
MESSAGES_OUT = counter("rocketmq_messages_out_total", "Messages given to pulls, without retry topics.", *_OUT)
BYTES_OUT = counter("rocketmq_throughput_out_total", "Bytes of their records.", *_OUT, unit="bytes")
DEAD = counter("rocketmq_send_to_dlq_messages_total", "Messages that became dead letters.", *_OUT)
SENDS = counter("pymq_send_requests_total", "Requests that stored messages, by topic.", "topic")
SENDS_WAITING = gauge("pymq_sends_waiting", "Stored sends whose answer waits for the disk or slaves.")
FAILED_COMMITS = counter(
    "pymq_failed_commits_total", "Commits that failed; each stores all messages of one turn of the event loop."
)
PULLS = counter("pymq_pull_requests_total", "Pulls that found messages.", "topic", "consumer_group")
SENT_BACK = counter("pymq_messages_sent_back_total", "Messages that consumers gave back.", "topic", "consumer_group")
PULLS_PARKED = gauge("pymq_pulls_parked", "Pulls that wait for messages.")
PULLS_REFUSED = counter(
    "pymq_pulls_not_parked_total", "Pulls that could not wait because `parkedPullCountMax` waited already."
)
DELAYED = counter("pymq_delayed_messages_delivered_total", "Delayed messages and retries that came due.")
DELAYED_DROPPED = counter("pymq_delayed_messages_dropped_total", "Delayed messages that could not be delivered.")
DELAYED_WAITING = gauge("pymq_delayed_messages_waiting", "Delayed messages that are not due yet.", "level")


class TrafficMetrics:
    """The figures of sends, pulls and delayed messages."""

    metrics = (
        *(PERMISSION, TOPICS, GROUPS, MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, DEAD, SENDS, PULLS, SENT_BACK),
        *(SENDS_WAITING, FAILED_COMMITS, PULLS_PARKED, PULLS_REFUSED, DELAYED, DELAYED_DROPPED, DELAYED_WAITING),
    )

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        parts, stats = self._parts, self._parts.stats
        series_max = parts.config.metrics_series_max
        yield single(PERMISSION, parts.config.broker_permission)
        yield single(TOPICS, len(parts.metadata.topics))
        yield single(GROUPS, len(parts.metadata.groups))
        sent, left_out = bounded(stats.topic_put.items(), series_max)
        yield Family(MESSAGES_IN, _incoming(sent, "count"), left_out)
        yield Family(BYTES_IN, _incoming(sent, "size_bytes"), left_out)
        yield Family(SENDS, (Reading((topic,), meter.calls) for topic, meter in sent), left_out)
        got, left_out = bounded(stats.group_get.items(), series_max)
        yield Family(MESSAGES_OUT, _outgoing(_without_retries(got), "count"), left_out)
        yield Family(BYTES_OUT, _outgoing(_without_retries(got), "size_bytes"), left_out)
        yield Family(PULLS, (Reading(key, meter.calls) for key, meter in got), left_out)
        sent_back, left_out = bounded(stats.send_back.items(), series_max)
        yield Family(SENT_BACK, (Reading(key, meter.count) for key, meter in sent_back), left_out)
        dead, left_out = bounded(stats.dead_letters.items(), series_max)
        yield Family(DEAD, _outgoing(dead, "count"), left_out)
        yield from self._waiting()

    def _waiting(self) -> Iterator[Family]:
        parts = self._parts
        polls, delays = parts.requests.long_polls, parts.messages.delays
        yield single(SENDS_WAITING, parts.messages.waiting_answers.waiting_count)
        yield single(FAILED_COMMITS, parts.messages.writer.failed_commit_count)
        yield single(PULLS_PARKED, polls.count)
        yield single(PULLS_REFUSED, polls.refused_count)
        yield single(DELAYED, delays.delivered_count)
        yield single(DELAYED_DROPPED, delays.dropped_count)
        waiting = {
            level: parts.store.max_offset(SCHEDULE_TOPIC, level - 1) - offset
            for level, offset in delays.offsets().items()
        }
        yield Family(DELAYED_WAITING, [Reading((str(level),), max(0, count)) for level, count in waiting.items()])


def truth(value: bool) -> str:
    """Return ``value`` as RocketMQ writes it into labels."""
    return "true" if value else "false"


def is_system_owned(group: str) -> bool:
    """Return whether a group is the system's (Java: BrokerMetricsManager.isSystemGroup)."""
    return group.upper().startswith(SYSTEM_GROUP_PREFIX)


def is_system(topic: str, group: str) -> bool:
    """Return whether a topic or its group is the system's (Java: BrokerMetricsManager.isSystem)."""
    return is_system_topic(topic) or is_system_owned(group)


def _incoming(meters: Iterable[tuple[str, Meter]], value: str) -> Iterator[Reading]:
    for topic, meter in meters:
        yield Reading((topic, UNKNOWN_TYPE, truth(is_system_topic(topic))), getattr(meter, value))


def _outgoing(meters: Iterable[GroupMeter], value: str) -> Iterator[Reading]:
    for (topic, group), meter in meters:
        yield Reading((topic, group, truth(is_system(topic, group))), getattr(meter, value))


def _without_retries(meters: Iterable[GroupMeter]) -> Iterator[GroupMeter]:
    return (row for row in meters if not row[0][0].startswith((RETRY_PREFIX, DLQ_PREFIX)))
