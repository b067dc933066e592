"""The HA port of a secured master: a peer without the credentials of servers gets nothing, and counts for nothing."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.replication.master.ha_connection import PROOF_MS_MAX
from pymq.broker.replication.peer_proof import PeerProof
from pymq.clock import ManualClock
from pymq.security.credentials import Credentials
from pymq.wire.bodies_replication import JOIN_PROOF
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.ha import (
    NONCE_SIZE_BYTES,
    PROOF_SIZE_BYTES,
    encode_head,
    encode_report,
    proven_answer,
    proven_by_master,
    proven_content,
)
from pymq.wire.streams import Stream
from tests.broker.replication.cable import Cable
from tests.broker.replication.group import MASTER, MASTER_HA, SEGMENT, Master, Slave, following
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
    for prove, problem in ((None, "has no credentials of servers"), (SERVERS.prove, "and this master has none")):
        slave = Slave(master.cable, master.clock, prove=prove)
        slave.ha_client.note_master(MASTER, MASTER_HA)
        slave.run(100)
        assert f"{problem}: set innerCredentialsFile there" in slave.ha_client.state().problem
        assert problem in master.ha_service.states()[0].problem
    assert not says(master, encode_report(-5) + bytes(PROOF_SIZE_BYTES) + encode_report(0)).data
    assert not master.ha_service.in_sync_count


# -- what a slave demands ----------------------------------------------------------------------------------------------


def refused(master: Master, **settings: Any) -> str:
    """Return why a slave with the credentials does not follow; it has taken nothing."""
    slave = Slave(master.cable, master.clock, prove=SERVERS.prove, **settings)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(100)
    assert not slave.ha_client.is_following and not slave.log and not slave.role_changes
    return slave.ha_client.state().problem


def answering(master: Master, change: Callable[[Command], Command]) -> None:
    """Let another program answer in place of the master, which changes what the master says."""
    real = master.cable.answerers[MASTER]

    def answer(command: Command) -> Command | str:
        found = real(command)
        return change(found) if isinstance(found, Command) else found

    master.cable.answerers[MASTER] = answer


def test_an_open_master_with_the_credentials_proves_them_too() -> None:
    master = Master(Cable(), ManualClock(), peer_proof=PeerProof(prove=SERVERS.prove))
    master.put(b"one")
    assert following(master.cable, master.clock, master, prove=SERVERS.prove).ha_client.is_following


def test_a_master_without_the_credentials_is_not_followed() -> None:
    for peer_proof in (PeerProof(), PeerProof(prove=OTHERS.prove)):
        master = Master(Cable(), ManualClock(), peer_proof=peer_proof)
        master.put(b"one")
        assert "innerCredentialsFile" in refused(master)


@pytest.mark.parametrize("part", ["no proof", "another's proof", "proof of another joining", "changed body"])
def test_an_answer_to_the_joining_counts_only_with_its_proof(part: str) -> None:
    master = secured()
    seen: list[str] = []

    def change(found: Command) -> Command:
        if found.code:
            return found
        seen.append(found.ext[JOIN_PROOF])
        if part == "no proof":
            found.ext = {}
        elif part == "another's proof":
            found.ext = {JOIN_PROOF: OTHERS.prove(proven_answer(bytes(NONCE_SIZE_BYTES), found.body)).hex()}
        elif part == "changed body":
            found.body = found.body.replace(b'"logEnd":', b'"logEnd":1')
        else:
            found.ext = {JOIN_PROOF: seen[0] if len(seen) > 1 else ""}
        return found

    answering(master, change)
    problem = refused(master)
    assert "did not prove to have the servers' credentials" in problem and seen
    assert len(set(seen)) == len(seen)  # each joining has a challenge of its own


@pytest.mark.parametrize("first", [b"", bytes(PROOF_SIZE_BYTES), b"x"])
def test_frames_count_only_after_the_proof(first: bytes) -> None:
    """Another program is at the HA address: it has the token, and not the credentials."""
    master = secured()
    frames = first + encode_head(0, len(master.log)) + master.log

    class Stranger:
        def opened(self, stream: Stream) -> None:
            stream.write(frames)

        def received(self, data: bytes) -> None: ...

        def writable(self) -> None: ...

        def closed(self, why: str) -> None: ...

    master.cable.listeners[MASTER_HA] = Stranger
    assert "who is at the master's HA address did not prove" in refused(master)


def test_a_masters_proof_may_come_in_any_pieces() -> None:
    master = secured()
    for size in (1, 31, 33):
        master.cable.piece_bytes = size
        slave = following(master.cable, master.clock, master, prove=SERVERS.prove, broker_id=size)
        slave.run(100)
        assert slave.log == master.log


def test_the_bytes_before_the_first_frame_are_hmac_sha256() -> None:
    master = secured()
    challenge = bytes(range(NONCE_SIZE_BYTES))
    token = master.ha_service.joined_slave(3, "h:1", 0, challenge)
    nonce = master.ha_service.nonce_of(token)
    peer = says(master, encode_report(token) + SERVERS.prove(proven_content(token, 0, nonce)) + encode_report(0))
    content = b"PyMQ HA master1\0" + token.to_bytes(8, "big", signed=True) + bytes(8) + challenge + nonce
    assert peer.data.startswith(hmac.new(b"servers-secret", content, "sha256").digest() + encode_head(0, 0))
    assert content == proven_by_master(token, 0, challenge, nonce)
    assert b"PyMQ HA answer1\0" + challenge + b"body" == proven_answer(challenge, b"body")


def test_a_stranger_gets_no_proof_of_the_master() -> None:
    master = secured()
    token = master.ha_service.joined_slave(3, "h:1", 0, bytes(NONCE_SIZE_BYTES))
    assert not says(master, encode_report(token) + bytes(PROOF_SIZE_BYTES) + encode_report(0)).data


@pytest.mark.parametrize("settings", [{}, {"haMasterAddress": MASTER_HA}])
def test_a_rocketmq_master_is_followed_only_when_its_host_is_named(settings: dict[str, str]) -> None:
    """It does not know the request to join, and can prove nothing."""
    master = Master(Cable(), ManualClock())
    master.put(b"one")

    def ask(command: Command) -> Command | str:
        body = b""
        if command.code == RequestCode.GET_BROKER_CONFIG:
            keys = ("brokerClusterName=DefaultCluster", f"brokerName={master.config.broker_name}")
            body = "\n".join((*keys, f"mappedFileSizeCommitLog={SEGMENT}", "brokerRole=ASYNC_MASTER")).encode()
        elif command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(master.store.physical_max_offset)}
            body = json.dumps({"table": table}).encode()
        return Command(0 if body else ResponseCode.REQUEST_CODE_NOT_SUPPORTED, body=body)

    master.cable.answerers[MASTER] = ask
    assert "add its host to haUnprovenMasterHosts" in refused(master, **settings)
    named = {**settings, "haUnprovenMasterHosts": "10.0.0.9; 127.0.0.1"}
    slave = following(master.cable, master.clock, master, prove=SERVERS.prove, **named)
    slave.run(100)
    assert slave.log == master.log


def test_without_a_name_server_the_host_of_the_master_is_named_too() -> None:
    master = Master(Cable(), ManualClock())
    master.put(b"one")
    slave = Slave(master.cable, master.clock, prove=SERVERS.prove, haMasterAddress=MASTER_HA)
    slave.run(100)
    assert not slave.ha_client.is_following and "haUnprovenMasterHosts" in slave.ha_client.state().problem
