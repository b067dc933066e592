"""Metrics with the names and labels of Apache's rocketmq-exporter, so that dashboards made for it work.

Its sources: RMQMetricsCollector (names, labels), MetricsCollectTask (what it asks for). It shows all as gauges.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from pymq.metrics.family import Family, Metric, Reading, gauge
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from pymq.operations.facts import BrokerFacts, Facts

RuntimeSource = Callable[[BrokerFacts], float | None]
_BROADCASTING = "BROADCASTING"
CLUSTERING_ORDINAL = "1"  # of Java's MessageModel; broadcasting groups have no lag
_BROKER = ("cluster", "brokerIP", "broker")
_TOPIC = ("cluster", "broker", "topic")
_GROUP = ("cluster", "broker", "topic", "group")
_DIFF = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_RUNTIME = ("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version")

BROKER_TPS = gauge("rocketmq_broker_tps", "Messages a second that a broker took in, in the last minute.", *_BROKER)
BROKER_QPS = gauge("rocketmq_broker_qps", "Messages a second that a broker gave out, in the last minute.", *_BROKER)
LOG_DIFF = gauge("rocketmq_broker_commitlog_diff", "Log bytes that a slave lacks.", *_BROKER)
TOPIC_TPS = gauge("rocketmq_producer_tps", "Messages a second sent to a topic, in the last minute.", *_TOPIC)
TOPIC_SIZE = gauge("rocketmq_producer_message_size", "Bytes a second sent to a topic, in the last minute.", *_TOPIC)
TOPIC_OFFSET = gauge("rocketmq_producer_offset", "Sum of the ends of a topic's queues.", *_TOPIC)
RETRY_OFFSET = gauge("rocketmq_topic_retry_offset", "Sum of the ends of a retry topic's queues.", *_TOPIC)
DLQ_OFFSET = gauge(
    "rocketmq_topic_dlq_offset", "Sum of the ends of a group's dead-letter queues.", *("cluster", "broker", "group")
)
PRODUCERS = gauge("rocketmq_producer_count", "Connected producers of a group.", *("cluster", "broker", "group"))
MEMBERS = gauge("rocketmq_group_count", "Connected members of a group.", *("caddr", "localaddr", "group"))
DIFF = gauge("rocketmq_group_diff", "Messages that a group is behind in a topic.", *_DIFF)
RETRY_DIFF = gauge("rocketmq_group_retrydiff", "Messages that a group is behind in its retry topic.", *_DIFF)
DLQ_DIFF = gauge("rocketmq_group_dlqdiff", "Messages that a group is behind in dead letters.", *_DIFF)
GROUP_TPS = gauge("rocketmq_consumer_tps", "Messages a second that a group got, in the last minute.", *_GROUP)
GROUP_SIZE = gauge("rocketmq_consumer_message_size", "Bytes a second that a group got, in the last minute.", *_GROUP)
GROUP_OFFSET = gauge("rocketmq_consumer_offset", "Sum of a group's committed offsets in a topic.", *_GROUP)
SENT_BACK = gauge("rocketmq_send_back_nums", "Messages a second that a group gave back, in the last minute.", *_GROUP)
LATENCY = gauge(
    "rocketmq_group_get_latency_by_storetime",
    "Age in ms of the last message that a group consumed, where it is behind.",
    *_GROUP,
)

# Of a member's own report: metric -> the figure's name in its status table.
_CLIENT = ("clientAddr", "clientId", "group", "topic")
_CLIENT_SOURCES = {
    gauge("rocketmq_client_consume_fail_msg_count", "Messages that failed at a member.", *_CLIENT): "consumeFailedMsgs",
    gauge("rocketmq_client_consume_fail_msg_tps", "Messages a second that fail.", *_CLIENT): "consumeFailedTPS",
    gauge("rocketmq_client_consume_ok_msg_tps", "Messages a second that succeed.", *_CLIENT): "consumeOKTPS",
    gauge("rocketmq_client_consume_rt", "Time in ms that a message takes at a member.", *_CLIENT): "consumeRT",
    gauge("rocketmq_client_consumer_pull_rt", "Time in ms that a pull takes at a member.", *_CLIENT): "pullRT",
    gauge("rocketmq_client_consumer_pull_tps", "Messages a second that a member pulls.", *_CLIENT): "pullTPS",
}

# Name after rocketmq_brokeruntime_ -> key of the runtime table, and which of its numbers.
_RATES = {"getfound": "getFoundTps", "gettotal": "getTotalTps", "getmiss": "getMissTps", "put": "putTps"}
_RUNTIME_KEYS: dict[str, tuple[str, int]] = {
    "msg_put_total_today_now": ("msgPutTotalTodayNow", 0),
    "msg_gettotal_today_now": ("msgGetTotalTodayNow", 0),
    "msg_puttotal_todaymorning": ("msgPutTotalTodayMorning", 0),
    "msg_gettotal_todaymorning": ("msgGetTotalTodayMorning", 0),
    "msg_puttotal_yesterdaymorning": ("msgPutTotalYesterdayMorning", 0),
    "msg_gettotal_yesterdaymorning": ("msgGetTotalYesterdayMorning", 0),
    "dispatch_behind_bytes": ("dispatchBehindBytes", 0),
    "dispatch_maxbuffer": ("dispatchMaxBuffer", 0),
    "put_message_size_total": ("putMessageSizeTotal", 0),
    "put_message_average_size": ("putMessageAverageSize", 0),
    "putmessage_times_total": ("putMessageTimesTotal", 0),
    "putmessage_entire_time_max": ("putMessageEntireTimeMax", 0),
    "getmessage_entire_time_max": ("getMessageEntireTimeMax", 0),
    "put_latency_99": ("putLatency99", 0),
    "put_latency_999": ("putLatency999", 0),
    "remain_transientstore_buffer_numbs": ("remainTransientStoreBufferNumbs", 0),
    "earliest_message_timestamp": ("earliestMessageTimeStamp", 0),
    "start_accept_sendrequest_time": ("startAcceptSendRequestTimeStamp", 0),
    "pagecache_lock_time_mills": ("pageCacheLockTimeMills", 0),
    "commitlog_disk_ratio": ("commitLogDiskRatio", 0),
    "consumequeue_disk_ratio": ("consumeQueueDiskRatio", 0),
    "commitlog_maxoffset": ("commitLogMaxOffset", 0),
    "commitlog_minoffset": ("commitLogMinOffset", 0),
    "send_threadpool_queue_size": ("sendThreadPoolQueueSize", 0),
    "send_threadpoolqueue_capacity": ("sendThreadPoolQueueCapacity", 0),
    "send_threadpoolqueue_headwait_timemills": ("sendThreadPoolQueueHeadWaitTimeMills", 0),
    "pull_threadpoolqueue_size": ("pullThreadPoolQueueSize", 0),
    "pull_threadpoolqueue_capacity": ("pullThreadPoolQueueCapacity", 0),
    "pull_threadpoolqueue_headwait_timemills": ("pullThreadPoolQueueHeadWaitTimeMills", 0),
    "query_threadpoolqueue_size": ("queryThreadPoolQueueSize", 0),
    "query_threadpool_queue_capacity": ("queryThreadPoolQueueCapacity", 0),
    "query_threadpoolqueue_headwait_timemills": ("queryThreadPoolQueueHeadWaitTimeMills", 0),
    **{
        f"{name}_tps{seconds}": (key, index)
        for name, key in (*_RATES.items(), ("gettransfered", "getTransferredTps"))
        for index, seconds in enumerate((10, 60, 600))
    },
}
# Name after rocketmq_brokeruntime_pmdt_ -> label in putMessageDistributeTime.
_TIMES = {
    "0ms": "<=0ms",
    "0to10ms": "0~10ms",
    "10to50ms": "10~50ms",
    "50to100ms": "50~100ms",
    "100to200ms": "100~200ms",
    "200to500ms": "200~500ms",
    "500to1s": "500ms~1s",
    "1to2s": "1~2s",
    "2to3s": "2~3s",
    "3to4s": "3~4s",
    "4to5s": "4~5s",
    "5to10s": "5~10s",
    "10stomore": "10s~",
}
_TIME_COUNT = re.compile(r"\[([^]]+)\]:(\d+)")


def _runtime_gauge(name: str, meaning: str) -> Metric:
    return gauge(f"rocketmq_brokeruntime_{name}", meaning, *_RUNTIME)


def _figure(key: str, index: int) -> RuntimeSource:
    return lambda broker: broker.figure(key, index)


def _sends_that_took(label: str) -> RuntimeSource:
    return lambda broker: _times(broker).get(label)


def _times(broker: BrokerFacts) -> dict[str, float]:
    text = broker.view.runtime.get("putMessageDistributeTime", "")
    return {label: float(count) for label, count in _TIME_COUNT.findall(text)}


_RUNTIME_SOURCES: dict[Metric, RuntimeSource] = {
    **{
        _runtime_gauge(name, f"`{key}` of the runtime table."): _figure(key, index)
        for name, (key, index) in _RUNTIME_KEYS.items()
    },
    **{
        _runtime_gauge(f"pmdt_{name}", f"Sends that took {label}."): _sends_that_took(label)
        for name, label in _TIMES.items()
    },
    _runtime_gauge("commitlogdir_capacity_total", "Bytes of the disk with the log."): lambda one: one.capacity()[0],
    _runtime_gauge("commitlogdir_capacity_free", "Its free bytes."): lambda one: one.capacity()[1],
    _runtime_gauge("remain_howmanydata_toflush", "Log bytes not yet forced to the disk."): lambda one: one.size(
        "remainHowManyDataToFlush"
    ),
}


class OldNames:
    """The newest facts under the old exporter's names."""

    metrics = (
        *(BROKER_TPS, BROKER_QPS, LOG_DIFF, TOPIC_TPS, TOPIC_SIZE, TOPIC_OFFSET, RETRY_OFFSET, DLQ_OFFSET, PRODUCERS),
        *(MEMBERS, DIFF, RETRY_DIFF, DLQ_DIFF, GROUP_TPS, GROUP_SIZE, GROUP_OFFSET, SENT_BACK, LATENCY),
        *_CLIENT_SOURCES,
        *_RUNTIME_SOURCES,
    )

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        brokers = [broker for broker in facts.brokers if broker.view.status is not None]
        masters = [broker for broker in brokers if broker.view.is_master]
        yield from _of_brokers(brokers, masters)
        yield from _of_topics(masters)
        yield from _of_groups(masters)
        for metric, figure in _CLIENT_SOURCES.items():
            yield _family(metric, list(_of_members(masters, figure)))
        for metric, value in _RUNTIME_SOURCES.items():
            found = ((broker, value(broker)) for broker in masters)
            yield Family(metric, [Reading(_runtime_labels(broker), one) for broker, one in found if one is not None])


