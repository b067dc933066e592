"""FastAcks: the fast path of an acknowledgement that strikes a popped message off its check point or its lite topic.

Any other acknowledgement (late, double, forged, of an orderly pop, refused) returns False and takes the plain path
through :class:`~pymq.broker.handlers.pop.PopHandlers`. A property test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pymq.broker.fast.answers import DONE
from pymq.broker.fast.head import head_forms
from pymq.broker.pop.check_points import CheckPoint, CheckPointKey
from pymq.broker.pop.ordered_queues import OrderedQueue
from pymq.errors import ProtocolViolation, Refusal, StoreError
from pymq.model import pop
from pymq.model.lite_topics import light_queue_name
from pymq.wire.codes import RequestCode
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON
from pymq.wire.headers.pop import AckMessageHeader

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.pop.ordered_queues import OrderedQueues
    from pymq.broker.pop.revive_log import ReviveLog
    from pymq.broker.pop.turn_acks import TurnAcks
    from pymq.config import BrokerConfig
    from pymq.net.server import Connection
    from pymq.store.store import MessageStore

_FORMS = head_forms(RequestCode.ACK_MESSAGE, AckMessageHeader)
UNKNOWN = -1
_DIGITS_MAX = 19
_ONE_DIRECTION = FLAG_ONEWAY | FLAG_RESPONSE


class _HandOut:
    """The hand-out that the newest acknowledgement named. The next acknowledgements mostly name the same.

    It is known to be open, and its queue to be readable, while its ``turn_acks`` are not 0. ``receipt`` is the begin of
    the text that all receipts of the hand-out share; no acknowledgement from ``low`` to ``high`` is refused.
    """

    __slots__ = ("group", "high", "low", "point", "queue_id", "receipt", "topic")

    def __init__(self, point: CheckPoint, receipt: str) -> None:
        self.point = point
        self.topic, self.group, self.queue_id = point.key[:3]
        self.receipt = receipt
        self.low = self.high = UNKNOWN


class FastAcks:
    """Takes acknowledgements from the table of fast paths."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicManager,
        revive_log: ReviveLog,
        turn_acks: TurnAcks,
        ordered_queues: OrderedQueues,
        is_fenced: Callable[[], bool],
    ) -> None:
        """``is_fenced``: during a hand-over."""
        self._config = config
        self._is_fenced = is_fenced
        self._queue_view = store.queue_view
        self._topic = topics.get
        self._point_at = revive_log.check_points.get
        self._turn_acks = turn_acks
        self._ordered = ordered_queues
        self._lights = store.lights
        self._newest: _HandOut | None = None
        self.count = 0
        topics.add_listener(self._forget)

    def take(self, connection: Connection, payload: bytes) -> bool:
        """Take an acknowledgement; False for a frame that the plain path must take."""
        serialize = payload[0]
        form = _FORMS.get(serialize)
        if form is None or not payload.startswith(form.start, 4):
            return False
        end = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
        if end != len(payload):
            return False
        try:
            head = form.decode(payload[4:])
        except (ValueError, RecursionError, ProtocolViolation):
            return False
        header, hand_out = head.extFields, self._newest
        if header.lite_topic is not None:
            return self._take_lite(connection, serialize, head)
        if (
            hand_out is None
            or not header.extra_info.startswith(hand_out.receipt)
            or header.queue_id != hand_out.queue_id
            or header.consumer_group != hand_out.group
            or header.topic != hand_out.topic
        ):
            hand_out = self._hand_out_of(header)
            if hand_out is None:
                return False
        point = hand_out.point
        if (not point.turn_acks or hand_out.high == UNKNOWN) and not self._is_open(hand_out):
            return False
        bit = point.bit_left(header.offset)
        if not bit or not hand_out.low <= header.offset <= hand_out.high or head.flag & FLAG_RESPONSE:
            return False
        try:
            self._turn_acks.add(point, bit)
        except StoreError:  # no writes now
            return False
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        frame = DONE.json((head.opaque,)) if serialize == SERIALIZE_JSON else DONE.binary(head.opaque, ())
        held = self._turn_acks.held.get(connection)
        if held is not None:
            held.append(frame)
        else:
            self._turn_acks.hold(connection, frame)
        return True

    def _take_lite(self, connection: Connection, serialize: int, head: Any) -> bool:
        """Take the acknowledgement of a message of a lite topic; its answer leaves at once. False as :meth:`take`."""
        header = head.extFields
        topic, lite, offset = header.topic, header.lite_topic, header.offset
        pop_time_ms = self._pop_time_ms(header.extra_info)
        if head.flag & _ONE_DIRECTION or pop_time_ms == UNKNOWN or self._topic(topic) is None:
            return False
        if self._is_fenced() or not 0 <= offset < self._lights.max_offset(topic, lite):
            return False
        queue = OrderedQueue(light_queue_name(topic, lite), header.consumer_group, 0)
        try:
            if not self._ordered.ack(queue, offset, pop_time_ms):
                return False
        except Refusal:
            return False
        self.count += 1
        connection.write(DONE.json((head.opaque,)) if serialize == SERIALIZE_JSON else DONE.binary(head.opaque, ()))
        return True

    def _pop_time_ms(self, text: str) -> int:
        """Return the time in a receipt of this broker as its clients write them, UNKNOWN in any other."""
        parts = text.split(" ")
        if len(parts) < pop.RECEIPT_PARTS_MIN or parts[5] != self._config.broker_name:
            return UNKNOWN
        digits = "".join(parts[:5])
        # No part is longer than all of a receipt with times of our days.
        if not (digits.isascii() and digits.isdigit() and all(parts[:5]) and max(map(len, parts[:5])) < _DIGITS_MAX):
            return UNKNOWN
        return int(parts[1])

    def _hand_out_of(self, header: AckMessageHeader) -> _HandOut | None:
        """Return the hand-out that an acknowledgement names, as the newest one; None when this broker has none such."""
        try:
            receipt = pop.decode_receipt(header.extra_info)
        except ValueError:
            return None
        if receipt.broker_name != self._config.broker_name or receipt.revive_queue_id == pop.ORDERLY_REVIVE_QUEUE:
            return None
        point = self._point_at(
            CheckPointKey(
                header.topic, header.consumer_group, header.queue_id, receipt.start_offset, receipt.pop_time_ms
            )
        )
        if point is None:
            return None
        parts = header.extra_info.split(" ", pop.RECEIPT_PARTS_MIN)
        self._newest = _HandOut(point, " ".join((*parts[: pop.RECEIPT_PARTS_MIN], "")))
        return self._newest

    def _is_open(self, hand_out: _HandOut) -> bool:
        """Return True while the hand-out is open and its queue can be read. Brings ``low`` and ``high`` up to date."""
        topic, queue = self._topic(hand_out.topic), self._queue_view(hand_out.topic, hand_out.queue_id)
        if topic is None or queue is None or not 0 <= hand_out.queue_id < topic.read_queue_nums:
            return False
        hand_out.low, hand_out.high = queue.min_offset, queue.max_offset
        return self._point_at(hand_out.point.key) is hand_out.point

    def _forget(self, changed: list[str]) -> None:
        """Look again whether the queue can be read: topics changed."""
        self._newest = None
