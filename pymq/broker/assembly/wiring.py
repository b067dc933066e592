"""Wiring: makes the handlers of every request from a broker's parts, and its table of requests from them."""

from __future__ import annotations

from pymq.broker.addresses import own_address
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.handlers.assignments import AssignmentHandlers
from pymq.broker.handlers.auth import AuthHandlers
from pymq.broker.handlers.broker_admin import BrokerAdminHandlers
from pymq.broker.handlers.clients import ClientHandlers
from pymq.broker.handlers.connections import ConnectionHandlers
from pymq.broker.handlers.consumption import ConsumptionHandlers
from pymq.broker.handlers.filter_servers import FilterServerHandlers
from pymq.broker.handlers.groups_admin import GroupAdminHandlers
from pymq.broker.handlers.handlers import Handlers, ReplicaHandlers
from pymq.broker.handlers.locks import LockHandlers
from pymq.broker.handlers.log_copy import LogCopyHandlers
from pymq.broker.handlers.offsets import OffsetHandlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.handlers.raft_group import RaftGroupHandlers
from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.broker.handlers.relay import RelayHandlers
from pymq.broker.handlers.replicas import LeaderReplicaHandlers, MasterReplicaHandlers, SlaveReplicaHandlers
from pymq.broker.handlers.replication_status import ReplicationStatusHandlers
from pymq.broker.handlers.resets import ResetHandlers
from pymq.broker.handlers.role_change import RoleChangeHandlers
from pymq.broker.handlers.send_back import SendBackHandlers
from pymq.broker.handlers.tables import TableHandlers
from pymq.broker.handlers.timers import TimerHandlers
from pymq.broker.handlers.topics_admin import TopicAdminHandlers
from pymq.broker.handlers.transactions import TransactionHandlers
from pymq.broker.raft.current_reads import routes_with_current_reads
from pymq.broker.raft.logged_cursors import LoggedCursors, routes_that_await_offsets, routes_without_commits
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.roles.promotion import RoleRequests
from pymq.broker.replication.roles.write_fence import routes_with_fence
from pymq.broker.replication.slave.rules import CHANGES, POPS, USER_CHANGES, refusal_text, routes_on_slave
from pymq.broker.report.replication_status import StatusReport, TruncationHistory
from pymq.broker.report.runtime_info import RuntimeInfo
from pymq.broker.routes import broker_routes
from pymq.wire.dispatch import Auditor, Dispatcher, Gate, Route


def broker_dispatcher(parts: BrokerParts, gate: Gate | None = None, auditor: Auditor | None = None) -> Dispatcher:
    """Return the table of requests, ready to answer in the role of ``parts``; ``gate`` checks their senders."""
    return Dispatcher(routes_in_role(parts), "broker", REFUSED_CODES, gate, auditor)


def routes_in_role(parts: BrokerParts) -> list[Route]:
    """Return the table of requests, with what a slave refuses, or a master while it hands over."""
    routes = broker_routes(make_handlers(parts))
    if isinstance(parts.metadata.cursors, LoggedCursors):
        routes = routes_that_await_offsets(routes, parts.metadata.cursors)
    if parts.role.is_master:
        if parts.raft_node is not None:
            routes = routes_with_current_reads(routes, parts.raft_node.reads)
        return routes_with_fence(routes, (*CHANGES, *USER_CHANGES, *POPS), lambda: parts.replication.write_fence.is_on)
    name, broker_id = parts.config.broker_name, parts.role.broker_id

    def text(what: str) -> str:
        return refusal_text(name, broker_id, parts.side.master_address, what)

    if parts.raft_node is not None:
        routes = routes_without_commits(routes, text)
    return routes_on_slave(routes, text)


