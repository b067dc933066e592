"""Filters that a filter server runs: builds their subscriptions and picks the server that a pull goes to.

Members of a group send the filter to the broker in their heartbeats, and the filter server gets it from the broker.
A pull outside of a group carries the filter itself.
Java: PullAPIWrapper.computePullFromWhichFilterServer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pymq.client.instance import ClientInstance
from pymq.client.subscription import Subscription
from pymq.errors import ClosedError, UnreachableError
from pymq.filter.class_names import class_text
from pymq.model.message import MessageQueue
from pymq.wire.command import Command

log = logging.getLogger(__name__)


def filter_server_subscription(topic: str, name: str, expression: str, version: int, *, on_error: str) -> Subscription:
    """Return a subscription through the filter ``name`` of a filter server, which checks name and expression.

    Raises UsageError for an unknown policy or an illegal name.
    """
    from pymq.filter.running import parse_on_error  # noqa: PLC0415 - importing a client imports no plugins

    policy = parse_on_error(on_error)
    return Subscription(topic, class_text(name, expression, policy), frozenset(), version, class_filter=True)


async def ask_filter_servers(
    instance: ClientInstance, queue: MessageQueue, broker_address: str, command: Callable[[], Command], timeout_s: float
) -> tuple[Command, str]:
    """Return the answer of one of the broker's filter servers, picked at random, and that server's address.

    A server that can't be reached is skipped, and the route is renewed once before the request fails: a failed pull
    has moved no offset, so the next server gives the same answer. ``timeout_s`` applies to each server.

    Raises UnreachableError when there is no server or none answers; NotFoundError.
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
            except ClosedError:
                raise
            except UnreachableError as error:
                failures[address] = error
                log.info("filter server %s is skipped: %s", address, error)
                instance.renew_route(queue.topic)
    raise _no_answer(queue, broker_address, failures)


def _no_answer(queue: MessageQueue, broker_address: str, failures: dict[str, UnreachableError]) -> UnreachableError:
    start = f"start one with pymq filter-server --broker {broker_address}"
    if not failures:
        return UnreachableError(
            f"no filter server is registered with broker {queue.broker_name} at {broker_address}: {start}"
        )
    causes = "; ".join(f"{address}: {error}" for address, error in failures.items())
    return UnreachableError(
        f"no filter server of broker {queue.broker_name} at {broker_address} answers ({causes}): {start}"
    )