def _of_members(masters: Iterable[BrokerFacts], figure: str) -> Iterator[tuple[tuple[str, ...], float | None]]:
    seen: set[tuple[str, str]] = set()
    for broker in masters:
        for (group, client_id), (address, report) in broker.members.items():
            if (group, client_id) in seen:
                continue  # it is connected to several brokers
            seen.add((group, client_id))
            for topic, figures in report.status_table.items():
                yield (address, client_id, group, topic), figures.get(figure)


def _runtime_labels(broker: BrokerFacts) -> tuple[str, ...]:
    runtime = broker.view.runtime
    return (
        *(broker.view.cluster, broker.view.address, ""),
        *(runtime.get(key, "") for key in ("brokerVersionDesc", "bootTimestamp", "brokerVersion")),
    )


def _minute(broker: BrokerFacts, name: str, key: str) -> float | None:
    found = broker.stats.get((name, key))
    return None if found is None else found.stats_minute.tps


def _family(metric: Metric, readings: Iterable[tuple[tuple[str, ...], float | None]]) -> Family:
    return Family(metric, [Reading(labels, value) for labels, value in readings if value is not None])


def _of_brokers(brokers: list[BrokerFacts], masters: list[BrokerFacts]) -> Iterator[Family]:
    def labels(broker: BrokerFacts) -> tuple[str, ...]:
        return broker.view.cluster, broker.view.address, broker.view.name

    for metric, name in ((BROKER_TPS, "BROKER_PUT_NUMS"), (BROKER_QPS, "BROKER_GET_NUMS")):
        yield _family(metric, [(labels(broker), _minute(broker, name, broker.view.cluster)) for broker in masters])
    ends = {broker.view.name: broker.figure("commitLogMaxOffset") for broker in masters}
    slaves = [broker for broker in brokers if not broker.view.is_master]
    yield _family(LOG_DIFF, [(labels(slave), _behind(ends.get(slave.view.name), slave)) for slave in slaves])
    counts = [
        ((broker.view.cluster, broker.view.name, group), len(found))
        for broker in masters
        for group, found in broker.producers.items()
    ]
    yield _family(PRODUCERS, counts)


