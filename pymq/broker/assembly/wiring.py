"""Wiring: makes the handlers of every request from a broker's parts, and its table of requests from them."""

from __future__ import annotations

from pymq.broker.addresses import own_address
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.handlers.assignments import AssignmentHandlers
from pymq.broker.handlers.auth import AuthHandlers
from pymq.broker.handlers.clients import ClientHandlers
from pymq.broker.handlers.connections import ConnectionHandlers
from pymq.broker.handlers.consumption import ConsumptionHandlers
from pymq.broker.handlers.figures import FigureHandlers
from pymq.broker.handlers.filter_servers import FilterServerHandlers
from pymq.broker.handlers.groups_admin import GroupAdminHandlers
from pymq.broker.handlers.handlers import Handlers, ReplicaHandlers
from pymq.broker.handlers.lites import LiteHandlers
from pymq.broker.handlers.locks import LockHandlers
from pymq.broker.handlers.log_copy import LogCopyHandlers
from pymq.broker.handlers.offsets import OffsetHandlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.handlers.raft_group import RaftGroupHandlers
from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.broker.handlers.relay import RelayHandlers
from pymq.broker.handlers.replicas import SlaveReplicaHandlers
from pymq.broker.handlers.replication_status import ReplicationStatusHandlers
from pymq.broker.handlers.resets import ResetHandlers
from pymq.broker.handlers.role_change import RoleChangeHandlers
from pymq.broker.handlers.send_back import SendBackHandlers
from pymq.broker.handlers.settings import SettingsHandlers
from pymq.broker.handlers.store_admin import StoreAdminHandlers
from pymq.broker.handlers.tables import TableHandlers
from pymq.broker.handlers.timers import TimerHandlers
from pymq.broker.handlers.topics_admin import TopicAdminHandlers
from pymq.broker.handlers.transactions import TransactionHandlers
from pymq.broker.replication.roles.promotion import RoleRequests
from pymq.broker.replication.roles.write_fence import fenced
from pymq.broker.replication.slave.rules import leave_to_master, refusal_text, refusing
from pymq.broker.report.replication_status import AskedForStatus, StatusReport, TruncationHistory
from pymq.broker.report.runtime_info import RuntimeInfo
from pymq.broker.request_row import Row, Rule
from pymq.broker.routes import broker_rows
from pymq.wire.access import any_user
from pymq.wire.dispatch import Auditor, Dispatcher, Gate, Route


def broker_dispatcher(parts: BrokerParts, gate: Gate | None = None, auditor: Auditor | None = None) -> Dispatcher:
    """Return the table of requests, ready to answer in the role of ``parts``; ``gate`` checks their senders."""
    return Dispatcher(routes_in_role(parts), "broker", REFUSED_CODES, gate, auditor)


def routes_in_role(parts: BrokerParts) -> list[Route]:
    """Return the table of requests, each as its row says for the role of ``parts``."""
    rows = broker_rows(make_handlers(parts))
    in_role = _on_master if parts.role.is_master else _on_slave
    return [in_role(row, parts) for row in rows]


def _on_master(row: Row, parts: BrokerParts) -> Route:
    handler = parts.place.on_master(row, parts.metadata.cursors)
    if row.has(Rule.FENCED):
        handler = fenced(handler, lambda: parts.replication.write_fence.is_on)
    return row.route(handler)


def _on_slave(row: Row, parts: BrokerParts) -> Route:
    """What a slave refuses, or leaves to its master, touches nothing: every proven user may hear that."""

    def text(what: str) -> str:
        return refusal_text(parts.config.broker_name, parts.role.broker_id, parts.side.master_address, what)

    if row.on_slave.refused_code is not None:
        return row.short_route(refusing(row.on_slave.refused_code, row.on_slave.what, text), any_user())
    if row.on_slave.is_left_to_master:
        return row.short_route(leave_to_master, any_user())
    return row.route(parts.place.on_slave(row, text))


