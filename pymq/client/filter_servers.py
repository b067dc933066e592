"""Filters that a filter server runs: how a subscription names one, and which server a pull goes to.

A group's heartbeats tell the broker, which the filter server asks; pulls outside of a group carry it themselves.
Java: PullAPIWrapper.computePullFromWhichFilterServer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pymq.client.instance import ClientInstance
from pymq.client.subscription import Subscription
from pymq.errors import UnreachableError
from pymq.filter.class_names import class_text
from pymq.model.message import MessageQueue
from pymq.wire.command import Command

log = logging.getLogger(__name__)


def served_subscription(topic: str, name: str, expression: str, version: int, *, on_error: str) -> Subscription:
    """A subscription through the filter ``name`` of a filter server, which checks name and expression.

    Raises UsageError for an unknown policy, or a name that can't be one.
    """
    from pymq.filter.running import parse_on_error  # noqa: PLC0415 - importing a client imports no plugins

    policy = parse_on_error(on_error)
    return Subscription(topic, class_text(name, expression, policy), frozenset(), version, class_filter=True)


async def ask_filter_servers(
    instance: ClientInstance, queue: MessageQueue, broker_address: str, command: Callable[[], Command], timeout_s: float
) -> tuple[Command, str]:
    """The answer of one of the broker's filter servers, picked by chance, and that server's address.

    One that is away is passed over, and the route asked for anew before the request fails: a pull that failed has
    moved no offset, so the next server answers the same. ``timeout_s`` is for each of them.

    Raises UnreachableError when there is none, or none answers; NotFoundError.
    """
    failures: dict[str, UnreachableError] = {}
    for look_up in (instance.routes.route, instance.routes.renew):
        try:
            route = await look_up(queue.topic)
        except UnreachableError:
            if failures:
                break
            raise
        servers = [one for one in route.filter_server_table.get(broker_address, []) if one not in failures]
        for address in instance.rng.sample(servers, len(servers)):
            try:
                return await instance.remoting.invoke(address, command(), timeout_s), address
            except UnreachableError as error:
                failures[address] = error
                log.info("filter server %s is passed over: %s", address, error)
                instance.renew_route(queue.topic)
    raise _nobody(queue, broker_address, failures)


def _nobody(queue: MessageQueue, broker_address: str, failures: dict[str, UnreachableError]) -> UnreachableError:
    start = f"start one with pymq filter-server --broker {broker_address}"
    if not failures:
        return UnreachableError(
            f"no filter server is registered with broker {queue.broker_name} at {broker_address}: {start}"
        )
    told = "; ".join(f"{address}: {error}" for address, error in failures.items())
    return UnreachableError(
        f"no filter server of broker {queue.broker_name} at {broker_address} answers ({told}): {start}"
    )
