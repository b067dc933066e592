"""TableRequests: which requests are answered at once, and which are held, how long and how many."""

from __future__ import annotations

import sys
import weakref

import msgspec
import pytest

from pymq.broker.replication.master.ha_service import CONNECTIONS_MAX
from pymq.broker.replication.master.table_requests import HELD_COUNT_MAX, HELD_LOG_BYTES, HOLD_MS_MAX, TableRequests
from pymq.broker.replication.tables.replicated_tables import ReplicatedTable, TableRead
from pymq.clock import ManualClock
from pymq.wire.bodies_replication import TEXT_LENGTH_MAX, MetadataTables
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer

SLAVE = "10.0.0.2:10911"
KNOWN = {"t": "s.0"}


class Versions(dict[str, str]):
    """A dict that supports weak references."""


class Log:
    physical_max_offset = 1000


class Setup:
    """A master with one table ``t``."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = Log()
        self.change_count = 0
        self.fence = 0
        table = ReplicatedTable(
            "t", "m", "s", lambda: (self.change_count,), lambda known: TableRead({"m": {}}), lambda table, is_part: None
        )
        self.requests = TableRequests(
            tables=[table],
            store=self.log,  # type: ignore[arg-type]
            clock=self.clock,
            fence=lambda: self.fence,
        )

    def ask(
        self, slave: str = SLAVE, wait_ms: int = 5000, known: dict[str, str] | None = None, body: bytes = b""
    ) -> FakePeer:
        peer = FakePeer()
        request = Command(9102, body=body)
        reply = self.requests.ask(slave, KNOWN if known is None else known, wait_ms, request, peer)
        if reply is not None:
            peer.answers.append(reply)
        return peer


def answer(peer: FakePeer) -> MetadataTables:
    (reply,) = peer.answers
    assert isinstance(reply, Reply) and reply.code == 0
    return msgspec.json.decode(reply.body, type=MetadataTables)


@pytest.mark.parametrize("known", [{}, {"t": "s.1"}, {"t": "other.0"}])
def test_different_tables_are_answered_at_once(known: dict[str, str]) -> None:
    setup = Setup()
    reported = answer(setup.ask(known=known))
    assert reported.versions == KNOWN and bytes(reported.tables["t"]) == b'{"m":{}}' and reported.held_ms == 0
    assert reported.log_end == 1000 and setup.requests.held_count == 0


def test_equal_tables_wait_for_a_change_and_are_answered_in_its_turn() -> None:
    setup = Setup()
    peer = setup.ask()
    setup.clock.advance(700)
    setup.requests.end_turn()
    assert not peer.answers
    setup.change_count += 1
    setup.requests.tick()
    assert not peer.answers
    setup.requests.end_turn()
    reported = answer(peer)
    assert reported.versions == {"t": "s.1"} and reported.held_ms == 700
    assert setup.requests.held_count == 0


def test_a_held_request_keeps_neither_body_nor_versions_of_the_slave() -> None:
    """64 of them with bodies of 16 MB would be a gigabyte."""
    setup = Setup()
    body, versions = bytes(1 << 20), Versions(KNOWN | {"v" * 1000: "1"})
    before, gone = sys.getrefcount(body), weakref.ref(versions)
    peer = setup.ask(known=versions, body=body)
    del versions
    assert setup.requests.held_count == 1
    assert sys.getrefcount(body) == before and gone() is None
    setup.change_count += 1
    setup.requests.end_turn()
    assert answer(peer).versions == {"t": "s.1"}


@pytest.mark.parametrize(
    ("slave", "wait_ms"), [("", 5000), ("a" * (TEXT_LENGTH_MAX + 1), 5000), (SLAVE, 0), (SLAVE, -1)]
)
def test_a_request_without_wait_time_or_slave_is_answered_at_once(slave: str, wait_ms: int) -> None:
    setup = Setup()
    assert answer(setup.ask(slave, wait_ms)).versions == {}
    assert answer(setup.ask(wait_ms=0)).log_end == 1000


@pytest.mark.parametrize(("asked_ms", "held_ms"), [(1, 1), (HOLD_MS_MAX, HOLD_MS_MAX), (10**9, HOLD_MS_MAX)])
def test_a_request_waits_no_longer_than_its_time_and_the_limit(asked_ms: int, held_ms: int) -> None:
    setup = Setup()
    peer = setup.ask(wait_ms=asked_ms)
    setup.clock.advance(held_ms - 1)
    setup.requests.tick()
    assert not peer.answers
    setup.clock.advance(1)
    setup.requests.tick()
    assert answer(peer).held_ms == held_ms and answer(peer).versions == {}


def test_one_request_of_a_slave_is_held() -> None:
    setup = Setup()
    first, second = setup.ask(), setup.ask()
    assert answer(first).versions == {} and not second.answers
    other = setup.ask("10.0.0.3:10911")
    assert not second.answers and not other.answers and setup.requests.held_count == 2


def test_the_number_of_held_requests_is_bounded() -> None:
    setup = Setup()
    assert HELD_COUNT_MAX == CONNECTIONS_MAX
    held = [setup.ask(f"10.0.0.{number}:1") for number in range(HELD_COUNT_MAX)]
    assert not any(peer.answers for peer in held)
    assert answer(setup.ask()).versions == {}
    assert not setup.ask("10.0.0.0:1").answers, "who was held may be again"
    assert setup.requests.held_count == HELD_COUNT_MAX


def test_a_log_that_grows_is_answered_to_the_byte() -> None:
    setup = Setup()
    peer = setup.ask()
    setup.log.physical_max_offset += HELD_LOG_BYTES - 1
    setup.requests.end_turn()
    assert not peer.answers
    setup.log.physical_max_offset += 1
    setup.requests.end_turn()
    assert answer(peer).log_end == 1000 + HELD_LOG_BYTES


def test_a_slave_that_is_gone_is_forgotten() -> None:
    setup = Setup()
    peer = setup.ask()
    peer.closed = True
    setup.requests.tick()
    assert setup.requests.held_count == 0 and not peer.answers


def test_a_write_fence_answers_held_requests_and_holds_no_new_ones() -> None:
    setup = Setup()
    peer = setup.ask()
    setup.fence = 17
    setup.requests.end_turn()
    assert (answer(peer).versions, answer(peer).fence) == ({}, 17)
    assert (answer(setup.ask()).versions, answer(setup.ask()).fence) == ({}, 17)


def test_without_a_write_fence_an_answer_names_none() -> None:
    assert answer(Setup().ask(known={})).fence == 0


def test_the_end_answers_held_requests_and_holds_no_new_ones() -> None:
    setup = Setup()
    peers = [setup.ask(), setup.ask("10.0.0.3:1")]
    setup.requests.close()
    assert [answer(peer).versions for peer in peers] == [{}, {}]
    assert answer(setup.ask()).versions == {}
