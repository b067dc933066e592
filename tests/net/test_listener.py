"""Servers and clients over TLS and without it, on one port, with right and wrong certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.client.tls import Tls, tls_context
from pymq.clock import SystemClock
from pymq.errors import UnreachableError
from pymq.net import listener
from pymq.net.client import RemotingClient
from pymq.net.runtime import new_event_loop
from pymq.net.server import Server
from pymq.net.tls import Identity, ServerTls, server_context
from pymq.wire.access import any_user
from pymq.wire.codes import ResponseCode
from pymq.wire.command import encode_command, request
from pymq.wire.dispatch import Dispatcher, Route
from pymq.wire.reply import Reply
from tests.certificates import certificates

ECHO = 500
BODY = b"0123456789" * 100_000  # many TLS records
Scenario = Callable[[Server, str], Awaitable[None]]


def runner_on(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> Callable[..., None]:
    """Return what runs a scenario with a server on a free port."""

    def runner(scenario: Scenario, tls: ServerTls | None) -> None:
        async def main() -> None:
            routes = [Route(ECHO, None, lambda request, header, peer: Reply(body=request.body), any_user())]
            server = Server(Dispatcher(routes, "test server"), clock=SystemClock(), tls=tls)
            port = await server.start("127.0.0.1", 0)
            try:
                await scenario(server, f"127.0.0.1:{port}")
            finally:
                await server.stop()

        with asyncio.Runner(loop_factory=make_loop) as loop:
            loop.run(main())

    return runner


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "default loop"])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs a scenario on both kinds of loop."""
    return runner_on(request.param)


def of_server(*, is_required: bool = False, asks_clients: bool = False, is_client_required: bool = False) -> ServerTls:
    files = certificates()
    context = server_context(
        Identity(str(files.server.cert_path), str(files.server.key_path)),
        SystemClock(),
        trust_path=files.ca_path if asks_clients else "",
        is_client_required=is_client_required,
    )
    return ServerTls(context, is_required)


def trusting(ca_path: str | None = None, **members: Any) -> Tls:
    return Tls(trust_path=ca_path or certificates().ca_path, **members)


async def echo(address: str, tls: Tls | None) -> bytes:
    client = RemotingClient(clock=SystemClock(), tls=tls_context(tls, SystemClock()) if tls is not None else None)
    try:
        answer = await client.invoke(address, request(ECHO, body=BODY), 10)
        assert answer.code == ResponseCode.SUCCESS
        return answer.body
    finally:
        await client.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - counts change without an event
            await asyncio.sleep(0.01)


def test_one_port_takes_tls_and_plain_connections(run: Callable[..., None]) -> None:
    async def scenario(server: Server, address: str) -> None:
        for tls in (trusting(), None, trusting(), None):
            assert await echo(address, tls) == BODY
        await until(lambda: not server.connections)
        assert server.accepted_count == 4
        assert not server.closed_for

    run(scenario, of_server())


def test_an_enforcing_port_closes_plain_connections(run: Callable[..., None]) -> None:
    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(UnreachableError):
            await echo(address, None)
        assert server.closed_for == {"no-tls": 1}
        assert await echo(address, trusting()) == BODY

    run(scenario, of_server(is_required=True))


def test_a_port_without_a_certificate_says_so_about_tls(run: Callable[..., None]) -> None:
    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(UnreachableError):
            await echo(address, trusting())
        assert server.bad_frames == {"tls-hello": 1}
        assert await echo(address, None) == BODY

    run(scenario, None)


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        (lambda: trusting(certificates().stranger_ca_path), "certificate refused"),
        (Tls, "certificate refused"),  # the system's authorities don't know the test's
    ],
)
def test_a_client_refuses_a_server_of_another_authority(
    run: Callable[..., None], tls: Callable[[], Tls], problem: str
) -> None:
    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(UnreachableError, match=problem):
            await echo(address, tls())
        await until(lambda: server.closed_for["tls-handshake"] == 1)
        assert await echo(address, Tls(check_server=False)) == BODY

    run(scenario, of_server())


def test_a_server_refuses_clients_without_its_authoritys_certificate(run: Callable[..., None]) -> None:
    files = certificates()
    own = trusting(cert_path=str(files.client.cert_path), key_path=str(files.client.key_path))
    foreign = trusting(cert_path=str(files.stranger.cert_path), key_path=str(files.stranger.key_path))

    async def scenario(server: Server, address: str) -> None:
        for tls in (trusting(), foreign):
            with pytest.raises(UnreachableError):
                await echo(address, tls)
        assert not server.connections
        assert await echo(address, own) == BODY

    run(scenario, of_server(asks_clients=True, is_client_required=True))


