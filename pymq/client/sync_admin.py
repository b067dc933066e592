"""The blocking admin client. Each method has the signature and the documentation of the asynchronous one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from pymq.client.admin import Admin as AsyncAdmin
from pymq.client.admin.auth import AuthAdmin as AsyncAuthAdmin
from pymq.client.admin.brokers import BrokerAdmin as AsyncBrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin as AsyncClusterAdmin
from pymq.client.admin.connection import DEFAULT_TIMEOUT_S
from pymq.client.admin.draining import DrainAdmin as AsyncDrainAdmin
from pymq.client.admin.filters import FilterAdmin as AsyncFilterAdmin
from pymq.client.admin.groups import GroupAdmin as AsyncGroupAdmin
from pymq.client.admin.instances import InstanceAdmin as AsyncInstanceAdmin
from pymq.client.admin.lites import LiteAdmin as AsyncLiteAdmin
from pymq.client.admin.messages import MessageAdmin as AsyncMessageAdmin
from pymq.client.admin.namesrv import NamesrvAdmin as AsyncNamesrvAdmin
from pymq.client.admin.offsets import OffsetAdmin as AsyncOffsetAdmin
from pymq.client.admin.permissions import PermissionAdmin as AsyncPermissionAdmin
from pymq.client.admin.replication import ReplicationAdmin as AsyncReplicationAdmin
from pymq.client.admin.rows import RowAdmin as AsyncRowAdmin
from pymq.client.admin.settings import SettingsAdmin as AsyncSettingsAdmin
from pymq.client.admin.topics import TopicAdmin as AsyncTopicAdmin
from pymq.client.admin.traces import TraceAdmin as AsyncTraceAdmin
from pymq.client.loop_thread import on_loop, shared
from pymq.clock import Clock
from pymq.security.credentials import Credentials

T = TypeVar("T")
PartT = TypeVar("PartT")
P = ParamSpec("P")


class _Part(Generic[PartT]):
    """The blocking form of one part of the admin client; ``part()`` returns the asynchronous one."""

    def __init__(self, part: Callable[[], PartT]) -> None:
        self._part = part


def _blocking(
    method: Callable[Concatenate[PartT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Part[PartT], P], T]:
    """Return ``method`` as one that waits for its result."""

    @functools.wraps(method)
    def call(self: _Part[PartT], /, *arguments: P.args, **options: P.kwargs) -> T:
        return shared.call(method(self._part(), *arguments, **options))

    return call


class NamesrvAdmin(_Part[AsyncNamesrvAdmin]):
    """The blocking form of :class:`~pymq.client.admin.namesrv.NamesrvAdmin`."""

    @property
    def addresses(self) -> list[str]:
        """The addresses of the name servers this client uses."""
        return self._part().addresses

    views = _blocking(AsyncNamesrvAdmin.views)
    put_value = _blocking(AsyncNamesrvAdmin.put_value)
    value = _blocking(AsyncNamesrvAdmin.value)
    delete_value = _blocking(AsyncNamesrvAdmin.delete_value)
    values = _blocking(AsyncNamesrvAdmin.values)
    config = _blocking(AsyncNamesrvAdmin.config)
    configs = _blocking(AsyncNamesrvAdmin.configs)
    update_config = _blocking(AsyncNamesrvAdmin.update_config)
    wipe_write_permission = _blocking(AsyncNamesrvAdmin.wipe_write_permission)
    add_write_permission = _blocking(AsyncNamesrvAdmin.add_write_permission)


class ClusterAdmin(_Part[AsyncClusterAdmin]):
    """The blocking form of :class:`~pymq.client.admin.cluster.ClusterAdmin`."""

    info = _blocking(AsyncClusterAdmin.info)
    masters = _blocking(AsyncClusterAdmin.masters)
    select = _blocking(AsyncClusterAdmin.select)
    workers_of = _blocking(AsyncClusterAdmin.workers_of)


class TopicAdmin(_Part[AsyncTopicAdmin]):
    """The blocking form of :class:`~pymq.client.admin.topics.TopicAdmin`."""

    names = _blocking(AsyncTopicAdmin.names)
    system_names = _blocking(AsyncTopicAdmin.system_names)
    route = _blocking(AsyncTopicAdmin.route)
    targets = _blocking(AsyncTopicAdmin.targets)
    config = _blocking(AsyncTopicAdmin.config)
    configs = _blocking(AsyncTopicAdmin.configs)
    put = _blocking(AsyncTopicAdmin.put)
    update = _blocking(AsyncTopicAdmin.update)
    delete = _blocking(AsyncTopicAdmin.delete)
    deleted_below = _blocking(AsyncTopicAdmin.deleted_below)
    stats = _blocking(AsyncTopicAdmin.stats)
    ends_at = _blocking(AsyncTopicAdmin.ends_at)
    all_ends = _blocking(AsyncTopicAdmin.all_ends)
    groups = _blocking(AsyncTopicAdmin.groups)


class GroupAdmin(_Part[AsyncGroupAdmin]):
    """The blocking form of :class:`~pymq.client.admin.groups.GroupAdmin`."""

    all_configs = _blocking(AsyncGroupAdmin.all_configs)
    configs = _blocking(AsyncGroupAdmin.configs)
    config = _blocking(AsyncGroupAdmin.config)
    put = _blocking(AsyncGroupAdmin.put)
    change = _blocking(AsyncGroupAdmin.change)
    delete = _blocking(AsyncGroupAdmin.delete)
    connections = _blocking(AsyncGroupAdmin.connections)
    differing_subscriptions = _blocking(AsyncGroupAdmin.differing_subscriptions)
    differences_of = _blocking(AsyncGroupAdmin.differences_of)
    topics = _blocking(AsyncGroupAdmin.topics)
    lag = _blocking(AsyncGroupAdmin.lag)
    topic_lags = _blocking(AsyncGroupAdmin.topic_lags)
    topic_lags_at = _blocking(AsyncGroupAdmin.topic_lags_at)
    all_topic_lags_at = _blocking(AsyncGroupAdmin.all_topic_lags_at)
    lags_at = _blocking(AsyncGroupAdmin.lags_at)
    all_lags = _blocking(AsyncGroupAdmin.all_lags)
    readers_at = _blocking(AsyncGroupAdmin.readers_at)
    all_readers = _blocking(AsyncGroupAdmin.all_readers)
    places_at = _blocking(AsyncGroupAdmin.places_at)
    member_counts_at = _blocking(AsyncGroupAdmin.member_counts_at)
    all_member_counts = _blocking(AsyncGroupAdmin.all_member_counts)
    waiting_since = _blocking(AsyncGroupAdmin.waiting_since)
    online = _blocking(AsyncGroupAdmin.online)
    subscription = _blocking(AsyncGroupAdmin.subscription)
    time_spans = _blocking(AsyncGroupAdmin.time_spans)
    set_request_mode = _blocking(AsyncGroupAdmin.set_request_mode)
    reset_offsets = _blocking(AsyncGroupAdmin.reset_offsets)
    status = _blocking(AsyncGroupAdmin.status)
    clone_offsets = _blocking(AsyncGroupAdmin.clone_offsets)
    correction_offsets = _blocking(AsyncGroupAdmin.correction_offsets)
    running_info = _blocking(AsyncGroupAdmin.running_info)
    consume_directly = _blocking(AsyncGroupAdmin.consume_directly)


class RowAdmin(_Part[AsyncRowAdmin]):
    """The blocking form of :class:`~pymq.client.admin.rows.RowAdmin`."""

    ends = _blocking(AsyncRowAdmin.ends)
    ends_of = _blocking(AsyncRowAdmin.ends_of)
    lags = _blocking(AsyncRowAdmin.lags)
    readers = _blocking(AsyncRowAdmin.readers)
    lags_and_readers = _blocking(AsyncRowAdmin.lags_and_readers)
    topic_lags = _blocking(AsyncRowAdmin.topic_lags)
    places = _blocking(AsyncRowAdmin.places)
    members = _blocking(AsyncRowAdmin.members)


class BrokerAdmin(_Part[AsyncBrokerAdmin]):
    """The blocking form of :class:`~pymq.client.admin.brokers.BrokerAdmin`."""

    runtime_info = _blocking(AsyncBrokerAdmin.runtime_info)
    config = _blocking(AsyncBrokerAdmin.config)
    update_config = _blocking(AsyncBrokerAdmin.update_config)
    plan_config = _blocking(AsyncBrokerAdmin.plan_config)
    ha_status = _blocking(AsyncBrokerAdmin.ha_status)
    stats = _blocking(AsyncBrokerAdmin.stats)
    all_stats = _blocking(AsyncBrokerAdmin.all_stats)
    consume_stats = _blocking(AsyncBrokerAdmin.consume_stats)
    producers = _blocking(AsyncBrokerAdmin.producers)
    producer_connections = _blocking(AsyncBrokerAdmin.producer_connections)
    consume_queue = _blocking(AsyncBrokerAdmin.consume_queue)
    system_topics = _blocking(AsyncBrokerAdmin.system_topics)
    clean_expired_consume_queues = _blocking(AsyncBrokerAdmin.clean_expired_consume_queues)
    clean_unused_topics = _blocking(AsyncBrokerAdmin.clean_unused_topics)
    delete_expired_commit_log = _blocking(AsyncBrokerAdmin.delete_expired_commit_log)


class SettingsAdmin(_Part[AsyncSettingsAdmin]):
    """The blocking form of :class:`~pymq.client.admin.settings.SettingsAdmin`."""

    read = _blocking(AsyncSettingsAdmin.read)
    change = _blocking(AsyncSettingsAdmin.change)


class FilterAdmin(_Part[AsyncFilterAdmin]):
    """The blocking form of :class:`~pymq.client.admin.filters.FilterAdmin`."""

    figures = _blocking(AsyncFilterAdmin.figures)


class ReplicationAdmin(_Part[AsyncReplicationAdmin]):
    """The blocking form of :class:`~pymq.client.admin.replication.ReplicationAdmin`."""

    status = _blocking(AsyncReplicationAdmin.status)
    change_role = _blocking(AsyncReplicationAdmin.change_role)
    change_raft_group = _blocking(AsyncReplicationAdmin.change_raft_group)
    replicated_tables = _blocking(AsyncReplicationAdmin.replicated_tables)
    tables = _blocking(AsyncReplicationAdmin.tables)
    deleted_topics = _blocking(AsyncReplicationAdmin.deleted_topics)
    digests = _blocking(AsyncReplicationAdmin.digests)
    read_log = _blocking(AsyncReplicationAdmin.read_log)


class MessageAdmin(_Part[AsyncMessageAdmin]):
    """The blocking form of :class:`~pymq.client.admin.messages.MessageAdmin`."""

    by_offset_id = _blocking(AsyncMessageAdmin.by_offset_id)
    by_unique_key = _blocking(AsyncMessageAdmin.by_unique_key)
    by_key = _blocking(AsyncMessageAdmin.by_key)


class OffsetAdmin(_Part[AsyncOffsetAdmin]):
    """The blocking form of :class:`~pymq.client.admin.offsets.OffsetAdmin`."""

    places = _blocking(AsyncOffsetAdmin.places)
    committed = _blocking(AsyncOffsetAdmin.committed)
    at_time = _blocking(AsyncOffsetAdmin.at_time)
    missing_on = _blocking(AsyncOffsetAdmin.missing_on)
    move = _blocking(AsyncOffsetAdmin.move)


class DrainAdmin(_Part[AsyncDrainAdmin]):
    """The blocking form of :class:`~pymq.client.admin.draining.DrainAdmin`."""

    look = _blocking(AsyncDrainAdmin.look)
    configs = _blocking(AsyncDrainAdmin.configs)


class InstanceAdmin(_Part[AsyncInstanceAdmin]):
    """The blocking form of :class:`~pymq.client.admin.instances.InstanceAdmin`."""

    all = _blocking(AsyncInstanceAdmin.all)
    positions = _blocking(AsyncInstanceAdmin.positions)


class PermissionAdmin(_Part[AsyncPermissionAdmin]):
    """The blocking form of :class:`~pymq.client.admin.permissions.PermissionAdmin`."""

    look = _blocking(AsyncPermissionAdmin.look)
    activity = _blocking(AsyncPermissionAdmin.activity)
    read_only = _blocking(AsyncPermissionAdmin.read_only)
    announce = _blocking(AsyncPermissionAdmin.announce)


class LiteAdmin(_Part[AsyncLiteAdmin]):
    """The blocking form of :class:`~pymq.client.admin.lites.LiteAdmin`."""

    broker = _blocking(AsyncLiteAdmin.broker)
    parent = _blocking(AsyncLiteAdmin.parent)
    topic = _blocking(AsyncLiteAdmin.topic)
    client = _blocking(AsyncLiteAdmin.client)
    group = _blocking(AsyncLiteAdmin.group)


class TraceAdmin(_Part[AsyncTraceAdmin]):
    """The blocking form of :class:`~pymq.client.admin.traces.TraceAdmin`."""

    of_message = _blocking(AsyncTraceAdmin.of_message)


class AuthAdmin(_Part[AsyncAuthAdmin]):
    """The blocking form of :class:`~pymq.client.admin.auth.AuthAdmin`."""

    users = _blocking(AsyncAuthAdmin.users)
    user = _blocking(AsyncAuthAdmin.user)
    create_user = _blocking(AsyncAuthAdmin.create_user)
    update_user = _blocking(AsyncAuthAdmin.update_user)
    delete_user = _blocking(AsyncAuthAdmin.delete_user)
    acls = _blocking(AsyncAuthAdmin.acls)
    acl = _blocking(AsyncAuthAdmin.acl)
    put_acl = _blocking(AsyncAuthAdmin.put_acl)
    delete_acl = _blocking(AsyncAuthAdmin.delete_acl)


class Admin:
    """:class:`~pymq.client.admin.Admin` with blocking calls: ``admin.topics.put(...)`` and so on.

    In a forked child the first call connects again. All calls raise what the asyncio client's raise.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
        is_partial: bool = False,
        credentials: Credentials | None = None,
    ) -> None:
        self._make: Callable[[], AsyncAdmin] = lambda: AsyncAdmin(
            namesrv, timeout_s=timeout_s, clock=clock, is_partial=is_partial, credentials=credentials
        )
        self._made = shared.call(on_loop(self._make))
        self.namesrv = NamesrvAdmin(lambda: self._admin.namesrv)
        self.cluster = ClusterAdmin(lambda: self._admin.cluster)
        self.topics = TopicAdmin(lambda: self._admin.topics)
        self.draining = DrainAdmin(lambda: self._admin.draining)
        self.groups = GroupAdmin(lambda: self._admin.groups)
        self.rows = RowAdmin(lambda: self._admin.rows)
        self.offsets = OffsetAdmin(lambda: self._admin.offsets)
        self.brokers = BrokerAdmin(lambda: self._admin.brokers)
        self.instances = InstanceAdmin(lambda: self._admin.instances)
        self.lites = LiteAdmin(lambda: self._admin.lites)
        self.permissions = PermissionAdmin(lambda: self._admin.permissions)
        self.settings = SettingsAdmin(lambda: self._admin.settings)
        self.filters = FilterAdmin(lambda: self._admin.filters)
        self.replication = ReplicationAdmin(lambda: self._admin.replication)
        self.messages = MessageAdmin(lambda: self._admin.messages)
        self.traces = TraceAdmin(lambda: self._admin.traces)
        self.auth = AuthAdmin(lambda: self._admin.auth)

    @property
    def unreached(self) -> dict[str, str]:
        """As :attr:`pymq.client.admin.Admin.unreached`."""
        return self._admin.unreached

    @property
    def _admin(self) -> AsyncAdmin:
        if self._made.inherited:
            self._made = shared.call(on_loop(self._remade))
        return self._made

    def _remade(self) -> AsyncAdmin:
        # On the loop: of several threads the first one makes the client.
        return self._make() if self._made.inherited else self._made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; in a forked child only this process's."""
        shared.call(self._made.close())
