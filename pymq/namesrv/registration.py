"""A broker's report to a name server, and what the name server keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pymq.model.route import MASTER_ID
from pymq.model.tables import DataVersion, TopicConfig

# Connections beside the first one over which a broker has reported its present registration. A restarted broker makes
# one while its former connection still looks open.
STANDBY_COUNT_MAX = 4
# What a broker takes in memory, and a name of it; with up to four bytes a character on top.
BROKER_BYTES = 4_000
NAME_BYTES = 150


@dataclass(slots=True, frozen=True)
class BrokerIdentity:
    """A broker's identity. ``address`` is "host:port"; ``broker_id`` is 0 for the master of ``broker_name``."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def role(self) -> str:
        """The role in a text for an operator."""
        return "master" if self.is_master else f"slave {self.broker_id}"


@dataclass(slots=True, frozen=True)
class Registration:
    """One broker's report. ``topics`` may hold only the new ones: a missing topic is not removed.

    ``connection`` is any object that identifies the connection of the report, ``host`` the host it comes from.
    ``acting_master`` is None for brokers before 5.0, which don't send it. ``slaves`` are the addresses of a PyMQ
    master's slaves; None for all others.
    """

    identity: BrokerIdentity
    topics: Mapping[str, TopicConfig]
    data_version: DataVersion = field(default_factory=DataVersion)
    ha_address: str = ""
    filter_servers: Sequence[str] = ()
    timeout_ms: int | None = None
    acting_master: bool | None = None
    connection: object = None
    host: str = ""
    epoch: int = 0
    slaves: Sequence[str] | None = None

    @property
    def size_bytes(self) -> int:
        """What the name server keeps of the broker, without its topics: about so many bytes."""
        names = (*self.filter_servers, *(self.slaves or ()), self.identity.broker_name, self.identity.cluster)
        return BROKER_BYTES + sum(NAME_BYTES + 4 * len(name) for name in names)


@dataclass(slots=True)
class Standby:
    """A further connection of a registration. ``last_seen_ms`` is monotonic."""

    connection: object
    last_seen_ms: int


@dataclass(slots=True)
class LiveBroker:
    """One registered broker process. ``last_seen_ms`` is monotonic and of ``connection``, which owns the registration.

    ``standbys`` are younger connections of the same broker. The oldest of them owns the registration next.
    """

    identity: BrokerIdentity
    ha_address: str
    data_version: DataVersion
    connection: object
    timeout_ms: int
    last_seen_ms: int
    filter_servers: list[str]
    size_bytes: int = 0  # as the budget of memory counts it
    epoch: int = 0  # a PyMQ master's newest epoch; 0 for others
    host: str = ""
    names_slaves: bool = False  # a PyMQ master
    standbys: list[Standby] = field(default_factory=list)

    def standby(self, connection: object) -> Standby | None:
        """Return the entry of a connection that does not own the registration; None when it has none."""
        return next((standby for standby in self.standbys if standby.connection is connection), None)

    def is_of(self, connection: object) -> bool:
        """Return whether this broker has reported over ``connection``."""
        return self.connection is connection or self.standby(connection) is not None
