"""QUERY_ASSIGNMENT (400) and SET_MESSAGE_REQUEST_MODE (401): the broker decides what members of a group consume.

Java: QueryAssignmentProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pymq.broker.metadata.late import answer_when_saved
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.assignment import popped_queues
from pymq.errors import Refusal
from pymq.model import names
from pymq.model.allocation import STRATEGIES
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import QueueName, decode_body, encode_body
from pymq.wire.bodies_pop import POP, PULL, Assignment, AssignmentAnswer, AssignmentRequest, RequestMode
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.pop.topic_routes import TopicRoutes

MODES = (PULL, POP)
# "Keep what you have": an empty list of assignments would mean "give up all".
_KEEP = b"{}"


class AssignmentHandlers:
    """Assigns queues of all brokers that name servers know to the members that this broker knows."""

    def __init__(self, *, metadata: Metadata, routes: TopicRoutes) -> None:
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._clients = metadata.clients
        self._modes = metadata.request_modes
        self._routes = routes

    def query(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Return what a member of a group consumes of a topic, once a name server has named the queues."""
        asked: AssignmentRequest = decode_body(AssignmentRequest, request.body)
        return self._routes.answer(request, peer, asked.topic, lambda queues: self._assigned(asked, queues))

    def _assigned(self, asked: AssignmentRequest, queues: list[MessageQueue] | None) -> bytes:
        if queues is None:
            return _KEEP
        set_mode = self._modes.get(asked.topic, asked.consumer_group)
        mode = set_mode.mode if set_mode is not None else PULL
        if asked.is_broadcasting:
            return _encoded(queues, mode)
        members = self._clients.member_ids(asked.consumer_group)
        strategy = STRATEGIES.get(asked.strategy_name)
        if strategy is None or asked.client_id not in members:
            return _KEEP
        if set_mode is None or mode == PULL:
            return _encoded(strategy(asked.client_id, queues, members), mode)
        return _encoded(popped_queues(strategy, asked.client_id, queues, members, set_mode.pop_share_queue_num), mode)

    def set_mode(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Set whether a group pulls or pops a topic. Its members learn of it when they ask again, within 20 s."""
        mode: RequestMode = decode_body(RequestMode, request.body)
        if mode.topic.startswith(names.RETRY_PREFIX):
            raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode: it is always pulled")
        if mode.mode not in MODES:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"mode={mode.mode[:20]}: use {' or '.join(MODES)}")
        self._topics.require(mode.topic)
        self._groups.ensure(mode.consumer_group)
        self._modes.put(mode, answer_when_saved(request, peer, Reply))
        return None


def _encoded(queues: Sequence[MessageQueue], mode: str) -> bytes:
    assignments = [Assignment(message_queue=QueueName.of(queue), mode=mode) for queue in queues]
    return encode_body(AssignmentAnswer(message_queue_assignments=assignments))
