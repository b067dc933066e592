"""Limits of addresses and users: where they begin, whom they leave alone, and that their tables are bounded."""

from __future__ import annotations

import ipaddress
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.security import signature
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.sender_limits import (
    ADDRESSES_MAX,
    BLOCKED_MS,
    FAILED_PROOFS_MAX,
    FAILED_PROOFS_OF_ADDRESS_MAX,
    FAILED_PROOFS_WINDOW_MS,
    UNKNOWN_USER,
    Buckets,
    FailedProofs,
    SenderLimits,
)
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.broker.assembly.test_security import credentials, guard
from tests.broker.world import FakePeer

HERE, THERE = ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("10.0.0.2")
NO_LIMITS = {
    "address_requests_per_second_max": 0,
    "address_bytes_per_second_max": 0,
    "user_requests_per_second_max": 0,
    "user_bytes_per_second_max": 0,
    "user_connection_count_max": 0,
}


class Door:
    """A gatekeeper with limits, and senders at its door."""

    def __init__(self, **settings: int) -> None:
        self.clock = ManualClock()
        self.gatekeeper = Gatekeeper(guard())
        self.limits = SenderLimits(self.clock, SimpleNamespace(**{**NO_LIMITS, **settings}))
        self.gatekeeper.limits = self.limits

    def knock(
        self, user: str | None, secret: str | None = None, peer: FakePeer | None = None, body: bytes = b""
    ) -> int:
        """Return the code of a refusal, 0 when the sender is admitted."""
        command = Command(310, ext={"topic": "T"}, body=body)
        if user is not None:
            credentials(user, secret).sign(command)
        try:
            self.gatekeeper.admit(command, peer or at("10.0.0.1"))
        except Refusal as refusal:
            self.remark = refusal.remark
            return refusal.code
        return 0

    def fail(self, count: int, peer: FakePeer | None = None) -> None:
        for _ in range(count):
            assert self.knock("producer", "wrong-secret", peer) == 16


def at(host: str, port: int = 50_000) -> FakePeer:
    peer = FakePeer()
    peer.address = f"{host}:{port}"
    return peer


def is_blocked(proofs: FailedProofs, address: Any = HERE, user: str = UNKNOWN_USER) -> bool:
    try:
        proofs.check(address, user)
    except Refusal as refusal:
        assert refusal.code == ResponseCode.NO_PERMISSION
        return True
    return False


def test_a_user_is_blocked_at_an_address_after_so_many_failures_and_for_so_long() -> None:
    door = Door()
    door.fail(FAILED_PROOFS_MAX - 1)
    assert door.knock("producer") == 0
    door.fail(1)
    assert (
        door.knock("producer") == 16
        and "50 requests from 10.0.0.1 failed to prove user producer within 10 s" in door.remark
    )
    door.clock.advance(BLOCKED_MS - 1)
    assert door.knock("producer") == 16
    door.clock.advance(1)
    assert door.knock("producer") == 0 and not door.limits.failed_proofs.has_blocked


def test_other_users_at_the_address_do_not_suffer() -> None:
    door = Door()
    door.fail(FAILED_PROOFS_MAX)
    assert door.knock("producer") == 16 and door.knock("consumer") == 0
    assert door.knock("nobody") == 16 and "User:nobody is not found" in door.remark


def test_names_that_no_user_has_are_one() -> None:
    door = Door()
    for number in range(FAILED_PROOFS_MAX):
        assert door.knock(f"nobody-{number}") == 16 and "is not found" in door.remark
    assert door.knock("nobody") == 16 and "failed to prove users that are not there within 10 s" in door.remark
    assert door.knock("producer") == 0 and door.knock(None) == 16 and "cannot be null" in door.remark


def test_many_names_block_the_address_but_for_users_who_were_proven_there() -> None:
    clock = ManualClock()
    proofs, users = FailedProofs(clock), [f"user-{number}" for number in range(FAILED_PROOFS_OF_ADDRESS_MAX)]
    proofs.note_proven(HERE, "administrator")
    for user in users[:-1]:
        proofs.note(HERE, user)
    assert not proofs.has_blocked and not is_blocked(proofs, user="another")
    proofs.note(HERE, users[-1])
    assert is_blocked(proofs, user="another") and is_blocked(proofs) and not is_blocked(proofs, THERE, "another")
    assert not is_blocked(proofs, user="administrator")
    for _ in range(FAILED_PROOFS_MAX):
        proofs.note(HERE, "administrator")
    assert is_blocked(proofs, user="administrator"), "its secret is not to be guessed either"
    clock.advance(BLOCKED_MS)
    assert not is_blocked(proofs, user="another") and not proofs.has_blocked


def test_an_administrator_on_the_address_of_a_client_that_hammers_is_served() -> None:
    door = Door()
    assert door.knock("administrator") == 0
    for number in range(FAILED_PROOFS_OF_ADDRESS_MAX):
        door.limits.failed_proofs.note(HERE, f"user-{number}")
    assert door.knock("consumer") == 16 and "500 requests from 10.0.0.1 failed" in door.remark
    assert door.knock("administrator") == 0


