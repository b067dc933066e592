"""The answers of the fast paths: frames with the bytes of the plain path's typed answers."""

from __future__ import annotations

from typing import Any, Final

from pymq.wire.frame_templates import AnswerTemplate, Place
from pymq.wire.headers.pull import PullMessageAnswer
from pymq.wire.headers.send import SendMessageAnswer


def _number(mark: int) -> Place:
    return Place(mark, json=b"%d")


# One message id: the store's host in hexadecimal digits, and the physical offset.
_ID: Final = Place("@one message id of 32 characters", b"%b%016X", b"\0\0\0\x20%b%016X")
_IDS: Final = Place("@message ids@", binary=b"%b%b")
_KEY, _HANDLE, _BATCH_KEY = Place("@key@"), Place("@handle@"), Place("@batch key@")
_QUEUE_ID, _QUEUE_OFFSET = _number(1_777_777_777), _number(7_777_777_777_777_777)


def _sent(ids: Place, *texts: Place) -> AnswerTemplate:
    marks = {place: str(place.mark) for place in texts}
    answer = SendMessageAnswer(
        message_id=str(ids.mark),
        queue_id=int(_QUEUE_ID.mark),
        queue_offset=int(_QUEUE_OFFSET.mark),
        transaction_id=marks.get(_KEY),
        recall_handle=marks.get(_HANDLE),
        batch_unique_id=marks.get(_BATCH_KEY),
    )
    return AnswerTemplate(answer, (ids, _QUEUE_ID, _QUEUE_OFFSET, *texts))


# Their values: the store's host and physical offset of one message or the joined ids of a batch, queue id, queue
# offset, then texts.
SENT: Final = _sent(_ID, _KEY)
SENT_TIMER: Final = _sent(_ID, _KEY, _HANDLE)
SENT_INNER: Final = _sent(_ID, _KEY, _BATCH_KEY)
SENT_BATCH: Final = _sent(_IDS, _KEY)
SENT_KEYLESS: Final = _sent(_IDS)  # a batch without a key of its own


def binary_sent(template: AnswerTemplate, values: tuple[Any, ...]) -> bytes:
    """Return the binary answer to a send. ``values``: those of ``template``, then the opaque."""
    if template is SENT:  # the commonest
        host, physical_offset, queue_id, queue_offset, key, opaque = values
        number, offset = b"%d" % queue_id, b"%d" % queue_offset
        return SENT.binary(opaque, (host, physical_offset, len(number), number, len(offset), offset, len(key), key))
    ids: tuple[bytes | int, ...]
    if template is SENT_BATCH or template is SENT_KEYLESS:
        joined, *rest, opaque = values
        ids = len(joined).to_bytes(4, "big"), joined
    else:
        host, physical_offset, *rest, opaque = values
        ids = host, physical_offset
    texts = [each if isinstance(each, bytes) else b"%d" % each for each in rest]
    return template.binary(opaque, (*ids, *(part for text in texts for part in (len(text), text))))


# Its values: broker id, next, least and largest offset.
PULLED: Final = AnswerTemplate(
    PullMessageAnswer(
        suggest_which_broker_id=1_777_777_771,
        next_begin_offset=1_777_777_772,
        min_offset=1_777_777_773,
        max_offset=1_777_777_774,
    ),
    [_number(mark) for mark in range(1_777_777_771, 1_777_777_775)],
    remark="FOUND",
)

DONE: Final = AnswerTemplate(None)  # has no fields
