"""Grants: what a slave was told when it joined, kept until it opens its HA connection with the token."""

from __future__ import annotations

import random
from typing import NamedTuple

from pymq.wire.ha import OFFSET_MAX

# More than any group has slaves; the oldest goes, and its slave joins again.
GRANTS_MAX = 64
TOKEN_BITS = OFFSET_MAX.bit_length() - 1


class Grant(NamedTuple):
    """``broker_id`` and ``address`` ("host:port") of the slave, and the offset it goes on from."""

    broker_id: int
    address: str
    start: int


NO_GRANT = Grant(-1, "", 0)


class Grants:
    """Tokens are negative: no report ever is. Each works once, for ``lifetime_ms``."""

    def __init__(self, rng: random.Random, lifetime_ms: int) -> None:
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._open: dict[int, tuple[Grant, int]] = {}  # in the order of their making, with the monotonic ms of that

    def give(self, grant: Grant, now_ms: int) -> int:
        """A token. An older one of the same slave id is void."""
        self._open = {token: given for token, given in self._open.items() if given[0].broker_id != grant.broker_id}
        if len(self._open) >= GRANTS_MAX:
            del self._open[next(iter(self._open))]
        token = -1 - self._rng.getrandbits(TOKEN_BITS)
        self._open[token] = (grant, now_ms)
        return token

    def take(self, token: int, now_ms: int) -> Grant | None:
        """What the token was given for, once."""
        grant, given_ms = self._open.pop(token, (None, 0))
        return grant if now_ms - given_ms < self._lifetime_ms else None