def test_a_blocked_user_costs_no_check_and_others_do_not_suffer(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    door.fail(FAILED_PROOFS_MAX)
    checked: list[int] = []
    real = signature.Secret.has_signed
    monkeypatch.setattr(signature.Secret, "has_signed", lambda self, *rest: checked.append(1) or real(self, *rest))
    door.fail(100)
    assert not checked
    assert door.knock("producer", peer=at("10.0.0.2")) == 0 and checked


def test_a_client_that_goes_on_is_not_blocked_for_ever() -> None:
    door = Door()
    door.fail(FAILED_PROOFS_MAX)
    for _ in range(10):
        door.clock.advance(BLOCKED_MS // 10 - 1)
        assert {door.knock("producer") for _ in range(FAILED_PROOFS_MAX)} == {16}
    door.clock.advance(10)
    assert door.knock("producer") == 0


def test_failures_that_are_spread_over_time_block_nothing() -> None:
    proofs = FailedProofs(clock := ManualClock())
    for _ in range(5):
        for _ in range(FAILED_PROOFS_MAX - 1):
            proofs.note(HERE, UNKNOWN_USER)
        assert not proofs.has_blocked and not is_blocked(proofs)
        clock.advance(FAILED_PROOFS_WINDOW_MS)


def test_requests_without_a_name_block_nothing() -> None:
    door = Door()
    for _ in range(FAILED_PROOFS_MAX * 2):
        assert door.knock(None) == 16
    assert door.knock("producer") == 0


def test_all_addresses_of_an_ipv6_network_are_one() -> None:
    proofs = FailedProofs(ManualClock())
    for number in range(FAILED_PROOFS_MAX):
        proofs.note(ipaddress.ip_address(f"2001:db8::{number:x}"), UNKNOWN_USER)
    assert is_blocked(proofs, ipaddress.ip_address("2001:db8::ffff:1"))
    assert not is_blocked(proofs, ipaddress.ip_address("2001:db8:0:1::1")) and not is_blocked(proofs)


def test_the_tables_of_addresses_are_bounded() -> None:
    proofs, first = FailedProofs(ManualClock()), int(HERE)
    for number in range(ADDRESSES_MAX + 500):
        proofs.note(ipaddress.ip_address(first + number), UNKNOWN_USER)
        proofs.note_proven(ipaddress.ip_address(first + number), "producer")
    assert len(proofs._of_users._failed) == len(proofs._of_addresses._failed) == ADDRESSES_MAX
    assert len(proofs._proven) == ADDRESSES_MAX
    buckets = Buckets(ManualClock(), 10)
    for number in range(50):
        assert buckets.take(number, 1, 1)
    assert len(buckets._found) == 10


def test_a_rate_allows_a_seconds_worth_at_once_and_then_so_many_a_second() -> None:
    door = Door(user_requests_per_second_max=10)
    assert [door.knock("producer") for _ in range(11)] == [0] * 10 + [2]
    assert "the limit is userRequestsPerSecondMax=10: send less" in door.remark
    assert door.knock("consumer") == 0, "another user"
    door.clock.advance(100)
    assert [door.knock("producer") for _ in range(2)] == [0, 2]
    door.clock.advance(60_000)
    assert [door.knock("producer") for _ in range(11)] == [0] * 10 + [2]
    assert door.limits.refused_count == 3


def test_bytes_of_bodies_count_and_a_large_one_is_a_debt() -> None:
    door = Door(user_bytes_per_second_max=1000)
    assert door.knock("producer", body=bytes(2500)) == 0
    door.clock.advance(1500)
    assert door.knock("producer", body=b"x") == 2 and "1000 bytes in a second" in door.remark
    door.clock.advance(1)
    assert door.knock("producer", body=b"x") == 0


def test_an_address_has_a_rate_before_anything_is_proven() -> None:
    door = Door(address_requests_per_second_max=3)
    assert [door.knock(None) for _ in range(4)] == [16, 16, 16, 2]
    assert door.knock("producer", peer=at("10.0.0.2")) == 0


def test_an_address_has_a_rate_of_bytes_whoever_sends_them() -> None:
    door = Door(address_bytes_per_second_max=100)
    assert [door.knock(name, body=b"x" * 50) for name in ("producer", "consumer", "producer")] == [0, 0, 2]
    assert (
        "address 10.0.0.1 sent more than 100 bytes in a second, the limit is addressBytesPerSecondMax=100"
        in door.remark
    )
    assert door.knock(None) == 2 and door.knock("producer", peer=at("10.0.0.2"), body=b"x") == 0
    door.clock.advance(1000)
    assert door.knock("producer", body=b"x") == 0
    assert door.limits.is_on


def test_a_user_has_so_many_connections_until_one_is_closed() -> None:
    door = Door(user_connection_count_max=2)
    peers = [at("10.0.0.1", 50_000 + number) for number in range(3)]
    assert [door.knock("producer", peer=peer) for peer in (*peers, peers[0])] == [0, 0, 2, 0]
    assert "user producer has 2 connections" in door.remark
    assert door.knock("consumer", peer=peers[2]) == 0, "another user"
    peers[0].closed = True
    assert door.knock("producer", peer=peers[2]) == 0


def test_servers_among_each_other_have_no_limits() -> None:
    from pymq.security.identities import Identity

    limits = SenderLimits(ManualClock(), SimpleNamespace(**{**NO_LIMITS, "user_requests_per_second_max": 1}))
    servers = Identity(credentials("servers", "servers-secret").server_user())
    for _ in range(100):
        limits.check_user(servers, 0, at("10.0.0.1"))


def test_without_limits_nothing_is_counted() -> None:
    door = Door()
    assert not door.limits.is_on
    assert {door.knock("producer") for _ in range(100)} == {0} and not door.limits._requests._found
