"""FastSends: the fast path of the commonest requests: one plain message, or a batch of them, to a known queue.

It does what :class:`~pymq.broker.handlers.send.SendHandlers` does, with fewer objects. It returns False for anything
unusual (delay levels, priorities, retry topics, refusals, odd fields), which then takes the plain path. A property
test compares records and answers of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pymq.broker.fast.answers import SENT, SENT_BATCH, SENT_INNER, SENT_KEYLESS, SENT_TIMER, binary_sent
from pymq.broker.fast.header import BinaryTemplates, SendHead, decode_json_send, decode_signed_json_send
from pymq.broker.fast.signed_header import SignedBinaryTemplates
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH, SYNC_MASTER
from pymq.errors import StoreError
from pymq.model import sysflag
from pymq.model.draft import Draft
from pymq.model.inner_batch import INNER_PROPERTIES_SIZE_MAX_BYTES, own_properties, sized_entries
from pymq.model.javahash import tags_code
from pymq.model.layout import HOST_V4_SIZE_BYTES, SENT_PROPERTIES_MAX_BYTES, STORED_AGAIN_MAX_BYTES
from pymq.model.properties import has_broker_word
from pymq.model.sysflag import contradiction
from pymq.model.tables import PERM_WRITE
from pymq.wire.command import FLAG_ONEWAY, SERIALIZE_JSON
from pymq.wire.frame_templates import AnswerTemplate

if TYPE_CHECKING:
    from pymq.broker.fast.lite import FastLites
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
_LITE = "__LITE_TOPIC\x01"
_PRIORITY = "_SYS_MSG_PRI"
_UNUSUAL_BYTES = (b"DELAY\x01", b"TIMER_DEL", b"TRAN_MSG\x01")
# Each of them has one of these letters, which other properties rarely have. A letter is found ten times as quickly.
_L, _M = b"L", b"M"
_TAGS = b"TAGS\x01"
_KEYS = b"KEYS\x01"
_UNIQUE = b"UNIQ_KEY\x01"
_SEPARATOR = 2  # closes a property

_NO_TRANSACTION = ~sysflag.TRANSACTION_MASK
# What an answer says: its template and the template's values, of which the last is the opaque.
Sent = tuple[AnswerTemplate, tuple[bytes | int, ...]]


# What the names of a message's properties make it.
_PLAIN, _WAITING, _SOLE_LITE, _UNUSUAL = range(4)
_LITE_UNDERSCORES = 3


def _kind_of(properties: str, underscores: int) -> int:
    """Return the kind of a message. ``underscores``: in its properties, beside that of UNIQ_KEY."""
    is_lite = _LITE in properties
    if is_lite and underscores == _LITE_UNDERSCORES:  # no other name has one
        return _SOLE_LITE
    if _RESEND in properties or _PRIORITY in properties or has_broker_word(properties):
        return _UNUSUAL
    return _WAITING if is_lite or _TIMER in properties or _HALF in properties else _PLAIN


class OtherKinds(NamedTuple):
    """What takes messages that are not plain: timer messages, halves of transactions, those of lite topics."""

    timer_puts: FastTimerPuts
    halves: FastHalves
    lites: FastLites


class FastSends:
    """Takes plain sends from the table of fast paths."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        writer: Writer,
        stager: PlainStager,
        targets: SendTargets,
        others: OtherKinds,
        ids: UniqueIdMaker,
    ) -> None:
        self._check: SendCheck | None = None
        self._decode_json: Callable[[bytes], SendHead] = decode_json_send
        self._config = runtime.config
        self._writer = writer
        self._stager = stager
        self._stage = stager.stage
        self._targets = targets
        self._timer_puts, self._halves, self._lites = others
        self._ids = ids
        self._host_hex = runtime.store_host.hex().upper().encode()
        self._enrichment = writer.enrichment
        self._binary = BinaryTemplates()
        self._body_max_bytes = (
            runtime.config.mapped_file_size_commit_log_bytes - SENT_PROPERTIES_MAX_BYTES - STORED_AGAIN_MAX_BYTES
        )
        self.count = 0

    def secure(self, check: SendCheck) -> None:
        """Take only sends that ``check`` allows, from now on."""
        self._check = check
        self._decode_json = decode_signed_json_send
        self._binary = SignedBinaryTemplates()

    def take(self, connection: Connection, payload: bytes, is_batch: bool = False) -> bool:
        """Take a send of one message or of a batch; False for a frame that the plain path must take."""
        body_at = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
        is_json = payload[0] == SERIALIZE_JSON
        if is_json:
            try:
                head = self._decode_json(payload[4:body_at])
            except (ValueError, RecursionError):
                return False
        elif (found := self._binary.decode(payload, body_at)) is None:
            return False
        else:
            head = found
        if self._check is not None and not self._check.allows(connection, payload, body_at, head):
            return False
        ext = head.extFields
        properties = ext.properties
        body_size, host, config = len(payload) - body_at, connection.host_bytes, self._config
        if (
            ext.reconsume_times
            or (ext.batch and not is_batch)
            or (ext.sys_flag and contradiction(ext.sys_flag))
            or not 0 < body_size <= config.max_message_size_bytes
            or body_size > self._body_max_bytes
            or _DELAY in properties
            or not config.broker_permission & PERM_WRITE
            or len(host) != HOST_V4_SIZE_BYTES
        ):
            return False
        raw = properties.encode()
        if raw and raw[-1] != _SEPARATOR:
            raw += b"\x02"
        # The last property of that name counts, as in the plain parser.
        at = raw.rfind(_UNIQUE)
        # UNIQ_KEY has the only underscore of most messages.
        underscores = raw.count(b"_") - (at >= 0)
        kind = _kind_of(properties, underscores) if underscores > 0 else _PLAIN
        if kind == _UNUSUAL:
            return False
        if at >= 0:
            unique_key = raw[at + 9 : raw.find(b"\x02", at)]
            if not unique_key.isalnum() or (at and raw[at - 1] != _SEPARATOR):
                return False
        elif is_batch:
            unique_key = b""  # its messages keep their own
        else:
            unique_key = self._ids.next_id().encode()
            raw += _UNIQUE + unique_key + b"\x02"
        stored = raw + self._enrichment if kind == _PLAIN else raw  # the others get more
        if len(stored) > SENT_PROPERTIES_MAX_BYTES:
            return False
        draft = Draft(
            b"" if is_batch else payload[body_at:], stored, ext.born_timestamp_ms, host, 0,
            ext.flag, ext.sys_flag & _NO_TRANSACTION, raw,
        )  # fmt: skip
        try:
            if is_batch:
                sent = self._many(head, draft, unique_key, payload, body_at) if kind == _PLAIN else None
            elif kind == _PLAIN:
                sent = self._one(head, draft, raw, unique_key)
            else:
                sent = (self._lite if kind == _SOLE_LITE else self._waiting)(head, draft, unique_key)
        except StoreError:
            return False  # nothing is staged: the plain path meets the same error and answers with it
        if sent is None:
            return False
        self.count += 1
        if head.flag & FLAG_ONEWAY:
            return True
        template, values = sent
        frame = template.json(values) if is_json else binary_sent(template, values)
        if (
            config.flush_disk_type == SYNC_FLUSH
            or config.broker_role == SYNC_MASTER
            or (held := self._writer.held.get(connection)) is None
        ):
            self._writer.hold(connection, frame, raw)
        else:
            held.append(frame)  # as Writer.hold, in a third of the time
        return True

    def _one(self, head: SendHead, draft: Draft, raw: bytes, unique_key: bytes) -> Sent | None:
        ext = head.extFields
        topic, queue_id = ext.topic, ext.queue_id
        target = self._targets.get((topic, queue_id)) or self._targets.find(topic, queue_id)
        at = raw.rfind(_TAGS)  # as take_tags, without a call
        if at >= 0:
            tags = raw[at + 5 : raw.find(b"\x02", at)]
            if not tags or (at and raw[at - 1] != _SEPARATOR):
                return None
            draft.tags_code = tags_code(tags.decode())
        if target is None:
            return None
        queue = target.queue
        queue_offset = queue.next_offset
        physical_offset, size = self._stage(queue, draft)
        target.meter.add(1, size)
        self._writer.staged_count += 1
        return SENT, (self._host_hex, physical_offset, queue_id, queue_offset, unique_key, head.opaque)

    def _lite(self, head: SendHead, draft: Draft, unique_key: bytes, *, is_sole: bool = True) -> Sent | None:
        """Take a message of a lite topic."""
        ext = head.extFields
        placed = self._lites.put(ext, draft, is_sole=is_sole)
        if placed is None:
            return None
        return SENT, (self._host_hex, placed[0], ext.queue_id, placed[1], unique_key, head.opaque)

    def _waiting(self, head: SendHead, draft: Draft, unique_key: bytes) -> Sent | None:
        """Take a message that waits in a system topic for its time or its transaction, or one of a lite topic."""
        ext = head.extFields
        is_half = b"TRAN_MSG\x01" in draft.keyed
        if not is_half and b"TIMER_DEL" not in draft.keyed:
            return self._lite(head, draft, unique_key, is_sole=False)
        waiting = (self._halves if is_half else self._timer_puts).put(ext, draft, unique_key)
        if waiting is None:
            return None
        physical_offset, queue_offset, handle = waiting
        if handle:
            values = (self._host_hex, physical_offset, ext.queue_id, queue_offset, unique_key, handle, head.opaque)
            return SENT_TIMER, values
        return SENT, (self._host_hex, physical_offset, ext.queue_id, queue_offset, unique_key, head.opaque)

    def _many(self, head: SendHead, draft: Draft, unique_key: bytes, payload: bytes, body_at: int) -> Sent | None:
        """Take a batch: as its messages, or as one record in a batch queue."""
        place = topic, queue_id = head.extFields.topic, head.extFields.queue_id
        target = self._targets.get(place)
        if target is None:
            inner = self._targets.get_inner(place) or self._targets.find_inner(topic, queue_id)
            if inner is not None:
                return self._inner(inner, head, draft, unique_key, payload, body_at)
            target = self._targets.find(topic, queue_id)
        if target is None or _TAGS in draft.keyed or _KEYS in draft.keyed:
            return None
        draft.body = payload[body_at:]
        queue = target.queue
        queue_offset = queue.next_offset
        placed = self._stager.stage_batch(queue, draft, self._config.batch_count_max, _UNUSUAL_BYTES)
        if placed is None:
            return None
        offsets, size = placed
        target.meter.add(len(offsets), size)
        self._writer.staged_count += len(offsets)
        message_ids = ((self._host_hex + b"%016X,") * len(offsets) % tuple(offsets))[:-1]
        values = message_ids, queue_id, queue_offset
        return (
            (SENT_BATCH, (*values, unique_key, head.opaque)) if unique_key else (SENT_KEYLESS, (*values, head.opaque))
        )

    def _inner(
        self, target: InnerTarget, head: SendHead, draft: Draft, unique_key: bytes, payload: bytes, body_at: int
    ) -> Sent | None:
        """Do as :meth:`_many` for a batch that stays one record. Its body stays where it is in the payload."""
        if not unique_key:
            return None
        if payload.find(_L, body_at) >= 0 or payload.find(_M, body_at) >= 0:
            count, own_size, owns = own_properties(payload, body_at)
            if (_L in owns or _M in owns) and any(unusual in owns for unusual in _UNUSUAL_BYTES):
                return None
        else:
            count, own_size = sized_entries(payload, body_at)
        longest = len(draft.properties) + max(own_size, INNER_PROPERTIES_SIZE_MAX_BYTES)
        if not 0 < count <= self._config.batch_count_max or longest > SENT_PROPERTIES_MAX_BYTES:
            return None
        draft.body = memoryview(payload)[body_at:]
        physical_offset, size, queue_offset = self._stager.stage_inner(target.queue, draft, count)
        target.meter.add(count, size)
        self._writer.staged_count += count
        return SENT_INNER, (
            self._host_hex, physical_offset, head.extFields.queue_id, queue_offset, unique_key, unique_key, head.opaque
        )  # fmt: skip