def make_handlers(parts: BrokerParts) -> Handlers:
    """Return the handlers of all requests."""
    config, clock, store, stats = parts.config, parts.clock, parts.store, parts.stats
    metadata, messages, replication = parts.metadata, parts.messages, parts.replication
    topics, groups, cursors, clients = metadata.topics, metadata.groups, metadata.cursors, metadata.clients
    status = _status_report(parts)
    return Handlers(
        sends=parts.requests.sends,
        replies=parts.requests.replies,
        pulls=parts.requests.pulls,
        pops=parts.requests.pops,
        send_back=SendBackHandlers(retries=messages.retries, writer=messages.writer),
        transactions=TransactionHandlers(
            config=config,
            clock=clock,
            transactions=messages.transactions,
            checks=messages.transaction_checks,
            writer=messages.writer,
        ),
        offsets=OffsetHandlers(
            clock=parts.clock,
            store=store,
            topics=topics,
            groups=groups,
            cursors=cursors,
            broadcast_begins=metadata.broadcast_begins,
            epoch_start=lambda: replication.epoch_file.history.newest_start,
            is_fenced=lambda: replication.write_fence.is_on,
        ),
        clients=ClientHandlers(
            config=config,
            clients=clients,
            groups=groups,
            topics=topics,
            expressions=messages.expressions,
            makes_groups=parts.role.is_master,
        ),
        assignments=AssignmentHandlers(
            topics=topics,
            groups=groups,
            clients=clients,
            request_modes=metadata.request_modes,
            routes=parts.topic_routes,
        ),
        locks=LockHandlers(config=config, topics=topics, groups=groups, leaser=metadata.leaser),
        query=QueryHandlers(config=config, store=store, topics=topics, sliced_work=parts.sliced_work),
        topics_admin=TopicAdminHandlers(
            config=config,
            topics=topics,
            groups=groups,
            cursors=cursors,
            request_modes=metadata.request_modes,
            order_infos=metadata.order_infos,
            revive_log=parts.pop.revive_log,
            stats=stats,
            store=store,
            writer=messages.writer,
            when_registered=parts.registration_requests.when_registered,
            share_deletions=parts.share_deletions,
            sliced_work=parts.sliced_work,
        ),
        groups_admin=GroupAdminHandlers(
            groups=groups,
            topics=topics,
            cursors=cursors,
            request_modes=metadata.request_modes,
            order_infos=metadata.order_infos,
            revive_log=parts.pop.revive_log,
            leaser=metadata.leaser,
            stats=stats,
            sliced_work=parts.sliced_work,
        ),
        connections=ConnectionHandlers(clients=clients, sliced_work=parts.sliced_work),
        consumption=ConsumptionHandlers(
            config=config,
            clock=clock,
            store=store,
            topics=topics,
            cursors=cursors,
            clients=clients,
            stats=stats,
            address=own_address(config),
            sliced_work=parts.sliced_work,
            invisible=parts.pop.revive_log.check_points.invisible,
        ),
        resets=ResetHandlers(
            config=config,
            store=store,
            topics=topics,
            groups=groups,
            cursors=cursors,
            clients=clients,
            sliced_work=parts.sliced_work,
            wake_pulls=parts.requests.wake_queue,
        ),
        relay=RelayHandlers(clients=clients, store=store),
        broker_admin=BrokerAdminHandlers(
            config=config,
            runtime_settings=parts.runtime_settings,
            on_settings=parts.follow_settings,
            clock=clock,
            store=store,
            topics=topics,
            clients=clients,
            cursors=cursors,
            expressions=messages.expressions,
            stats=stats,
            writer=messages.writer,
            waiting_answers=messages.waiting_answers,
            cleaner=parts.upkeep.cleaner,
            sliced_work=parts.sliced_work,
            runtime_info=RuntimeInfo(
                config=config,
                clock=clock,
                files=parts.files,
                store=store,
                stats=stats,
                writer=messages.writer,
                delays=messages.delays,
                timers=messages.timers,
                replication=status,
            ),
        ),
        tables=TableHandlers(
            cursors=cursors,
            delays=messages.delays,
            request_modes=metadata.request_modes,
            sliced_work=parts.sliced_work,
        ),
        timers=TimerHandlers(
            config=config,
            clock=clock,
            store=store,
            topics=topics,
            writer=messages.writer,
            timer_puts=parts.requests.timer_puts,
            timer_service=messages.timers,
        ),
        replicas=_replica_handlers(parts),
        replication_status=ReplicationStatusHandlers(status, parts.master_monitor.note_other_master),
        role_change=RoleChangeHandlers(
            RoleRequests(
                config=config,
                store=store,
                role=parts.role,
                epoch_file=replication.epoch_file,
                write_fence=replication.write_fence,
                master_role=replication.master_role,
                side=parts.side,
                change_role=parts.change_role,
                known_peers=replication.known_peers,
                is_in_raft_group=parts.raft_node is not None,
            )
        ),
        raft_group=RaftGroupHandlers(lambda: parts.raft),
        log_copy=LogCopyHandlers(
            config=config,
            store=store,
            proof=parts.raft_node.answer_proof if parts.raft_node is not None else None,
        ),
        raft=RaftHandlers(parts.raft_node, config.broker_name, parts.raft_waiting),
        filter_servers=FilterServerHandlers(config=config, filter_servers=metadata.filter_servers),
        auth=AuthHandlers(config=config, auth=metadata.auth),
    )


def _replica_handlers(parts: BrokerParts) -> ReplicaHandlers:
    if not isinstance(parts.side, MasterSide):
        return SlaveReplicaHandlers(parts.config)
    if not isinstance(parts.side.ha_service, HaService):
        return LeaderReplicaHandlers(parts.config, parts.side.table_requests)
    tail_recovery = parts.replication.tail_recovery
    return MasterReplicaHandlers(
        config=parts.config,
        store=parts.store,
        ha_service=parts.side.ha_service,
        table_requests=parts.side.table_requests,
        epoch_history=lambda: parts.replication.epoch_file.history,
        why_not=lambda: tail_recovery.fenced_for,
        known_peers=parts.replication.known_peers,
    )


def _status_report(parts: BrokerParts) -> StatusReport:
    replication, monitor = parts.replication, parts.master_monitor
    tail_recovery = replication.tail_recovery
    return StatusReport(
        config=parts.config,
        store=parts.store,
        role=parts.role,
        sync_mode=replication.sync_mode,
        side=parts.side,
        epoch_history=lambda: replication.epoch_file.history,
        truncations=TruncationHistory(parts.files, parts.config.store_path_root_dir),
        troubles=lambda: [*monitor.troubles, tail_recovery.fenced_for],
        recovered_tail=lambda: tail_recovery.recovered_tail,
        end_in_doubt=lambda: tail_recovery.may_lack_confirmed(has_caught_up=parts.side.has_caught_up),
        master_role=lambda: replication.master_role.name,
        second_master=lambda: monitor.second_master_address,
        raft=lambda: parts.raft,
    )
