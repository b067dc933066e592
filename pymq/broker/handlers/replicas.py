"""Requests of PyMQ's slaves to their master: to join (9101), and for the tables that differ from theirs (9102)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pymq.broker.addresses import own_ha_address
from pymq.broker.replication.history.epoch_body import history_to_body
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.join import MasterLog, decide
from pymq.broker.replication.master.table_requests import TableRequests
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import JOIN_PROOF, NO_TOKEN, JoinAnswer, JoinRequest, MetadataVersions
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.ha import proven_answer
from pymq.wire.reply import Reply


class MasterReplicaHandlers:
    """Answers a master's slaves."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        ha_service: HaService,
        table_requests: TableRequests,
        epoch_history: Callable[[], EpochHistory],
        known_peers: KnownPeers,
        why_not: Callable[[], str] = str,
    ) -> None:
        """``why_not`` returns why no slave may join now, empty when it may."""
        self._config = config
        self._store = store
        self._ha_service = ha_service
        self._table_requests = table_requests
        self._epoch_history = epoch_history
        self._why_not = why_not
        self._known_peers = known_peers

    def join(self, command: Command, header: None, peer: Peer) -> Reply:
        """Answer where the slave goes on, with a token for its connection; or where it must truncate its log first."""
        config, ha_service = self._config, self._ha_service
        try:
            request = decode_json(command.body, JoinRequest)
        except JsonError as error:
            why = f"the joining can't be read: {error}"
            ha_service.refused(-1, peer.address, why)
            raise Refusal(ResponseCode.INVALID_PARAMETER, why) from error
        if why_not := self._why_not():
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, why_not)
        own = self._master_log(ha_service.live_address(request.broker_id))
        try:
            start = decide(request, own)
        except Refusal as refusal:
            ha_service.refused(request.broker_id, request.address, str(refusal))
            raise
        self._check_sender(request, peer)
        self._check_challenge(request)
        must_truncate = request.log_start < request.log_end and start < request.log_end
        token = NO_TOKEN if must_truncate else self._admit(request, start)
        answer = JoinAnswer(
            token=token,
            nonce=ha_service.nonce_of(token).hex(),
            ha_address=own_ha_address(config),
            start=start,
            epoch_history=history_to_body(own.epoch_history),
            master_role=config.broker_role,
            log_end=own.end,
        )
        body = msgspec.json.encode(answer)
        prove = ha_service.peer_proof.prove
        if not request.challenge or prove is None:
            return Reply(body=body)
        return Reply(ext={JOIN_PROOF: prove(proven_answer(bytes.fromhex(request.challenge), body)).hex()}, body=body)

    def _check_challenge(self, request: JoinRequest) -> None:
        """Refuse a slave that wants a proof from a master that can give none."""
        if request.challenge and self._ha_service.peer_proof.prove is None:
            why = (
                f"the slave at {request.address} wants a proof of the servers' credentials, and this master has none: "
                "set innerCredentialsFile there to the slave's file"
            )
            self._ha_service.refused(request.broker_id, request.address, why)
            raise Refusal(ResponseCode.NO_PERMISSION, why)

    def _check_sender(self, request: JoinRequest, peer: Peer) -> None:
        """Refuse a broker that is not known (14, tried again), and a request that does not come from its host."""
        if why := self._known_peers.why_not_slave(request.address):
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, why)
        if why := self._known_peers.why_not_from(request.address, peer.address):
            self._ha_service.refused(request.broker_id, request.address, why)
            raise Refusal(ResponseCode.INVALID_PARAMETER, why)

    def _master_log(self, live_address: str) -> MasterLog:
        config, store = self._config, self._store
        return MasterLog(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            segment_size_bytes=config.mapped_file_size_commit_log_bytes,
            start=store.physical_min_offset,
            end=store.physical_max_offset,
            epoch_history=self._epoch_history(),
            tail_digest=store.tail_digest,
            live_address=live_address,
        )

    def _admit(self, request: JoinRequest, start: int) -> int:
        """Return the token of a slave that goes on from ``start``.

        Raises StoreUnavailableError, and Refusal when no slave can prove anything here.
        """
        proof = self._ha_service.peer_proof
        if proof.is_required and proof.prove is None:
            why = "this master checks its requests, but has no credentials of servers: set innerCredentialsFile there"
            self._ha_service.refused(request.broker_id, request.address, why)
            raise Refusal(ResponseCode.NO_PERMISSION, why)
        if start > max(request.log_end, self._store.synced_offset):
            # After a power loss the slave could not give back what is before ``start``, which it never had.
            self._store.sync(log_only=True)
        challenge = bytes.fromhex(request.challenge)
        return self._ha_service.joined_slave(request.broker_id, request.address, start, challenge)

    def copy_metadata(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Answer with the tables that differ from the slave's, now or once there is one."""
        asked = _asked_versions(request)
        wait_ms = asked.wait_ms if self._known_peers.is_known(asked.slave) else 0  # strangers hold no place
        return self._table_requests.ask(asked.slave, asked.versions, wait_ms, request, peer)


class LeaderReplicaHandlers:
    """Answers the followers of a Raft group's leader. Slaves of a plain group can't join it."""

    def __init__(self, config: BrokerConfig, table_requests: TableRequests) -> None:
        self._config = config
        self._table_requests = table_requests

    def join(self, command: Command, header: None, peer: Peer) -> Reply:
        """Refuse: members of a Raft group get the log as its nodes."""
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"{self._config.broker_name} is a Raft group, a slave can't join it: start that broker with "
            "enableDLegerCommitLog=true and its id in dLegerPeers",
        )

    def copy_metadata(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Answer as a master does."""
        asked = _asked_versions(request)
        return self._table_requests.ask(asked.slave, asked.versions, asked.wait_ms, request, peer)


def _asked_versions(request: Command) -> MetadataVersions:
    try:
        return decode_json(request.body, MetadataVersions)
    except JsonError as error:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"the body is no table of versions: {error}; send the names and versions"
        ) from error


class SlaveReplicaHandlers:
    """Refuses what only a master can do for slaves."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def join(self, command: Command, header: None, peer: Peer) -> Reply:
        """Refuse with a code after which the slave soon tries again: this broker may become the master in a moment."""
        config = self._config
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"this broker ({config.broker_name}) is no master but slave {config.broker_id}: join its master",
        )

    def copy_metadata(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Refuse: a slave's tables are a copy themselves."""
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"this broker is a slave itself (id {self._config.broker_id}): ask the master of its name",
        )
