"""InflationBudget: what the compressed bodies of one output may inflate to together.

Each body is bounded by itself (:mod:`pymq.model.compression`). But a small body may inflate a thousandfold, and a topic
may hold millions of them: 2 MB in a topic would become gigabytes in an output.
"""

from __future__ import annotations

from pymq.model import sysflag
from pymq.model.compression import (
    INFLATION_FREE_BYTES,
    INFLATION_RATIO_MAX,
    InflatedSizeError,
    InflateError,
    decompress_body,
    inflated_size_max,
)
from pymq.model.record import StoredMessage


class InflationBudget:
    """Counts the bytes of messages and what their bodies inflated to. One budget belongs to one output."""

    def __init__(self, ratio_max: int = INFLATION_RATIO_MAX, free_bytes: int = INFLATION_FREE_BYTES) -> None:
        """All bodies together may inflate to ``free_bytes`` and ``ratio_max`` times the size of their messages."""
        self._ratio_max = ratio_max
        self._left_bytes = free_bytes
        self.refused_count = 0

    def content(self, message: StoredMessage) -> bytes:
        """Return a message's body as its producer wrote it. Raises InflateError."""
        return self.decompress(message.body, message.sys_flag, message.size_bytes)

    def decompress(self, body: bytes, sys_flag: int, message_size_bytes: int) -> bytes:
        """Return a body as its producer wrote it. Raises InflateError, also when the budget is used up.

        ``message_size_bytes`` is the size of the whole record. Call it for messages without compression, too: they are
        what the budget grows by.
        """
        self._left_bytes += message_size_bytes * self._ratio_max
        if not sys_flag & sysflag.COMPRESSED:
            return body
        if self._left_bytes >= inflated_size_max(len(body)):
            inflated = decompress_body(body, sys_flag)
        else:
            inflated = self._within_rest(body, sys_flag)
        self._left_bytes -= len(inflated)
        return inflated

    def _within_rest(self, body: bytes, sys_flag: int) -> bytes:
        try:
            return decompress_body(body, sys_flag, self._left_bytes)
        except InflatedSizeError:
            self.refused_count += 1
            raise InflateError(
                f"the body inflates beyond {self._left_bytes} bytes, which are left: all bodies together may "
                f"inflate to {self._ratio_max} times the size of their messages; allow a higher ratio"
            ) from None
