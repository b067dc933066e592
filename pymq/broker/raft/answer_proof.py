"""AnswerProof: that an answer comes from a member, and to the question that was asked now.

A report (9122) decides on a founding, and bytes of the log (9106) become a new replica's. So both are proven.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable

import msgspec

from pymq.broker.raft.secret_file import Secrets
from pymq.wire.command import Command
from pymq.wire.ha import NONCE_SIZE_BYTES
from pymq.wire.reply import Reply

RAFT_PROOF = "raftProof"  # of an answer's fields
REPORT = "report"
_LABEL = b"PyMQ Raft answer 1\0"


def log_bytes_at(start: int) -> str:
    """Return what an answer with bytes of the log from ``start`` on is about."""
    return f"log {start}"


class AnswerProof:
    """Proves one node's answers, and looks at those of others. ``about`` says what an answer is about."""

    def __init__(self, cluster: str, group: str, secrets: Callable[[], Secrets], rng: random.Random) -> None:
        self._place = cluster, group
        self._secrets = secrets
        self._rng = rng

    def challenge(self) -> str:
        """Return a new challenge, in hex."""
        return self._rng.randbytes(NONCE_SIZE_BYTES).hex()

    def reply(self, challenge: str, about: str, body: bytes) -> Reply:
        """Return the answer to a request with this challenge."""
        return Reply(ext={RAFT_PROOF: self._prove(self._secrets().first, challenge, about, body)}, body=body)

    def why_not(self, challenge: str, about: str, answer: Command) -> str:
        """Return why an answer is no member's to this question; empty when it is."""
        proof = answer.ext.get(RAFT_PROOF, "").encode()
        for secret in self._secrets().accepted:
            if hmac.compare_digest(proof, self._prove(secret, challenge, about, answer.body).encode()):
                return ""
        return (
            "its answer does not prove that it has the group's secret (raftSecretFile): it is another one's, or forged"
        )

    def _prove(self, secret: bytes, challenge: str, about: str, body: bytes | memoryview) -> str:
        head = msgspec.json.encode((*self._place, about, challenge))
        return hmac.digest(secret, b"".join((_LABEL, head, b"\0", body)), "sha256").hex()
