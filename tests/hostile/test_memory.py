"""Attacks on memory: the process stays within its budget, and other clients are served.

The victim's budget is a quarter of the default, so that an attack needs a quarter of its size. With PYMQ_HOSTILE_SCALE
it is the default.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.hostile.harness import MIB, PULL, SCALE, V2, Health, Peer, Victim, ask, eventually, note, sized
from tests.hostile.memory_attacks import (
    SUSPEND_MS,
    heartbeats,
    make_topic,
    parked_bodies,
    receive_all,
    tag_lists,
    unfinished_frames,
    unread_answers,
    viewed_messages,
    woken_pulls,
)

BUDGET_BYTES = (256 if SCALE else 64) * MIB
ABOVE_BYTES_MAX = 64 * MIB
LEFT_BYTES_MAX = 112 * MIB  # after all attacks together: what one leaves adds up, what Python keeps for reuse does not
TURN_CPU_S_MAX = 0.5
WINDOW = 100  # requests of one peer that wait for their answers


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """A server with a small budget, which has served one large message."""
    with Victim(memoryBudgetBytes=str(BUDGET_BYTES)) as server:
        with Peer(server.broker) as peer:
            assert peer.call(ask(310, V2, bytes(4 * MIB - 1024))).code == 0
        yield server


@contextlib.contextmanager
def watched(victim: Victim) -> Iterator[Health]:
    """Run an attack. The victim's memory and the latency of other clients must stay within their limits."""
    eventually(lambda: victim.held_bytes() == 0)
    before = victim.rss_bytes()
    victim.reset_peak()
    with Health(victim.broker) as health:
        yield health
    peak = victim.peak_rss_bytes() - before
    note(f"{peak / MIB:.0f} MiB at the peak, {victim.metric('pymq_memory_closed_total'):.0f} connections closed so far")
    note(f"longest turn {victim.metric('pymq_longest_turn_cpu_seconds') * 1000:.0f} ms")
    assert peak <= BUDGET_BYTES + ABOVE_BYTES_MAX, f"{peak / MIB:.0f} MiB more than before"
    health.assert_served()
    assert victim.metric("pymq_longest_turn_cpu_seconds") < TURN_CPU_S_MAX
    eventually(lambda: victim.held_bytes() == 0)
    eventually(lambda: victim.rss_bytes() - victim.first_rss_bytes <= LEFT_BYTES_MAX)


def test_unfinished_frames_close_their_connections_and_no_others(victim: Victim) -> None:
    closed, count = victim.metric("pymq_memory_closed_total"), sized(60, 200)
    with watched(victim), unfinished_frames(victim, count), Peer(victim.broker) as honest:
        assert honest.call(ask(310, V2, bytes(2 * MIB))).code == 0
        assert victim.metric("pymq_memory_held_bytes") <= BUDGET_BYTES
        assert victim.metric("pymq_memory_closed_total") - closed > count * 2 // 3


def test_parked_pulls_keep_no_bodies_and_end_with_their_connections(victim: Victim) -> None:
    with watched(victim), parked_bodies(victim, sized(100, 60), 2 * MIB - 1, at_a_time=8):
        eventually(lambda: _held(victim, "parked_requests") > 100_000)


def test_large_bodies_of_long_polls_that_come_at_once_stay_within_the_budget(victim: Victim) -> None:
    with watched(victim), parked_bodies(victim, sized(15, 60)):
        pass


def test_pulls_that_a_large_message_wakes_are_answered_as_their_peers_read(victim: Victim) -> None:
    with watched(victim), woken_pulls(victim, sized(100, 300)):
        offset = make_topic(victim)
        with Peer(victim.broker) as honest:
            answer = honest.call(ask(11, {**PULL, "queueOffset": str(offset - 1)}))
            assert answer.code == 0 and answer.body


def test_woken_pulls_of_peers_that_read_all_get_the_message(victim: Victim) -> None:
    count = 2 * BUDGET_BYTES // (4 * MIB)  # a pull waits 30 s at most
    with watched(victim), woken_pulls(victim, count) as peers:
        for answer in receive_all(peers):
            assert answer is not None and answer.code == 0 and len(answer.body) > 3 * MIB


