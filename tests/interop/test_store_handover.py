"""A data directory goes from Apache RocketMQ 5.3.3 to PyMQ and back: each serves what the other wrote, and adds."""

from __future__ import annotations

from pathlib import Path

from tests.interop.support import probe
from tests.interop.support.apache import SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC = "handover"
GROUP = "handover-group"
ROUND_COUNT = 20


def _send_round(server: ApacheServer | PymqServer, writer: str) -> list[str]:
    bodies = [f"{writer} {number}" for number in range(ROUND_COUNT)]
    for number, body in enumerate(bodies):
        ext = {"a": "handover-producer", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0"}
        ext |= {"g": "1", "h": "0", "i": f"KEYS\x01{writer}-{number}\x02TAGS\x01{writer}\x02"}
        reply = probe.call(server.broker, 310, ext, body.encode())
        assert reply.code == 0, reply
    return bodies


def _check(server: ApacheServer | PymqServer, written: list[str]) -> None:
    found: list[str] = []
    for queue in range(4):
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue), "queueOffset": "0", "sysFlag": "4"}
        ext |= {"maxMsgNums": "100", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        offset = 0
        while offset < probe.max_offset(server.broker, TOPIC, queue):
            reply = probe.call(server.broker, 11, {**ext, "queueOffset": str(offset), "subscription": "*"})
            assert reply.code == 0, reply
            found += probe.bodies(reply.body)
            offset = int(reply.ext["nextBeginOffset"])
    assert sorted(found) == sorted(written)
    for writer in {body.split()[0] for body in written}:
        ext = {"topic": TOPIC, "key": f"{writer}-7", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
        probe.wait_until(
            f"the index of {writer}", lambda ext=ext: probe.call(server.broker, 12, ext).code == 0, timeout_s=20
        )
        assert probe.bodies(probe.call(server.broker, 12, ext).body) == [f"{writer} 7"]


def _commit(server: ApacheServer | PymqServer, offset: int) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "2", "commitOffset": str(offset)}
    assert probe.call(server.broker, 15, ext).code == 0


def _committed(server: ApacheServer | PymqServer) -> int:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "2"}
    return int(probe.call(server.broker, 14, ext).ext["offset"])


def test_there_and_back(tmp_path: Path) -> None:
    first = ApacheServer(tmp_path / "first")
    try:
        probe.create_topic(first.namesrv, first.broker, TOPIC)
        written = _send_round(first, "apache")
        _check(first, written)
        _commit(first, 3)
        first.close_store()
    finally:
        first.stop()

    settings = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES)}
    middle = PymqServer(tmp_path / "middle", settings, store=first.store)
    try:
        _check(middle, written)
        assert _committed(middle) == 3
        written += _send_round(middle, "pymq")
        _check(middle, written)
        _commit(middle, 4)
    finally:
        assert middle.stop() == 0, middle.log_tail()

    last = ApacheServer(tmp_path / "last", store=first.store)
    try:
        _check(last, written)
        assert _committed(last) == 4
        written += _send_round(last, "again")
        _check(last, written)
    finally:
        last.stop()
