"""FastSends: the fast path of the commonest requests: one plain message, or a batch of them, to a known queue.

It does what :class:`~pymq.broker.handlers.send.SendHandlers` does, with fewer objects. It returns False for anything
unusual (delay levels, retry topics, refusals, odd fields), which then takes the plain path. A property
test compares records and answers of the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.fast.header import (
    BATCH,
    ONE,
    BinaryTemplates,
    SendExt,
    SendHead,
    decode_json_send,
    decode_signed_json_send,
    kind_of,
)
from pymq.broker.fast.signed_header import SignedBinaryTemplates
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH, SYNC_MASTER
from pymq.errors import StoreError
from pymq.model import sysflag
from pymq.model.inner_batch import INNER_PROPERTIES_SIZE_MAX_BYTES, own_properties, sized_entries
from pymq.model.javahash import tags_code
from pymq.model.layout import HOST_V4_SIZE_BYTES, SENT_PROPERTIES_MAX_BYTES, STORED_AGAIN_MAX_BYTES
from pymq.model.properties import has_broker_word
from pymq.model.sysflag import contradiction
from pymq.model.tables import PERM_WRITE
from pymq.wire.codes import VERSION_5_3_3
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, FRAME_HEAD, SERIALIZE_JSON, SERIALIZE_ROCKETMQ

if TYPE_CHECKING:
    from pymq.broker.fast.secured import SendCheck
    from pymq.broker.fast.targets import InnerTarget, SendTargets
    from pymq.broker.fast.timer import FastTimerPuts
    from pymq.broker.fast.transaction import FastHalves
    from pymq.broker.messages.writer import Writer
    from pymq.model.ids import UniqueIdMaker
    from pymq.net.server import Connection
    from pymq.store.store import PlainStager

# Any of these makes a message unusual, wherever it stands.
_DELAY = "DELAY\x01"
_RESEND = "PYMQ_RESEND\x01"
_TIMER = "TIMER_DEL"
_HALF = "TRAN_MSG\x01"
_UNUSUAL_BYTES = (b"DELAY\x01", b"TIMER_DEL", b"TRAN_MSG\x01")
# Each of them has one of these letters, which other properties rarely have. A letter is found ten times as quickly.
_L, _M = b"L", b"M"
_TAGS = b"TAGS\x01"
_KEYS = b"KEYS\x01"
_UNIQUE = b"UNIQ_KEY\x01"
_SEPARATOR = 2  # closes a property

_NO_TRANSACTION = ~sysflag.TRANSACTION_MASK
_I32 = struct.Struct(">i")
# The answers as Command and encode_command would write them.
_JSON_ANSWER = (
    b'{"code":0,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d","transactionId":"%b",'
    b'"MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,"language":"JAVA","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(VERSION_5_3_3).encode() + b"}"
)
_JSON_ONE = _JSON_ANSWER.replace(b'"msgId":"%b"', b'"msgId":"%b%016X"')
_JSON_TIMER = _JSON_ONE.replace(b'"MSG_REGION"', b'"recallHandle":"%b","MSG_REGION"')
_BINARY_FIELDS = (
    b"\x00\x05msgId%b%b\x00\x07queueId\x00\x00\x00%c%b\x00\x0bqueueOffset\x00\x00\x00%c%b"
    b"\x00\x0dtransactionId%b%b\x00\x0aMSG_REGION\x00\x00\x00\x0dDefaultRegion\x00\x08TRACE_ON\x00\x00\x00\x04true"
)
_JSON_INNER = _JSON_ONE.replace(b'"transactionId":"%b"', b'"transactionId":"%b","batchUniqId":"%b"')
# Of a batch without a key of its own.
_JSON_KEYLESS = _JSON_ANSWER.replace(b'"transactionId":"%b",', b"")
_BINARY_KEYLESS = _BINARY_FIELDS.replace(b"\x00\x0dtransactionId%b%b", b"")
_BINARY_ONE = (
    b"\x00\x05msgId\x00\x00\x00\x20%b%016X\x00\x07queueId\x00\x00\x00%c%b\x00\x0bqueueOffset\x00\x00\x00%c%b"
    + _BINARY_FIELDS[_BINARY_FIELDS.index(b"\x00\x0dtransactionId") :]
)
_BINARY_INNER = _BINARY_ONE.replace(b"\x00\x0dtransactionId%b%b", b"\x00\x0dtransactionId%b%b\x00\x0bbatchUniqId%b%b")
_BINARY_HEAD_SIZE_BYTES = 21
# The frame's length, the header's and its codec, code, language, version, opaque, flag, lengths of remark and fields
_BINARY_FRAME_HEAD = struct.Struct(">iIhBhiiii")


class FastSends:
    """A server calls it for every frame. It returns True when the frame was a plain send that it has handled."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        writer: Writer,
        stager: PlainStager,
        targets: SendTargets,
        timer_puts: FastTimerPuts,
        halves: FastHalves,
        ids: UniqueIdMaker,
        otherwise: Callable[[Connection, bytes], bool],
    ) -> None:
        """``otherwise`` is called with every frame that is no send."""
        self._otherwise = otherwise
        self._check: SendCheck | None = None
        self._decode_json: Callable[[bytes], SendHead] = decode_json_send
        self._config = runtime.config
        self._writer = writer
        self._stager = stager
        self._stage = stager.stage
        self._stage_inner = stager.stage_inner
        self._targets = targets
        self._timer_puts = timer_puts
        self._halves = halves
        self._ids = ids
        self._host_hex = runtime.store_host.hex().upper().encode()
        self._enrichment = writer.enrichment
        self._binary = BinaryTemplates()
        self._body_max_bytes = (
            runtime.config.mapped_file_size_commit_log_bytes - SENT_PROPERTIES_MAX_BYTES - STORED_AGAIN_MAX_BYTES
        )
        self.count = 0

    def secure(self, check: SendCheck, otherwise: Callable[[Connection, bytes], bool]) -> None:
        """Handle only sends that ``check`` allows, from now on; ``otherwise`` as for the constructor."""
        self._check = check
        self._decode_json = decode_signed_json_send
        self._binary = SignedBinaryTemplates()
        self._otherwise = otherwise

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        kind = kind_of(payload)
        if not kind:
            return self._otherwise(connection, payload)
        body_at = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
        is_json = payload[0] == SERIALIZE_JSON
        if is_json:
            try:
                head = self._decode_json(payload[4:body_at])
            except (ValueError, RecursionError):
                return False
        else:
            found = self._binary.decode(payload, body_at)
            if found is None:
                return False
            head = found
        if self._check is not None and not self._check.allows(connection, payload, body_at, head):
            return False
        ext = head.extFields
        properties = ext.i
        if (
            ext.j
            or (ext.f and contradiction(ext.f))
            or not 0 < len(payload) - body_at <= self._config.max_message_size_bytes
            or len(payload) - body_at > self._body_max_bytes
            or _DELAY in properties
            or _RESEND in properties
            or not self._config.broker_permission & PERM_WRITE
            or len(connection.host_bytes) != HOST_V4_SIZE_BYTES
        ):
            return False
        raw = properties.encode()
        if raw and raw[-1] != _SEPARATOR:
            raw += b"\x02"
        # The last property of that name counts, as in the plain parser.
        at = raw.rfind(_UNIQUE)
        # UNIQ_KEY has the only underscore of most messages.
        underscore = properties.find("_")
        if underscore >= 0 and (at < 0 or underscore != properties.rfind("_")) and has_broker_word(properties):
            return False
        if at >= 0:
            unique_key = raw[at + 9 : raw.find(b"\x02", at)]
            if not unique_key.isalnum() or (at and raw[at - 1] != _SEPARATOR):
                return False
        elif kind == BATCH:
            unique_key = b""  # its messages keep their own
        else:
            unique_key = self._ids.next_id().encode()
            raw += _UNIQUE + unique_key + b"\x02"
        try:
            if _TIMER in properties or _HALF in properties:
                return (
                    kind == ONE
                    and not ext.m
                    and self._waiting(connection, payload[body_at:], head, ext, raw, unique_key, is_json)
                )
            if kind == ONE and not ext.m:
                return self._one(connection, payload[body_at:], head, ext, raw, unique_key, is_json)
            if kind != BATCH:
                return False
            inner = self._targets.get_inner((ext.b, ext.e))
            if inner is not None:
                return self._inner(inner, connection, payload, body_at, head, ext, raw, unique_key, is_json)
            return self._batch(connection, payload, body_at, head, ext, raw, unique_key, is_json)
        except StoreError:
            return False  # nothing is staged: the plain path meets the same error and answers with it

    def _one(
        self,
        connection: Connection,
        body: bytes,
        head: SendHead,
        ext: SendExt,
        raw: bytes,
        unique_key: bytes,
        is_json: bool,
    ) -> bool:
        target = self._targets.get((ext.b, ext.e)) or self._targets.find(ext.b, ext.e)
        code = 0
        at = raw.rfind(_TAGS)
        if at >= 0:
            tags = raw[at + 5 : raw.find(b"\x02", at)]
            if not tags or (at and raw[at - 1] != _SEPARATOR):
                return False
            code = tags_code(tags.decode())
        stored = raw + self._enrichment
        if target is None or len(stored) > SENT_PROPERTIES_MAX_BYTES:
            return False
        queue = target.queue
        queue_offset = queue.next_offset
        physical_offset, size = self._stage(
            queue, body, stored, raw, code, ext.h, ext.f & _NO_TRANSACTION, ext.g, connection.host_bytes
        )
        meter = target.meter
        meter.count += 1
        meter.calls += 1
        meter.size_bytes += size
        self._writer.staged_count += 1
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        host, opaque = self._host_hex, head.opaque
        if is_json:
            answer = _JSON_ONE % (host, physical_offset, queue.queue_id, queue_offset, unique_key, opaque)
            frame = FRAME_HEAD.pack(4 + len(answer), len(answer)) + answer
        else:
            number, offset = b"%d" % queue.queue_id, b"%d" % queue_offset
            key_size = _I32.pack(len(unique_key))
            frame = _binary_frame(
                opaque,
                _BINARY_ONE % (host, physical_offset, len(number), number, len(offset), offset, key_size, unique_key),
            )
        config = self._config
        waits = config.flush_disk_type == SYNC_FLUSH or config.broker_role == SYNC_MASTER
        held = None if waits else self._writer.held.get(connection)
        if held is not None:
            held.append(frame)
        else:
            self._hold(connection, frame, raw)
        return True

    def _hold(self, connection: Connection, frame: bytes, raw: bytes) -> None:
        """Do as :meth:`Writer.hold`, in a third of the time; :meth:`_one` has it written out."""
        config = self._config
        waits = config.flush_disk_type == SYNC_FLUSH or config.broker_role == SYNC_MASTER
        held = None if waits else self._writer.held.get(connection)
        if held is not None:
            held.append(frame)
        else:
            self._writer.hold(connection, frame, raw)

    def _waiting(
        self,
        connection: Connection,
        body: bytes,
        head: SendHead,
        ext: SendExt,
        raw: bytes,
        unique_key: bytes,
        is_json: bool,
    ) -> bool:
        """Take a message that waits in a system topic: for its time, or for the end of its transaction."""
        if b"TRAN_MSG\x01" in raw:
            put = self._halves.put(connection, body, ext, raw, unique_key)
        else:
            put = self._timer_puts.put(connection, body, ext, raw, unique_key)
        if put is None:
            return False
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        physical_offset, queue_offset, handle = put
        host, opaque = self._host_hex, head.opaque
        if is_json:
            if handle:
                answer = _JSON_TIMER % (host, physical_offset, ext.e, queue_offset, unique_key, handle, opaque)
            else:
                answer = _JSON_ONE % (host, physical_offset, ext.e, queue_offset, unique_key, opaque)
            frame = FRAME_HEAD.pack(4 + len(answer), len(answer)) + answer
        else:
            number, offset = b"%d" % ext.e, b"%d" % queue_offset
            key_size = _I32.pack(len(unique_key))
            binary = _BINARY_ONE % (
                host, physical_offset, len(number), number, len(offset), offset, key_size, unique_key
            )  # fmt: skip
            if handle:
                binary += b"\x00\x0crecallHandle%b%b" % (_I32.pack(len(handle)), handle)
            frame = _binary_frame(opaque, binary)
        self._hold(connection, frame, raw)
        return True

    def _batch(
        self,
        connection: Connection,
        payload: bytes,
        body_at: int,
        head: SendHead,
        ext: SendExt,
        raw: bytes,
        unique_key: bytes,
        is_json: bool,
    ) -> bool:
        place = ext.b, ext.e
        target = self._targets.get(place)
        if target is None:
            inner = self._targets.find_inner(*place)
            if inner is not None:
                return self._inner(inner, connection, payload, body_at, head, ext, raw, unique_key, is_json)
            target = self._targets.find(*place)
        if target is None:
            return False
        if _TAGS in raw or _KEYS in raw:
            return False
        shared = raw + self._enrichment
        queue = target.queue
        queue_offset = queue.next_offset
        placed = self._stager.stage_batch(
            queue,
            payload[body_at:],
            shared,
            ext.f & _NO_TRANSACTION,
            ext.g,
            connection.host_bytes,
            self._config.batch_count_max,
            _UNUSUAL_BYTES,
        )
        if placed is None:
            return False
        offsets, size = placed
        meter = target.meter
        meter.count += len(offsets)
        meter.calls += 1
        meter.size_bytes += size
        self._writer.staged_count += len(offsets)
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        message_ids = ((self._host_hex + b"%016X,") * len(offsets) % tuple(offsets))[:-1]
        key = (unique_key,) if unique_key else ()
        if is_json:
            template = _JSON_ANSWER if key else _JSON_KEYLESS
            frame = _json_frame(template % (message_ids, queue.queue_id, queue_offset, *key, head.opaque))
        else:
            number, offset = b"%d" % queue.queue_id, b"%d" % queue_offset
            fields = (_I32.pack(len(message_ids)), message_ids, len(number), number, len(offset), offset)
            sized_key = (_I32.pack(len(unique_key)), *key) if key else ()
            frame = _binary_frame(head.opaque, (_BINARY_FIELDS if key else _BINARY_KEYLESS) % (*fields, *sized_key))
        self._hold(connection, frame, raw)
        return True

    def _inner(
        self,
        target: InnerTarget,
        connection: Connection,
        payload: bytes,
        body_at: int,
        head: SendHead,
        ext: SendExt,
        raw: bytes,
        unique_key: bytes,
        is_json: bool,
    ) -> bool:
        """Do as :meth:`_batch` for a batch that stays one record. Its body stays where it is in the payload."""
        if not unique_key:
            return False
        if payload.find(_L, body_at) >= 0 or payload.find(_M, body_at) >= 0:
            count, own_size, owns = own_properties(payload, body_at)
            if (_L in owns or _M in owns) and any(unusual in owns for unusual in _UNUSUAL_BYTES):
                return False
        else:
            count, own_size = sized_entries(payload, body_at)
        stored = raw + self._enrichment
        longest = len(stored) + max(own_size, INNER_PROPERTIES_SIZE_MAX_BYTES)
        if not 0 < count <= self._config.batch_count_max or longest > SENT_PROPERTIES_MAX_BYTES:
            return False
        queue = target.queue
        physical_offset, size, queue_offset = self._stage_inner(
            queue,
            memoryview(payload)[body_at:],
            stored,
            raw,
            ext.h,
            ext.f & _NO_TRANSACTION,
            ext.g,
            connection.host_bytes,
            count,
        )
        meter = target.meter
        meter.count += count
        meter.calls += 1
        meter.size_bytes += size
        self._writer.staged_count += count
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        host, opaque = self._host_hex, head.opaque
        if is_json:
            answer = _JSON_INNER % (host, physical_offset, queue.queue_id, queue_offset, unique_key, unique_key, opaque)
            frame = FRAME_HEAD.pack(4 + len(answer), len(answer)) + answer
        else:
            number, offset = b"%d" % queue.queue_id, b"%d" % queue_offset
            key_size = _I32.pack(len(unique_key))
            fields = (host, physical_offset, len(number), number, len(offset), offset, key_size, unique_key)
            frame = _binary_frame(opaque, _BINARY_INNER % (*fields, key_size, unique_key))
        self._hold(connection, frame, raw)
        return True


def _json_frame(header: bytes) -> bytes:
    """Return the answer's frame with this JSON header."""
    return FRAME_HEAD.pack(4 + len(header), len(header)) + header


def _binary_frame(opaque: int, fields: bytes) -> bytes:
    """Return the answer's frame with a binary header; ``fields`` are its encoded fields."""
    size = _BINARY_HEAD_SIZE_BYTES + len(fields)
    head = _BINARY_FRAME_HEAD.pack(
        4 + size, size | SERIALIZE_ROCKETMQ << 24, 0, 0, VERSION_5_3_3, opaque, FLAG_RESPONSE, 0, len(fields)
    )
    return head + fields
