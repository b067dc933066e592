"""JoinTokens: what a slave was told when it joined, kept until it opens its HA connection with the token."""

from __future__ import annotations

import random
from typing import NamedTuple

from pymq.wire.ha import OFFSET_MAX

# More than any group has slaves; the oldest goes, and its slave joins again.
JOIN_TOKENS_MAX = 64
TOKEN_BITS = OFFSET_MAX.bit_length() - 1


class JoinedSlave(NamedTuple):
    """``broker_id`` and ``address`` ("host:port") of the slave, and the offset it goes on from."""

    broker_id: int
    address: str
    start: int


NOT_JOINED = JoinedSlave(-1, "", 0)


class JoinTokens:
    """Tokens are negative: no report ever is. Each works once, for ``lifetime_ms``."""

    def __init__(self, rng: random.Random, lifetime_ms: int) -> None:
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._open: dict[
            int, tuple[JoinedSlave, int]
        ] = {}  # in the order of their making, with the monotonic ms of that

    def give(self, joined_slave: JoinedSlave, now_ms: int) -> int:
        """A token. An older one of the same slave id is void."""
        self._open = {
            token: given for token, given in self._open.items() if given[0].broker_id != joined_slave.broker_id
        }
        if len(self._open) >= JOIN_TOKENS_MAX:
            del self._open[next(iter(self._open))]
        token = -1 - self._rng.getrandbits(TOKEN_BITS)
        self._open[token] = (joined_slave, now_ms)
        return token

    def take(self, token: int, now_ms: int) -> JoinedSlave | None:
        """What the token was given for, once."""
        joined_slave, given_ms = self._open.pop(token, (None, 0))
        return joined_slave if now_ms - given_ms < self._lifetime_ms else None
