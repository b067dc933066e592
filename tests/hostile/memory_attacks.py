"""Attacks on a server's memory: each makes it hold as much as it can with ``count`` connections or requests."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import selectors
import time
from collections.abc import Iterator, Sequence

from pymq.wire.command import Command
from tests.hostile.harness import MIB, PULL, SOCKET_TIMEOUT_S, V2, Peer, Victim, ask, eventually, many_peers

TOPIC = "T"
SMALL_BUFFER_BYTES = 4096
SUSPEND_MS = 30_000
NUMBER = b"@@@@@@"
WAITING_PULL = {**PULL, "sysFlag": "6", "suspendTimeoutMillis": str(SUSPEND_MS)}


def make_topic(victim: Victim) -> int:
    """Send one message to queue 0, so that the topic exists. Return the queue's next offset."""
    with Peer(victim.broker) as peer:
        answer = peer.call(ask(310, V2, b"x"))
        assert answer.code == 0, answer
        return int(answer.ext["queueOffset"]) + 1


def flood(peers: Sequence[Peer], frames: Sequence[bytes], within_s: float = SOCKET_TIMEOUT_S) -> int:
    """Send each peer its frame, all at the same time. Return how many the server closed meanwhile."""
    selector = selectors.DefaultSelector()
    for peer, raw in zip(peers, frames, strict=True):
        peer.socket.setblocking(False)
        selector.register(peer.socket, selectors.EVENT_WRITE, [memoryview(raw)])
    closed_count, deadline_s = 0, time.monotonic() + within_s
    while selector.get_map() and time.monotonic() < deadline_s:
        for key, _ in selector.select(0.1):
            left = key.data[0]
            try:
                key.data[0] = left[key.fileobj.send(left[:MIB]) :]
            except BlockingIOError:
                continue
            except ConnectionError:
                closed_count += 1
                selector.unregister(key.fileobj)
                continue
            if not len(key.data[0]):
                selector.unregister(key.fileobj)
    assert not selector.get_map(), f"{len(selector.get_map())} peers could not send all within {within_s:.0f} s"
    for peer in peers:
        peer.socket.settimeout(60.0)
    return closed_count


def receive_all(peers: Sequence[Peer], within_s: float = SOCKET_TIMEOUT_S) -> list[Command | None]:
    """Read each peer's next answer, of all at the same time. None: the server closed the connection."""
    answers: dict[Peer, Command | None] = {}
    selector, deadline_s = selectors.DefaultSelector(), time.monotonic() + within_s
    for peer in peers:
        selector.register(peer.socket, selectors.EVENT_READ, peer)
    while selector.get_map() and time.monotonic() < deadline_s:
        for key, _ in selector.select(0.1):
            if key.data.read():
                answers[key.data] = key.data.receive()
                selector.unregister(key.fileobj)
    assert not selector.get_map(), f"{len(selector.get_map())} peers got no answer within {within_s:.0f} s"
    return [answers[peer] for peer in peers]


