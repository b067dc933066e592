"""The fast paths of a secured broker: which frames of which senders they may have.

Each sender is proven by its signature, or by its connection's certificate. What the sender may do is decided once, by
the plain check, and kept until users or permissions change. Any other frame takes the plain path, which checks it again
and refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from pymq.broker.fast.header import SendHead, SignedSendExt
from pymq.broker.fast.pull_header import is_pull
from pymq.broker.fast.signed_header import SignedBinaryExt
from pymq.broker.row_access import CONSUME, PUBLISH
from pymq.errors import PymqError
from pymq.wire.access import Access
from pymq.wire.command import decode_command
from pymq.wire.header import Header, decode_header
from pymq.wire.headers.pull import PullMessageHeader
from pymq.wire.headers.send import SendMessageV2Header

if TYPE_CHECKING:
    from pymq.net.server import Connection
    from pymq.security.gatekeeper import Gatekeeper


class PlainCheck:
    """Checks whole requests of one row, and keeps in the guard that they are allowed."""

    def __init__(self, gatekeeper: Gatekeeper, access: Access, header: type[Header], *fields: str) -> None:
        """``fields``: those that the needs of ``access`` depend on."""
        self._gatekeeper = gatekeeper
        self._access = access
        self._header = header
        self._fields = fields

    def allows(self, connection: Connection, payload: bytes) -> bool:
        """True for a frame of a proven sender that may send this request; False also when it can't be read."""
        try:
            command = decode_command(payload)
            if self._gatekeeper.open_requests.has(command.code):
                return False
            ext = command.ext
            sender = self._gatekeeper.prove(command, connection)
            decision = (sender.identity.name, connection.host, *[ext.get(field, "") for field in self._fields])
            if not sender.guard.was_allowed(decision):
                sender.check(self._access, command, decode_header(self._header, ext))
                sender.guard.keep_allowed(decision)
        except PymqError:
            return False
        return True


class SendCheck:
    """Checks plain sends by the header that the fast path has decoded."""

    def __init__(self, gatekeeper: Gatekeeper) -> None:
        self._gatekeeper = gatekeeper
        self._plain = PlainCheck(gatekeeper, PUBLISH, SendMessageV2Header, "b")

    def allows(self, connection: Connection, payload: bytes, body_at: int, head: SendHead) -> bool:
        """True for a frame of a proven sender that may send to this topic."""
        ext = head.extFields
        guard, limits = self._gatekeeper.guard, self._gatekeeper.limits
        signature: bytes | None = None
        if type(ext) is SignedBinaryExt:
            name, content, signature = ext.access_key, ext.content, ext.signature
        elif type(ext) is not SignedSendExt:  # of a binary header without a signature, or with one in another place
            return self._plain.allows(connection, payload)
        elif ext.AccessKey or ext.Signature:
            name, signature = ext.AccessKey, ext.Signature.encode()
            # As clients write them; else the plain path looks at all fields.
            content = (
                f"{ext.AccessKey}{ext.SecurityToken}{ext.a}{ext.b}{ext.c}{ext.d}{ext.e}{ext.f}{ext.g}{ext.h}{ext.i}"
                f"{ext.j}{ext.k}{'' if ext.l is UNSET else ext.l}{'true' if ext.m else 'false'}{ext.n}"
            ).encode()
        else:
            name, content = self._gatekeeper.certificate_user(connection), b""
        user = guard.users.get(name)
        if user is None or not guard.was_allowed((user.name, connection.host, ext.b)):
            return self._plain.allows(connection, payload)
        if signature is None:
            return True
        if limits is not None and limits.failed_proofs.has_blocked and self._gatekeeper.is_blocked(name, connection):
            return False
        return user.secret.has_signed(content + payload[body_at:], signature)


class SecuredPulls:
    """A server calls it for every frame. It returns True when the fast path has answered or parked a pull."""

    def __init__(self, gatekeeper: Gatekeeper, fast_pulls: Callable[[Connection, bytes], bool]) -> None:
        self._check = PlainCheck(gatekeeper, CONSUME, PullMessageHeader, "topic", "consumerGroup")
        self._fast_pulls = fast_pulls

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        return is_pull(payload) and self._check.allows(connection, payload) and self._fast_pulls(connection, payload)