def _behind(end: float | None, slave: BrokerFacts) -> float | None:
    own = slave.figure("commitLogMaxOffset")
    return None if end is None or own is None else end - own


def _of_topics(masters: list[BrokerFacts]) -> Iterator[Family]:
    def of(broker: BrokerFacts, topic: str) -> tuple[str, ...]:
        return broker.view.cluster, broker.view.name, topic

    parts = [(broker, topic, end) for broker in masters for topic, end in sorted(broker.ends.items())]
    special = (RETRY_PREFIX, DLQ_PREFIX)
    yield _family(TOPIC_OFFSET, [(of(one, topic), end) for one, topic, end in parts if not topic.startswith(special)])
    yield _family(RETRY_OFFSET, [(of(one, topic), end) for one, topic, end in parts if topic.startswith(RETRY_PREFIX)])
    dead = [(of(one, topic.removeprefix(DLQ_PREFIX)), end) for one, topic, end in parts if topic.startswith(DLQ_PREFIX)]
    yield _family(DLQ_OFFSET, dead)
    for metric, name in ((TOPIC_TPS, "TOPIC_PUT_NUMS"), (TOPIC_SIZE, "TOPIC_PUT_SIZE")):
        sent = [(of(one, topic), _minute(one, name, topic)) for one, topic, _ in parts if not topic.startswith(special)]
        yield _family(metric, sent)


