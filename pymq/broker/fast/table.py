"""FastTable: the fast path of a broker: the first bytes of a frame name what may take it.

A frame that no row takes goes the plain path, which finds every error and answers with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pymq.wire.access import Access
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ
from pymq.wire.header import Header

if TYPE_CHECKING:
    from pymq.net.server import Connection

# Takes a frame without its length; True when it has answered it, or will.
Take = Callable[["Connection", bytes], bool]

_JSON_KEY_AT, _JSON_KEY_END = 4, 16
_BINARY_KEY_END = 6


class FastRow(NamedTuple):
    """A request with a fast path. ``header`` and ``access`` are those of its row in :mod:`pymq.broker.routes`.

    ``checks_sender``: ``take`` itself checks the sender on a secured broker.
    """

    code: int
    header: type[Header]
    access: Access
    take: Take
    checks_sender: bool = False


class FastTable:
    """A server calls it for every frame. It returns True when a row has taken the frame."""

    def __init__(self, rows: Iterable[FastRow]) -> None:
        self._json: dict[bytes, Take] = {}
        self._binary: dict[bytes, Take] = {}
        for row in rows:
            # Longer codes share a key: a row looks at the whole begin of the frame.
            self._json[(b'{"code":%d,"' % row.code)[: _JSON_KEY_END - _JSON_KEY_AT]] = row.take
            self._binary[(row.code & 0xFFFF).to_bytes(2, "big")] = row.take

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        serialize = payload[0]
        if serialize == SERIALIZE_JSON:
            take = self._json.get(payload[_JSON_KEY_AT:_JSON_KEY_END])
        elif serialize == SERIALIZE_ROCKETMQ:
            take = self._binary.get(payload[_JSON_KEY_AT:_BINARY_KEY_END])
        else:
            return False
        return take is not None and take(connection, payload)
