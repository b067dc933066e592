"""Bugs put into the supervisor of workers, and into name servers, on purpose: a seed must catch each.

``suites`` name the seed that is tried first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pymq.namesrv.table import RouteTable
from pymq.workers.restarts import Restarts
from pymq.workers.supervisor import Supervised, Supervisor
from tests.planting import Bug, Seam, Text, gives


def _shares_its_count(real: Callable[..., None], one: Supervised, *args: Any, **kwargs: Any) -> None:
    real(one, *args, **kwargs)
    one.restarts._ends_ms = vars(asyncio.get_running_loop()).setdefault("ends_of_all", deque())


def _forgets_the_host(real: Callable[..., Any], table: RouteTable, connection: object) -> Any:
    hosts = {live.identity.address.rpartition(":")[0] for live in table.brokers.of_connection(connection)}
    neighbours = [live for live in table.brokers.all_live() if live.identity.address.rpartition(":")[0] in hosts]
    return real(table, connection) + table._remove_all(neighbours)


BUGS = (
    Bug("workers share one count of ends", Seam(Supervised.__init__, _shares_its_count), ("seed 1",)),
    Bug("a worker that ends again and again is started forever", Seam(Restarts.ended, gives(0)), ("seed 1",)),
    Bug("a worker that stops in good order is not started again",
        Text(Supervisor._keep, "if one.is_retired:", "if one.is_retired or code == 0:"), ("seed 1",)),
    Bug("a worker's end takes its neighbours out of the routes",
        Seam(RouteTable.connection_closed, _forgets_the_host), ("seed 1",)),
)  # fmt: skip
