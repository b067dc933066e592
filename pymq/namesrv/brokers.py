"""BrokerManager: which brokers are online, under which cluster, name and id, and when each of them expires."""

from __future__ import annotations

from collections.abc import Callable

from pymq.clock import Clock
from pymq.model.route import MASTER_ID, BrokerData
from pymq.model.tables import DataVersion
from pymq.namesrv.group_memory import ID_KEPT_MS, GroupMemory
from pymq.namesrv.registration import STANDBY_COUNT_MAX, BrokerIdentity, LiveBroker, Standby

HEARTBEAT_TIMEOUT_MS = 120_000
# A peer may ask for another timeout, but not for one that keeps a dead broker for days.
HEARTBEAT_TIMEOUT_MIN_MS = 1_000
HEARTBEAT_TIMEOUT_MAX_MS = 3_600_000
# Brokers report at least once a minute. A broker that is silent for longer loses its id to the next that claims it.
HOLDER_SILENCE_MAX_MS = 65_000
LEFT_ADDRESSES_MAX = 1024  # that are remembered; beyond: the oldest is forgotten
# The version of a registration whose next report replaces all of it.
_UNKNOWN_VERSION = DataVersion(counter=-1)


class BrokerManager:
    """clusters -> broker names -> ids -> addresses, and the live brokers behind them."""

    def __init__(
        self,
        clock: Clock,
        id_kept_ms: Callable[[], int] = lambda: ID_KEPT_MS,
        count: Callable[[int], None] = lambda size_bytes: None,
    ) -> None:
        """``id_kept_ms`` returns how long the id and the address of a broker that left are kept for it.

        ``count`` gets by how many bytes the tables have grown (below 0: shrunk).
        """
        self._clock = clock
        self._count = count
        self.id_kept_ms = id_kept_ms
        self._clusters: dict[str, dict[str, None]] = {}  # values are ordered sets of broker names
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[str, LiveBroker] = {}  # by address: one address is one process
        self._memories: dict[str, GroupMemory] = {}  # the same keys as _brokers
        self._left: dict[str, tuple[str, int]] = {}  # address -> host of its reports, and when it left

    def __len__(self) -> int:
        return len(self._live)

    def get(self, broker_name: str) -> BrokerData | None:
        """Return the addresses known under a broker name."""
        return self._brokers.get(broker_name)

    def all(self) -> dict[str, BrokerData]:
        """Return broker name -> its addresses. A copy of the table, not of its values."""
        return dict(self._brokers)

    def clusters(self) -> dict[str, list[str]]:
        """Return cluster -> broker names."""
        return {cluster: list(names) for cluster, names in self._clusters.items()}

    def live(self, address: str) -> LiveBroker | None:
        """Return the broker that registered an address."""
        return self._live.get(address)

    def all_live(self) -> list[LiveBroker]:
        """Return every broker that is online."""
        return list(self._live.values())

    def memory(self, broker_name: str) -> GroupMemory | None:
        """Return what is remembered of a group with a registered member; None without one."""
        return self._memories.get(broker_name)

    def is_silent(self, broker: LiveBroker) -> bool:
        """Return whether the owner of a registration has not been heard for so long that another may take it."""
        return self.silent_ms(broker) > HOLDER_SILENCE_MAX_MS

    def is_listed(self, broker: LiveBroker) -> bool:
        """Return whether routes name ``broker``: its id has not gone to another one."""
        data = self._brokers.get(broker.identity.broker_name)
        return data is not None and data.broker_addrs.get(broker.identity.broker_id) == broker.identity.address

    def is_living(self, address: str) -> bool:
        """Return whether the broker at ``address`` is registered and has been heard lately."""
        live = self._live.get(address)
        return live is not None and not self.is_silent(live)

    def silent_ms(self, broker: LiveBroker) -> int:
        """Return the time since the last report or heartbeat of ``broker``."""
        return self._clock.monotonic_ms() - broker.last_seen_ms

    def put(self, broker: LiveBroker, acting_master: bool | None) -> bool:
        """Enter a broker into all tables. Returns True when its name and id were free.

        The same address under another id of the name is replaced: a slave became master. An address under another name
        must be removed first.
        """
        identity = broker.identity
        data = self._brokers.get(identity.broker_name)
        if data is None:
            data = BrokerData(cluster=identity.cluster, broker_name=identity.broker_name, broker_addrs={})
            self._brokers[identity.broker_name] = data
            self._memories[identity.broker_name] = GroupMemory(self._clock, self.id_kept_ms)
        elif data.cluster != identity.cluster:
            self._leave_cluster(data.cluster, identity.broker_name)
            data.cluster = identity.cluster
        self._clusters.setdefault(identity.cluster, {})[identity.broker_name] = None
        if identity.is_master or data.master_address is None:
            data.enable_acting_master = bool(acting_master)
        for broker_id, address in list(data.broker_addrs.items()):
            if address == identity.address and broker_id != identity.broker_id:
                del data.broker_addrs[broker_id]
        first = identity.broker_id not in data.broker_addrs
        data.broker_addrs[identity.broker_id] = identity.address
        before = self._live.get(identity.address)
        self._count(broker.size_bytes - (before.size_bytes if before is not None else 0))
        self._live[identity.address] = broker
        return first

    def add_standby(self, address: str, connection: object) -> None:
        """Note a further connection of a registered broker. Beyond STANDBY_COUNT_MAX the youngest gives way."""
        broker = self._live[address]
        known = broker.standby(connection)
        if known is not None:
            known.last_seen_ms = self._clock.monotonic_ms()
            return
        del broker.standbys[STANDBY_COUNT_MAX - 1 :]
        broker.standbys.append(Standby(connection, self._clock.monotonic_ms()))

    def touch(self, address: str, connection: object) -> bool:
        """Note a sign of life of a broker. Returns False when it has not registered over this connection."""
        broker = self._live.get(address)
        if broker is None:
            return False
        seen = broker if broker.connection is connection else broker.standby(connection)
        if seen is not None:
            seen.last_seen_ms = self._clock.monotonic_ms()
        return seen is not None

    def leave(self, broker: LiveBroker, connection: object) -> bool:
        """Forget one connection of a broker. Returns True when no other one keeps its registration.

        The oldest other connection that was heard lately becomes the owner. What it registers next replaces everything.
        """
        standbys = [standby for standby in broker.standbys if standby.connection is not connection]
        if broker.connection is not connection:
            broker.standbys = standbys
            return False
        now_ms = self._clock.monotonic_ms()
        living = [standby for standby in standbys if now_ms - standby.last_seen_ms <= HOLDER_SILENCE_MAX_MS]
        if not living or not self.is_listed(broker):
            return True
        heir = living[0]
        broker.connection, broker.last_seen_ms, broker.standbys = heir.connection, heir.last_seen_ms, living[1:]
        self.forget_version(broker)
        return False

    def forget_version(self, broker: LiveBroker) -> None:
        """Let the broker's next report replace what is known of its topics, also when they are the same for it."""
        broker.data_version = _UNKNOWN_VERSION

    def remove(self, identity: BrokerIdentity) -> bool:
        """Remove a broker from all tables. Returns True when its broker name has no address left.

        An id that has gone to another address keeps that address. An address that has gone to another broker name stays
        alive.
        """
        live = self._live.get(identity.address)
        data = self._brokers.get(identity.broker_name)
        if live is not None and live.identity.broker_name == identity.broker_name:
            del self._live[identity.address]
            self._count(-live.size_bytes)
            self._note_left(identity.address, live.host)
            if data is not None:
                self._memories[identity.broker_name].note_left(identity.address, live.host, identity.broker_id)
        if data is None:
            return False
        if data.broker_addrs.get(identity.broker_id) == identity.address:
            del data.broker_addrs[identity.broker_id]
        if data.broker_addrs:
            return False
        del self._brokers[identity.broker_name], self._memories[identity.broker_name]
        self._leave_cluster(data.cluster, identity.broker_name)
        return True

    def _note_left(self, address: str, host: str) -> None:
        self._left.pop(address, None)
        self._left[address] = host, self._clock.monotonic_ms()
        if len(self._left) > LEFT_ADDRESSES_MAX:
            del self._left[next(iter(self._left))]

    def kept_for_host(self, address: str) -> str | None:
        """Return the host that a broker reported from which left a moment ago; None for any other address."""
        host, left_ms = self._left.get(address, ("", None))
        if left_ms is None or self._clock.monotonic_ms() - left_ms > self.id_kept_ms():
            return None
        return host

    def of_connection(self, connection: object) -> list[LiveBroker]:
        """Return the brokers that have registered over this connection."""
        return [broker for broker in self._live.values() if broker.is_of(connection)]

    def overdue(self) -> list[LiveBroker]:
        """Return the brokers that were silent for longer than their timeout."""
        now_ms = self._clock.monotonic_ms()
        return [broker for broker in self._live.values() if now_ms - broker.last_seen_ms > broker.timeout_ms]

    def master_of(self, broker_name: str) -> LiveBroker | None:
        """Return the live master of a broker name."""
        data = self._brokers.get(broker_name)
        address = data.broker_addrs.get(MASTER_ID) if data else None
        return self._live.get(address) if address else None

    def holder(self, identity: BrokerIdentity) -> LiveBroker | None:
        """Return the broker at another address that has this name and id and reported lately."""
        data = self._brokers.get(identity.broker_name)
        address = data.broker_addrs.get(identity.broker_id) if data else None
        live = self._live.get(address) if address and address != identity.address else None
        return None if live is None or self.is_silent(live) else live

    def filter_servers(self, broker_name: str) -> dict[str, list[str]]:
        """Return broker address -> its filter servers, for the brokers of a name that have any."""
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
