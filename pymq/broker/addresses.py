"""Where a broker tells others that it answers."""

from __future__ import annotations

from pymq.config import BrokerConfig
from pymq.model.hosts import format_address


def own_address(config: BrokerConfig) -> str:
    """For requests, "host:port"; the port is the one in use."""
    return format_address(config.broker_ip1, config.listen_port)


def own_ha_address(config: BrokerConfig) -> str:
    """For slaves, "host:port"; of a slave where it would listen as a master."""
    return format_address(config.broker_ip2 or config.broker_ip1, config.ha_listen_port or config.listen_port + 1)
