"""Checks of name servers: do they answer, and do they know the same brokers and topics?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pymq.operations.doctor.finding import Finding, problem, warning
from pymq.operations.doctor.state import ClusterState, NameServer
from pymq.units import format_count

NAMES_SHOWN_MAX = 5


def check_name_servers(state: ClusterState) -> Iterator[Finding]:
    for server in state.name_servers:
        if server.error:
            yield problem(
                server.address,
                f"the name server does not answer: {server.error}",
                "start it, or leave it out of --namesrv, NAMESRV_ADDR and the brokers' namesrvAddr",
            )


def check_agreement(state: ClusterState) -> Iterator[Finding]:
    answering = [server for server in state.name_servers if not server.error]
    brokers = set(chain.from_iterable(map(_brokers, answering)))
    topics = frozenset(chain.from_iterable(server.topics for server in answering))
    for server in answering:
        for name, broker_id, address in sorted(brokers - _brokers(server)):
            known = server.brokers.get(name)
            other = known.broker_addrs.get(broker_id) if known else None
            yield warning(
                server.address,
                f"lists {f'{other} instead of {address}' if other else f'no {address}'} as {name} with id {broker_id}, "
                "unlike another name server",
                f"wait 30 s for the next registration; then look whether namesrvAddr of {name} names {server.address}",
                broker=name,
                broker_id=broker_id,
                expected=address,
                listed=other,
            )
        missing = sorted(topics - server.topics)
        if missing and _brokers(server) == brokers:
            yield warning(
                server.address,
                f"lacks {format_count(len(missing), 'topic')} that another name server has: {shown(missing)}",
                "wait 30 s for the next registration of the brokers; then run this again",
                missing=missing,
            )


def shown(names: list[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _brokers(server: NameServer) -> set[tuple[str, int, str]]:
    return {
        (name, broker_id, address)
        for name, data in server.brokers.items()
        for broker_id, address in data.broker_addrs.items()
    }
