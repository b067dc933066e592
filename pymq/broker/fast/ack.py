"""FastAcks: the fast path of an acknowledgement that strikes a popped message off its check point.

Any other acknowledgement (late, double, forged, of an orderly pop, refused) returns False and takes the plain path
through :class:`~pymq.broker.handlers.pop.PopHandlers`. A property test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pymq.broker.pop.check_points import CheckPoint, CheckPointKey
from pymq.errors import StoreError
from pymq.model import pop
from pymq.wire.codes import VERSION_5_3_3, RequestCode
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, FRAME_HEAD, SERIALIZE_JSON
from pymq.wire.header import Int32
from pymq.wire.headers.pop import AckMessageHeader

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.pop.revive_log import ReviveLog
    from pymq.broker.pop.turn_acks import TurnAcks
    from pymq.config import BrokerConfig
    from pymq.net.server import Connection
    from pymq.store.store import MessageStore

# The code does not fit into a binary header, so all clients send these in JSON.
_START = b'{"code":%d,' % RequestCode.ACK_MESSAGE
_ANSWER = (
    b'{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
    b'"version":' + str(VERSION_5_3_3).encode() + b"}"
)


class AckHead(msgspec.Struct, gc=False):
    """The members of an acknowledgement's header that are needed; ``extFields`` is the wire's name."""

    code: int
    opaque: Int32
    extFields: AckMessageHeader
    flag: int = 0


_decode = msgspec.json.Decoder(AckHead, strict=False).decode


class _HandOut:
    """What the newest acknowledgement named. Those that follow it mostly name the same.

    ``receipt`` is the begin of the text that all receipts of the hand-out share.
    """

    __slots__ = ("group", "key", "queue_id", "receipt", "topic")

    def __init__(self, header: AckMessageHeader, receipt: str, key: CheckPointKey) -> None:
        self.group = header.consumer_group
        self.topic = header.topic
        self.queue_id = header.queue_id
        self.receipt = receipt
        self.key = key


class FastAcks:
    """A server calls it for every frame. It returns True when the frame was an acknowledgement that it has taken."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicManager,
        revive_log: ReviveLog,
        turn_acks: TurnAcks,
        otherwise: Callable[[Connection, bytes], bool],
    ) -> None:
        """``otherwise`` is called with every frame that is no acknowledgement."""
        self._otherwise = otherwise
        self._config = config
        self._queue_view = store.queue_view
        self._topic = topics.get
        self._point_at = revive_log.check_points.get
        self._turn_acks = turn_acks
        self._newest: _HandOut | None = None
        self.count = 0

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        if payload[0] != SERIALIZE_JSON or not payload.startswith(_START, 4):
            return self._otherwise(connection, payload)
        end = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
        if end != len(payload):
            return False
        try:
            head = _decode(payload[4:])
        except (ValueError, RecursionError):
            return False
        header, offset = head.extFields, head.extFields.offset
        point = self._point_of(header)
        if point is None or head.flag & FLAG_RESPONSE:
            return False
        topic, queue = self._topic(header.topic), self._queue_view(header.topic, header.queue_id)
        if topic is None or queue is None or not header.queue_id < topic.read_queue_nums:
            return False
        try:
            bit = point.left & 1 << point.offsets.index(offset)
            if not bit or not queue.min_offset <= offset <= queue.max_offset:
                return False
            self._turn_acks.add(point, bit)
        except (ValueError, StoreError):  # not handed out; no writes now
            return False
        if not head.flag & FLAG_ONEWAY:
            answer = _ANSWER % head.opaque
            self._turn_acks.hold(connection, FRAME_HEAD.pack(4 + len(answer), len(answer)) + answer)
        self.count += 1
        return True

    def _point_of(self, header: AckMessageHeader) -> CheckPoint | None:
        """Return the open check point that an acknowledgement names, if it is of a hand-out by this broker."""
        newest = self._newest
        if (
            newest is not None
            and header.extra_info.startswith(newest.receipt)
            and header.consumer_group == newest.group
            and header.topic == newest.topic
            and header.queue_id == newest.queue_id
        ):
            return self._point_at(newest.key)
        try:
            receipt = pop.decode_receipt(header.extra_info)
        except ValueError:
            return None
        if receipt.broker_name != self._config.broker_name or receipt.revive_queue_id == pop.ORDERLY_REVIVE_QUEUE:
            return None
        key = CheckPointKey(
            header.topic, header.consumer_group, header.queue_id, receipt.start_offset, receipt.pop_time_ms
        )
        parts = header.extra_info.split(" ", pop.RECEIPT_PARTS_MIN)
        if len(parts) > pop.RECEIPT_PARTS_MIN:
            text = header.extra_info.removesuffix(parts[-1])
            self._newest = _HandOut(header, text, key)
        return self._point_at(key)
