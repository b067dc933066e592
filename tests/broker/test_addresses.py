"""The addresses that a broker announces."""

from __future__ import annotations

import asyncio

import pytest

from pymq.broker.addresses import listen_on_fast_port, own_address, own_ha_address, warn_if_unreachable
from pymq.broker.handlers.closed import ClosedDispatcher
from pymq.clock import SystemClock
from pymq.config import load_broker_config
from pymq.errors import UsageError
from pymq.net.server import Server
from tests.ports import free_port_block


@pytest.mark.parametrize(
    ("settings", "ha_address"),
    [
        ({}, "10.0.0.1:20912"),
        ({"haListenPort": "7000"}, "10.0.0.1:7000"),
        ({"brokerIP2": "10.9.0.1", "haListenPort": "7000"}, "10.9.0.1:7000"),
        ({"brokerIP2": "::1"}, "[::1]:20912"),
    ],
)
def test_both_addresses(settings: dict[str, str], ha_address: str) -> None:
    config = load_broker_config(None, {"brokerIP1": "10.0.0.1", "listenPort": "20911", **settings})
    assert own_address(config) == "10.0.0.1:20911"
    assert own_ha_address(config) == ha_address


def test_a_second_port_is_two_below_or_as_configured() -> None:
    async def scenario() -> None:
        first = free_port_block()
        server = Server(ClosedDispatcher("a test"), clock=SystemClock())
        try:
            config = load_broker_config(None, {"listenPort": str(first)})
            await listen_on_fast_port(server, config, first)
            assert config.fast_listen_port == first - 2
            config = load_broker_config(None, {"listenPort": str(first), "fastListenPort": str(first - 2)})
            with pytest.raises(UsageError, match=f"fastListenPort {first - 2} can't be used"):
                await listen_on_fast_port(server, config, first)
            for settings in ({"fastListenPort": "-1"}, {"listenPort": "0"}):
                config = load_broker_config(None, settings)
                await listen_on_fast_port(server, config, config.listen_port)
                assert config.fast_listen_port == -1
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_an_advertised_address_that_does_not_lead_here_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    closed = str(free_port_block())
    asyncio.run(warn_if_unreachable(load_broker_config(None, {"listenPort": closed})))
    assert not caplog.records, "clients get the address that the broker listens on"
    asyncio.run(warn_if_unreachable(load_broker_config(None, {"listenPort": closed, "brokerIP1": "127.0.0.2"})))
    assert f"127.0.0.2:{closed}" in caplog.text and "set brokerIP1" in caplog.text
