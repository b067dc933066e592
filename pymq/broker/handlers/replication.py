"""PYMQ_JOIN_MASTER (9101): a slave asks its master whether it may follow, and from where."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pymq.broker.addresses import own_ha_address
from pymq.broker.replication.epoch_body import history_to_body
from pymq.broker.replication.epoch_history import EpochHistory
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.join import MasterLog, decide
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import NO_TOKEN, JoinAnswer, JoinRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Permission, Reply, Route


class JoinHandlers:
    """A master's. ``ha_service`` is None on a slave, which refuses."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        ha_service: HaService | None,
        epoch_history: Callable[[], EpochHistory],
        why_not: Callable[[], str] = str,
        note: Callable[[int, str], None] = lambda broker_id, address: None,
    ) -> None:
        """``why_not``: why no slave is taken now, empty when they are; ``note`` hears of each, by id and address,
        before it is sent anything, and may raise StoreUnavailableError."""
        self._config = config
        self._store = store
        self._ha_service = ha_service
        self._epoch_history = epoch_history
        self._why_not = why_not
        self._note = note

    def routes(self) -> list[Route]:
        return [Route(RequestCode.PYMQ_JOIN_MASTER, None, self.join, Permission.INNER)]

    def join(self, command: Command, header: None, peer: Peer) -> Reply:
        """Where the slave goes on, and a token for the way there; or where it must cut its log first."""
        config, ha_service = self._config, self._ha_service
        if ha_service is None:
            raise Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,  # it may become one in a moment: who asks tries again soon
                f"this broker ({config.broker_name}) is no master but slave {config.broker_id}: join its master",
            )
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
        must_truncate = request.log_start < request.log_end and start < request.log_end
        answer = JoinAnswer(
            token=NO_TOKEN if must_truncate else self._admit(request, start, ha_service),
            ha_address=own_ha_address(config),
            start=start,
            epoch_history=history_to_body(own.epoch_history),
            master_role=config.broker_role,
            log_end=own.end,
        )
        return Reply(body=msgspec.json.encode(answer))

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

    def _admit(self, request: JoinRequest, start: int, ha_service: HaService) -> int:
        """The token of a slave that goes on from ``start``. Raises StoreUnavailableError."""
        if start > max(request.log_end, self._store.synced_offset):
            # A slave that lacks what is before could not give it back after a power loss.
            self._store.sync(log_only=True)
        self._note(request.broker_id, request.address)
        return ha_service.joined_slave(request.broker_id, request.address, start)
