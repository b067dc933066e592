"""FastPulls: the fast path of a pull that finds messages, or parks: fewer objects, the same bytes.

Any other pull (nothing found and no wish to wait, resets, refusals, record filters) returns False and takes the plain
path through :class:`~pymq.broker.handlers.pull.PullHandlers`. A property test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.fast.answers import PULLED
from pymq.broker.fast.pull_header import PullHeads
from pymq.errors import PymqError
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON

if TYPE_CHECKING:
    from pymq.broker.handlers.pull import PullHandlers
    from pymq.net.server import Connection
    from pymq.store.store import GetResult

_NO_QUESTION = FLAG_ONEWAY | FLAG_RESPONSE


class FastPulls:
    """Takes pulls from the table of fast paths."""

    def __init__(self, handlers: PullHandlers) -> None:
        self._handlers = handlers
        self._decode = PullHeads().decode
        self.count = 0

    def take(self, connection: Connection, payload: bytes) -> bool:
        """Answer or park a pull; False for a frame that the plain path must take."""
        try:
            head = self._decode(payload)
            if head is None or head.flag & _NO_QUESTION:
                return False
            serialize = payload[0]
            found = self._handlers.quickly(head.extFields, connection, head.code, head.opaque, serialize)
        except (ValueError, RecursionError, PymqError, OSError):  # ValueError: bad JSON, bad UTF-8
            return False  # the plain path meets the same error and answers with it
        if not isinstance(found, bool):
            result, broker_id = found
            encode = _json_answer if serialize == SERIALIZE_JSON else _binary_answer
            connection.write(b"".join((encode(head.opaque, broker_id, result), *result.chunks)))
        elif not found:
            return False
        self.count += 1
        return True


def _json_answer(opaque: int, broker_id: int, result: GetResult) -> bytes:
    """Return the begin of the answer's frame, before the messages."""
    values = broker_id, result.next_offset, result.min_offset, result.max_offset, opaque
    return PULLED.json(values, result.size_bytes)


def _binary_answer(opaque: int, broker_id: int, result: GetResult) -> bytes:
    """Do as :func:`_json_answer`, with a binary header."""
    broker, next_offset = b"%d" % broker_id, b"%d" % result.next_offset
    least, most = b"%d" % result.min_offset, b"%d" % result.max_offset
    values = len(broker), broker, len(next_offset), next_offset, len(least), least, len(most), most
    return PULLED.binary(opaque, values, result.size_bytes)
