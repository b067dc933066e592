"""The admin client: one object with a part per noun; the parts share connections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from pymq.client.admin.asking import Asking
from pymq.client.admin.connection import DEFAULT_TIMEOUT_S, AdminConnection, AnswerLimits
from pymq.client.name_servers import parse_name_servers
from pymq.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pymq.client.admin.auth import AuthAdmin
    from pymq.client.admin.brokers import BrokerAdmin
    from pymq.client.admin.cluster import ClusterAdmin
    from pymq.client.admin.draining import DrainAdmin
    from pymq.client.admin.filters import FilterAdmin
    from pymq.client.admin.groups import GroupAdmin
    from pymq.client.admin.instances import InstanceAdmin
    from pymq.client.admin.lites import LiteAdmin
    from pymq.client.admin.messages import MessageAdmin
    from pymq.client.admin.namesrv import NamesrvAdmin
    from pymq.client.admin.offsets import OffsetAdmin
    from pymq.client.admin.permissions import PermissionAdmin
    from pymq.client.admin.replication import ReplicationAdmin
    from pymq.client.admin.rows import RowAdmin
    from pymq.client.admin.settings import SettingsAdmin
    from pymq.client.admin.topics import TopicAdmin
    from pymq.client.admin.traces import TraceAdmin
    from pymq.client.tls import Tls
    from pymq.security.credentials import Credentials


class Admin:
    """Admin calls by noun: ``cluster``, ``topics``, ``groups``, ``offsets``, ``draining``, ``filters``, ``brokers``,
    ``instances``, ``lites``, ``permissions``, ``settings``, ``replication``, ``messages``, ``traces``, ``auth``,
    ``namesrv``. A part is imported and made at its first use, because a command needs only a few.

    ``namesrv``: "host:port" texts, or one text with several joined by ``;``; without them NAMESRV_ADDR from the
    environment, else 127.0.0.1:9876. ``tls``: without it the environment's. ``timeout_s``: for each request.
    ``is_partial``: calls that ask every broker leave out those that can't be reached, and :attr:`unreached` names them;
    otherwise they raise. ``credentials``: sign all requests. ``limits``: how large answers may be.

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
        limits: AnswerLimits | None = None,
    ) -> None:
        addresses = parse_name_servers(namesrv)
        self._connection = AdminConnection(
            addresses,
            clock=clock or SystemClock(),
            timeout_s=timeout_s,
            credentials=credentials,
            tls=tls,
            limits=limits,
        )
        self._asking = Asking(is_partial=is_partial)

    @property
    def unreached(self) -> dict[str, str]:
        """The names of brokers that were left out, each with the reason: without a master, or not to be reached."""
        return self._asking.unreached

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
        """End all connections."""
        await self._connection.close()

    @cached_property
    def namesrv(self) -> NamesrvAdmin:
        """Name servers: what they know, their values and their settings."""
        from pymq.client.admin.namesrv import NamesrvAdmin

        return NamesrvAdmin(self._connection)

    @cached_property
    def cluster(self) -> ClusterAdmin:
        """Clusters and the brokers in them."""
        from pymq.client.admin.cluster import ClusterAdmin

        return ClusterAdmin(self._connection, self._asking)

    @cached_property
    def topics(self) -> TopicAdmin:
        """Topics: names, routes, configuration and numbers of messages."""
        from pymq.client.admin.topics import TopicAdmin

        return TopicAdmin(self._connection, self.cluster, self.rows)

    @cached_property
    def groups(self) -> GroupAdmin:
        """Consumer groups: configuration, members and places."""
        from pymq.client.admin.groups import GroupAdmin

        return GroupAdmin(self._connection, self.cluster, self.rows)

    @cached_property
    def rows(self) -> RowAdmin:
        """Rows of all topics or groups of one PyMQ broker."""
        from pymq.client.admin.rows import RowAdmin

        return RowAdmin(self._connection)

    @cached_property
    def offsets(self) -> OffsetAdmin:
        """The offsets of consumer groups, and how to move them."""
        from pymq.client.admin.offsets import OffsetAdmin

        return OffsetAdmin(self._connection, self.topics, self.groups)

    @cached_property
    def draining(self) -> DrainAdmin:
        """What groups have yet to read of a topic's queues."""
        from pymq.client.admin.draining import DrainAdmin

        return DrainAdmin(self.topics, self.groups, self.offsets)

    @cached_property
    def brokers(self) -> BrokerAdmin:
        """Single brokers: their figures, and their cleaning."""
        from pymq.client.admin.brokers import BrokerAdmin

        return BrokerAdmin(self._connection)

    @cached_property
    def instances(self) -> InstanceAdmin:
        """Connected producers and consumers."""
        from pymq.client.admin.instances import InstanceAdmin

        return InstanceAdmin(self.cluster, self.groups, self.brokers)

    @cached_property
    def lites(self) -> LiteAdmin:
        """Lite topics, their subscribers and groups."""
        from pymq.client.admin.lites import LiteAdmin

        return LiteAdmin(self._connection)

    @cached_property
    def permissions(self) -> PermissionAdmin:
        """Brokers that name servers list as read-only."""
        from pymq.client.admin.permissions import PermissionAdmin

        return PermissionAdmin(self._connection, self.cluster, self.topics, self.brokers)

    @cached_property
    def settings(self) -> SettingsAdmin:
        """Settings of brokers and name servers."""
        from pymq.client.admin.settings import SettingsAdmin

        return SettingsAdmin(self._connection)

    @cached_property
    def filters(self) -> FilterAdmin:
        """Filter servers, and filters on topics."""
        from pymq.client.admin.filters import FilterAdmin

        return FilterAdmin(self.cluster, self.topics, self.groups, self.brokers)

    @cached_property
    def replication(self) -> ReplicationAdmin:
        """Masters and slaves."""
        from pymq.client.admin.replication import ReplicationAdmin

        return ReplicationAdmin(self._connection, self.brokers)

    @cached_property
    def messages(self) -> MessageAdmin:
        """Stored messages, by id or key."""
        from pymq.client.admin.messages import MessageAdmin

        return MessageAdmin(self._connection, self.topics)

    @cached_property
    def traces(self) -> TraceAdmin:
        """The ways of messages."""
        from pymq.client.admin.traces import TraceAdmin

        return TraceAdmin(self.messages)

    @cached_property
    def auth(self) -> AuthAdmin:
        """Users and what they may do."""
        from pymq.client.admin.auth import AuthAdmin

        return AuthAdmin(self._connection)
