"""The one table of the broker: which handler answers which request code, and which codes are refused and why."""

from __future__ import annotations

from pymq.broker.addresses import own_address
from pymq.broker.handlers.broker_admin import BrokerAdminHandlers
from pymq.broker.handlers.clients import ClientHandlers
from pymq.broker.handlers.connections import ConnectionHandlers
from pymq.broker.handlers.consumption import ConsumptionHandlers
from pymq.broker.handlers.filter_servers import FilterServerHandlers
from pymq.broker.handlers.groups_admin import GroupAdminHandlers
from pymq.broker.handlers.locks import LockHandlers
from pymq.broker.handlers.log_copy import LogCopyHandlers
from pymq.broker.handlers.offsets import OffsetHandlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.broker.handlers.relay import RelayHandlers
from pymq.broker.handlers.replication import JoinHandlers
from pymq.broker.handlers.replication_status import ReplicationStatusHandlers
from pymq.broker.handlers.resets import ResetHandlers
from pymq.broker.handlers.role_change import RoleChangeHandlers
from pymq.broker.handlers.send_back import SendBackHandlers
from pymq.broker.handlers.slave_sync import SlaveSyncHandlers
from pymq.broker.handlers.topics_admin import TopicAdminHandlers
from pymq.broker.parts import BrokerParts
from pymq.broker.replication.roles.write_fence import routes_with_fence
from pymq.broker.replication.slave.rules import CHANGES, refusal_text, routes_on_slave
from pymq.broker.replication.status import StatusReport, TruncationHistory
from pymq.broker.report.runtime_info import RuntimeInfo
from pymq.wire.dispatch import Dispatcher, Route


def broker_routes(parts: BrokerParts) -> list[Route]:
    """Every row: request code, typed header, handler, permission."""
    p = parts
    config, clock, store, topics = p.config, p.clock, p.store, p.topics
    groups, cursors, clients, stats = p.groups, p.cursors, p.clients, p.stats
    address = own_address(config)

    def is_fenced() -> bool:
        return p.write_fence.is_on

    replication = StatusReport(
        config=config,
        store=store,
        role=p.role,
        sync_mode=p.sync_mode,
        ha_service=p.ha_service,
        ha_client=p.ha_client_view,
        epoch_history=lambda: p.epoch_file.history,
        truncations=TruncationHistory(p.files, config.store_path_root_dir),
        troubles=lambda: [*p.master_monitor.troubles, p.tail_recovery.fenced_for],
        recovered_tail=lambda: p.tail_recovery.recovered_tail,
        end_in_doubt=lambda: p.tail_recovery.may_lack_confirmed(p.ha_client),
        master_role=lambda: p.master_monitor.master_role,
        second_master=lambda: p.master_monitor.second_master_address,
    )
    runtime_info = RuntimeInfo(
        config=config,
        clock=clock,
        files=p.files,
        store=store,
        stats=stats,
        writer=p.writer,
        delays=p.delays,
        replication=replication,
    )
    handlers = (
        p.sends,
        p.pulls,
        SendBackHandlers(retries=p.retries, writer=p.writer),
        OffsetHandlers(
            store=store,
            topics=topics,
            groups=groups,
            cursors=cursors,
            epoch_start=lambda: p.epoch_file.history.newest_start,
            is_fenced=is_fenced,
        ),
        ClientHandlers(
            config=config,
            clients=clients,
            groups=groups,
            topics=topics,
            expressions=p.expressions,
            makes_groups=p.role.is_master,
        ),
        LockHandlers(config=config, topics=topics, groups=groups, leaser=p.leaser),
        QueryHandlers(config=config, store=store, topics=topics),
        TopicAdminHandlers(
            config=config,
            topics=topics,
            cursors=cursors,
            stats=stats,
            store=store,
            writer=p.writer,
            # The registrar comes after the table, so it is looked up at the call.
            when_registered=lambda callback: p.when_registered(callback),  # noqa: PLW0108
        ),
        GroupAdminHandlers(groups=groups, topics=topics, cursors=cursors, leaser=p.leaser, stats=stats),
        ConnectionHandlers(clients=clients),
        ConsumptionHandlers(
            config=config,
            clock=clock,
            store=store,
            topics=topics,
            cursors=cursors,
            clients=clients,
            stats=stats,
            address=address,
        ),
        ResetHandlers(
            config=config,
            store=store,
            topics=topics,
            groups=groups,
            cursors=cursors,
            clients=clients,
            wake_pulls=p.pulls.long_polls.wake_queue,
        ),
        RelayHandlers(clients=clients, store=store),
        BrokerAdminHandlers(
            config=config,
            clock=clock,
            store=store,
            topics=topics,
            clients=clients,
            cursors=cursors,
            expressions=p.expressions,
            stats=stats,
            writer=p.writer,
            cleaner=p.cleaner,
            runtime_info=runtime_info,
        ),
        SlaveSyncHandlers(cursors=cursors, delays=p.delays, role=p.role, copies=p.table_requests),
        JoinHandlers(
            config=config,
            store=store,
            ha_service=p.ha_service,
            epoch_history=lambda: p.epoch_file.history,
            why_not=lambda: p.tail_recovery.fenced_for,
            note=p.tail_recovery.note_slave,
        ),
        ReplicationStatusHandlers(replication, p.master_monitor.note_other_master),
        RoleChangeHandlers(p.role_requests),
        LogCopyHandlers(config=config, store=store),
        FilterServerHandlers(config=config, filter_servers=p.filter_servers),
    )
    routes = [route for handler in handlers for route in handler.routes()]
    if p.role.is_master:
        return routes_with_fence(routes, CHANGES, is_fenced)
    return routes_on_slave(
        routes, lambda what: refusal_text(config.broker_name, p.role.broker_id, p.master_address, what)
    )


def broker_dispatcher(parts: BrokerParts) -> Dispatcher:
    """The table, ready to answer."""
    return Dispatcher(broker_routes(parts), "broker", REFUSED_CODES)
