"""One turn of the event loop stays short, whatever peers park, ask or pour in: other clients wait for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pymq.wire.command import FLAG_ONEWAY
from tests.hostile.harness import PULL, SCALE, V2, Health, Peer, Victim, ask, eventually

TURN_CPU_MAX_S = 0.1
PARKED_COUNT = 100_000


def assert_short_turns(victim: Victim) -> None:
    """Check the longest turn since the victim's start, by CPU time: other processes of the machine don't add to it."""
    long_turns = {name: value for name, value in victim.metrics().items() if name.startswith("pymq_long_turns")}
    assert victim.metric("pymq_longest_turn_cpu_seconds") < TURN_CPU_MAX_S, long_turns


@contextmanager
def draining(peer: Peer) -> Iterator[list[int]]:
    """Read and count in a thread what the server answers; yields a list with the number of bytes."""
    received = [0]

    def drain() -> None:
        while True:
            try:
                data = peer.socket.recv(1 << 20)
            except OSError:
                return
            if not data:
                return
            received[0] += len(data)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        peer.close()
        thread.join(10)


def test_pulls_with_falling_deadlines_on_one_queue(victim: Victim) -> None:
    with Peer(victim.broker) as good:
        stored = good.call(ask(310, {**V2, "b": "Parked"}, b"x"))
    assert stored.code == 0
    pull = {**PULL, "topic": "Parked", "queueOffset": "1", "sysFlag": "6"}
    head, _, tail = ask(11, {**pull, "suspendTimeoutMillis": "10000"}).partition(b"10000")
    frames = [head + b"%05d" % (12_000 - i // 20) + tail for i in range(PARKED_COUNT)]
    peer = Peer(victim.broker)
    with draining(peer), Health(victim.broker, ask(310, {**V2, "b": "Parked", "e": "1"}, b"x")) as health:
        for at in range(0, len(frames), 100):
            peer.send(b"".join(frames[at : at + 100]))
        eventually(lambda: victim.metric("pymq_pulls_parked") > PARKED_COUNT / 2)
        eventually(lambda: victim.metric("pymq_pulls_parked") == 0, within_s=120)
    print(health.percentile_ms(50), health.percentile_ms(99), max(health.latencies_ms), victim.metrics())
    assert_short_turns(victim)
