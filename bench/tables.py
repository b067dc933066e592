"""Tables: what requests about many topics, keys, offsets and queues cost, and what sends take meanwhile."""

import itertools
import json
import time
from collections.abc import Callable

from bench import process
from bench.cases import Bench, Figure
from bench.control import Control
from bench.turns import figures_of_sends, sending
from pymq.model.javahash import index_key_hash
from tests.hostile.harness import V2, Peer, ask

RETRY_COUNT = 5_000
SLOT_COUNT = 1_000
KEY_COUNT = 128  # of a message, the most that get entries
KEYED_COUNT = 800  # messages: 102,400 entries in one slot
LOOK_UP_COUNT = 20
GROUP_COUNT = 10
WIDE_QUEUES = 5_000
STATISTICS_ROUNDS = 5
_WINDOW = 200
TABLE_SETTINGS = {"maxHashSlotNum": str(SLOT_COUNT)}


def retry_topics(bench: Bench) -> list[Figure]:
    """Measures sends to retry topics of unknown groups, which are refused."""
    number = bench.numbers()
    frames = [ask(310, {**V2, "b": f"%RETRY%stranger{number + at}"}, b"x", opaque=at) for at in range(RETRY_COUNT)]
    topic = bench.fresh_topic("retry")
    return _with_sends("retry-topics", bench, topic, RETRY_COUNT, lambda peer: ask_all(peer, frames))


def index_lookups(bench: Bench) -> list[Figure]:
    """Measures look-ups of a missing key in a slot of the index with 102,400 entries of other keys."""
    topic = bench.fresh_topic("keys")
    crowd = (key for key in map(str, itertools.count()) if index_key_hash(topic, key) % SLOT_COUNT == 0)
    *words, missing = itertools.islice(crowd, KEY_COUNT + 1)
    send = ask(310, {**V2, "b": topic, "i": "KEYS\x01" + " ".join(words) + "\x02"}, b"x")
    look_up = {"topic": topic, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62), "key": missing}
    with Peer(bench.server.broker) as peer:
        ask_all(peer, [send] * KEYED_COUNT)
        _await_key(peer, {**look_up, "key": words[-1]})
    frames = [ask(12, look_up)] * LOOK_UP_COUNT
    return _with_sends("index-lookups", bench, topic, LOOK_UP_COUNT, lambda peer: ask_all(peer, frames))


def offset_commits(bench: Bench) -> list[Figure]:
    """Measures commits of ten groups in 5,000 queues each, and the saving of their table."""
    topic = _wide_topic(bench, "commits")
    with Peer(bench.server.broker) as peer:
        for number in range(GROUP_COUNT):
            ask_all(peer, [ask(200, body=json.dumps({"groupName": f"{topic}-{number}"}).encode())])
    frames = [
        ask(15, {"topic": topic, "consumerGroup": f"{topic}-{group}", "queueId": str(queue), "commitOffset": "0"})
        for group in range(GROUP_COUNT)
        for queue in range(WIDE_QUEUES)
    ]
    return _with_sends("offset-commits", bench, topic, len(frames), lambda peer: ask_all(peer, frames))


def statistics(bench: Bench) -> list[Figure]:
    """Measures statistics of a topic with 5,000 queues: their ends, and a group's lag and time spans."""
    topic = _wide_topic(bench, "statistics")
    group = f"{topic}-reader"
    frames = [
        ask(202, {"topic": topic}),
        ask(208, {"topic": topic, "consumerGroup": group}),
        ask(303, {"topic": topic, "group": group}),
    ] * STATISTICS_ROUNDS
    with Peer(bench.server.broker) as peer:
        ask_all(peer, [ask(200, body=json.dumps({"groupName": group}).encode())])
        ask_all(peer, [ask(310, {**V2, "b": topic, "e": str(queue)}, b"x") for queue in range(WIDE_QUEUES)])

    def ask_each(peer: Peer) -> None:
        for frame in frames:
            ask_all(peer, [frame])

    return _with_sends("statistics", bench, topic, len(frames), ask_each)


def _wide_topic(bench: Bench, prefix: str) -> str:
    topic = bench.fresh_topic(prefix) + "_wide"
    with Control(bench.server.broker) as control:
        control.create_topic(topic, WIDE_QUEUES)
    return topic


def ask_all(peer: Peer, frames: list[bytes]) -> None:
    """Sends requests some at a time and takes their answers."""
    for at in range(0, len(frames), _WINDOW):
        batch = frames[at : at + _WINDOW]
        peer.send(b"".join(batch))
        for _ in batch:
            assert peer.receive() is not None, "the broker closed the connection"


def _await_key(peer: Peer, look_up: dict[str, str]) -> None:
    """Waits until the index has a key."""
    deadline = time.monotonic() + 30
    while peer.call(ask(12, look_up)).code and time.monotonic() < deadline:
        time.sleep(0.1)


def _with_sends(name: str, bench: Bench, topic: str, request_count: int, run: Callable[[Peer], None]) -> list[Figure]:
    """Runs requests beside sends; the broker's CPU time of both counts."""
    cpu_s = process.cpu_seconds(bench.server.broker_pid)
    with Peer(bench.server.broker) as peer, sending(bench, topic) as health:
        run(peer)
    process.settle_cpu()
    spent_us = (process.cpu_seconds(bench.server.broker_pid) - cpu_s) * 1e6
    return [Figure(f"{name} CPU", spent_us / request_count, "µs/request", None), *figures_of_sends(name, health)]


TABLE_CASES: dict[str, Callable[[Bench], list[Figure]]] = {
    "retry-topics": retry_topics,
    "index-lookups": index_lookups,
    "offset-commits": offset_commits,
    "statistics": statistics,
}
