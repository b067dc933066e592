"""ProducerIds: who gets the replies to a client id when several connections name it."""

from __future__ import annotations

from typing import Any

from pymq.broker.metadata.clients import Client
from pymq.broker.metadata.producer_ids import ProducerIds
from pymq.clock import ManualClock
from pymq.model.access import Need
from tests.broker.world import FakePeer

SILENCE_MS = 120_000


class Someone:
    """A proven sender."""

    is_administrator = False
    is_proven = True

    def __init__(self, name: str) -> None:
        self.name = name

    def may_read(self, topic: str) -> bool:
        return True

    is_still_there = True

    def may_publish(self, topic: str) -> bool:
        return True

    def may(self, need: Need) -> bool:
        return True


def producer(user: str = "", client_id: str = "me@1") -> Client:
    peer: Any = FakePeer()
    return Client(client_id, peer, "JAVA", 479, 0, 0, Someone(user) if user else None)


def ids() -> tuple[ProducerIds, ManualClock]:
    clock = ManualClock()
    return ProducerIds(clock, lambda: SILENCE_MS), clock


def test_the_newest_connection_counts_until_it_leaves_its_last_group() -> None:
    found, _ = ids()
    old, new = producer(), producer()
    for client in (old, new, new):
        found.join(client)
    found.leave(new)
    assert found.peer("me@1") is new.peer
    found.leave(new)
    assert found.peer("me@1") is old.peer
    found.leave(old)
    assert found.peer("me@1") is None and len(found) == 0


def test_another_user_s_connection_gets_no_replies() -> None:
    found, _ = ids()
    owner, stranger, again = producer("ada"), producer("eve"), producer("ada")
    found.join(owner)
    found.join(stranger)
    assert found.peer("me@1") is owner.peer
    found.join(again)
    assert found.peer("me@1") is again.peer


def test_a_user_that_comes_back_in_time_still_owns_its_id() -> None:
    found, clock = ids()
    owner, stranger, again = producer("ada"), producer("eve"), producer("ada")
    found.join(owner)
    found.join(stranger)
    found.leave(owner)
    clock.advance(SILENCE_MS - 1)
    assert found.peer("me@1") is None, "a stranger gets nothing that waits for the owner"
    found.join(again)
    clock.advance(SILENCE_MS)
    assert found.peer("me@1") is again.peer


def test_an_id_passes_to_the_next_user_once_its_owner_has_been_silent_for_long() -> None:
    found, clock = ids()
    owner, next_one = producer("ada"), producer("bob")
    found.join(owner)
    found.join(next_one)
    found.leave(owner)
    clock.advance(SILENCE_MS)
    assert found.peer("me@1") is next_one.peer
    found.join(owner)
    assert found.peer("me@1") is next_one.peer