def _of_groups(masters: list[BrokerFacts]) -> Iterator[Family]:
    members: dict[str, dict[str, str]] = defaultdict(dict)  # group -> client id -> address
    broadcasting: set[str] = set()
    for broker in masters:
        for group, found in broker.consumers.items():
            members[group] |= {one.client_id: one.client_addr for one in found.connection_set}
            if found.message_model == _BROADCASTING:
                broadcasting.add(group)
    counts = [
        ((" ".join(sorted(found.values())), " ".join(sorted(found)), group), len(found))
        for group, found in sorted(members.items())
    ]
    yield _family(MEMBERS, counts)
    behind: Counter[tuple[str, str]] = Counter()
    for broker in masters:
        for place, at in broker.places.items():
            if place[0] not in broadcasting:
                behind[place] += at.end - at.committed
    diffs: dict[Metric, list[tuple[tuple[str, ...], float]]] = {DIFF: [], RETRY_DIFF: [], DLQ_DIFF: []}
    for (group, topic), lag in sorted(behind.items()):
        labels = (group, topic, str(len(members.get(group, ()))), CLUSTERING_ORDINAL)
        diffs[_diff_metric(topic)].append((labels, lag))
    for metric, readings in diffs.items():
        yield _family(metric, readings)
    yield from _of_places(masters)


def _diff_metric(topic: str) -> Metric:
    if topic.startswith(RETRY_PREFIX):
        return RETRY_DIFF
    return DLQ_DIFF if topic.startswith(DLQ_PREFIX) else DIFF


def _of_places(masters: list[BrokerFacts]) -> Iterator[Family]:
    def of(broker: BrokerFacts, group: str, topic: str) -> tuple[str, ...]:
        return broker.view.cluster, broker.view.name, topic, group

    parts = [(broker, *place, at) for broker in masters for place, at in sorted(broker.places.items())]
    yield _family(GROUP_OFFSET, [(of(one, group, topic), at.committed) for one, group, topic, at in parts])
    yield _family(LATENCY, [(of(one, group, topic), at.age_ms) for one, group, topic, at in parts])
    for metric, name in ((GROUP_TPS, "GROUP_GET_NUMS"), (GROUP_SIZE, "GROUP_GET_SIZE"), (SENT_BACK, "SNDBCK_PUT_NUMS")):
        rates = [(of(one, group, topic), _minute(one, name, f"{topic}@{group}")) for one, group, topic, _ in parts]
        yield _family(metric, rates)
