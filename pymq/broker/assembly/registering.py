"""Registering: a broker at its name servers: one registrar for the present parts, and one round at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.report.registration import Gather, Registrar, named_slaves
from pymq.net.client import RemotingClient


class RegisteredParts:
    """The parts of a broker, as its registrar sees them: a :class:`~pymq.broker.report.registration.RegisteredBroker`.

    What name servers answer goes to the parts that need it.
    """

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self.topics = parts.metadata.topics
        self.filter_servers = parts.metadata.filter_servers.addresses
        self.note_master = parts.side.note_master
        self.note_refused = parts.master_monitor.note_refused

    @property
    def epoch(self) -> int:
        return self._parts.replication.epoch_file.history.epoch

    def slaves(self) -> list[str] | None:
        return named_slaves(self._parts.side.slave_states()) if self._parts.role.is_master else None


def registrar_of(
    parts: BrokerParts, client: RemotingClient, address: str, gather: Gather, discover: Callable[[], Awaitable[None]]
) -> Registrar:
    """Return what registers a broker that serves with ``parts`` at ``address``."""
    return Registrar(
        parts.runtime,
        RegisteredParts(parts),
        client=client,
        address=address,
        requests=parts.registration_requests,
        gather=gather,
        discover=discover,
    )


class Registering:
    """The registrations of one broker, while its parts change with its role."""

    def __init__(self) -> None:
        self._registrar: Registrar | None = None
        self._round: asyncio.Task[None] | None = None

    def use(self, registrar: Registrar) -> Registrar:
        """Register the parts of this registrar from now on."""
        self._registrar = registrar
        return registrar

    def replace_later(self) -> None:
        """Register nothing until the next :meth:`use`, which takes the place of what the name servers have."""
        self._registrar = None

    def note_lost(self, address: str) -> None:
        """Note that the connection to this name server ended."""
        if self._registrar is not None:
            self._registrar.note_lost(address)

    def soon(self) -> None:
        """Start a round of registrations if it is due and none runs."""
        if self._registrar is None or not self._registrar.is_due():
            return
        if self._round is None or self._round.done():
            self._round = asyncio.ensure_future(self._registrar.register_all())

    async def withdraw(self) -> None:
        """Remove the present parts from all name servers."""
        registrar, self._registrar = self._registrar, None
        if registrar is None:
            return
        if self._round is not None:
            await asyncio.wait([self._round])
        await registrar.unregister_all()

    async def kill(self) -> None:
        """End the present round where it is."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait([self._round])
