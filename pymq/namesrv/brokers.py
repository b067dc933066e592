"""BrokerManager: which brokers are on line, under which cluster, name and id, and until when they are believed."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.clock import Clock
from pymq.model.route import MASTER_ID, BrokerData
from pymq.model.tables import DataVersion

HEARTBEAT_TIMEOUT_MS = 120_000
# A peer may ask for another time-out, but not for one that makes a dead broker stay for days.
HEARTBEAT_TIMEOUT_MIN_MS = 1_000
HEARTBEAT_TIMEOUT_MAX_MS = 3_600_000
# Brokers report once a minute at the least: whoever is silent for longer holds its id against nobody.
HOLDER_SILENCE_MAX_MS = 65_000


@dataclass(slots=True, frozen=True)
class BrokerIdentity:
    """Who a broker says it is; ``address`` is "host:port", ``broker_id`` 0 for the master of ``broker_name``."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


@dataclass(slots=True)
class LiveBroker:
    """One broker process that was heard of; ``last_seen_ms`` is monotonic."""

    identity: BrokerIdentity
    ha_address: str
    data_version: DataVersion
    connection: object
    timeout_ms: int
    last_seen_ms: int
    filter_servers: list[str]
    epoch: int = 0  # of a PyMQ master's newest reign; 0 for others


class BrokerManager:
    """clusters -> broker names -> ids -> addresses, and the live brokers behind them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clusters: dict[str, dict[str, None]] = {}  # an ordered set of broker names each
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[str, LiveBroker] = {}  # by address: one address is one process

    def __len__(self) -> int:
        return len(self._live)

    def get(self, broker_name: str) -> BrokerData | None:
        """The addresses known under a broker name."""
        return self._brokers.get(broker_name)

    def all(self) -> dict[str, BrokerData]:
        """broker name -> its addresses. A copy of the table, not of its values."""
        return dict(self._brokers)

    def clusters(self) -> dict[str, list[str]]:
        """cluster -> broker names."""
        return {cluster: list(names) for cluster, names in self._clusters.items()}

    def live(self, address: str) -> LiveBroker | None:
        """The broker that answers at an address."""
        return self._live.get(address)

    def all_live(self) -> list[LiveBroker]:
        """Every broker that is on line."""
        return list(self._live.values())

    def silent_ms(self, broker: LiveBroker) -> int:
        """How long ago it was heard of."""
        return self._clock.monotonic_ms() - broker.last_seen_ms

    def put(self, broker: LiveBroker, acting_master: bool | None) -> bool:
        """Enters a broker into all tables; True when nothing stood under its name and id before.

        The same address under another id of the name is replaced: that is a slave that became master. An address
        that stood under another name must have been removed before.
        """
        who = broker.identity
        data = self._brokers.get(who.broker_name)
        if data is None:
            data = BrokerData(cluster=who.cluster, broker_name=who.broker_name, broker_addrs={})
            self._brokers[who.broker_name] = data
        elif data.cluster != who.cluster:
            self._leave_cluster(data.cluster, who.broker_name)
            data.cluster = who.cluster
        self._clusters.setdefault(who.cluster, {})[who.broker_name] = None
        data.enable_acting_master = bool(acting_master)
        for broker_id, address in list(data.broker_addrs.items()):
            if address == who.address and broker_id != who.broker_id:
                del data.broker_addrs[broker_id]
        first = who.broker_id not in data.broker_addrs
        data.broker_addrs[who.broker_id] = who.address
        self._live[who.address] = broker
        return first

    def touch(self, address: str) -> bool:
        """Notes that a broker was heard of; False when it is unknown."""
        broker = self._live.get(address)
        if broker is not None:
            broker.last_seen_ms = self._clock.monotonic_ms()
        return broker is not None

    def remove(self, who: BrokerIdentity) -> bool:
        """Takes a broker out of all tables; True when its broker name has no address left.

        An id that meanwhile belongs to another address keeps that address, and an address that meanwhile belongs to
        another broker name stays alive.
        """
        live = self._live.get(who.address)
        if live is not None and live.identity.broker_name == who.broker_name:
            del self._live[who.address]
        data = self._brokers.get(who.broker_name)
        if data is None:
            return False
        if data.broker_addrs.get(who.broker_id) == who.address:
            del data.broker_addrs[who.broker_id]
        if data.broker_addrs:
            return False
        del self._brokers[who.broker_name]
        self._leave_cluster(data.cluster, who.broker_name)
        return True

    def of_connection(self, connection: object) -> list[LiveBroker]:
        """The brokers that last registered over this connection."""
        return [broker for broker in self._live.values() if broker.connection is connection]

    def overdue(self) -> list[LiveBroker]:
        """The brokers that were silent for longer than their time-out."""
        now_ms = self._clock.monotonic_ms()
        return [broker for broker in self._live.values() if now_ms - broker.last_seen_ms > broker.timeout_ms]

    def master_of(self, broker_name: str) -> LiveBroker | None:
        """The live master of a broker name."""
        data = self._brokers.get(broker_name)
        address = data.broker_addrs.get(MASTER_ID) if data else None
        return self._live.get(address) if address else None

    def holder(self, who: BrokerIdentity) -> LiveBroker | None:
        """The broker at another address that has the name and id of ``who`` and was heard of lately."""
        data = self._brokers.get(who.broker_name)
        address = data.broker_addrs.get(who.broker_id) if data else None
        live = self._live.get(address) if address and address != who.address else None
        if live is None or self._clock.monotonic_ms() - live.last_seen_ms > HOLDER_SILENCE_MAX_MS:
            return None
        return live

    def filter_servers(self, broker_name: str) -> dict[str, list[str]]:
        """broker address -> its filter servers, for the brokers of a name that have any."""
        data = self._brokers.get(broker_name)
        if data is None:
            return {}
        found = ((address, self._live.get(address)) for address in data.broker_addrs.values())
        return {address: broker.filter_servers for address, broker in found if broker and broker.filter_servers}

    def _leave_cluster(self, cluster: str, broker_name: str) -> None:
        names = self._clusters.get(cluster)
        if names is not None:
            names.pop(broker_name, None)
            if not names:
                del self._clusters[cluster]
