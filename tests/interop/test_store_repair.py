"""A repaired directory of Apache RocketMQ 5.3.3 opens in the Java broker with every remaining message."""

from __future__ import annotations

from pathlib import Path

from pymq.clock import SystemClock
from pymq.offline.repair import repair
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.interop.support import probe
from tests.interop.support.apache import ApacheServer
from tests.offline.support import flip, log_place, opened, records

QUEUES = [("TopicPlain", 0), ("TopicPlain", 1), ("TopicOrder", 0), ("TopicBatch", 1)]


def _pull_all(broker: str, topic: str, queue_id: int) -> set[tuple[int, int]]:
    """Return (queue offset, physical offset) of all messages of a queue, as a consumer reads them."""
    ext = {"consumerGroup": "repair-group", "topic": topic, "queueId": str(queue_id), "sysFlag": "4"}
    ext |= {
        "maxMsgNums": "32",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    found: set[tuple[int, int]] = set()
    offset = 0
    while offset < probe.max_offset(broker, topic, queue_id):
        reply = probe.call(broker, 11, {**ext, "queueOffset": str(offset)})
        found |= {(record.queue_offset, record.physical_offset) for record in probe.records(reply.body)}
        assert int(reply.ext["nextBeginOffset"]) > offset, reply
        offset = int(reply.ext["nextBeginOffset"])
    return found


def test_the_java_broker_serves_a_repaired_store(tmp_path: Path) -> None:
    root, manifest = unpack("store-clean", tmp_path)
    whole = records(root)
    # The log's first record, neighbors, one in a later segment, a queue's last one, and a segment's whole end.
    victims = [whole[0], whole[40], whole[41], [r for r in whole if (r.topic, r.queue_id) == QUEUES[2]][-1]]
    victims += [record for record in whole if (record.topic, record.queue_id) == QUEUES[0]][5:7]
    victims += [record for record in whole if 190_000 <= record.offset < 196_608]
    for victim in victims:
        path, position = log_place(root, victim.offset)
        flip(path, position + 90)
    target = tmp_path / "repaired"
    with opened(root) as directory:
        report = repair(directory, RealFiles(), str(target), SystemClock())
    lost = {(victim.topic, victim.queue_id, victim.queue_offset) for victim in victims}
    assert report.lost_count == len(lost)

    settings = {key: str(value) for key, value in manifest["brokerConfig"].items() if key.startswith(("mapped", "max"))}
    server = ApacheServer(tmp_path / "apache", settings, store=target)
    try:
        for topic, queue_id in QUEUES:
            expected = {
                message["queueOffset"]: message["commitLogOffset"]
                for message in manifest["messages"]
                if (message["topic"], message["queueId"]) == (topic, queue_id)
            }
            assert probe.max_offset(server.broker, topic, queue_id) == len(expected)
            left = {place for place in expected.items() if (topic, queue_id, place[0]) not in lost}
            assert _pull_all(server.broker, topic, queue_id) == left
        key = next(message for message in manifest["messages"] if message["topic"] == "TopicPlain" and message["keys"])
        ext = {"topic": "TopicPlain", "key": key["keys"].split()[0], "maxNum": "32"}
        ext |= {"beginTimestamp": "0", "endTimestamp": str(2**62)}
        assert key["commitLogOffset"] in [
            r.physical_offset for r in probe.records(probe.call(server.broker, 12, ext).body)
        ]
    finally:
        server.stop()