def test_an_optional_certificate_may_be_missing_but_not_wrong(run: Callable[..., None]) -> None:
    files = certificates()
    foreign = trusting(cert_path=str(files.stranger.cert_path), key_path=str(files.stranger.key_path))

    async def scenario(server: Server, address: str) -> None:
        assert await echo(address, trusting()) == BODY
        with pytest.raises(UnreachableError):
            await echo(address, foreign)

    run(scenario, of_server(asks_clients=True))


def test_versions_before_1_2_are_refused(run: Callable[..., None]) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=old)
        await until(lambda: server.closed_for["tls-handshake"] == 1)

    run(scenario, of_server())


def test_rubbish_after_the_first_byte_of_tls_closes_only_its_connection(run: Callable[..., None]) -> None:
    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16" + b"\xff" * 100)
        with pytest.raises(ConnectionError):
            if not await asyncio.wait_for(reader.read(), 10):
                raise ConnectionResetError
        writer.close()
        await until(lambda: server.closed_for["tls-handshake"] == 1)
        assert await echo(address, trusting()) == BODY

    run(scenario, of_server())


def test_handshakes_of_one_host_wait_for_each_other_and_are_bounded(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES_OF_HOST", 2)
    monkeypatch.setattr(listener, "HANDSHAKES_WAITING_MAX", 3)

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        stalled = []
        for count in range(6):  # the sixth is refused
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x16")
            stalled.append(writer)
            if count == 1:
                assert await echo(address, None) == BODY, "plain connections don't wait"
        await until(lambda: server.closed_for["tls-handshakes"] == 1)
        for writer in stalled:
            writer.close()
        await until(lambda: server.closed_for["tls-handshake"] == 5)
        assert await echo(address, trusting()) == BODY

    run(scenario, of_server())


def test_connections_that_say_nothing_are_bounded(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SILENT_COUNT_MAX", 3)

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        silent = []
        for count in range(5):
            silent.append(await asyncio.open_connection(host, int(port)))
            await until(lambda count=count: server.closed_for["silent"] == max(0, count - 2))
        assert await asyncio.wait_for(silent[0][0].read(), 10) == b""  # the oldest ones
        assert await asyncio.wait_for(silent[1][0].read(), 10) == b""
        assert await echo(address, trusting()) == BODY
        for _, writer in silent:
            writer.close()

    run(scenario, of_server())


def test_silent_connections_of_one_host_leave_those_of_others(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SILENT_COUNT_MAX", 3)

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        silent = []
        for count in range(6):
            silent.append(await asyncio.open_connection(host, int(port)))
            await until(lambda count=count: server.closed_for["silent"] == max(0, count - 1))
        writer.write(encode_command(request(ECHO, body=b"late")))
        assert b"late" in await asyncio.wait_for(reader.read(1000), 10)
        for _, each in [*silent, (reader, writer)]:
            each.close()

    run(scenario, of_server())


def test_connections_that_spoke_before_the_server_looked_are_not_silent(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SILENT_COUNT_MAX", 3)

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        peers = [socket.create_connection((host, int(port)), 10) for _ in range(20)]
        for peer in peers:  # the server's loop is this one: it accepts all of them in one turn
            peer.sendall(encode_command(request(ECHO, body=b"early")))
            peer.setblocking(False)
        loop = asyncio.get_running_loop()
        for peer in peers:
            assert b"early" in await asyncio.wait_for(loop.sock_recv(peer, 1000), 10)
            peer.close()
        assert not server.closed_for

    run(scenario, of_server())


def test_a_connection_that_says_nothing_for_long_is_closed(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SILENT_MAX_S", 0.05)
    monkeypatch.setattr(listener, "SWEEP_PERIOD_S", 0.05)

    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(reader.read(), 10) == b""
        assert server.closed_for == {"silent": 1}
        writer.close()

    run(scenario, of_server())


def test_a_stopped_server_gives_its_port_back_and_drops_silent_connections(run: Callable[..., None]) -> None:
    async def scenario(server: Server, address: str) -> None:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await server.stop()
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port)))

    run(scenario, of_server())
