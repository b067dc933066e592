"""What a message handler says about the messages it got."""

from __future__ import annotations

from enum import Enum


class ConsumeResult(Enum):
    """SUCCESS: done (None means the same). RECONSUME_LATER: give them again.

    Concurrent consumers get them again through the group's retry topic, after a delay that grows; orderly ones get
    the same messages again after a pause, before anything that follows them in their queue.
    """

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
