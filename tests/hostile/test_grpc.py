"""Attacks on the gRPC port: kilobytes that ask for gigabytes or seconds, from clients that nobody has proven."""

from __future__ import annotations

import contextlib
import gzip
import struct
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from pymq.proxy.http2 import frames
from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PAYLOAD_BYTES_MAX,
    PREFACE,
    Setting,
    pack_frame,
    pack_settings,
)
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.wire.codes import ResponseCode
from tests.hostile.harness import MIB, SCALE, V2, Health, Peer, Victim, ask, eventually, note

BUDGET_BYTES = (256 if SCALE else 64) * MIB
ABOVE_BYTES_MAX = 96 * MIB  # two requests of 16 MiB in threads, and what Python keeps for reuse
TURN_CPU_S_MAX = 0.5


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim(memoryBudgetBytes=str(BUDGET_BYTES), serves_grpc=True) as server:
        with Peer(server.broker) as peer:
            for _ in range(2):
                assert peer.call(ask(310, V2, bytes(4 * MIB - 1024))).code == ResponseCode.SUCCESS
        yield server


@contextlib.contextmanager
def watched(victim: Victim) -> Iterator[None]:
    """Run an attack. The victim's memory, its turns and the latency of other clients must stay within their limits."""
    victim.reset_peak()
    before = victim.rss_bytes()
    with Health(victim.broker) as health:
        yield
    peak = victim.peak_rss_bytes() - before
    turn_s = victim.metric("pymq_longest_turn_cpu_seconds")
    note(f"{peak / MIB:.0f} MiB at the peak, longest turn {turn_s * 1000:.0f} ms")
    assert peak <= BUDGET_BYTES + ABOVE_BYTES_MAX, f"{peak / MIB:.0f} MiB more than before"
    assert turn_s < TURN_CPU_S_MAX
    health.assert_served()


class Client:
    """A client of HTTP/2 that keeps no rule but those of frames."""

    def __init__(self, victim: Victim, settings: dict[Setting, int] | None = None) -> None:
        assert victim.process.grpc
        self.peer = Peer(victim.process.grpc)
        self.next_stream = 1
        self.peer.socket.sendall(PREFACE + pack_settings(settings or {}))

    def call(self, method: str, data: bytes, *, packed: bool = False, ends: bool = True, client_id: str = "a") -> bool:
        """Begin a call, and return False when the server has closed the connection."""
        fields = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", method.encode() if method.startswith("/") else f"/{SERVICE}/{method}".encode()),
            (b":authority", b"a"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            (b"x-mq-client-id", client_id.encode()),
            *([(b"grpc-encoding", b"gzip")] if packed else []),
        ]
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        framed = struct.pack(">BI", packed, len(data)) + data
        parts = [framed[at : at + PAYLOAD_BYTES_MAX] for at in range(0, len(framed), PAYLOAD_BYTES_MAX)]
        sent = [pack_frame(frames.HEADERS, END_HEADERS, stream, encode_fields(fields))]
        for number, part in enumerate(parts):
            sent.append(pack_frame(frames.DATA, END_STREAM if ends and number == len(parts) - 1 else 0, stream, part))
        return self.peer.send(b"".join(sent))

    def ping(self) -> bool:
        """Wait for an answer to a PING; False when the server has closed the connection."""
        if not self.peer.send(pack_frame(frames.PING, 0, 0, b"12345678")):
            return False
        found = b""
        while pack_frame(frames.PING, frames.ACK, 0, b"12345678") not in found:
            try:
                data = self.peer.socket.recv(MIB)
            except ConnectionError:
                return False
            if not data:
                return False
            found = found[-64:] + data
        return True

    def close(self) -> None:
        self.peer.close()


def health_is_served(victim: Victim) -> bool:
    client = Client(victim)
    try:
        return client.call("/grpc.health.v1.Health/Check", b"") and client.ping()
    finally:
        client.close()


