"""The admin client: one object with a part per noun; the parts share connections."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from pymq.client.admin.asking import Asking
from pymq.client.admin.auth import AuthAdmin
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.connection import DEFAULT_TIMEOUT_S, AdminConnection
from pymq.client.admin.draining import DrainAdmin
from pymq.client.admin.filters import FilterAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.client.admin.instances import InstanceAdmin
from pymq.client.admin.messages import MessageAdmin
from pymq.client.admin.namesrv import NamesrvAdmin
from pymq.client.admin.offsets import OffsetAdmin
from pymq.client.admin.permissions import PermissionAdmin
from pymq.client.admin.replication import ReplicationAdmin
from pymq.client.admin.settings import SettingsAdmin
from pymq.client.admin.topics import TopicAdmin
from pymq.client.admin.traces import TraceAdmin
from pymq.client.name_servers import parse_name_servers
from pymq.client.tls import Tls
from pymq.clock import Clock, SystemClock
from pymq.security.credentials import Credentials


class Admin:
    """Admin calls by noun: ``cluster``, ``topics``, ``groups``, ``offsets``, ``draining``, ``filters``, ``brokers``,
    ``instances``, ``permissions``, ``settings``, ``replication``, ``messages``, ``traces``, ``auth``,
    ``namesrv``.

    ``namesrv``: "host:port" texts, or one text with several joined by ``;``; without them NAMESRV_ADDR from the
    environment, else 127.0.0.1:9876. ``tls``: without it the environment's. ``timeout_s``: for each request.
    ``is_partial``: calls that ask every broker leave out those that can't be reached, and :attr:`unreached` names them;
    otherwise they raise. ``credentials``: sign all requests.

    Use it as ``async with Admin(...)`` from one event loop. All calls raise UnreachableError, RefusedError (with the
    server's code and remark) and NotFoundError for a topic, group or message that doesn't exist.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
        is_partial: bool = False,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        addresses = parse_name_servers(namesrv)
        self._connection = AdminConnection(
            addresses, clock=clock or SystemClock(), timeout_s=timeout_s, credentials=credentials, tls=tls
        )
        self.namesrv = NamesrvAdmin(self._connection)
        self.cluster = ClusterAdmin(self._connection, Asking(is_partial=is_partial))
        self.topics = TopicAdmin(self._connection, self.cluster)
        self.groups = GroupAdmin(self._connection, self.cluster)
        self.offsets = OffsetAdmin(self._connection, self.topics, self.groups)
        self.draining = DrainAdmin(self.topics, self.groups, self.offsets)
        self.brokers = BrokerAdmin(self._connection)
        self.instances = InstanceAdmin(self.cluster, self.groups, self.brokers)
        self.permissions = PermissionAdmin(self._connection, self.cluster, self.topics, self.brokers)
        self.settings = SettingsAdmin(self._connection)
        self.filters = FilterAdmin(self.cluster, self.topics, self.groups, self.brokers)
        self.replication = ReplicationAdmin(self._connection, self.brokers)
        self.messages = MessageAdmin(self._connection, self.topics)
        self.traces = TraceAdmin(self.messages)
        self.auth = AuthAdmin(self._connection)

    @property
    def unreached(self) -> dict[str, str]:
        """The names of brokers that were left out, each with the reason: without a master, or not to be reached."""
        return self.cluster.asking.unreached

    @property
    def inherited(self) -> bool:
        """True in a forked child if the parent used this client: its calls raise ClosedError here."""
        return self._connection.inherited

    async def __aenter__(self) -> Admin:
        await self._connection.find_name_servers()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all connections."""
        await self._connection.close()
