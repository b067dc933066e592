"""Clients of a machine's workers: producers that know name servers alone and spread, and a probe of each worker."""

from __future__ import annotations

from collections.abc import Mapping

from pymq.errors import PymqError
from tests.simulation.clients import QUEUE_COUNT, TOPIC, Operator, Producer, topic_request
from tests.simulation.history import ACKED, History, Send
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND

PROBE_PACE_US = 250 * MS
PROBE_TIMEOUT_S = 0.5


class SpreadProducer(Producer):
    """Sends to any worker that its route names, and after a failure to another one, as RocketMQ's producers do."""

    histories: Mapping[str, History]  # by a worker's address
    _last = ""

    async def master(self, *, is_fresh: bool = False) -> str | None:
        """Return the address of a worker to send to next."""
        route = await self.route(is_fresh=is_fresh)
        if route is None:
            return None
        found = [data for queues in route.queue_datas if queues.writable and (data := route.broker(queues.broker_name))]
        addresses = [data.master_address for data in found if data.master_address]
        others = [address for address in addresses if not (is_fresh and address == self._last)]
        if not (addresses := others or addresses):
            return None
        self._last = self._rng.choice(addresses)
        return self._last

    def begin(self, send: Send) -> None:
        self.histories[send.address].begin(send)


class Probe(Producer):
    """Sends to one worker, all the time: no partition shuts it out."""

    address = ""
    last_acked_us = -1

    def start_probing(self) -> None:
        self.send_timeout_s = PROBE_TIMEOUT_S
        self.last_acked_us = self.now_us
        run(self._probe())

    async def _probe(self) -> None:
        number = 0
        while not self.is_stopping:
            await self.sleep(PROBE_PACE_US)
            number += 1
            send = await self._send(self.address, b"%b-%d|" % (self.name.encode(), number))
            if send.outcome == ACKED:
                self.last_acked_us = self.now_us


class WorkersOperator(Operator):
    """Makes the topic on all workers, as ``pymq topic create`` does."""

    addresses: list[str]

    def set_up(self) -> None:
        run(self._set_up())

    async def _set_up(self) -> None:
        missing = list(self.addresses)
        while missing:
            await self.sleep(SECOND // 5)
            try:
                await self.client.invoke_ok(missing[0], topic_request(TOPIC, QUEUE_COUNT))
            except PymqError:
                continue
            del missing[0]
        self.is_set_up = True
