"""Checks of addresses and ports: can clients reach what brokers advertise?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from pymq.model.hosts import host_of
from pymq.operations.doctor.finding import Finding, note, problem, warning
from pymq.operations.doctor.state import Broker, ClusterState


def check_addresses(state: ClusterState) -> Iterator[Finding]:
    outside = [server.address for server in state.name_servers if not server.error and not is_loopback(server.address)]
    for broker in state.brokers:
        address = broker.view.address
        if not broker.answers:
            yield _silent(broker)
        if outside and is_loopback(address):
            yield problem(
                broker.label,
                f"advertises {address}, which on every other machine is that machine itself; the name server is at "
                f"{outside[0]}",
                "set brokerIP1 to the address that clients use, and start the broker again",
                address=address,
            )


def _silent(broker: Broker) -> Finding:
    """Return the finding for a broker that does not answer: with its port closed, or open."""
    address = broker.view.address
    refused = next((port.error for port in broker.ports if port.name == "listen"), "")
    if refused:
        return problem(
            broker.label,
            f"the advertised address {address} can't be connected from here: {refused}",
            f"is it running? If so, is brokerIP1={host_of(address)} an address of it that clients reach, and does a "
            "firewall let the port through?",
            address=address,
            error=refused,
        )
    return problem(
        broker.label,
        f"{address} takes connections and does not answer: {broker.view.error}",
        "look at its log, its processor and its disk; another program may have the port",
        address=address,
        error=broker.view.error,
    )


def check_ports(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        for port in broker.ports:
            if not port.error:
                continue
            values = {"port": port.name, "address": port.address, "error": port.error}
            if port.name == "listen-2":
                yield note(
                    broker.label,
                    f"listen-2 ({port.address}) is closed: {port.error}",
                    "only Java clients of 4.2 to 4.4 need it (vipChannelEnabled)",
                    **values,
                )
            elif port.name == "metrics":
                yield warning(
                    broker.label,
                    f"metrics ({port.address}) can't be connected from here: {port.error}",
                    "look at metricsPromExporterHost and metricsPromExporterPort, if Prometheus runs outside",
                    **values,
                )
            else:
                yield problem(
                    broker.label,
                    f"{port.name} ({port.address}) can't be connected from here: {port.error}",
                    "slaves need it: look at brokerIP2, haListenPort and the firewall"
                    if port.name == "ha"
                    else "look at brokerIP1, listenPort and the firewall",
                    **values,
                )


def is_loopback(address: str) -> bool:
    """Return whether the host of ``address`` is this machine's own, without asking DNS."""
    host = host_of(address).strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
