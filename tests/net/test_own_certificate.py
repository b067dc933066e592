"""OwnContext: TLS of a server without a certificate, and which servers make one."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from pymq.clock import ManualClock, SystemClock
from pymq.config import load_broker_config
from pymq.errors import UnreachableError
from pymq.net import own_certificate, tls_settings
from pymq.net.own_certificate import OwnContext
from pymq.net.server import Server
from pymq.net.tls import ServerTls
from pymq.net.tls_settings import TlsContexts, is_own
from tests.net.test_listener import BODY, echo, runner_on, trusting


def test_a_client_that_does_not_check_gets_tls_and_others_are_not_deceived() -> None:
    async def scenario(server: Server, address: str) -> None:
        assert await echo(address, trusting(check_server=False)) == BODY
        assert await echo(address, None) == BODY
        with pytest.raises(UnreachableError, match="certificate"):
            await echo(address, trusting())

    runner_on(asyncio.new_event_loop)(scenario, ServerTls(OwnContext(SystemClock())))


def test_connections_at_once_share_one_certificate() -> None:
    async def main() -> None:
        own = OwnContext(SystemClock())
        first, second = await asyncio.gather(own.fresh(), own.fresh())
        assert first is second is await own.fresh()

    asyncio.run(main())


def test_a_certificate_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    makes: list[Any] = [OSError("No space left on device"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)]

    def make(now_ms: int) -> ssl.SSLContext:
        made = makes.pop(0)
        if isinstance(made, OSError):
            raise made
        return made

    monkeypatch.setattr(own_certificate, "_made", make)

    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(UnreachableError):
            await echo(address, trusting(check_server=False))
        assert server.closed_for == {"tls-certificate": 1}
        with pytest.raises(UnreachableError):  # the second context has no certificate at all
            await echo(address, trusting(check_server=False))
        assert not makes

    runner_on(asyncio.new_event_loop)(scenario, ServerTls(OwnContext(SystemClock())))


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, True),
        ({"tls.server.mode": "disabled"}, False),
        ({"tls.test.mode.enable": "false"}, False),
        ({"tls.server.need.client.auth": "require", "tls.server.trustCertPath": "ca.pem"}, False),
        ({"tls.server.certPath": "a.pem", "tls.server.keyPath": "a.key"}, False),
    ],
    ids=["default", "disabled", "no test mode", "clients with certificates", "given"],
)
def test_which_servers_make_a_certificate(keys: dict[str, str], wanted: bool) -> None:
    config = load_broker_config(None, keys)
    assert is_own(config) == wanted
    if "tls.server.certPath" not in keys:
        found = TlsContexts.of(config, ManualClock())
        assert found.ports is None, "ports that clients don't use are plain"
        assert (found.client_ports is not None) == wanted


def test_without_the_package_ports_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_settings, "can_be_made", lambda: False)
    assert TlsContexts.of(load_broker_config(), ManualClock()).client_ports is None
