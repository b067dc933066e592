"""The harness measures what it says, on a server that is not attacked."""

from __future__ import annotations

import pytest

from tests.hostile.harness import MIB, V2, Health, Peer, Victim, ask, eventually, many_peers


@pytest.mark.slow
def test_memory_cpu_and_metrics_of_the_victim_are_read(victim: Victim) -> None:
    victim.reset_peak()
    cpu_s = victim.cpu_s()
    with Peer(victim.broker) as peer:
        for _ in range(3):
            assert peer.call(ask(310, V2, b"x" * MIB)).code == 0
        assert victim.metric("pymq_connections") >= 1

    eventually(lambda: victim.cpu_s() > cpu_s)
    assert 10 * MIB < victim.rss_bytes() <= victim.peak_rss_bytes() < 1000 * MIB


def test_health_counts_answers_and_connections_show_as_descriptors(victim: Victim) -> None:
    with Health(victim.broker) as health, many_peers(victim.broker, 20) as peers:
        # Connections of the tests before may still be closing: only those of this test are sure to stay.
        for peer in peers:
            assert peer.call(ask(28)).code == 0
        eventually(lambda: victim.metric("pymq_connections") >= 20)
        assert victim.open_file_count() > 20
        eventually(lambda: len(health.latencies_ms) > 20)
        assert not any(peer.is_closed_by_server() for peer in peers)

    assert 0 < health.percentile_ms(50) <= health.percentile_ms(99)


def test_a_closed_connection_is_noticed(victim: Victim) -> None:
    with Peer(victim.broker) as peer:
        peer.send(b"\xff" * 64)
        assert peer.receive() is None
        assert peer.is_closed_by_server()
