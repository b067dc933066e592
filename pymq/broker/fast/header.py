"""Reads headers of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE as Java clients write them, with few objects.

Any other header (missing fields, another order) gives None and takes the plain path, which finds the error.
"""

from __future__ import annotations

import struct

import msgspec

from pymq.errors import ProtocolViolation
from pymq.wire.codes import RequestCode
from pymq.wire.command import decode_binary_header
from pymq.wire.header import Int32, Int64
from pymq.wire.headers import send

BINARY_EXT_AT = 25  # type and length 4, fixed part 13, empty remark 4, length of the fields 4
# Java writes the fields in the order of their letters. Field g has 13 digits until the year 2286.
_BINARY_G = b"\x00\x01g\x00\x00\x00\x0d"
_BINARY_H_ZERO_I = b"\x00\x01h\x00\x00\x00\x010\x00\x01i"
_BINARY_G_TO_I = struct.Struct(">7x13s11sI")  # name and size of g, its digits, h whole and the name of i, size of i
_BINARY_NUMBERS = struct.Struct(">iiii")  # opaque, flag, remark length, fields length
_TEMPLATE_COUNT_MAX = 4096  # a hostile client could send new ones without end
_TEMPLATE_SIZE_MAX_BYTES = 1024  # a longer header is decoded each time

# Field g is the born time, in milliseconds.
V2_LETTERS = {**send.V2_LETTERS, "born_timestamp_ms": send.V2_LETTERS["born_timestamp"]}


class SendExt(msgspec.Struct, rename=V2_LETTERS, gc=False):
    """The fields that are needed, in the order of their wire letters."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp_ms: Int64
    flag: Int32
    properties: str
    reconsume_times: Int32 = 0
    batch: bool = False
    max_reconsume_times: Int32 | msgspec.UnsetType = msgspec.UNSET


class SendHead(msgspec.Struct, gc=False):
    """The members of a send's header that are needed; ``extFields`` is the wire's name."""

    code: int
    opaque: Int32
    extFields: SendExt
    flag: int = 0


class SignedSendExt(SendExt, rename=V2_LETTERS, gc=False, forbid_unknown_fields=True):
    """All fields of a signed send: the signature covers each of them, so another one can't be left out."""

    unit_mode: str = ""
    broker_name: str = ""
    AccessKey: str = ""
    Signature: str = ""
    SecurityToken: str = ""


class SignedSendHead(SendHead, gc=False):
    """As :class:`SendHead`, for a signed send."""

    extFields: SignedSendExt


# They decode a JSON header. They raise ValueError or RecursionError when they can't, also for bad UTF-8.
decode_json_send = msgspec.json.Decoder(SendHead, strict=False).decode
decode_signed_json_send = msgspec.json.Decoder(SignedSendHead, strict=False).decode


class BinaryTemplates:
    """Decodes binary headers: what is before and after the varying fields is compared with known headers."""

    def __init__(self) -> None:
        # Bytes before the born time -> bytes behind the properties -> the header. Its varying fields are overwritten
        # for each frame, so a caller must not keep it.
        self._known: dict[bytes, dict[bytes, SendHead]] = {}
        self._count = 0

    def decode(self, payload: bytes, body_at: int) -> SendHead | None:
        """Return the binary header that ends at ``body_at``. It is valid until the next call."""
        if not BINARY_EXT_AT <= body_at <= len(payload):
            return None
        opaque, flag, remark_size, ext_size = _BINARY_NUMBERS.unpack_from(payload, 9)
        g = payload.find(_BINARY_G, BINARY_EXT_AT, body_at)
        at = g + _BINARY_G_TO_I.size  # where the properties begin
        if g < 0 or remark_size or ext_size != body_at - BINARY_EXT_AT or at > body_at:
            return None
        digits, h_and_i, properties_size = _BINARY_G_TO_I.unpack_from(payload, g)
        end = at + properties_size
        if h_and_i != _BINARY_H_ZERO_I or end > body_at or not digits.isdigit():
            return None
        known = self._known.get(payload[BINARY_EXT_AT:g])
        head = known.get(payload[end:body_at]) if known is not None else None
        if head is None:
            head = self._learn(payload, g, at - 4, end, body_at)
            if head is None:
                return None
        ext = head.extFields
        try:
            ext.properties = payload[at:end].decode()
        except UnicodeDecodeError:
            return None
        ext.born_timestamp_ms = int(digits)
        head.opaque = opaque
        head.flag = flag
        return head

    def _learn(self, payload: bytes, g: int, i: int, end: int, body_at: int) -> SendHead | None:
        """Decode the whole header, and keep it under the bytes around the varying fields.

        ``g``, ``i``: where the born time's name and the properties' length begin; ``end``: where the properties end.
        """
        try:
            fields = decode_binary_header(payload[4:body_at], b"").ext
            ext = msgspec.convert(fields, SendExt, strict=False)
        except (ProtocolViolation, msgspec.ValidationError):
            return None
        if list(fields)[:9] != list("abcdefghi"):
            return None
        head = SendHead(RequestCode.SEND_MESSAGE_V2, 0, ext)
        if g - BINARY_EXT_AT + body_at - end > _TEMPLATE_SIZE_MAX_BYTES:
            return head
        if self._count >= _TEMPLATE_COUNT_MAX:
            self._known.clear()
            self._count = 0
        self._count += 1
        self._known.setdefault(payload[BINARY_EXT_AT:g], {})[payload[end:body_at]] = head
        return head
