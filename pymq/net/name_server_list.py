"""NameServerList: the addresses of name servers, fixed ones and those that an address server names.

RocketMQ's clients and brokers ask ``http://HOST:8080/rocketmq/nsaddr`` every two minutes and get ``a:9876;b:9876``
(Java: TopAddressing). So name servers can be added and moved without a restart of anything else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

from pymq.clock import Clock
from pymq.errors import UnreachableError
from pymq.model.hosts import format_address, is_address_server, parse_address
from pymq.net.address_server import named_by

log = logging.getLogger(__name__)

REFRESH_MS = 120_000
RETRY_MS = 10_000  # after a failure

Fetch = Callable[[str], Awaitable[list[str]]]


async def fetch_addresses(url: str) -> list[str]:
    """Return the addresses that an address server names. Raises UnreachableError with what it answered."""
    return await asyncio.to_thread(named_by, url)


async def look_up(address: str) -> list[str]:
    """Return all addresses behind the name in ``host:port``; the address itself when none is known."""
    host, port = parse_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        log.warning("name server %s: no address is known for its name: %s", address, error)
        return [address]
    return list(dict.fromkeys(format_address(str(entry[4][0]), port) for entry in found))


class NameServerList:
    """The present addresses. An address server that does not answer leaves them as they are."""

    def __init__(
        self,
        places: Sequence[str],
        clock: Clock,
        *,
        are_names_looked_up: bool = False,
        fetch: Fetch = fetch_addresses,
        look_up: Fetch = look_up,
    ) -> None:
        """``places``: "host:port" texts and URLs of address servers; ``are_names_looked_up``: a name stands for a name
        server at each of its addresses."""
        self._fixed = [place for place in places if not is_address_server(place)]
        self._urls = [place for place in places if is_address_server(place)]
        self._clock = clock
        self._are_names_looked_up = are_names_looked_up
        self._fetch = fetch
        self._look_up = look_up
        self._found: dict[str, list[str]] = {}  # by URL
        self._due_ms = clock.monotonic_ms()
        self.addresses = list(self._fixed)
        self.problem = ""

    @property
    def changes(self) -> bool:
        """False when the addresses are always the same."""
        return bool(self._urls) or self._are_names_looked_up

    @property
    def places(self) -> list[str]:
        """What was given: for errors, and to know this machine's address towards it."""
        return [*self._fixed, *self._urls]

    async def ready(self) -> list[str]:
        """Return the addresses, after a look for new ones if it is time. Raises UnreachableError for none."""
        if self.changes:
            await self.refresh()
            if not self.addresses:
                raise UnreachableError(self.problem or "no name server is known")
        return self.addresses

    async def refresh(self) -> bool:
        """Ask for the addresses if it is time; return whether they changed. Never raises."""
        now_ms = self._clock.monotonic_ms()
        if not self.changes or (now_ms < self._due_ms and self.addresses):
            return False
        self._due_ms = now_ms + RETRY_MS  # of several callers one asks
        problem = ""
        for url in self._urls:
            try:
                self._found[url] = await self._fetch(url)
            except UnreachableError as error:
                problem = str(error)
        if problem and problem != self.problem and self.addresses:
            log.warning("name servers stay as they are: %s", problem)
        self.problem = problem
        if not problem:
            self._due_ms = self._clock.monotonic_ms() + REFRESH_MS
        return self._take(await self._fixed_now())

    async def _fixed_now(self) -> list[str]:
        if not self._are_names_looked_up:
            return self._fixed
        return [address for one in self._fixed for address in await self._look_up(one)]

    def _take(self, fixed: Sequence[str]) -> bool:
        known = [address for url in self._urls for address in self._found.get(url, [])]
        addresses = list(dict.fromkeys([*fixed, *known]))
        if addresses == self.addresses:
            return False
        if self.addresses:
            log.info("name servers are %s now, before %s", ", ".join(addresses), ", ".join(self.addresses))
        self.addresses = addresses
        return True
