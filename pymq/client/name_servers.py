"""Requests to name servers: uses the one that answered last, and the next one when it can't be reached."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence

from pymq.client.not_name_server import is_strange, not_name_server_error
from pymq.errors import ClosedError, PymqError, UnreachableError, UsageError
from pymq.model.hosts import check_name_server
from pymq.model.route import BrokerData
from pymq.net.address_server import ADDRESSES_MAX
from pymq.net.client import RemotingClient
from pymq.net.name_server_list import NameServerList
from pymq.units import split_name_servers
from pymq.wire.command import Command

NAMESRV_VARIABLE = "NAMESRV_ADDR"
DEFAULT_NAMESRV = "127.0.0.1:9876"


def parse_name_servers(text: str | Sequence[str] | None) -> list[str]:
    """Split ``"a:9876;b:9876"``, or a list of such texts, into addresses. Raises UsageError for none or a bad one.

    An address may be the URL of an address server, ``http://host:8080/rocketmq/nsaddr``, which names the servers.
    None: those of the environment's ``NAMESRV_ADDR``, else 127.0.0.1:9876.
    """
    source = ""
    if text is None:
        text = os.environ.get(NAMESRV_VARIABLE, "").strip() or DEFAULT_NAMESRV
        source = f" (from {NAMESRV_VARIABLE})"
    if not isinstance(text, str):
        text = ";".join(text)
    addresses = split_name_servers(text)
    if not addresses:
        raise UsageError("no name server is given: write host:port, several separated by ';'")
    for address in addresses:
        try:
            check_name_server(address)
        except ValueError as error:
            raise UsageError(f"{error}{source}") from error
    return addresses


class NameServers:
    """Sends requests to any one of several equal servers, first to a random one so that clients spread."""

    def __init__(self, addresses: str | Sequence[str] | None, remoting: RemotingClient, rng: random.Random) -> None:
        self._list = NameServerList(parse_name_servers(addresses), remoting.clock)
        self._remoting = remoting
        self._current = rng.randrange(ADDRESSES_MAX)

    @property
    def addresses(self) -> list[str]:
        """The addresses in use; the given places as long as no address server has answered."""
        return self._list.addresses or self._list.places

    @property
    def places(self) -> list[str]:
        """What was given: addresses, and URLs of address servers."""
        return self._list.places

    def note_brokers(self, brokers: Iterable[BrokerData]) -> None:
        """Remember whose addresses these are, for errors."""
        self._remoting.note_brokers(brokers)

    async def invoke(
        self, command: Command, timeout_s: float = 3.0, *, missing_codes: frozenset[int] = frozenset()
    ) -> Command:
        """Return the first answer of any server; each server gets ``timeout_s``.

        After an answer with one of ``missing_codes`` the other servers are asked, too: for a while after a start or a
        lost connection, one server knows what another does not. Such an answer is returned when none has a better one.
        Raises UnreachableError when none answers, UsageError for a server that is no name server, ClosedError when the
        client is stopped.
        """
        problems: list[str] = []
        missing: Command | None = None
        addresses = await self._list.ready()
        for _ in addresses:
            address = addresses[self._current % len(addresses)]
            try:
                answer = await self._remoting.invoke(address, command, timeout_s)
            except ClosedError:
                raise
            except UnreachableError as error:
                problems.append(str(error))
            else:
                if is_strange(command.code, answer.code):
                    raise await self._not_name_server(address, timeout_s)
                if answer.code not in missing_codes:
                    return answer
                missing = missing or answer
            self._current += 1
        if missing is not None:
            return missing
        raise UnreachableError("no name server answers: " + "; ".join(problems))

    async def _not_name_server(self, address: str, timeout_s: float) -> PymqError:
        return await not_name_server_error(address, lambda command: self._remoting.invoke(address, command, timeout_s))
