"""The blocking admin client. Each method has the signature and the documentation of the asynchronous one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from pymq.client.admin import Admin
from pymq.client.admin.auth import AuthAdmin
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.connection import DEFAULT_TIMEOUT_S
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
    """Returns ``method`` as one that waits for its result."""

    @functools.wraps(method)
    def call(self: _Part[PartT], /, *arguments: P.args, **options: P.kwargs) -> T:
        return shared.call(method(self._part(), *arguments, **options))

    return call


class SyncNamesrvAdmin(_Part[NamesrvAdmin]):
    """The blocking form of :class:`~pymq.client.admin.namesrv.NamesrvAdmin`."""

    @property
    def addresses(self) -> list[str]:
        """The addresses of the name servers this client uses."""
        return self._part().addresses

    views = _blocking(NamesrvAdmin.views)
    put_value = _blocking(NamesrvAdmin.put_value)
    value = _blocking(NamesrvAdmin.value)
    delete_value = _blocking(NamesrvAdmin.delete_value)
    values = _blocking(NamesrvAdmin.values)
    config = _blocking(NamesrvAdmin.config)
    configs = _blocking(NamesrvAdmin.configs)
    update_config = _blocking(NamesrvAdmin.update_config)
    wipe_write_permission = _blocking(NamesrvAdmin.wipe_write_permission)
    add_write_permission = _blocking(NamesrvAdmin.add_write_permission)


class SyncClusterAdmin(_Part[ClusterAdmin]):
    """The blocking form of :class:`~pymq.client.admin.cluster.ClusterAdmin`."""

    info = _blocking(ClusterAdmin.info)
    masters = _blocking(ClusterAdmin.masters)
    select = _blocking(ClusterAdmin.select)


class SyncTopicAdmin(_Part[TopicAdmin]):
    """The blocking form of :class:`~pymq.client.admin.topics.TopicAdmin`."""

    names = _blocking(TopicAdmin.names)
    system_names = _blocking(TopicAdmin.system_names)
    route = _blocking(TopicAdmin.route)
    targets = _blocking(TopicAdmin.targets)
    config = _blocking(TopicAdmin.config)
    configs = _blocking(TopicAdmin.configs)
    put = _blocking(TopicAdmin.put)
    update = _blocking(TopicAdmin.update)
    delete = _blocking(TopicAdmin.delete)
    stats = _blocking(TopicAdmin.stats)
    groups = _blocking(TopicAdmin.groups)


class SyncGroupAdmin(_Part[GroupAdmin]):
    """The blocking form of :class:`~pymq.client.admin.groups.GroupAdmin`."""

    all_configs = _blocking(GroupAdmin.all_configs)
    configs = _blocking(GroupAdmin.configs)
    config = _blocking(GroupAdmin.config)
    put = _blocking(GroupAdmin.put)
    change = _blocking(GroupAdmin.change)
    delete = _blocking(GroupAdmin.delete)
    connections = _blocking(GroupAdmin.connections)
    differing_subscriptions = _blocking(GroupAdmin.differing_subscriptions)
    topics = _blocking(GroupAdmin.topics)
    lag = _blocking(GroupAdmin.lag)
    topic_lags = _blocking(GroupAdmin.topic_lags)
    topic_lags_at = _blocking(GroupAdmin.topic_lags_at)
    all_topic_lags_at = _blocking(GroupAdmin.all_topic_lags_at)
    waiting_since = _blocking(GroupAdmin.waiting_since)
    online = _blocking(GroupAdmin.online)
    subscription = _blocking(GroupAdmin.subscription)
    time_spans = _blocking(GroupAdmin.time_spans)
    set_request_mode = _blocking(GroupAdmin.set_request_mode)
    reset_offsets = _blocking(GroupAdmin.reset_offsets)
    status = _blocking(GroupAdmin.status)
    clone_offsets = _blocking(GroupAdmin.clone_offsets)
    correction_offsets = _blocking(GroupAdmin.correction_offsets)
    running_info = _blocking(GroupAdmin.running_info)
    consume_directly = _blocking(GroupAdmin.consume_directly)


class SyncBrokerAdmin(_Part[BrokerAdmin]):
    """The blocking form of :class:`~pymq.client.admin.brokers.BrokerAdmin`."""

    runtime_info = _blocking(BrokerAdmin.runtime_info)
    config = _blocking(BrokerAdmin.config)
    update_config = _blocking(BrokerAdmin.update_config)
    plan_config = _blocking(BrokerAdmin.plan_config)
    ha_status = _blocking(BrokerAdmin.ha_status)
    stats = _blocking(BrokerAdmin.stats)
    all_stats = _blocking(BrokerAdmin.all_stats)
    consume_stats = _blocking(BrokerAdmin.consume_stats)
    group_offsets = _blocking(BrokerAdmin.group_offsets)
    producers = _blocking(BrokerAdmin.producers)
    producer_connections = _blocking(BrokerAdmin.producer_connections)
    consume_queue = _blocking(BrokerAdmin.consume_queue)
    system_topics = _blocking(BrokerAdmin.system_topics)
    clean_expired_consume_queues = _blocking(BrokerAdmin.clean_expired_consume_queues)
    clean_unused_topics = _blocking(BrokerAdmin.clean_unused_topics)
    delete_expired_commit_log = _blocking(BrokerAdmin.delete_expired_commit_log)


class SyncSettingsAdmin(_Part[SettingsAdmin]):
    """The blocking form of :class:`~pymq.client.admin.settings.SettingsAdmin`."""

    read = _blocking(SettingsAdmin.read)
    change = _blocking(SettingsAdmin.change)


class SyncFilterAdmin(_Part[FilterAdmin]):
    """The blocking form of :class:`~pymq.client.admin.filters.FilterAdmin`."""

    figures = _blocking(FilterAdmin.figures)


class SyncReplicationAdmin(_Part[ReplicationAdmin]):
    """The blocking form of :class:`~pymq.client.admin.replication.ReplicationAdmin`."""

    status = _blocking(ReplicationAdmin.status)
    change_role = _blocking(ReplicationAdmin.change_role)
    change_raft_group = _blocking(ReplicationAdmin.change_raft_group)
    replicated_tables = _blocking(ReplicationAdmin.replicated_tables)
    tables = _blocking(ReplicationAdmin.tables)
    deleted_topics = _blocking(ReplicationAdmin.deleted_topics)
    digests = _blocking(ReplicationAdmin.digests)
    read_log = _blocking(ReplicationAdmin.read_log)


class SyncMessageAdmin(_Part[MessageAdmin]):
    """The blocking form of :class:`~pymq.client.admin.messages.MessageAdmin`."""

    by_offset_id = _blocking(MessageAdmin.by_offset_id)
    by_unique_key = _blocking(MessageAdmin.by_unique_key)
    by_key = _blocking(MessageAdmin.by_key)


class SyncOffsetAdmin(_Part[OffsetAdmin]):
    """The blocking form of :class:`~pymq.client.admin.offsets.OffsetAdmin`."""

    places = _blocking(OffsetAdmin.places)
    committed = _blocking(OffsetAdmin.committed)
    at_time = _blocking(OffsetAdmin.at_time)
    missing_on = _blocking(OffsetAdmin.missing_on)
    move = _blocking(OffsetAdmin.move)


class SyncDrainAdmin(_Part[DrainAdmin]):
    """The blocking form of :class:`~pymq.client.admin.draining.DrainAdmin`."""

    look = _blocking(DrainAdmin.look)
    configs = _blocking(DrainAdmin.configs)


class SyncInstanceAdmin(_Part[InstanceAdmin]):
    """The blocking form of :class:`~pymq.client.admin.instances.InstanceAdmin`."""

    all = _blocking(InstanceAdmin.all)
    positions = _blocking(InstanceAdmin.positions)


class SyncPermissionAdmin(_Part[PermissionAdmin]):
    """The blocking form of :class:`~pymq.client.admin.permissions.PermissionAdmin`."""

    look = _blocking(PermissionAdmin.look)
    activity = _blocking(PermissionAdmin.activity)
    read_only = _blocking(PermissionAdmin.read_only)
    announce = _blocking(PermissionAdmin.announce)


class SyncTraceAdmin(_Part[TraceAdmin]):
    """The blocking form of :class:`~pymq.client.admin.traces.TraceAdmin`."""

    of_message = _blocking(TraceAdmin.of_message)


class SyncAuthAdmin(_Part[AuthAdmin]):
    """The blocking form of :class:`~pymq.client.admin.auth.AuthAdmin`."""

    users = _blocking(AuthAdmin.users)
    user = _blocking(AuthAdmin.user)
    create_user = _blocking(AuthAdmin.create_user)
    update_user = _blocking(AuthAdmin.update_user)
    delete_user = _blocking(AuthAdmin.delete_user)
    acls = _blocking(AuthAdmin.acls)
    acl = _blocking(AuthAdmin.acl)
    put_acl = _blocking(AuthAdmin.put_acl)
    delete_acl = _blocking(AuthAdmin.delete_acl)


class SyncAdmin:
    """:class:`~pymq.client.admin.Admin` with blocking calls: ``admin.topics.put(...)`` and so on.

    In a forked child the first call connects again. All calls raise what Admin's raise.
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
        self._make: Callable[[], Admin] = lambda: Admin(
            namesrv, timeout_s=timeout_s, clock=clock, is_partial=is_partial, credentials=credentials
        )
        self._made = shared.call(on_loop(self._make))
        self.namesrv = SyncNamesrvAdmin(lambda: self._admin.namesrv)
        self.cluster = SyncClusterAdmin(lambda: self._admin.cluster)
        self.topics = SyncTopicAdmin(lambda: self._admin.topics)
        self.draining = SyncDrainAdmin(lambda: self._admin.draining)
        self.groups = SyncGroupAdmin(lambda: self._admin.groups)
        self.offsets = SyncOffsetAdmin(lambda: self._admin.offsets)
        self.brokers = SyncBrokerAdmin(lambda: self._admin.brokers)
        self.instances = SyncInstanceAdmin(lambda: self._admin.instances)
        self.permissions = SyncPermissionAdmin(lambda: self._admin.permissions)
        self.settings = SyncSettingsAdmin(lambda: self._admin.settings)
        self.filters = SyncFilterAdmin(lambda: self._admin.filters)
        self.replication = SyncReplicationAdmin(lambda: self._admin.replication)
        self.messages = SyncMessageAdmin(lambda: self._admin.messages)
        self.traces = SyncTraceAdmin(lambda: self._admin.traces)
        self.auth = SyncAuthAdmin(lambda: self._admin.auth)

    @property
    def unreached(self) -> dict[str, str]:
        """As :attr:`Admin.unreached`."""
        return self._admin.unreached

    @property
    def _admin(self) -> Admin:
        if self._made.inherited:
            self._made = shared.call(on_loop(self._remade))
        return self._made

    def _remade(self) -> Admin:
        # On the loop: of several threads the first one makes the client.
        return self._make() if self._made.inherited else self._made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections; in a forked child only this process's."""
        shared.call(self._made.close())
