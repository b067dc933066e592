"""FastHalves and FastEnds: the fast paths of a transaction's two requests, beside those of plain sends.

The plain paths are :meth:`~pymq.broker.transactions.transactions.Transactions.put_half` within
:class:`~pymq.broker.handlers.send.SendHandlers`, and :class:`~pymq.broker.handlers.transactions.TransactionHandlers`. A
property test compares records, answers and open transactions of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.fast.answers import DONE
from pymq.broker.fast.head import head_forms
from pymq.broker.transactions.kept_halves import KeptHalf
from pymq.broker.transactions.open_halves import Outcome
from pymq.errors import ProtocolViolation, StoreError
from pymq.model import sysflag
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.names import HALF_TOPIC
from pymq.model.properties import find_property, tags_code_of
from pymq.model.transactions import ADDED_LATER_BYTES, COMMIT, ROLLBACK
from pymq.wire.codes import RequestCode
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON
from pymq.wire.headers.transaction import EndTransactionHeader

if TYPE_CHECKING:
    from pymq.broker.fast.header import SendExt
    from pymq.broker.fast.targets import SendTargets
    from pymq.broker.messages.writer import Writer
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.transactions.transactions import Transactions
    from pymq.model.draft import Draft
    from pymq.net.server import Connection
    from pymq.store.store import MessageStore, PlainStager

_TRUE = b"TRAN_MSG\x01true\x02"
_SEPARATOR = 2  # closes a property
_SIZE_MAX_BYTES = SENT_PROPERTIES_MAX_BYTES - ADDED_LATER_BYTES
_FORMS = head_forms(RequestCode.END_TRANSACTION, EndTransactionHeader)


class FastHalves:
    """Stages plain half messages, and keeps them for their end."""

    def __init__(
        self,
        transactions: Transactions,
        writer: Writer,
        stager: PlainStager,
        targets: SendTargets,
        stats: StatsManager,
    ) -> None:
        self._transactions = transactions
        self._writer = writer
        self._stager = stager
        self._targets = targets
        self._stats = stats
        self._enrichment = writer.enrichment

    def put(self, ext: SendExt, draft: Draft, unique_key: bytes) -> tuple[int, int, bytes] | None:
        """Stage the message; return its physical offset, its offset in the half topic's queue, and no handle.

        FastSends makes the draft; its properties become those of the half message. None when the plain path must
        decide, and nothing is staged. Raises StoreError.
        """
        topic, queue_id, transactions = ext.topic, ext.queue_id, self._transactions
        target = self._targets.get((topic, queue_id)) or self._targets.find(topic, queue_id)
        raw = draft.keyed
        at = raw.find(_TRUE)
        if (
            target is None
            or at < 0
            or (at and raw[at - 1] != _SEPARATOR)
            or raw.find(b"TRAN_MSG\x01", at + 1) >= 0
            # A delay, what only the broker may write, and what the end of the transaction asks for.
            or b"TIMER_DEL" in raw
            or b"__STARTDELIVERTIME" in raw
            or b"REAL_" in raw
            or b"TRAN_PREPARED" in raw
            or b"TRANSACTION_CHECK" in raw
            or b"__transactionId__" in raw
            or b"CHECK_IMMUNITY" in raw
            or not transactions.is_room
        ):
            return None
        group = find_property(raw, b"PGROUP")
        properties = b"%b%b__transactionId__\x01%b\x02%b" % (raw, self._enrichment, unique_key, target.real)
        queue = self._targets.waiting_queue(HALF_TOPIC)
        if group is None or queue is None or len(properties) > _SIZE_MAX_BYTES:
            return None
        draft.properties, draft.tags_code = properties, tags_code_of(raw)
        queue_offset = queue.next_offset
        physical_offset, size = self._stager.stage(queue, draft)
        half = transactions.begin(queue_offset, physical_offset, topic, None)
        transactions.kept.add(KeptHalf(half, group.decode(), queue_id, draft))
        self._stats.put_meter(HALF_TOPIC).add(1, size)
        self._writer.staged_count += 1
        return physical_offset, queue_offset, b""


class FastEnds:
    """Takes ends of transactions from the table of fast paths.

    The half message must be kept, its transaction open, and the request correct. Anything else takes the plain path.
    """

    def __init__(
        self,
        transactions: Transactions,
        store: MessageStore,
        writer: Writer,
        stager: PlainStager,
        targets: SendTargets,
    ) -> None:
        self._transactions = transactions
        self._store = store
        self._writer = writer
        self._stager = stager
        self._targets = targets
        self._requires_topic = False
        self.count = 0

    def require_topic(self) -> None:
        """From now on, end a transaction only if the request names its topic: the sender's right was checked for it."""
        self._requires_topic = True

    def take(self, connection: Connection, payload: bytes) -> bool:
        """End a transaction; False for a frame that the plain path must take."""
        serialize = payload[0]
        form = _FORMS.get(serialize)
        if form is None or not payload.startswith(form.start, 4):
            return False
        size = payload[1] << 16 | payload[2] << 8 | payload[3]
        try:
            head = form.decode(payload[4 : 4 + size])
        except (ValueError, RecursionError, ProtocolViolation):
            return False
        if head.flag & FLAG_RESPONSE:
            return False
        header, transactions = head.extFields, self._transactions
        kept = transactions.kept.get(header.commit_log_offset)
        if (
            kept is None
            or kept.half.queue_offset != header.tran_state_table_offset
            or kept.group != header.producer_group
            or (self._requires_topic and header.topic != kept.half.topic)
            or transactions.halves.at(kept.half.queue_offset) is not kept.half
            or kept.half.physical_offset >= self._store.physical_max_offset  # this turn's: its answer has not left
        ):
            return False
        try:
            if not self._end(kept, header.commit_or_rollback):
                return False
        except StoreError:
            return False  # nothing is staged: the plain path meets the same error and answers with it
        self.count += 1
        if not head.flag & FLAG_ONEWAY:
            frame = DONE.json((head.opaque,)) if serialize == SERIALIZE_JSON else DONE.binary(head.opaque, ())
            self._writer.hold(connection, frame)
        return True

    def _end(self, kept: KeptHalf, wanted: int) -> bool:
        """End the transaction; False when the plain path must. Raises StoreError; then it stays open."""
        target = self._targets.get((kept.half.topic, kept.queue_id)) or self._targets.find(
            kept.half.topic, kept.queue_id
        )
        if target is None:
            return False
        if wanted == ROLLBACK:
            self._transactions.end_kept(kept, Outcome.ROLLED_BACK)
            return True
        if wanted != COMMIT:
            return False
        draft = kept.draft
        draft.sys_flag |= sysflag.TRANSACTION_COMMIT
        draft.prepared_transaction_offset = kept.half.physical_offset
        _, size = self._stager.stage(target.queue, draft)
        target.meter.add(1, size)
        self._writer.staged_count += 1
        self._transactions.end_kept(kept, Outcome.COMMITTED)
        return True
