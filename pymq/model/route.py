"""Route data: where a topic's queues are, as name servers answer it and clients cache it."""

from __future__ import annotations

import msgspec

from pymq.model.tables import PERM_READ, PERM_WRITE

MASTER_ID = 0


class QueueData(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A topic's queues on one broker name."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    @property
    def readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)


class BrokerData(msgspec.Struct, rename="camel", kw_only=True):
    """One broker name: broker id -> "host:port"; id 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    enable_acting_master: bool = False

    @property
    def master_address(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)

    def read_address(self, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of ``broker_id``, else of the master, else of the broker with the lowest id."""
        found = self.broker_addrs.get(broker_id) or self.broker_addrs.get(MASTER_ID)
        if found is None and self.broker_addrs:
            found = self.broker_addrs[min(self.broker_addrs)]
        return found


class TopicRoute(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """The data a client needs to send to a topic and read from it."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None

    def broker(self, broker_name: str) -> BrokerData | None:
        for data in self.broker_datas:
            if data.broker_name == broker_name:
                return data
        return None
