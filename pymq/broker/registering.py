"""The Registrar of a broker's parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pymq.broker.parts import BrokerParts
from pymq.broker.report.registration import Gather, Registrar, named_slaves
from pymq.net.client import RemotingClient


def registrar_of(
    parts: BrokerParts, client: RemotingClient, address: str, gather: Gather, discover: Callable[[], Awaitable[None]]
) -> Registrar:
    """Return what registers a broker that serves with ``parts`` at ``address``."""
    return Registrar(
        client=client,
        gather=gather,
        clock=parts.clock,
        config=parts.config,
        topics=parts.metadata.topics,
        address=address,
        requests=parts.registration_requests,
        discover=discover,
        epoch=lambda: parts.replication.epoch_file.history.epoch,
        on_answer=parts.side.note_master,
        on_refused=parts.master_monitor.note_refused,
        filter_servers=parts.metadata.filter_servers.addresses,
        slaves=lambda: named_slaves(parts.side.slave_states()) if parts.role.is_master else None,
    )
