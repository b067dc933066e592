"""Requests to name servers: uses the one that answered last, and the next one when it can't be reached."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from pymq.errors import UnreachableError, UsageError
from pymq.model.hosts import parse_address
from pymq.net.client import RemotingClient
from pymq.wire.command import Command


def parse_name_servers(text: str | Sequence[str]) -> list[str]:
    """Splits ``"a:9876;b:9876"``, or a list of such texts, into addresses. Raises UsageError for none or a bad one."""
    if not isinstance(text, str):
        text = ";".join(text)
    addresses = [part.strip() for part in re.split("[;,]", text) if part.strip()]
    if not addresses:
        raise UsageError("no name server is given: write host:port, several separated by ';'")
    for address in addresses:
        try:
            parse_address(address)
        except ValueError as error:
            raise UsageError(str(error)) from error
    return addresses


class NameServers:
    """Sends requests to any one of several equal servers, first to a random one so that clients spread."""

    def __init__(self, addresses: str | Sequence[str], remoting: RemotingClient, rng: random.Random) -> None:
        self.addresses = parse_name_servers(addresses)
        self._remoting = remoting
        self._current = rng.randrange(len(self.addresses))

    async def invoke(self, command: Command, timeout_s: float = 3.0) -> Command:
        """Returns the first answer of any server, whatever its code; each server gets ``timeout_s``.

        Raises UnreachableError when none answers.
        """
        problems: list[str] = []
        for _ in self.addresses:
            address = self.addresses[self._current]
            try:
                return await self._remoting.invoke(address, command, timeout_s)
            except UnreachableError as error:
                problems.append(str(error))
                self._current = (self._current + 1) % len(self.addresses)
        raise UnreachableError("no name server answers: " + "; ".join(problems))
