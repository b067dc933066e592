"""Name servers by an HTTP address server and by host names: fetched, refreshed, kept while it is away."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.net.address_server import ADDRESSES_MAX
from pymq.net.name_server_list import REFRESH_MS, RETRY_MS, NameServerList, fetch_addresses, look_up

CERTIFICATE = Path(__file__).with_name("self_signed.pem")  # with its key; until 2120, for 127.0.0.1


class AddressServer:
    """An address server whose answer a test sets; with ``is_secret`` over HTTPS with CERTIFICATE."""

    def __init__(self, *, is_secret: bool = False) -> None:
        self.status, self.body = 200, b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(outer.status if self.path == "/rocketmq/nsaddr" else 404)
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        if is_secret:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http{'s' if is_secret else ''}://127.0.0.1:{self._server.server_address[1]}/rocketmq/nsaddr"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def address_server() -> Iterator[AddressServer]:
    server = AddressServer()
    yield server
    server.close()


@pytest.mark.parametrize("body", [b"a:1;b:2", b" a:1 ; b:2\n", b"a:1\nb:2\n", b"a:1,b:2"])
def test_an_address_server_names_name_servers(address_server: AddressServer, body: bytes) -> None:
    address_server.body = body
    assert asyncio.run(fetch_addresses(address_server.url)) == ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("status", "body", "part"),
    [
        (200, b"", "0 addresses"),
        (200, b"<html>no such page</html>", "is not an address"),
        (500, b"a:1", "status 500"),
        (200, b";".join(b"a:%d" % port for port in range(ADDRESSES_MAX + 1)), "allowed are 1 to 64"),
        (200, b"a" * 1_000_000, "is not an address"),
    ],
)
def test_another_answer_is_named(address_server: AddressServer, status: int, body: bytes, part: str) -> None:
    address_server.status, address_server.body = status, body
    with pytest.raises(UnreachableError, match=part):
        asyncio.run(fetch_addresses(address_server.url))


def test_an_https_server_needs_a_certificate_that_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = AddressServer(is_secret=True)
    server.body = b"a:1"
    try:
        with pytest.raises(UnreachableError, match=r"its certificate is not trusted: .* in SSL_CERT_FILE"):
            asyncio.run(fetch_addresses(server.url))
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert asyncio.run(fetch_addresses(server.url)) == ["a:1"]
        with pytest.raises(UnreachableError, match="its certificate is for another host"):
            asyncio.run(fetch_addresses(server.url.replace("127.0.0.1", "localhost")))
        with pytest.raises(UnreachableError, match="does not answer"):
            asyncio.run(fetch_addresses(server.url.replace("https", "http")))
    finally:
        server.close()


def test_an_address_server_that_is_away_is_named() -> None:
    with pytest.raises(UnreachableError, match="1/x does not answer"):
        asyncio.run(fetch_addresses("http://127.0.0.1:1/x"))


def test_the_list_is_asked_for_every_two_minutes_and_kept_while_nothing_answers() -> None:
    clock = ManualClock()
    answers: list[list[str] | None] = [None, ["a:1"], None, ["b:2"]]
    asked: list[str] = []

    async def fetch(url: str) -> list[str]:
        asked.append(url)
        answer = answers.pop(0)
        if answer is None:
            raise UnreachableError("away")
        return answer

    async def scenario() -> None:
        servers = NameServerList(["fixed:9", "http://x/y"], clock, fetch=fetch)
        assert servers.addresses == ["fixed:9"]
        assert await servers.ready() == ["fixed:9"] and servers.problem == "away"
        clock.advance(RETRY_MS)
        assert await servers.ready() == ["fixed:9", "a:1"] and not servers.problem
        clock.advance(RETRY_MS)
        assert await servers.ready() and len(asked) == 2
        clock.advance(REFRESH_MS)
        assert await servers.ready() == ["fixed:9", "a:1"] and len(asked) == 3
        clock.advance(RETRY_MS)
        assert await servers.refresh() and servers.addresses == ["fixed:9", "b:2"]

    asyncio.run(scenario())


def test_without_any_address_the_reason_is_raised() -> None:
    async def scenario() -> None:
        servers = NameServerList(["http://127.0.0.1:1/rocketmq/nsaddr"], ManualClock())
        with pytest.raises(UnreachableError, match="address server"):
            await servers.ready()
        assert await NameServerList(["a:1"], ManualClock()).ready() == ["a:1"]

    asyncio.run(scenario())


def test_a_name_stands_for_all_its_addresses() -> None:
    async def found(address: str) -> list[str]:
        return ["10.0.0.1:9876", "10.0.0.2:9876"] if address == "ns:9876" else [address]

    async def scenario() -> None:
        servers = NameServerList(["ns:9876", "10.0.0.2:9876"], ManualClock(), are_names_looked_up=True, look_up=found)
        assert await servers.ready() == ["10.0.0.1:9876", "10.0.0.2:9876"]
        assert "127.0.0.1:9876" in await look_up("localhost:9876")
        assert await look_up("no.such.host.invalid:9876") == ["no.such.host.invalid:9876"]

    asyncio.run(scenario())
