"""No peer fills the log: lines that it can cause are limited by kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.log_limit import LINES_MAX
from tests.hostile.harness import PULL, V2, Peer, Victim, ask, sized

REQUEST_COUNT = sized(20_000, 20_000)
LOG_BYTES_MAX = 64 * 1024


@pytest.fixture(scope="module")
def talkative() -> Iterator[Victim]:
    """A server that logs from the level info up."""
    with Victim(log_level="info") as server:
        with Peer(server.broker) as peer:
            assert peer.call(ask(310, V2, b"x")).code == 0
        yield server


def flood(address: str, frames: list[bytes]) -> None:
    """Send all frames and wait for their answers."""
    with Peer(address) as peer:
        for at in range(0, len(frames), 100):
            peer.send(b"".join(frames[at : at + 100]))
            for _ in frames[at : at + 100]:
                assert peer.receive() is not None


def assert_short_log(server: Victim) -> None:
    text = server.process.stderr
    assert len(text) < LOG_BYTES_MAX and text.count("\n") < 10 * LINES_MAX


@pytest.mark.slow
def test_pulls_with_a_commit_offset_that_cannot_be(talkative: Victim) -> None:
    pull = ask(11, {**PULL, "sysFlag": "5", "commitOffset": str(10**15), "queueOffset": "1"})
    flood(talkative.broker, [pull] * REQUEST_COUNT)
    assert_short_log(talkative)
    assert f"the limit is {LINES_MAX} lines of a kind" in talkative.process.stderr


def test_brokers_that_register_and_say_good_bye(talkative: Victim) -> None:
    frames = []
    for number in range(REQUEST_COUNT // 20):
        identity = {"brokerName": f"b{number}", "brokerAddr": f"127.0.0.1:{2000 + number}", "clusterName": "C"}
        identity |= {"brokerId": "0", "haServerAddr": "127.0.0.1:1"}
        topics = b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{}}}'
        frames += [ask(103, identity, topics), ask(104, identity)]
    flood(talkative.namesrv, frames)
    assert_short_log(talkative)


def test_broken_frames_and_unknown_requests(talkative: Victim) -> None:
    for address in (talkative.broker, talkative.namesrv):
        for _ in range(REQUEST_COUNT // 100):
            with Peer(address) as peer:
                peer.send(b"\x7f" * 64)
        flood(address, [ask(code, {"topic": "x" * 3000}) for code in range(5000, 5000 + REQUEST_COUNT // 20)])
    assert_short_log(talkative)
