"""Filters that a filter server runs: how a subscription names one, and which server a pull goes to.

The group's heartbeats tell the broker, which the filter server asks.
Java: PullAPIWrapper.computePullFromWhichFilterServer.
"""

from __future__ import annotations

from pymq.client.instance import ClientInstance
from pymq.client.subscription import Subscription
from pymq.errors import UnreachableError, UsageError
from pymq.model.message import MessageQueue

FILTER_SERVER = "filter-server"


def served_subscription(topic: str, name: str, expression: str, version: int, *, on_error: str) -> Subscription:
    """A subscription through the filter ``name`` of a filter server, which checks name and expression.

    Raises UsageError for an unknown policy, or a name that can't be one.
    """
    from pymq.filter.running import parse_on_error  # noqa: PLC0415 - importing a client imports no plugins

    policy = parse_on_error(on_error)
    if not name or ":" in name or "." in name:
        raise UsageError(f"filter={name!r} is no filter's name: use one of pymq filter list")
    return Subscription(topic, f"{policy}.{name}:{expression}", frozenset(), version, class_filter=True)


async def filter_server_address(instance: ClientInstance, queue: MessageQueue, broker_address: str) -> str:
    """One of the servers that the route names for the broker, by chance.

    Raises UnreachableError when there is none, NotFoundError.
    """
    route = await instance.routes.route(queue.topic)
    servers = route.filter_server_table.get(broker_address)
    if not servers:
        raise UnreachableError(
            f"no filter server is registered with broker {queue.broker_name} at {broker_address}: start one with pymq "
            f"filter-server --broker {broker_address}"
        )
    return instance.rng.choice(servers)
