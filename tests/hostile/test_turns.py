"""One turn of the event loop stays short, whatever peers park, ask or pour in: other clients wait for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_ONEWAY, Command
from tests.hostile.harness import PULL, V2, Health, Peer, Victim, ask, eventually, note, sized

SUSPEND_MS = "30000"  # the longest that a pull may wait
TURN_CPU_MAX_S = 0.25  # 0.1 on a machine of its own: CPU time grows when others use the same caches
FILTER_COUNT = sized(30, 120)  # different expressions of parked pulls
# A new one takes 23 ms of CPU time, and pulls wait for 30 s: with a scale so many wait at a time, again and again.
FILTERS_AT_ONCE = min(120, FILTER_COUNT)
TERM_COUNT = 500  # comparisons of an expression
PULL_COUNT = sized(20_000, 100_000)
PARKED_COUNT = min(100_000, PULL_COUNT)  # parkedPullCountMax; others are answered at once
# No more pulls than that can be woken, or left, at a time: with a scale it is done again and again.
ROUND_COUNT = max(1, PULL_COUNT // PARKED_COUNT)
ROWS_TOPIC_COUNT, ROWS_GROUP_COUNT = sized(100, 1000), 10  # whose rows are asked for
ROWS_ROUND_COUNT = sized(11, 11)
DEADLINES_MS = 2_999, 2_999 + sized(1000, 500)


def assert_short_turns(victim: Victim) -> None:
    """Check the longest turn since the victim's start, by CPU time: other processes of the machine don't add to it."""
    long_turns = {name: value for name, value in victim.metrics().items() if name.startswith("pymq_long_turns")}
    longest_s = victim.metric("pymq_longest_turn_cpu_seconds")
    note(f"longest turn {longest_s * 1000:.0f} ms")
    assert longest_s < TURN_CPU_MAX_S, long_turns


def park(victim: Victim, peer: Peer, frame: bytes) -> None:
    """Send a pull as often as pulls may wait, and wait until most do: on a busy machine the first ones come due."""
    for _ in range(PARKED_COUNT // 100):
        peer.send(frame * 100)
    eventually(lambda: victim.metric("pymq_pulls_parked") > PARKED_COUNT * 3 // 4)


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
        with suppress(OSError):  # the server has closed it
            peer.socket.shutdown(socket.SHUT_RDWR)  # ends the thread's wait for more, which closing does not
        thread.join(10)
        peer.close()


@pytest.mark.slow
def test_pulls_with_falling_deadlines_on_one_queue(victim: Victim) -> None:
    with Peer(victim.broker) as good:
        assert good.call(ask(310, {**V2, "b": "Parked"}, b"x")).code == 0
    pull = {**PULL, "topic": "Parked", "queueOffset": "1", "sysFlag": "6"}
    head, _, tail = ask(11, {**pull, "suspendTimeoutMillis": "9999"}).partition(b"9999")
    first_ms, last_ms = DEADLINES_MS
    span_ms = last_ms - first_ms
    peer = Peer(victim.broker)
    with draining(peer), Health(victim.broker, ask(310, {**V2, "b": "Parked", "e": "1"}, b"x")) as health:
        for at in range(0, PULL_COUNT, 100):
            deadlines = (last_ms - span_ms * number // PULL_COUNT for number in range(at, at + 100))
            peer.send(b"".join(head + b"%d" % deadline_ms + tail for deadline_ms in deadlines))
        eventually(lambda: victim.metric("pymq_pulls_parked") > PARKED_COUNT / 2)
        eventually(lambda: victim.metric("pymq_pulls_parked") == 0)
    assert_short_turns(victim)
    health.assert_served()


@pytest.mark.slow
def test_one_arrival_wakes_every_pull_of_a_queue(victim: Victim) -> None:
    with Peer(victim.broker) as good:
        assert good.call(ask(310, {**V2, "b": "Woken"}, b"x")).code == 0
    pull = {**PULL, "topic": "Woken", "sysFlag": "6", "suspendTimeoutMillis": SUSPEND_MS}
    peer = Peer(victim.broker)
    with draining(peer), Health(victim.broker) as health:
        for number in range(ROUND_COUNT):
            park(victim, peer, ask(11, {**pull, "queueOffset": str(number + 1)}))
            with Peer(victim.broker) as good:
                assert good.call(ask(310, {**V2, "b": "Woken"}, b"x")).code == 0
            eventually(lambda: victim.metric("pymq_pulls_parked") == 0)
    assert_short_turns(victim)
    health.assert_served()


def test_connections_that_end_with_all_their_pulls_parked(victim: Victim) -> None:
    with Peer(victim.broker) as good:
        assert good.call(ask(310, {**V2, "b": "Left"}, b"x")).code == 0
    frame = ask(11, {**PULL, "topic": "Left", "queueOffset": "1", "sysFlag": "6", "suspendTimeoutMillis": SUSPEND_MS})
    with Health(victim.broker) as health:
        for _ in range(ROUND_COUNT):
            with Peer(victim.broker) as peer:
                park(victim, peer, frame)
            eventually(lambda: victim.metric("pymq_pulls_parked") == 0)
    assert_short_turns(victim)
    health.assert_served()


@pytest.mark.slow
@pytest.mark.parametrize("code", [28, 21, 310, 11], ids=["runtime information", "all topics", "sends", "pulls"])
def test_one_way_floods(victim: Victim, code: int) -> None:
    fields = {310: V2, 11: {**PULL, "queueOffset": "0"}}.get(code, {})
    frames = ask(code, fields, b"", flag=FLAG_ONEWAY) * 1000
    stop = threading.Event()

    def flood() -> None:
        with Peer(victim.broker) as peer:
            while not stop.is_set():
                peer.send(frames)

    threads = [threading.Thread(target=flood) for _ in range(sized(3, 3))]
    with Health(victim.broker) as health:
        for thread in threads:
            thread.start()
        eventually(lambda: len(health.latencies_ms) > 20)
        stop.set()
        for thread in threads:
            thread.join()
    assert_short_turns(victim)
    health.assert_served()


def sql_of(number: int, term_count: int = TERM_COUNT) -> str:
    """Return an expression that no message fulfills, another one for each number. 512 comparisons are the most."""
    return " OR ".join(f"p{number}x{term} = '{term}'" for term in range(term_count))


@pytest.fixture(scope="module")
def filtering() -> Iterator[Victim]:
    """A server that evaluates SQL92, with 1,000 messages of ten properties in the topic Sql."""
    properties = "".join(f"\x02k{number}\x01value{number}" for number in range(10))[1:]
    with Victim(enablePropertyFilter="true") as server:
        send = ask(310, {**V2, "b": "Sql", "i": properties}, b"x")
        with Peer(server.broker) as peer:
            for _ in range(10):
                peer.send(send * 100)
                assert all((peer.receive() or Command(1)).code == 0 for _ in range(100))
        yield server


def sql_pull(number: int, **changes: str) -> bytes:
    fields = {**PULL, "topic": "Sql", "expressionType": "SQL92", "subscription": sql_of(number)}
    return ask(11, fields | changes)


@pytest.mark.slow
def test_pulls_through_expressions_of_500_comparisons(filtering: Victim) -> None:
    """Each pull reads on where the one before ended, as a consumer does: in the end it has seen every message."""

    def consume(number: int) -> None:
        with Peer(filtering.broker) as peer:
            offset = 0
            while offset < 1000:
                answer = peer.call(sql_pull(number, queueOffset=str(offset)))
                assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
                assert int(answer.ext["nextBeginOffset"]) > offset
                offset = int(answer.ext["nextBeginOffset"])
            seen.append(number)

    seen: list[int] = []
    threads = [threading.Thread(target=consume, args=(number,)) for number in range(sized(2, 2))]
    with Health(filtering.broker) as health:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert len(seen) == len(threads)
    assert_short_turns(filtering)
    health.assert_served()


@pytest.mark.slow
def test_sends_beside_parked_expressions_of_500_comparisons(filtering: Victim) -> None:
    def park(number: int, end: int) -> bytes:
        return sql_pull(number, queueOffset=str(end), sysFlag="6", suspendTimeoutMillis="30000")

    send = ask(310, {**V2, "b": "Sql"}, b"x")
    for first in range(0, FILTER_COUNT, FILTERS_AT_ONCE):
        with Peer(filtering.broker) as peer:
            end = int(peer.call(ask(30, {"topic": "Sql", "queueId": "0"})).ext["offset"])
            for number in range(first, first + FILTERS_AT_ONCE):
                peer.send(park(number, end))
            eventually(lambda: filtering.metric("pymq_pulls_parked") == FILTERS_AT_ONCE)
            with Health(filtering.broker, send) as health:
                eventually(lambda health=health: len(health.latencies_ms) > 50)
        eventually(lambda: filtering.metric("pymq_pulls_parked") == 0)
        health.assert_served()
    assert_short_turns(filtering)


def test_an_expression_of_1000_comparisons_is_refused(filtering: Victim) -> None:
    with Peer(filtering.broker) as peer:
        refused = peer.call(sql_pull(0, subscription=sql_of(0, 1000)))
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and "more than 2048 words" in (refused.remark or "")


def row_questions(after: str) -> list[bytes]:
    """Return the questions for rows of all topics and groups, from a place on that the asker made up."""
    everything = {"pymqAfter": after, "pymqNames": "true", "pymqTimes": "true"}
    return [
        ask(202, {"topic": "-", "pymqAll": "true", **everything}),
        ask(203, {"consumerGroup": "-", "pymqAll": "true", **everything}),
        *(
            ask(208, {"consumerGroup": "-", "pymqAll": kind, **everything})
            for kind in ("groups", "topics", "lags", "places", "nonsense", after)
        ),
    ]


@pytest.mark.slow
def test_rows_of_all_topics_and_groups_again_and_again() -> None:
    """Many ask at once, from made-up places of many sizes; wide topics take more than one piece."""
    wide = {"readQueueNums": "5000", "writeQueueNums": "5000", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    topic = {"defaultTopic": "TBW102", "topicSysFlag": "0", "order": "false"}
    places = ["", "\0", "@", "Rows@~", "%RETRY%", "\U0010ffff", "x" * 60_000, "@" * 60_000, "-1", "{}", "null"]
    with Victim() as victim:
        with Peer(victim.broker) as good:
            for number in range(2):
                assert good.call(ask(17, {"topic": f"Wide{number}", **topic, **wide})).code == 0
            narrow = [ask(310, {**V2, "b": f"Rows{number}"}, b"x") for number in range(ROWS_TOPIC_COUNT)]
            commits = [
                ask(
                    15,
                    {"topic": f"Rows{number}", "consumerGroup": f"Group{group}", "queueId": "0", "commitOffset": "1"},
                )
                for group in range(ROWS_GROUP_COUNT)
                for number in range(ROWS_TOPIC_COUNT)
            ]
            for group in range(ROWS_GROUP_COUNT):
                assert good.call(ask(200, body=b'{"groupName":"Group%d"}' % group)).code == 0
            for frames in (narrow, commits):
                for at in range(0, len(frames), 100):
                    good.send(b"".join(frames[at : at + 100]))
                    assert all((good.receive() or Command(1)).code == 0 for _ in frames[at : at + 100])
        with Health(victim.broker, ask(310, {**V2, "b": "Rows0"}, b"x")) as health:
            codes: set[int] = set()

            def attack(begin: int) -> None:
                with Peer(victim.broker) as peer:
                    for at in range(ROWS_ROUND_COUNT):
                        for question in row_questions(places[(begin + at) % len(places)]):
                            codes.add(peer.call(question).code)

            threads = [threading.Thread(target=attack, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(300)
        assert codes <= {0, ResponseCode.INVALID_PARAMETER, ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_BUSY}
        assert 0 in codes
        assert_short_turns(victim)
        health.assert_served()