def make_handlers(parts: BrokerParts) -> Handlers:
    """Return the handlers of all requests."""
    runtime, config, store, stats = parts.runtime, parts.config, parts.store, parts.stats
    metadata, messages, replication = parts.metadata, parts.messages, parts.replication
    status = _status_report(parts)
    return Handlers(
        sends=parts.requests.sends,
        replies=parts.requests.replies,
        pulls=parts.requests.pulls,
        pops=parts.requests.pops,
        lite_pops=parts.requests.lite_pops,
        send_back=SendBackHandlers(retries=messages.retries, writer=messages.writer),
        transactions=TransactionHandlers(
            runtime, transactions=messages.transactions, checks=messages.transaction_checks, writer=messages.writer
        ),
        offsets=OffsetHandlers(
            runtime,
            metadata=metadata,
            store=store,
            epoch_start=lambda: replication.epoch_file.history.newest_start,
            is_fenced=lambda: replication.write_fence.is_on,
        ),
        clients=ClientHandlers(
            runtime, metadata=metadata, expressions=messages.expressions, makes_groups=parts.role.is_master
        ),
        assignments=AssignmentHandlers(metadata=metadata, routes=parts.topic_routes),
        lites=LiteHandlers(
            runtime,
            metadata=metadata,
            lights=store.lights,
            routes=parts.topic_routes,
            subscriptions=parts.pop.lite_subscriptions,
        ),
        locks=LockHandlers(runtime, metadata=metadata),
        query=QueryHandlers(runtime, store=store, topics=metadata.topics),
        topics_admin=TopicAdminHandlers(
            runtime,
            metadata=metadata,
            revive_log=parts.pop.revive_log,
            stats=stats,
            store=store,
            writer=messages.writer,
            when_registered=parts.registration_requests.when_registered,
        ),
        groups_admin=GroupAdminHandlers(runtime, metadata=metadata, revive_log=parts.pop.revive_log, stats=stats),
        connections=ConnectionHandlers(runtime, clients=metadata.clients),
        consumption=ConsumptionHandlers(
            runtime,
            metadata=metadata,
            store=store,
            stats=stats,
            address=own_address(config),
            invisible=parts.pop.revive_log.check_points.invisible,
        ),
        resets=ResetHandlers(runtime, metadata=metadata, store=store, wake_pulls=parts.requests.wake_queue),
        relay=RelayHandlers(clients=metadata.clients, store=store),
        settings=SettingsHandlers(
            runtime,
            runtime_settings=parts.runtime_settings,
            on_settings=parts.follow_settings,
            waiting_answers=messages.waiting_answers,
            cleaner=parts.upkeep.cleaner,
        ),
        store_admin=StoreAdminHandlers(
            runtime,
            metadata=metadata,
            store=store,
            expressions=messages.expressions,
            writer=messages.writer,
            cleaner=parts.upkeep.cleaner,
        ),
        figures=FigureHandlers(
            runtime,
            stats=stats,
            runtime_info=RuntimeInfo(
                runtime,
                store=store,
                stats=stats,
                writer=messages.writer,
                delays=messages.delays,
                timers=messages.timers,
                replication=status,
            ),
        ),
        tables=TableHandlers(runtime, metadata=metadata, delays=messages.delays),
        timers=TimerHandlers(
            runtime,
            store=store,
            topics=metadata.topics,
            writer=messages.writer,
            timer_puts=parts.requests.timer_puts,
            timer_service=messages.timers,
        ),
        replicas=_replica_handlers(parts),
        replication_status=ReplicationStatusHandlers(status, parts.master_monitor.note_other_master),
        role_change=RoleChangeHandlers(
            RoleRequests(
                runtime,
                store=store,
                own=replication.own_role,
                write_fence=replication.write_fence,
                side=parts.side,
                known_peers=replication.known_peers,
                is_in_raft_group=parts.place.group is not None,
            )
        ),
        raft_group=RaftGroupHandlers(lambda: parts.raft),
        log_copy=LogCopyHandlers(
            config=config,
            store=store,
            proof=parts.place.answer_proof,
        ),
        raft=parts.place.raft_handlers(config.broker_name),
        filter_servers=FilterServerHandlers(config=config, filter_servers=metadata.filter_servers),
        auth=AuthHandlers(config=config, auth=metadata.auth),
    )


def _replica_handlers(parts: BrokerParts) -> ReplicaHandlers:
    if isinstance(parts.side, MasterSide):
        return parts.place.replica_handlers(parts, parts.side)
    return SlaveReplicaHandlers(parts.config)


def _status_report(parts: BrokerParts) -> StatusReport:
    replication, monitor = parts.replication, parts.master_monitor
    tail_recovery = replication.tail_recovery
    return StatusReport(
        parts.runtime,
        store=parts.store,
        role=parts.role,
        sync_mode=replication.sync_mode,
        side=parts.side,
        truncations=TruncationHistory(parts.runtime.files, parts.runtime.root),
        asked=AskedForStatus(
            epoch_history=lambda: replication.epoch_file.history,
            troubles=lambda: [*monitor.troubles, tail_recovery.fenced_for],
            recovered_tail=lambda: tail_recovery.recovered_tail,
            end_in_doubt=lambda: tail_recovery.may_lack_confirmed(has_caught_up=parts.side.has_caught_up),
            master_role=lambda: replication.master_role.name,
            second_master=lambda: monitor.second_master_address,
            raft=lambda: parts.raft,
        ),
    )
