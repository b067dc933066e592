"""Reads all contents of a broker with raw requests, to compare two brokers on one directory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.interop.support import probe
from tests.interop.support.probe import Record

PULL = 11
QUERY_BY_KEY = 12
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
ALL_TOPIC_CONFIG = 21
MIN_OFFSET = 31
VIEW_BY_ID = 33
ALL_GROUP_CONFIG = 201
NOT_FOUND = 22

READER = "contents-reader"
Place = tuple[str, int, int]  # topic, queue, queue offset


@dataclass
class Contents:
    """Records by place, (min, max) by queue, committed offsets, topic and group configurations."""

    records: dict[Place, Record] = field(default_factory=dict)
    bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int | None] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)

    def bodies(self, topic: str) -> list[bytes]:
        """Return the bodies of one topic, sorted."""
        return sorted(record.body for place, record in self.records.items() if place[0] == topic)


def read(broker: str, topics: Iterable[str], groups: Iterable[str]) -> Contents:
    """Read ``topics`` and the offsets that ``groups`` committed there; AssertionError for an unreadable queue."""
    found = Contents()
    topic_table = _table(broker, ALL_TOPIC_CONFIG, "topicConfigTable")
    group_table = _table(broker, ALL_GROUP_CONFIG, "subscriptionGroupTable")
    found.groups = {group: group_table[group] for group in groups}
    for topic in topics:
        found.topics[topic] = topic_table[topic]
        for queue in range(max(topic_table[topic][name] for name in ("readQueueNums", "writeQueueNums"))):
            _read_queue(broker, topic, queue, found)
            for group in groups:
                found.committed[group, topic, queue] = committed(broker, group, topic, queue)
    return found


def _table(broker: str, code: int, name: str) -> dict[str, dict[str, Any]]:
    reply = probe.call(broker, code)
    assert reply.code == 0, reply
    table: dict[str, dict[str, Any]] = json.loads(reply.body)[name]
    # Java omits fields without a value.
    return {key: {name: value for name, value in row.items() if value is not None} for key, row in table.items()}


def _read_queue(broker: str, topic: str, queue: int, found: Contents) -> None:
    asked = {"topic": topic, "queueId": str(queue)}
    low = int(probe.call(broker, MIN_OFFSET, asked).ext["offset"])
    records = read_queue(broker, topic, queue, low)
    offsets = [record.queue_offset for record in records]
    assert offsets == list(range(low, low + len(records))), f"{topic}/{queue} from {low} on gave {offsets}"
    found.records.update({(topic, queue, record.queue_offset): record for record in records})
    found.bounds[topic, queue] = (low, low + len(records))


def queue_count(broker: str, topic: str) -> int:
    """Return the number of readable queues of ``topic``. Raises KeyError when the topic does not exist."""
    return int(_table(broker, ALL_TOPIC_CONFIG, "topicConfigTable")[topic]["readQueueNums"])


def read_queue(broker: str, topic: str, queue: int, offset: int = 0) -> list[Record]:
    """Return the records of one queue from ``offset`` to its end."""
    found: list[Record] = []
    while offset < probe.max_offset(broker, topic, queue):
        reply = pull(broker, topic, queue, offset)
        assert reply.code == 0, f"{topic}/{queue} at {offset}: code {reply.code} {reply.remark}"
        found += probe.records(reply.body)
        offset = int(reply.ext["nextBeginOffset"])
    return found


def pull(broker: str, topic: str, queue: int, offset: int, expression: str = "*") -> probe.Reply:
    """Send one pull without long polling."""
    ext = {"consumerGroup": READER, "topic": topic, "queueId": str(queue), "queueOffset": str(offset), "sysFlag": "4"}
    ext |= {"maxMsgNums": "100", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    return probe.call(broker, PULL, {**ext, "subscription": expression})


def committed(broker: str, group: str, topic: str, queue: int) -> int | None:
    """Return the committed offset of ``group``; None when it never committed there."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "setZeroIfNotFound": "false"}
    reply = probe.call(broker, QUERY_CONSUMER_OFFSET, ext)
    if reply.code == NOT_FOUND:
        return None
    assert reply.code == 0, reply
    return int(reply.ext["offset"])


def commit(broker: str, group: str, topic: str, queue: int, offset: int) -> None:
    """Commit an offset for ``group``, which must exist."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    reply = probe.call(broker, UPDATE_CONSUMER_OFFSET, ext)
    assert reply.code == 0, reply


def check_ids(broker: str, records: Iterable[Record]) -> None:
    """Check that the physical offset, the second half of a message id, leads to its record."""
    for record in records:
        reply = probe.call(broker, VIEW_BY_ID, {"offset": str(record.physical_offset)})
        assert (reply.code, reply.body) == (0, record.raw), f"offset {record.physical_offset}: code {reply.code}"


def check_keys(broker: str, records: Iterable[Record]) -> None:
    """Check that each unique key and each word of KEYS finds exactly the ``records`` that have it.

    Both brokers build the index behind the log, so this waits for the last entries.
    """
    by_key: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        for key in {record.properties["UNIQ_KEY"], *record.properties.get("KEYS", "").split()}:
            by_key[record.topic, key].append(record)
    assert by_key, "there is no key to look for"
    for (topic, key), wanted in by_key.items():
        expected = sorted(record.raw for record in wanted)
        probe.wait_until(
            f"key {key} of {topic}",
            lambda topic=topic, key=key, expected=expected: find_key(broker, topic, key) == expected,
        )


def find_key(broker: str, topic: str, key: str) -> list[bytes]:
    """Return the records with a key, sorted."""
    ext = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    return sorted(record.raw for record in probe.records(probe.call(broker, QUERY_BY_KEY, ext).body))
