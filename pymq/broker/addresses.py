"""The addresses of a broker, as it gives them to others."""

from __future__ import annotations

import logging

from pymq.broker.awaiting import connect_problem
from pymq.config import BrokerConfig
from pymq.errors import UsageError
from pymq.model.hosts import format_address
from pymq.net.server import Server
from pymq.net.streams import StreamServer

log = logging.getLogger(__name__)

# Java clients of 4.2 to 4.4 send to this port by default (vipChannelEnabled).
FAST_PORT_DISTANCE = 2
SELF_CONNECT_TIMEOUT_S = 1.0


def own_address(config: BrokerConfig) -> str:
    """Return the address for requests, "host:port"; the port is the one in use."""
    return format_address(config.broker_ip1, config.listen_port)


def own_ha_address(config: BrokerConfig) -> str:
    """Return the address for slaves, "host:port". A slave has the one where it would listen as a master."""
    return format_address(config.broker_ip2 or config.broker_ip1, config.ha_listen_port or config.listen_port + 1)


async def listen_on_fast_port(server: Server, config: BrokerConfig, wanted_port: int) -> None:
    """Listen on a second port, of which the configuration then has the number, -1 without one.

    ``wanted_port`` is the configured first one. Raises UsageError when the configured second one is in use.
    """
    wanted, config.fast_listen_port = config.fast_listen_port, -1
    port = wanted or wanted_port - FAST_PORT_DISTANCE
    if port <= 0:
        return
    try:
        config.fast_listen_port = await server.start(config.bind_address, port)
    except OSError as error:
        if wanted:
            raise UsageError(f"fastListenPort {wanted} can't be used: {error}; set another one, or -1") from error
        log.warning("no fast port %d for clients before 4.5: %s", port, error)


async def listen_on_ha_port(server: StreamServer, config: BrokerConfig, wanted: int) -> None:
    """Listen on the port for slaves, of which the configuration then has the number.

    ``wanted`` is the configured one, 0 for listenPort + 1, or any other if that is in use. Raises UsageError when the
    configured one is in use.
    """
    host = config.bind_address
    try:
        config.ha_listen_port = await server.start(host, wanted or config.listen_port + 1)
    except (OSError, OverflowError) as error:
        if wanted:
            raise UsageError(f"haListenPort {wanted} on {host} can't be used: {error}; set another one") from error
        config.ha_listen_port = await server.start(host, 0)


async def warn_if_unreachable(config: BrokerConfig) -> None:
    """Connect to the address for clients, if it is not the one that the broker listens on; log a failure."""
    if config.broker_ip1 == config.bind_address:
        return
    problem = await connect_problem(config.broker_ip1, config.listen_port, SELF_CONNECT_TIMEOUT_S)
    if problem:
        log.warning(
            "clients get the address %s, and this machine can't connect to it (%s): set brokerIP1 to an address that "
            "leads here, or have the port forwarded",
            own_address(config),
            problem,
        )
