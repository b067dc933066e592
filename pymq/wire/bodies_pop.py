"""JSON bodies of pop consumption: codes 200151 (BATCH_ACK_MESSAGE), 400 (QUERY_ASSIGNMENT) and 401."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from pymq.errors import Refusal
from pymq.model import fastjson
from pymq.wire.bodies_client import QueueName
from pymq.wire.codes import ResponseCode

ACKS_MAX = 4096  # check points that one request may name
_SHORT_NAMES = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAck(msgspec.Struct, kw_only=True):
    """What a batch says of one check point. ``topic`` is the one that was popped, also for messages of retry topics."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    retry_flag: str = msgspec.field(name="r", default="0")
    start_offset: int = msgspec.field(name="so")
    queue_id: int = msgspec.field(name="q")
    revive_queue_id: int = msgspec.field(name="rq")
    pop_time_ms: int = msgspec.field(name="pt")
    invisible_ms: int = msgspec.field(name="it", default=0)
    bits: str = msgspec.field(name="b", default="")

    def decoded_bits(self) -> int:
        """Return the bits: number n stands for the message at start offset + n. Raises Refusal."""
        try:
            raw = base64.b64decode(self.bits, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the bits {self.bits[:40]!r} are no base64: {error}") from error
        return int.from_bytes(raw, "little")


def decode_batch_acks(body: bytes) -> list[BatchAck]:
    """Return the acknowledgements of a body. Raises Refusal for one that can't be read or names too many."""
    try:
        loose: Any = fastjson.loads(body or b"{}", odd_size_max_bytes=1024 * 1024)
        entries = (loose.get("acks") if isinstance(loose, dict) else None) or []
        if len(entries) > ACKS_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the batch names {len(entries)} check points, the limit is {ACKS_MAX}: send several batches",
            )
        named = [{_SHORT_NAMES.get(name, name): value for name, value in entry.items()} for entry in entries]
        return msgspec.convert(named, list[BatchAck], strict=False)
    except (msgspec.ValidationError, fastjson.JsonError, AttributeError, TypeError) as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the batch of acknowledgements can't be read: {error}") from error


PULL = "PULL"
POP = "POP"


class RequestMode(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """SET_MESSAGE_REQUEST_MODE (401), and an entry of ``messageRequestMode.json``: how a group consumes a topic."""

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: int = 0


class AssignmentRequest(msgspec.Struct, rename="camel", kw_only=True):
    """QUERY_ASSIGNMENT (400)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = ""
    message_model: str | int | None = None

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model in ("BROADCASTING", 0)


class Assignment(msgspec.Struct, rename="camel", kw_only=True):
    """One queue that a client is to consume. With mode POP, queue -1 stands for all queues of the broker."""

    message_queue: QueueName
    mode: str


class AssignmentAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """The answer to QUERY_ASSIGNMENT (400). Without assignments: the client keeps what it has."""

    message_queue_assignments: list[Assignment] | None = None
