"""FilterServers: registrations, expiry, and the changes that name servers get."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.filter_servers import FILTER_SERVER_COUNT_MAX, SILENCE_MAX_MS, FilterServers
from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.wire.codes import ResponseCode
from tests.broker.world import FakePeer

ONE, TWO = "127.0.0.1:1", "127.0.0.1:2"


class Setup:
    """A table that records its change notices."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: list[list[str]] = []
        self.table = FilterServers(self.clock, lambda: self.told.append(self.table.addresses()))


def test_only_changes_are_reported() -> None:
    setup = Setup()
    first, second = FakePeer(), FakePeer()
    setup.table.register(first, TWO)
    setup.table.register(first, TWO)
    setup.table.register(second, ONE)
    setup.table.disconnect(first)
    setup.table.disconnect(first)
    assert setup.told == [[TWO], [ONE, TWO], [ONE]]


def test_a_server_that_reconnects_before_its_old_connection_ends_stays() -> None:
    setup = Setup()
    old, new = FakePeer(), FakePeer()
    setup.table.register(old, ONE)
    setup.table.register(new, ONE)
    setup.table.disconnect(old)
    assert setup.table.addresses() == [ONE] and setup.told == [[ONE]]


def test_a_silent_server_is_forgotten() -> None:
    setup = Setup()
    setup.table.register(FakePeer(), ONE)
    setup.clock.advance(SILENCE_MAX_MS)
    setup.table.tick()
    assert setup.table.addresses() == [ONE]
    setup.clock.advance(1)
    setup.table.tick()
    assert setup.table.addresses() == [] and setup.told == [[ONE], []]


@pytest.mark.parametrize("address", ["", "here", "127.0.0.1:0", "127.0.0.1:70000", "h" * 300 + ":1"])
def test_an_unreachable_address_is_refused(address: str) -> None:
    setup = Setup()
    with pytest.raises(Refusal, match="filterServerAddr") as caught:
        setup.table.register(FakePeer(), address)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER and setup.told == []


def test_the_number_of_servers_is_bounded() -> None:
    setup = Setup()
    peers = [FakePeer() for _ in range(FILTER_SERVER_COUNT_MAX)]
    for port, peer in enumerate(peers, 1):
        setup.table.register(peer, f"127.0.0.1:{port}")
    setup.table.register(peers[0], ONE)  # one that is known may report again
    with pytest.raises(Refusal, match=f"the limit is {FILTER_SERVER_COUNT_MAX}"):
        setup.table.register(FakePeer(), "127.0.0.1:9999")
    assert len(setup.table.addresses()) == FILTER_SERVER_COUNT_MAX
