"""JoinTokens: connects a slave's JoinRequest with the HA connection that the slave opens afterwards."""

from __future__ import annotations

import random
from typing import NamedTuple

from pymq.wire.ha import NONCE_SIZE_BYTES, OFFSET_MAX

# More than the slaves of any group. The oldest token goes, and its slave joins again.
JOIN_TOKENS_MAX = 64
TOKEN_BITS = OFFSET_MAX.bit_length() - 1


class JoinedSlave(NamedTuple):
    """A slave's ``broker_id``, its ``address`` ("host:port"), the log offset where it continues, and its nonce.

    ``challenge``: what the slave asked a proof about, empty when it asked for none.
    """

    broker_id: int
    address: str
    start: int
    nonce: bytes = b""
    challenge: bytes = b""


NOT_JOINED = JoinedSlave(-1, "", 0)  # a peer without a token, for instance a RocketMQ slave


class JoinTokens:
    """Gives tokens. A token is negative, which no report is, and works once, for ``lifetime_ms``."""

    def __init__(self, rng: random.Random, lifetime_ms: int) -> None:
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._open: dict[int, tuple[JoinedSlave, int]] = {}  # by token, oldest first, with its monotonic ms

    def give(self, joined_slave: JoinedSlave, now_ms: int) -> int:
        """Return a token for the slave. Older tokens of the same slave id or address become void: a group has as many
        as it has known addresses."""
        self._open = {
            token: given
            for token, given in self._open.items()
            if given[0].broker_id != joined_slave.broker_id and given[0].address != joined_slave.address
        }
        if len(self._open) >= JOIN_TOKENS_MAX:
            del self._open[next(iter(self._open))]
        token = -1 - self._rng.getrandbits(TOKEN_BITS)
        self._open[token] = (joined_slave, now_ms)
        return token

    def find(self, token: int, now_ms: int) -> JoinedSlave | None:
        """Return the slave that the token was given to; None for an unknown or old token."""
        joined_slave, given_ms = self._open.get(token, (None, 0))
        return joined_slave if now_ms - given_ms < self._lifetime_ms else None

    def take(self, token: int, now_ms: int) -> JoinedSlave | None:
        """As :meth:`find`, once."""
        joined_slave = self.find(token, now_ms)
        self._open.pop(token, None)
        return joined_slave

    def nonce(self) -> bytes:
        """Return bytes that no slave was given before."""
        return self._rng.randbytes(NONCE_SIZE_BYTES)
