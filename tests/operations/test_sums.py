"""Sums of answers: messages held, members online, the age of a place."""

from __future__ import annotations

from pymq.operations.sums import age_ms, held_messages, online_members
from pymq.wire.bodies_admin import Connection, ConsumerConnections, TopicLag, TopicOffset


def test_queues_hold_what_is_between_their_offsets() -> None:
    assert held_messages([TopicOffset(min_offset=5, max_offset=9), TopicOffset(min_offset=0, max_offset=1)]) == 5
    assert held_messages([]) == 0


def test_a_member_counts_once_however_many_brokers_name_it() -> None:
    one = ConsumerConnections(connection_set=[Connection(client_id="a"), Connection(client_id="b")])
    other = ConsumerConnections(connection_set=[Connection(client_id="a")])
    assert online_members([one, None, other]) == {"a", "b"}


def test_an_age_is_never_negative_and_0_when_all_is_read() -> None:
    assert age_ms(TopicLag(consumed_ms=700), 1000) == 300
    assert age_ms(TopicLag(consumed_ms=1700), 1000) == 0
    assert age_ms(TopicLag(), 1000) == 0
