"""The HA port of a secured master: a peer without the credentials of servers gets nothing, and counts for nothing."""

from __future__ import annotations

import hmac
import logging
from typing import Any

import pytest

from pymq.broker.replication.master.ha_connection import PROOF_MS_MAX
from pymq.broker.replication.peer_proof import PeerProof
from pymq.clock import ManualClock
from pymq.security.credentials import Credentials
from pymq.wire.ha import NONCE_SIZE_BYTES, PROOF_SIZE_BYTES, encode_report, proven_content
from tests.broker.replication.cable import Cable
from tests.broker.replication.group import MASTER, MASTER_HA, Master, Slave, following
from tests.broker.replication.master.test_ha_service import Peer, bodies

SERVERS = Credentials("servers", "servers-secret")
PROOF = PeerProof(is_required=True, prove=SERVERS.prove)
OTHERS = Credentials("servers", "another-secret")


def secured(**settings: Any) -> Master:
    master = Master(Cable(), ManualClock(), peer_proof=PROOF, **settings)
    master.put(b"one", b"two")
    return master


def says(master: Master, data: bytes) -> Peer:
    peer = Peer(master.cable)
    peer.stream.write(data)
    master.cable.settle()
    return peer


def given(master: Master, start: int = 0) -> tuple[int, bytes]:
    token = master.ha_service.joined_slave(3, "h:1", start)
    return token, master.ha_service.nonce_of(token)


def is_out(master: Master, peer: Peer) -> bool:
    is_counted = master.ha_service.in_sync_count or master.ha_service.offset_acked_by(1)
    return not peer.data and not is_counted and not master.ha_service.live_address(3)


def test_a_slave_with_the_credentials_follows() -> None:
    master = secured()
    slave = following(master.cable, master.clock, master, prove=SERVERS.prove)
    master.put(b"three")
    slave.run(100)
    assert slave.log == master.log and master.ha_service.in_sync_count == 1
    assert not master.ha_service.states()[0].is_unproven


def test_the_proof_may_come_in_any_pieces() -> None:
    master = secured()
    master.cable.piece_bytes = 7
    assert following(master.cable, master.clock, master, prove=SERVERS.prove).ha_client.is_following


def test_the_bytes_after_a_token_are_hmac_sha256() -> None:
    master = secured()
    token, nonce = given(master)
    content = b"PyMQ HA slave 1\0" + token.to_bytes(8, "big", signed=True) + bytes(8) + nonce
    assert len(nonce) == NONCE_SIZE_BYTES and content == proven_content(token, 0, nonce)
    proof = hmac.new(b"servers-secret", content, "sha256").digest()
    assert bodies(says(master, encode_report(token) + proof + encode_report(0))) == master.log


@pytest.mark.parametrize("prove", [OTHERS.prove, lambda content: bytes(PROOF_SIZE_BYTES), lambda content: b""])
def test_a_wrong_proof_gets_nothing(prove: object) -> None:
    master = secured()
    token, nonce = given(master)
    assert callable(prove)
    peer = says(master, encode_report(token) + prove(proven_content(token, 0, nonce)) + encode_report(0) * 8)
    assert is_out(master, peer) and peer.why
    assert "did not prove to have the servers' credentials" in master.ha_service.states()[0].problem


@pytest.mark.parametrize("part", ["token", "start", "nonce"])
def test_a_proof_of_another_joining_is_wrong(part: str) -> None:
    master = secured()
    old_token, old_nonce = given(master)
    token, nonce = given(master)
    content = proven_content(
        old_token if part == "token" else token, 8 if part == "start" else 0, old_nonce if part == "nonce" else nonce
    )
    assert is_out(master, says(master, encode_report(token) + SERVERS.prove(content) + encode_report(0)))


def test_a_proof_works_once() -> None:
    master = secured()
    token, nonce = given(master)
    data = encode_report(token) + SERVERS.prove(proven_content(token, 0, nonce)) + encode_report(0)
    assert bodies(says(master, data)) == master.log
    assert not says(master, data).data


def test_a_peer_that_has_only_seen_a_token_takes_it_from_no_slave() -> None:
    master = secured()
    token, nonce = given(master)
    assert is_out(master, says(master, encode_report(token) + bytes(PROOF_SIZE_BYTES)))
    proof = SERVERS.prove(proven_content(token, 0, nonce))
    assert bodies(says(master, encode_report(token) + proof + encode_report(0))) == master.log


def test_a_peer_without_a_token_gets_nothing_whatever_else_names_its_host() -> None:
    master = secured()  # haSlaveHosts names it
    peer = Peer(master.cable, 0)
    master.clock.advance(PROOF_MS_MAX)
    master.ha_service.tick()
    master.cable.settle()
    assert is_out(master, peer) and "haUnprovenSlaveHosts" in master.ha_service.states()[0].problem


def test_a_host_in_the_list_gets_the_log_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    master = secured(haUnprovenSlaveHosts="10.0.0.9;127.0.0.1")
    peer = Peer(master.cable, 0)
    peer.report(master.store.physical_max_offset)
    assert bodies(peer) == master.log and master.ha_service.states()[0].is_unproven
    assert "haUnprovenSlaveHosts names its host" in caplog.text


def test_a_slave_without_credentials_says_what_it_lacks() -> None:
    master = secured()
    slave = Slave(master.cable, master.clock)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(100)
    assert "set innerCredentialsFile" in slave.ha_client.state().problem and not slave.ha_client.is_following
    assert not master.ha_service.in_sync_count


def test_a_master_without_credentials_gives_no_token() -> None:
    master = Master(Cable(), ManualClock(), peer_proof=PeerProof(is_required=True))
    slave = Slave(master.cable, master.clock, prove=SERVERS.prove)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(100)
    assert "has no credentials of servers: set innerCredentialsFile" in slave.ha_client.state().problem
    assert not says(master, encode_report(-5) + bytes(PROOF_SIZE_BYTES) + encode_report(0)).data
    assert not master.ha_service.in_sync_count
