"""TopicRoutes: the queues of topics on all brokers, as name servers know them. A broker assigns them to consumers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import PymqError
from pymq.model.message import MessageQueue
from pymq.wire.bodies_route import decode_route
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.route import RouteHeader
from pymq.wire.reply import Reply
from pymq.wire.streams import Network

FRESH_MS = 30_000  # RocketMQ: loadBalancePollNameServerInterval
ASK_TIMEOUT_MS = 2000
ROUTES_MAX = 1000  # the longest unused ones go
WAITING_MAX = 10_000  # questions that wait for name servers; further ones get what is known

# Gets the readable, or the writable queues; None when no name server knows the topic.
OnQueues = Callable[[list[MessageQueue] | None], None]


class _Queues(NamedTuple):
    readable: list[MessageQueue]
    writable: list[MessageQueue]


class _Known(NamedTuple):
    queues: _Queues
    asked_ms: int


_OnKnown = Callable[[_Queues | None], None]


class TopicRoutes:
    """Asks name servers, and remembers their answers for 30 s, or longer while none answers."""

    def __init__(self, network: Network, *, clock: Clock, config: BrokerConfig) -> None:
        self._network = network
        self._clock = clock
        self._config = config
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._waiting: dict[str, list[_OnKnown]] = {}
        self._waiting_count = 0

    def find(self, topic: str, on_queues: OnQueues) -> None:
        """Call ``on_queues`` with the readable queues, now or later."""
        self._find(topic, lambda queues: on_queues(None if queues is None else queues.readable))

    def find_writable(self, topic: str, on_queues: OnQueues) -> None:
        """Call ``on_queues`` with the writable queues, now or later."""
        self._find(topic, lambda queues: on_queues(None if queues is None else queues.writable))

    def answer(
        self,
        asked: Command,
        peer: Peer,
        topic: str,
        body: Callable[[list[MessageQueue] | None], bytes],
        *,
        writable: bool = False,
    ) -> Reply | None:
        """Return an answer with what ``body`` makes of the queues; None when it is sent later, once they are known."""
        answers: list[Reply] = []
        returned = False
        envelope = asked.envelope()

        def found(queues: list[MessageQueue] | None) -> None:
            reply = Reply(body=body(queues))
            if returned:
                peer.answer(envelope, reply)
            else:
                answers.append(reply)

        (self.find_writable if writable else self.find)(topic, found)
        returned = True
        return answers[0] if answers else None

    def _find(self, topic: str, on_queues: _OnKnown) -> None:
        known = self._known.get(topic)
        if known is not None:
            self._known.move_to_end(topic)
            if self._clock.monotonic_ms() - known.asked_ms < FRESH_MS:
                on_queues(known.queues)
                return
        if self._waiting_count >= WAITING_MAX:
            on_queues(known.queues if known is not None else None)
            return
        self._waiting_count += 1
        waiting = self._waiting.setdefault(topic, [])
        waiting.append(on_queues)
        if len(waiting) == 1:
            self._ask(topic, list(self._config.namesrv_addresses))

    def _ask(self, topic: str, servers: list[str]) -> None:
        """Ask one name server after the other until one knows the topic."""
        if not servers:
            self._tell(topic)
            return

        def answered(answer: Command | str) -> None:
            queues = _queues_of(topic, answer)
            if queues is None:
                self._ask(topic, servers[1:])
                return
            self._known[topic] = _Known(queues, self._clock.monotonic_ms())
            if len(self._known) > ROUTES_MAX:
                self._known.popitem(last=False)
            self._tell(topic)

        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic=topic, accept_standard_json_only=True))
        self._network.ask(servers[0], command, answered, ASK_TIMEOUT_MS)

    def _tell(self, topic: str) -> None:
        known = self._known.get(topic)
        waiting = self._waiting.pop(topic, [])
        self._waiting_count -= len(waiting)
        for on_queues in waiting:
            on_queues(None if known is None else known.queues)


def _queues_of(topic: str, answer: Command | str) -> _Queues | None:
    if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
        return None
    try:
        route = decode_route(answer.body)
    except PymqError:
        return None
    return _Queues(
        sorted(
            MessageQueue(topic, data.broker_name, number)
            for data in route.queue_datas
            if data.readable
            for number in range(data.read_queue_nums)
        ),
        sorted(
            MessageQueue(topic, data.broker_name, number)
            for data in route.queue_datas
            if data.writable
            for number in range(data.write_queue_nums)
        ),
    )
