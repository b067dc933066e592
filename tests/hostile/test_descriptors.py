"""Idle connections leave descriptors to files and to other clients."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from tests.hostile.harness import SOCKET_TIMEOUT_S, V2, Peer, Victim, ask, sized
from tests.interop.support.probe import wait_until

DESCRIPTOR_COUNT = 1024
CONNECTION_COUNT = sized(DESCRIPTOR_COUNT, 1020)
RESERVED_COUNT = 256
NONE_ACCEPTED_S = 1.0  # then it takes no more


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    """A server that may have 1,024 files."""
    with Victim(descriptor_count=DESCRIPTOR_COUNT) as server:
        yield server


@pytest.fixture
def small(server: Victim) -> Victim:
    """The server, once it has noticed that the connections of an earlier test have ended."""
    wait_until("the ends of connections", lambda: server.open_file_count() < RESERVED_COUNT)
    return server


@contextlib.contextmanager
def connections(
    address: str, count: int, source: str = "127.0.0.1", says: bytes = b"\0"
) -> Iterator[list[socket.socket]]:
    """Open connections from one address, as many as the server takes. Each says the first byte of a frame.

    Its queue of connections to accept may be full. The rest is left connecting: the system tries again in seconds.
    """
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(count)]
        connecting = stack.enter_context(selectors.DefaultSelector())
        for endpoint in opened:
            endpoint.bind((source, 0))
            endpoint.setblocking(False)
            endpoint.connect_ex((host, int(port)))
            connecting.register(endpoint, selectors.EVENT_WRITE)
        while connecting.get_map() and (ready := connecting.select(NONE_ACCEPTED_S)):
            for key, _ in ready:
                connecting.unregister(key.fileobj)
                with contextlib.suppress(OSError):
                    cast(socket.socket, key.fileobj).send(says)
        for endpoint in opened:
            endpoint.settimeout(SOCKET_TIMEOUT_S)
        yield opened


@pytest.mark.parametrize("port", ["broker", "namesrv", "metrics", "ha"])
def test_sends_go_on_beside_as_many_idle_connections_as_there_are_descriptors(small: Victim, port: str) -> None:
    addresses = {"broker": small.broker, "namesrv": small.namesrv, "metrics": small.process.metrics}
    host, _, number = small.broker.rpartition(":")
    addresses["ha"] = f"{host}:{int(number) + 1}"
    with connections(addresses[port], CONNECTION_COUNT):
        assert small.open_file_count() < DESCRIPTOR_COUNT - RESERVED_COUNT // 4
        with Peer(small.broker) as good:  # the same address, on another connection
            for queue in range(20):
                send = {**V2, "b": f"Beside{port}", "e": str(queue % 4)}
                if good.send(ask(310, send, b"x")) and (answer := good.receive()) is not None:
                    assert answer.code == 0
                else:
                    assert port == "broker", "only the broker's own port may be full for this address"
                    break
    wait_until("a send once they have ended", lambda: _is_served(small.broker, f"After{port}"))


def _is_served(address: str, topic: str) -> bool:
    """Send over a new connection. Return False when the broker has not noticed yet that others have ended."""
    with Peer(address) as peer:
        answer = peer.receive() if peer.send(ask(310, {**V2, "b": topic}, b"x")) else None
    return answer is not None and answer.code == 0


def test_one_address_leaves_connections_to_others(small: Victim) -> None:
    with (
        connections(small.broker, CONNECTION_COUNT),
        connections(small.broker, 1, "127.0.0.2", b"") as [other],
    ):
        other.sendall(ask(310, {**V2, "b": "Other"}, b"x"))
        assert other.recv(4096)


def test_many_addresses_leave_descriptors_to_files(small: Victim) -> None:
    with contextlib.ExitStack() as stack, connections(small.broker, 1, says=b"") as [good]:
        good.sendall(ask(28))
        assert good.recv(1 << 20)
        for last in range(2, 8):
            stack.enter_context(connections(small.broker, 200, f"127.0.0.{last}"))
        assert small.open_file_count() < DESCRIPTOR_COUNT - RESERVED_COUNT // 4
        for number in range(20):
            good.sendall(ask(310, {**V2, "b": f"Many{number}"}, b"x"))
            assert good.recv(4096)
    assert small.metric("pymq_connections_closed_total") > 0


def test_tls_handshakes_that_never_end_take_a_part_of_the_descriptors_only(small: Victim) -> None:
    host, _, port = small.broker.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTION_COUNT):  # one after the other: what is silent meanwhile is closed
            stalled = stack.enter_context(socket.create_connection((host, int(port)), SOCKET_TIMEOUT_S))
            with contextlib.suppress(OSError):
                stalled.sendall(b"\x16")
        assert small.open_file_count() < DESCRIPTOR_COUNT // 2
        for source in ("127.0.0.1", "127.0.0.2"):
            with connections(small.broker, 1, source, b"") as [good]:
                good.sendall(ask(310, {**V2, "b": "BesideHandshakes"}, b"x"))
                assert good.recv(4096)


def test_connections_that_say_nothing_take_a_part_of_the_descriptors_only(small: Victim) -> None:
    with connections(small.broker, CONNECTION_COUNT, says=b""), connections(small.namesrv, CONNECTION_COUNT, says=b""):
        assert small.open_file_count() < DESCRIPTOR_COUNT // 2
        with Peer(small.broker) as good:
            assert good.call(ask(310, {**V2, "b": "BesideSilent"}, b"x")).code == 0