@contextlib.contextmanager
def unfinished_frames(victim: Victim, count: int) -> Iterator[list[Peer]]:
    """Frames of 16 MiB that lack their last byte, half of them to the name server."""
    raw = (16 * MIB).to_bytes(4, "big") + bytes(16 * MIB - 1)
    with many_peers(victim.broker, count - count // 2) as peers, many_peers(victim.namesrv, count // 2) as others:
        flood([*peers, *others], [raw] * count)
        yield [*peers, *others]


@contextlib.contextmanager
def parked_bodies(
    victim: Victim, count: int, body_size_bytes: int = 15 * MIB, at_a_time: int = 1000
) -> Iterator[list[Peer]]:
    """Long polls with bodies, some of them sent at a time."""
    offset = make_topic(victim)
    raw = ask(11, {**WAITING_PULL, "queueOffset": str(offset)}, bytes(body_size_bytes))
    with many_peers(victim.broker, count) as peers:
        for first in range(0, count, at_a_time):
            some = peers[first : first + at_a_time]
            flood(some, [raw] * len(some))
        yield peers


@contextlib.contextmanager
def woken_pulls(victim: Victim, count: int) -> Iterator[list[Peer]]:
    """Long polls of peers that read nothing, woken by one message of nearly 4 MiB."""
    offset = make_topic(victim)
    raw = ask(11, {**WAITING_PULL, "queueOffset": str(offset), "maxMsgBytes": str(4 * MIB)})
    with many_peers(victim.broker, count, SMALL_BUFFER_BYTES) as peers:
        for peer in peers:
            peer.send(raw)
        eventually(lambda: victim.metric("pymq_pulls_parked") >= count)
        with Peer(victim.broker) as sender:
            assert sender.call(ask(310, V2, bytes(4 * MIB - 1024))).code == 0
        yield peers


@contextlib.contextmanager
def tag_lists(victim: Victim, count: int, tag_count: int = 130_000) -> Iterator[list[Peer]]:
    """Pulls that name 130,000 tags each, all different."""
    make_topic(victim)
    with Peer(victim.broker) as peer:
        for number in range(count):
            text = "||".join(map(str, range(number * tag_count, (number + 1) * tag_count)))[: MIB - 1024]
            peer.call(ask(11, {**PULL, "subscription": text}))
        yield [peer]


def heartbeat(number: int, size_bytes: int) -> bytes:
    """Return a heartbeat of about ``size_bytes`` with names that no other number has: 256 topics with many tags."""
    return heartbeat_pattern(size_bytes).replace(NUMBER, b"%06d" % number)


@functools.cache
def heartbeat_pattern(size_bytes: int) -> bytes:
    """Return a heartbeat that has ``NUMBER`` in all of its names."""
    tag_count = size_bytes // 256 // 16
    name = NUMBER.decode()
    topics = [
        {
            "topic": f"Topic{name}x{i}",
            "subString": "*",
            "subVersion": 1,
            "tagsSet": [f"{name}-{i}-{j}" for j in range(tag_count)],
        }
        for i in range(256)
    ]
    consumer = {"groupName": f"heartbeat-group-{name}", "subscriptionDataSet": topics}
    return json.dumps({"clientID": f"client{name}", "consumerDataSet": [consumer]}, separators=(",", ":")).encode()


@contextlib.contextmanager
def heartbeats(victim: Victim, count: int, size_bytes: int = 15_000_000, wanted_code: int = 29) -> Iterator[list[Peer]]:
    """Heartbeats, each on a connection of its own."""
    with many_peers(victim.broker, count) as peers:
        for number, peer in enumerate(peers):
            answer = peer.receive() if peer.send(ask(34, body=heartbeat(number, size_bytes))) else None
            if answer is not None and not answer.is_response:  # the group is told of its new member first
                answer = peer.receive()
            assert answer is None or answer.code == wanted_code, answer
        yield peers


@contextlib.contextmanager
def unread_answers(victim: Victim, count: int) -> Iterator[list[Peer]]:
    """Connections that ask for 32 MiB in eight pulls each, and read nothing."""
    offset = make_topic(victim)
    with Peer(victim.broker) as sender:
        assert sender.call(ask(310, V2, random.randbytes(4 * MIB - 1024))).code == 0
    raw = b"".join(
        ask(11, {**PULL, "queueOffset": str(offset), "maxMsgBytes": str(4 * MIB)}, opaque=i) for i in range(8)
    )
    with many_peers(victim.broker, count, SMALL_BUFFER_BYTES) as peers:
        for _ in range(4):
            for peer in peers:
                peer.send(raw)
            time.sleep(0.05)
        yield peers


@contextlib.contextmanager
def viewed_messages(victim: Victim, count: int) -> Iterator[list[Peer]]:
    """Connections that ask eight times for a message of 4 MiB by its offset (33), and read nothing."""
    with Peer(victim.broker) as sender:
        answer = sender.call(ask(310, V2, random.randbytes(4 * MIB - 1024)))
        assert answer.code == 0, answer
    raw = b"".join(ask(33, {"offset": str(int(answer.ext["msgId"][16:], 16))}, opaque=i) for i in range(8))
    with many_peers(victim.broker, count, SMALL_BUFFER_BYTES) as peers:
        for peer in peers:
            peer.send(raw)
        yield peers


# Each attack with its count in docs/testing.md.
ATTACKS = {
    "unfinished_frames": (unfinished_frames, 200),
    "parked_bodies": (parked_bodies, 60),
    "woken_pulls": (woken_pulls, 300),
    "tag_lists": (tag_lists, 60),
    "heartbeats": (heartbeats, 40),
    "unread_answers": (unread_answers, 200),
    "viewed_messages": (viewed_messages, 300),
}
