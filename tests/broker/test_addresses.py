"""The addresses that a broker announces."""

from __future__ import annotations

import pytest

from pymq.broker.addresses import own_address, own_ha_address
from pymq.config import load_broker_config


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
