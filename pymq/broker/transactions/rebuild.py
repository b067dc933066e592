"""Finds the open transactions at a start: half messages that no op record names, from the saved offsets on."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pymq.broker.transactions.open_halves import OpenHalf, OpenHalves, open_half
from pymq.broker.transactions.progress import TransactionProgress
from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model import properties as props
from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.record import MalformedRecordError, StoredMessage, decode_record
from pymq.model.transactions import TRANSACTION_QUEUE_ID, decode_op_body, target_of
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

_NO_RECORD = (NotFoundError, CorruptRecordError, MalformedRecordError, UnreadableError)


class Rebuilt(NamedTuple):
    """What a start found."""

    halves: OpenHalves
    unreadable_count: int


def rebuild(store: MessageStore, progress: TransactionProgress) -> Rebuilt:
    """Return the open transactions. Records that can't be read are counted and left out.

    An unreadable op record leaves its transactions open: their producers are asked again.
    """
    halves = OpenHalves()
    half_offset = progress.stored_offset(HALF_TOPIC)
    ended, unreadable = _ended(store, progress, half_offset)
    for offset in range(half_offset, progress.bounds(HALF_TOPIC)[1]):
        if offset in ended:
            continue
        message = read_at(store, HALF_TOPIC, offset)
        half = None if message is None else half_of(message)
        if half is None:
            unreadable += 1
            log.warning("the half message at offset %d can't be read, or is none: its transaction is left out", offset)
        elif half.first_offset in ended and half.first_offset != offset:
            continue  # its first copy was ended
        else:
            if half.first_offset != offset and halves.find(half.first_offset) is None:
                half.begun_ms = _begun_ms(store, half)
            halves.add(half)
    return Rebuilt(halves, unreadable)


def half_of(message: StoredMessage) -> OpenHalf | None:
    """Return the open transaction of a record; None when the record lacks what a half message has."""
    target = target_of(message)
    if message.topic != HALF_TOPIC or target is None or not message.properties.get(props.PRODUCER_GROUP):
        return None
    return open_half(message, target[0])


def _begun_ms(store: MessageStore, half: OpenHalf) -> int:
    """Return when the first copy of a half message was stored; without it, when this one was.

    The message's birth says nothing: it is the time of the producer's clock, which may be wrong by years.
    """
    first = read_at(store, HALF_TOPIC, half.first_offset)
    return half.begun_ms if first is None else min(half.begun_ms, first.store_timestamp_ms)


def read_at(store: MessageStore, topic: str, offset: int) -> StoredMessage | None:
    """Return the record at an offset of the topic's queue; None when it can't be read."""
    queue = store.queue_view(topic, TRANSACTION_QUEUE_ID)
    assert queue is not None
    try:
        return decode_record(store.record_at(queue.unit(offset)[0]))
    except _NO_RECORD as error:
        log.debug("%s at %d: %s", topic, offset, error)
        return None


def _ended(store: MessageStore, progress: TransactionProgress, half_offset: int) -> tuple[set[int], int]:
    """Return the half offsets from ``half_offset`` on that op records name, and the number of unreadable ones."""
    ended: set[int] = set()
    unreadable = 0
    for offset in range(progress.stored_offset(OP_HALF_TOPIC), progress.bounds(OP_HALF_TOPIC)[1]):
        record = read_at(store, OP_HALF_TOPIC, offset)
        named = [] if record is None else decode_op_body(record.body)
        if not named:
            unreadable += 1
            log.warning("the op record at offset %d can't be read: what it ended may be checked again", offset)
            continue
        ended.update(at for at in named if at >= half_offset)
        progress.note_op(offset, max(named))
    return ended, unreadable
