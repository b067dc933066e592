"""Long turns: what a client's sends take while others park, filter and pour in requests."""

import threading
import time
from collections.abc import Callable

from bench.cases import Bench, Figure
from pymq.wire.command import FLAG_ONEWAY
from tests.hostile.harness import PULL, V2, Health, Peer, ask

PARKED_COUNT = 20_000
PARKED_MS = 3_000
FILTER_COUNT = 30
TERM_COUNT = 500
MEASURED_S = 3.0
FLOOD_COUNT = 2
LATENCY_TARGET_MS = 100.0
TURN_SETTINGS = {"enablePropertyFilter": "true"}


def parked_pulls(bench: Bench) -> list[Figure]:
    """Measures sends while pulls that were parked with falling deadlines on one queue come due."""
    topic = bench.fresh_topic("parked")
    pull = {**PULL, "topic": topic, "sysFlag": "6"}
    frames = [
        ask(11, {**pull, "suspendTimeoutMillis": str(PARKED_MS + (PARKED_COUNT - number) // 20)})
        for number in range(PARKED_COUNT)
    ]
    with Peer(bench.server.broker) as peer:
        for at in range(0, PARKED_COUNT, 100):
            peer.send(b"".join(frames[at : at + 100]))
        with sending(bench, topic, queue=1) as health:
            for _ in range(PARKED_COUNT):
                peer.receive()
    return figures_of_sends("parked-pulls", health)


def long_filters(bench: Bench) -> list[Figure]:
    """Measures sends to a queue on which pulls wait with different expressions of 500 comparisons each."""
    topic = bench.fresh_topic("filters")
    pull = {**PULL, "topic": topic, "sysFlag": "6", "suspendTimeoutMillis": "30000", "expressionType": "SQL92"}
    with Peer(bench.server.broker) as peer:
        for number in range(FILTER_COUNT):
            text = " OR ".join(f"p{number}x{term} = '{term}'" for term in range(TERM_COUNT))
            peer.send(ask(11, {**pull, "subscription": text}))
        peer.call(ask(999))  # answered after the others were parked
        with sending(bench, topic) as health:
            time.sleep(MEASURED_S)
    return figures_of_sends("long-filters", health)


def one_way_flood(bench: Bench) -> list[Figure]:
    """Measures sends while other connections pour in one-way requests for runtime information."""
    topic = bench.fresh_topic("flood")
    frames = ask(28, flag=FLAG_ONEWAY) * 1000
    stop = threading.Event()

    def flood() -> None:
        with Peer(bench.server.broker) as peer:
            while not stop.is_set():
                peer.send(frames)

    threads = [threading.Thread(target=flood) for _ in range(FLOOD_COUNT)]
    with sending(bench, topic) as health:
        for thread in threads:
            thread.start()
        time.sleep(MEASURED_S)
        stop.set()
        for thread in threads:
            thread.join()
    return figures_of_sends("one-way-flood", health)


def sending(bench: Bench, topic: str, queue: int = 0) -> Health:
    """Returns a client that sends one message after another to a queue, and notes what each send takes."""
    return Health(bench.server.broker, ask(310, {**V2, "b": topic, "e": str(queue)}, b"x"))


def figures_of_sends(name: str, health: Health) -> list[Figure]:
    """Returns what the client's sends took."""
    return [
        Figure(f"{name} send p50", health.percentile_ms(50), "ms", None),
        Figure(f"{name} send p99", health.percentile_ms(99), "ms", LATENCY_TARGET_MS),
    ]


TURN_CASES: dict[str, Callable[[Bench], list[Figure]]] = {
    "parked-pulls": parked_pulls,
    "long-filters": long_filters,
    "one-way-flood": one_way_flood,
}
