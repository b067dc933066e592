"""PeerProof: how the brokers of a secured group prove to each other that they have the servers' credentials.

A master asks its slaves for a proof when it checks its requests, a slave its master whenever it has the credentials.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from pymq.wire.ha import PROOF_SIZE_BYTES

Prove = Callable[[bytes], bytes]  # makes PROOF_SIZE_BYTES of a content, with a secret; nothing shows the secret


class PeerProof(NamedTuple):
    """``is_required``: a master sends its log only to slaves that proved themselves, or whose host the operator named.

    ``prove`` is None for a broker without the servers' credentials: no slave can prove anything to it.
    """

    is_required: bool = False
    prove: Prove | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that follow a join token."""
        return PROOF_SIZE_BYTES if self.is_required else 0

    def is_right(self, content: bytes, proof: bytes) -> bool:
        """True when ``proof`` was made of ``content`` with the same secret. Takes as long for any wrong one."""
        return self.prove is not None and hmac.compare_digest(self.prove(content), proof)

    def is_right_hex(self, content: bytes, proof: bytes) -> bool:
        """As :meth:`is_right`, for a proof in hexadecimal digits."""
        return self.prove is not None and hmac.compare_digest(self.prove(content).hex().encode(), proof)


NO_PROOF = PeerProof()
