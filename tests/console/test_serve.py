"""Where a console may be reached, and what runs while it is."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pymq.clock import SystemClock
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.errors import ConfigError

NOWHERE = {"default": ("127.0.0.1:1",)}


@pytest.mark.parametrize(
    ("settings", "has_tls"),
    [
        (ConsoleSettings(NOWHERE), False),
        (ConsoleSettings(NOWHERE, host="::1"), False),
        (ConsoleSettings(NOWHERE, host="0.0.0.0"), True),
        (ConsoleSettings(NOWHERE, public_url="https://mq.example.org"), False),
    ],
)
def test_here_and_by_tls_there_is_nothing_to_warn_about(settings: ConsoleSettings, has_tls: bool) -> None:
    assert settings.check(has_tls=has_tls) == []


@pytest.mark.parametrize("more", [{"host": "0.0.0.0"}, {"public_url": "http://mq.example.org"}, {"host": "192.0.2.7"}])
def test_elsewhere_without_tls_it_does_not_start_unless_it_is_insisted_on(more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="PYMQ_TLS_SERVER_CERT_PATH"):
        ConsoleSettings(NOWHERE, **more).check(has_tls=False)  # type: ignore[arg-type]
    (warning,) = ConsoleSettings(NOWHERE, **more, is_insecure=True).check(has_tls=False)  # type: ignore[arg-type]
    assert "others can read along" in warning


async def answer_of(url: str, path: str, *, host: str = "") -> str:
    place = url.partition("://")[2]
    address, _, port = place.rpartition(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host or place}\r\nConnection: close\r\n\r\n".encode())
    found = (await reader.read()).decode()
    writer.close()
    return found


def test_a_console_answers_until_its_owner_ends_it() -> None:
    async def run() -> str:
        settings = ConsoleSettings(NOWHERE, port=0)
        async with running(settings, SystemClock()) as console:
            assert "<h1>About</h1>" in await answer_of(console.url, "/at/default/about")
            assert (await answer_of(console.url, "/at/default/about", host="evil.example")).startswith("HTTP/1.1 421")
            unreached = await answer_of(console.url, "/at/default/brokers")
            assert unreached.startswith("HTTP/1.1 502") and "pymq doctor" in unreached
            assert console.counted.answers == {200: 1, 421: 1, 502: 1}
        with pytest.raises(ConnectionRefusedError):
            await answer_of(console.url, "/")
        return console.url

    assert asyncio.run(run()).startswith("http://127.0.0.1:")


def test_a_port_in_use_is_an_error_of_the_system() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            async with running(ConsoleSettings(NOWHERE, port=taken.getsockname()[1]), SystemClock()):
                raise AssertionError("it ran")

    with pytest.raises(OSError, match="in use"):
        asyncio.run(run())
