"""Whether a cluster takes an access key and its secret: one signed request, and what a refusal says."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pymq.client.admin import Admin
from pymq.errors import RefusedError, UnreachableError
from pymq.security.credentials import Credentials
from pymq.wire.codes import ResponseCode

# Refusals of Apache RocketMQ 5.3.3 with users, of 4.9.8 with accounts, and of PyMQ: the sender lacks a right.
_LACKS_A_RIGHT: Final = ("has no permission to access", "No default permission", "Need admin permission")
# The sender is not proven.
_UNPROVEN: Final = (
    "username cannot be null",
    "is not found",
    "is disabled",
    "check signature failed",
    "failed to prove",
    "No accessKey is configured",
    "No acl config for",
    "Check signature failed",
)


class Proof(StrEnum):
    """What a cluster makes of credentials."""

    proven = "proven"
    unproven = "unproven"
    unchecked = "unchecked"  # it takes requests without a signature, too


def proof_of(refusal: RefusedError) -> Proof | None:
    """Return what a refusal says about the sender, None for one that has another reason."""
    if refusal.code not in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR):
        return None
    if any(text in refusal.remark for text in _LACKS_A_RIGHT):
        return Proof.proven
    return Proof.unproven if any(text in refusal.remark for text in _UNPROVEN) else None


def is_unproven(error: Exception) -> bool:
    """Return whether a cluster refused because it wants to know who asks."""
    return isinstance(error, RefusedError) and proof_of(error) is Proof.unproven


async def prove(make_admin: Callable[[Credentials | None], Admin], credentials: Credentials) -> Proof:
    """Ask a name server and a broker with the credentials, and without when they are taken.

    Raises UnreachableError when no broker answers, RefusedError for a refusal with another reason.
    """
    found = await _asked(make_admin(credentials))
    if found is not Proof.unchecked:
        return found
    without = await _asked(make_admin(None))
    return Proof.proven if without is Proof.unproven else without


async def _asked(admin: Admin) -> Proof:
    """Return what a refusal says; ``unchecked`` for an answer, which alone proves nothing."""
    async with admin:
        try:
            masters = await admin.cluster.masters()
            missing: UnreachableError | None = None
            for master in masters:
                try:
                    await admin.brokers.runtime_info(master.address)
                except UnreachableError as error:
                    missing = error
                    continue
                return Proof.unchecked
        except RefusedError as refusal:
            proof = proof_of(refusal)
            if proof is None:
                raise
            return proof
        raise missing or UnreachableError("no broker is registered at the name servers: start one")