@pytest.mark.slow
def test_a_few_kilobytes_of_empty_messages(victim: Victim) -> None:
    packed = gzip.compress(b"\x0a\x00" * (15 * MIB // 2), 9)
    assert len(packed) < 20 * 1024
    with watched(victim):
        client = Client(victim)
        for _ in range(16):
            assert client.call("SendMessage", packed, packed=True)
        assert client.ping()
        eventually(lambda: victim.held_bytes() == 0)
        client.close()


def test_acknowledgements_of_nothing(victim: Victim) -> None:
    packed = gzip.compress(b"\x1a\x00" * (MIB // 2 - 1), 9)
    with watched(victim):
        client = Client(victim)
        for _ in range(8):
            assert client.call("AckMessage", packed, packed=True)
        for _ in range(50):
            assert client.call("AckMessage", b"\x12\x03\x12\x01T" + b"\x0a\x03\x12\x01g" + b"\x1a\x00" * 4096)
        assert client.ping()
        client.close()


def test_messages_that_nobody_takes(victim: Victim) -> None:
    with watched(victim):
        client = Client(victim)
        client.call("QueryRoute", b"", ends=False)
        empty = bytes(5) * (PAYLOAD_BYTES_MAX // 5)
        for _ in range(1_000):
            if not client.peer.send(pack_frame(frames.DATA, 0, 1, empty)):
                break
        assert health_is_served(victim)
        client.close()


def test_settings_of_thousands_of_streams(victim: Victim) -> None:
    one = struct.pack(">HI", Setting.INITIAL_WINDOW_SIZE, 65_535) + struct.pack(
        ">HI", Setting.INITIAL_WINDOW_SIZE, 65_536
    )
    with watched(victim):
        client = Client(victim)
        for _ in range(2_000):
            client.call("QueryRoute", b"", ends=False)
        assert client.ping()
        assert client.peer.send(pack_frame(frames.SETTINGS, 0, 0, one * 32) * 500)
        assert client.ping()
        client.close()


def test_a_request_that_never_ends(victim: Victim) -> None:
    with watched(victim):
        clients = [Client(victim) for _ in range(12)]
        for client in clients:
            client.call("SendMessage", bytes(15 * MIB)[: 7 * MIB], ends=False)
        assert health_is_served(victim)
        for client in clients:
            client.close()
        eventually(lambda: victim.held_bytes() == 0)


def pull() -> bytes:
    request = m.PullMessageRequest(group=m.Resource(name="hostile"), batch_size=1)
    request.message_queue.topic.name = V2["b"]
    request.message_queue.id = int(V2["e"])
    request.message_queue.broker.name = "broker-a"
    data: bytes = request.SerializeToString()
    return data


@pytest.mark.slow
def test_pulls_whose_answers_nobody_takes(victim: Victim) -> None:
    with watched(victim):
        clients = [Client(victim, {Setting.INITIAL_WINDOW_SIZE: 0}) for _ in range(3)]
        for number, client in enumerate(clients):
            for _ in range(100):
                if not client.call("PullMessage", pull(), client_id=f"pull-{number}"):
                    break
            client.ping()
        assert health_is_served(victim)
        for client in clients:
            client.close()
        eventually(lambda: victim.held_bytes() == 0)


def settings(number: int, size_bytes: int) -> Any:
    command = m.TelemetryCommand()
    subscription = command.settings.subscription
    subscription.group.name = "hostile"
    for _ in range(size_bytes // 1_000):
        entry = subscription.subscriptions.add()
        entry.topic.name = f"topic-{number}"
        entry.expression.expression = "x" * 980
    return command.SerializeToString()


def test_settings_of_many_clients(victim: Victim) -> None:
    with watched(victim):
        clients = [Client(victim) for _ in range(4)]
        for number, client in enumerate(clients):
            for each in range(30):
                if not client.call("Telemetry", settings(each, 900_000), ends=False, client_id=f"s-{number}-{each}"):
                    break
            client.ping()
        for client in clients:
            client.close()
        share = BUDGET_BYTES // 4
        eventually(lambda: victim.held_bytes() <= share)
        assert health_is_served(victim)


@pytest.mark.slow
def test_idle_connections_of_one_address_lock_nobody_out() -> None:
    with Victim(descriptor_count=512, serves_grpc=True) as victim:
        clients = []
        for _ in range(600):
            with contextlib.suppress(OSError):
                clients.append(Client(victim))
        assert health_is_served(victim)
        with Peer(victim.broker) as peer:
            assert peer.call(ask(999)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        for client in clients:
            client.close()


@pytest.mark.slow
def test_a_stop_ends_in_its_time_amid_an_attack() -> None:
    packed = gzip.compress(b"\x0a\x00" * (7 * MIB), 9)
    with Victim(serves_grpc=True) as victim:
        clients = [Client(victim) for _ in range(4)]
        for client in clients:
            for _ in range(20):
                client.call("SendMessage", packed, packed=True)
        assert victim.process.stop() == 0
        for client in clients:
            client.close()
