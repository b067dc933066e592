"""The result a message handler returns for the messages it received."""

from __future__ import annotations

from enum import Enum


class ConsumeResult(Enum):
    """SUCCESS: the messages are done (None means the same). RECONSUME_LATER: deliver them again.

    A concurrent consumer receives them again through the group's retry topic, after a delay that grows with each
    retry. An orderly one receives the same messages after a pause, before any later message of their queue.
    DEAD_LETTER: no retry can help, so they go to the group's dead letters (``%DLQ%group``) at once.
    """

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    DEAD_LETTER = "DEAD_LETTER"
