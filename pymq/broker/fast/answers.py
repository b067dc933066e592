"""The answers of the fast paths: frames with the bytes of the plain path's typed answers."""

from __future__ import annotations

from typing import Final

from pymq.wire.frame_templates import AnswerTemplate
from pymq.wire.headers.pull import PullMessageAnswer
from pymq.wire.headers.send import SendMessageAnswer

_QUEUE_ID, _QUEUE_OFFSET = 1_777_777_777, 7_777_777_777_777_777
_ID, _KEY, _BATCH_KEY, _HANDLE = "@msgId@", "@key@", "@batch key@", "@handle@"


def _send(key: str | None = _KEY, batch_key: str | None = None, handle: str | None = None) -> AnswerTemplate:
    answer = SendMessageAnswer(
        message_id=_ID,
        queue_id=_QUEUE_ID,
        queue_offset=_QUEUE_OFFSET,
        transaction_id=key,
        batch_unique_id=batch_key,
        recall_handle=handle,
    )
    marks = (_ID, _QUEUE_ID, _QUEUE_OFFSET, key, handle, batch_key)
    return AnswerTemplate(answer, [mark for mark in marks if mark is not None])


# Their values: message ids, queue id, queue offset, and the unique key, recall handle and batch key that they have.
SENT: Final = _send()
SENT_KEYLESS: Final = _send(key=None)  # a batch without a key of its own
SENT_INNER: Final = _send(batch_key=_BATCH_KEY)
SENT_TIMER: Final = _send(handle=_HANDLE)

# Its values: broker id, next, least and largest offset.
PULLED: Final = AnswerTemplate(
    PullMessageAnswer(
        suggest_which_broker_id=1_777_777_771,
        next_begin_offset=1_777_777_772,
        min_offset=1_777_777_773,
        max_offset=1_777_777_774,
    ),
    (1_777_777_771, 1_777_777_772, 1_777_777_773, 1_777_777_774),
    remark="FOUND",
)

DONE: Final = AnswerTemplate(None)  # has no fields
