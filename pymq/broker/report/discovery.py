"""NameServerDiscovery: the name servers that an address server names, or that stand behind a host name."""

from __future__ import annotations

import logging

from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.net.name_server_list import NameServerList

log = logging.getLogger(__name__)


class NameServerDiscovery:
    """Keeps ``config.namesrv_addresses``, which all parts of a broker read, up to date."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._servers = NameServerList(config.namesrv_places, clock, are_names_looked_up=config.look_up_name_servers)

    async def look(self) -> None:
        """Ask for the name servers, if the configuration has them asked for and it is time. Never raises."""
        if not self._servers.changes:
            return
        before = self._servers.problem
        if await self._servers.refresh():
            self._config.found_namesrv_addresses = self._servers.addresses
        elif not self._servers.addresses and self._servers.problem != before:
            log.warning("no name server is known: %s", self._servers.problem)
