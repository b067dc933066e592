"""The addresses of a broker, as it gives them to others."""

from __future__ import annotations

from pymq.config import BrokerConfig
from pymq.model.hosts import format_address


def own_address(config: BrokerConfig) -> str:
    """Return the address for requests, "host:port"; the port is the one in use."""
    return format_address(config.broker_ip1, config.listen_port)


def own_ha_address(config: BrokerConfig) -> str:
    """Return the address for slaves, "host:port". A slave has the one where it would listen as a master."""
    return format_address(config.broker_ip2 or config.broker_ip1, config.ha_listen_port or config.listen_port + 1)
