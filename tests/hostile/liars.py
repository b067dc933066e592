"""LyingPeer: a process-less broker on a socket that answers the replication requests with what a test tells it to."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from types import TracebackType
from typing import Any

import msgspec

from pymq.model.tables import DataVersion
from pymq.wire.bodies_registration import body_crc32, encode_registration
from pymq.wire.bodies_replication import EpochEntryBody, JoinAnswer, JoinRequest, ReplicationStatus, StatusRequest
from pymq.wire.codes import RequestCode
from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command, request
from pymq.wire.framing import FrameBuffer
from pymq.wire.headers.route import RegisterBrokerHeader
from tests.hostile.harness import MIB, Peer

CLUSTER, GROUP = "DefaultCluster", "broker-a"
SEGMENT_BYTES = 1024 * 1024  # mappedFileSizeCommitLog of tests.cli.brokers


class LyingPeer:
    """Listens on a port of its own. ``asked`` counts the requests that reached it, by code."""

    def __init__(self, epoch_history: list[EpochEntryBody], broker_id: int = 0) -> None:
        self.epoch_history = epoch_history
        self.broker_id = broker_id
        self.asked: Counter[int] = Counter()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._is_over = False
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> LyingPeer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._server.close()

    def _accept(self) -> None:
        while not self._is_over:
            try:
                accepted, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        frames = FrameBuffer(64 * MIB)
        with accepted:
            while data := _received(accepted):
                for frame in frames.feed(data):
                    accepted.sendall(self._answer(decode_command(frame)))

    def _answer(self, asked: Command) -> bytes:
        self.asked[asked.code] += 1
        body = b""
        if asked.code == RequestCode.PYMQ_GET_REPLICATION_STATUS:
            body = self._status()
        elif asked.code == RequestCode.PYMQ_JOIN_MASTER:
            body = self._join()
        return encode_command(Command(0, opaque=asked.opaque, flag=FLAG_RESPONSE, body=body))

    def _status(self) -> bytes:
        status = ReplicationStatus(
            cluster=CLUSTER,
            broker_name=GROUP,
            broker_id=self.broker_id,
            role="SLAVE" if self.broker_id else "ASYNC_MASTER",
            address=self.address,
            ha_address=self.address,
            epoch_history=self.epoch_history,
            log_end=1 << 40,
        )
        return msgspec.json.encode(status)

    def _join(self) -> bytes:
        """Return an answer by which a slave would truncate its whole log."""
        answer = JoinAnswer(
            token=0, ha_address=self.address, start=0, epoch_history=self.epoch_history, log_end=1 << 40
        )
        return msgspec.json.encode(answer)

    def register(self, namesrv: Peer) -> int:
        """Register at a name server as a broker of the group; return the answer's code."""
        body = encode_registration([], DataVersion(1, 0, 1))
        header = RegisterBrokerHeader(
            broker_name=GROUP,
            broker_addr=self.address,
            cluster_name=CLUSTER,
            broker_id=self.broker_id,
            ha_server_addr=self.address,
            master_epoch=self.epoch_history[-1].epoch,
            body_crc32=body_crc32(body),
        )
        return namesrv.call(encode_command(request(RequestCode.REGISTER_BROKER, header, body))).code


def _received(accepted: socket.socket) -> bytes:
    try:
        return accepted.recv(256 * 1024)
    except OSError:
        return b""


def claim(peer: Peer, master: str) -> ReplicationStatus:
    """Ask a broker for its replication status in the name of ``master``, and return the status."""
    return status_of(peer, msgspec.json.encode(StatusRequest(master=master)))


def status_of(peer: Peer, body: bytes = b"") -> ReplicationStatus:
    """Return a broker's replication status."""
    answer = peer.call(encode_command(request(RequestCode.PYMQ_GET_REPLICATION_STATUS, None, body)))
    assert answer.code == 0, answer.remark
    return msgspec.json.decode(answer.body, type=ReplicationStatus)


def command(code: int, body: Any = None) -> bytes:
    """Return the frame of a request with a JSON body."""
    return encode_command(request(code, None, msgspec.json.encode(body) if body is not None else b""))


def forged_joining(number: int) -> bytes:
    """Return the frame of a join request of an empty slave, with an id and address of its own."""
    request_body = JoinRequest(
        cluster=CLUSTER,
        broker_name=GROUP,
        broker_id=number,
        address=f"10.66.{number // 256}.{number % 256}:10911",
        segment_size_bytes=SEGMENT_BYTES,
        log_start=0,
        log_end=0,
    )
    return command(RequestCode.PYMQ_JOIN_MASTER, request_body)