@pytest.mark.slow
def test_tag_lists_are_refused_before_they_cost_anything(victim: Victim) -> None:
    spent_s, count = victim.cpu_s(), sized(60, 60)
    with watched(victim), tag_lists(victim, count):
        assert victim.cpu_s() - spent_s < count / 15  # it was 14 s for 60
    with Peer(victim.broker) as peer:
        most = "||".join(map(str, range(1024)))
        assert peer.call(ask(11, {**PULL, "subscription": most})).code == 20  # no message has such a tag
        refusal = peer.call(ask(11, {**PULL, "subscription": most + "||1024"}))
        assert refusal.code == 23 and "1025 tags, the limit is 1024" in (refusal.remark or "")


def test_heartbeats_are_held_within_the_budget(victim: Victim) -> None:
    with watched(victim), heartbeats(victim, sized(40, 40), 1_000_000, wanted_code=0), Peer(victim.broker) as honest:
        body = b'{"clientID":"honest","producerDataSet":[{"groupName":"honest"}]}'
        assert honest.call(ask(34, body=body)).code == 0


def test_a_heartbeat_above_its_size_is_refused(victim: Victim) -> None:
    with watched(victim), heartbeats(victim, 10, 1_600_000), heartbeats(victim, sized(2, 40)):
        pass


def test_peers_that_read_nothing_hold_no_more_than_the_budget(victim: Victim) -> None:
    closed = _closed(victim)
    with watched(victim), unread_answers(victim, sized(100, 200)):
        eventually(lambda: _closed(victim) - closed > 50)


def test_clients_are_served_before_those_that_ask_for_large_messages_and_read_nothing(victim: Victim) -> None:
    """Each of those costs 10 ms. When all of them went first, a client that came with them waited for seconds."""
    with watched(victim) as health, viewed_messages(victim, sized(75, 300)):
        served = len(health.latencies_ms)
        closed = _closed(victim)
        eventually(lambda: _closed(victim) > closed)
        eventually(lambda: len(health.latencies_ms) > served)


@pytest.mark.slow
def test_long_properties_wait_for_the_index_in_the_log(victim: Victim) -> None:
    """Keys wait until they are inserted, with all properties of their messages."""
    properties = "KEYS\x01" + " ".join(map(str, range(5400))) + "\x02"
    frames = [ask(310, {**V2, "b": "Keyed", "i": properties}, b"x")] * WINDOW
    with watched(victim), Peer(victim.broker) as peer:
        for _ in range(sized(6000, 6000) // WINDOW):
            assert peer.send(b"".join(frames))
            for _ in frames:
                answer = peer.receive()
                assert answer is not None and answer.code == 0


@pytest.mark.slow
def test_waiting_pulls_with_large_filters_are_refused_or_end_their_connection(victim: Victim) -> None:
    offset = make_topic(victim)
    waiting = {**PULL, "sysFlag": "6", "suspendTimeoutMillis": str(SUSPEND_MS), "queueOffset": str(offset)}
    before = victim.metric("pymq_memory_refused_total") + victim.metric("pymq_memory_closed_total")
    with watched(victim), Peer(victim.broker) as peer:
        for number in range(sized(1000, 1000)):
            subscription = "||".join(f"{number}-{tag}" for tag in range(1024))
            peer.send(ask(11, {**waiting, "subscription": subscription}, opaque=number))
        eventually(
            lambda: victim.metric("pymq_memory_refused_total") + victim.metric("pymq_memory_closed_total") > before
        )


def _closed(victim: Victim) -> float:
    """Return the number of connections that the server closed; it has no such metric before the first one."""
    return sum(value for name, value in victim.metrics().items() if name.startswith("pymq_connections_closed_total"))


def _held(victim: Victim, kind: str) -> float:
    return sum(value for name, value in victim.metrics().items() if f'kind="{kind}"' in name)
