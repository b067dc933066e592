"""The fast paths of a secured broker: which frames of which senders they may have.

Each sender is proven by its signature, or by its connection's certificate. What the sender may do is decided once, by
the plain check, and kept until users or permissions change. Any other frame takes the plain path, which checks it again
and refuses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pymq.broker.fast.header import SendHead, SignedSendExt
from pymq.broker.fast.signed_header import SignedBinaryExt
from pymq.broker.fast.table import FastRow
from pymq.broker.row_access import PUBLISH
from pymq.errors import PymqError
from pymq.wire.access import Access
from pymq.wire.command import decode_command
from pymq.wire.header import Header, decode_header
from pymq.wire.headers.send import SendMessageV2Header

if TYPE_CHECKING:
    from pymq.net.server import Connection
    from pymq.security.gatekeeper import Gatekeeper


class PlainCheck:
    """Checks whole requests of one row, and keeps in the guard that they are allowed."""

    def __init__(self, gatekeeper: Gatekeeper, access: Access, header: type[Header], *kept_with: object) -> None:
        """``kept_with``: what stands in a kept decision before the fields that the needs of ``access`` depend on."""
        self._gatekeeper = gatekeeper
        self._access = access
        self._header = header
        self._kept_with = kept_with
        wire_names = {field.name: field.encode_name for field in msgspec.structs.fields(header)}
        self._fields = [wire_names[name] for name in dict.fromkeys(n for claim in access.claims for n in claim.fields)]

    def allows(self, connection: Connection, payload: bytes) -> bool:
        """Return True for a frame of a proven sender that may send this; False also when it can't be read."""
        try:
            command = decode_command(payload)
            if self._gatekeeper.open_requests.has(command.code):
                return False
            ext = command.ext
            sender = self._gatekeeper.prove(command, connection)
            fields = [ext.get(field, "") for field in self._fields]
            decision = (sender.identity.name, connection.host, *self._kept_with, *fields)
            if not sender.guard.was_allowed(decision):
                sender.check(self._access, command, decode_header(self._header, ext))
                sender.guard.keep_allowed(decision)
        except PymqError:
            return False
        return True


def checked(row: FastRow, gatekeeper: Gatekeeper) -> FastRow:
    """Return a row that takes a frame only from a sender who may send it."""
    if row.checks_sender:
        return row
    allows, take = PlainCheck(gatekeeper, row.access, row.header, row.code).allows, row.take
    return row._replace(take=lambda connection, payload: allows(connection, payload) and take(connection, payload))


class SendCheck:
    """Checks plain sends by the header that the fast path has decoded."""

    def __init__(self, gatekeeper: Gatekeeper) -> None:
        self._gatekeeper = gatekeeper
        self._plain = PlainCheck(gatekeeper, PUBLISH, SendMessageV2Header)

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
            max_times = "" if ext.max_reconsume_times is msgspec.UNSET else ext.max_reconsume_times
            content = (
                f"{ext.AccessKey}{ext.SecurityToken}{ext.producer_group}{ext.topic}{ext.default_topic}"
                f"{ext.default_topic_queue_nums}{ext.queue_id}{ext.sys_flag}{ext.born_timestamp_ms}{ext.flag}"
                f"{ext.properties}{ext.reconsume_times}{ext.unit_mode}{max_times}{'true' if ext.batch else 'false'}"
                f"{ext.broker_name}"
            ).encode()
        else:
            name, content = self._gatekeeper.certificate_user(connection), b""
        user = guard.users.get(name)
        if user is None or not guard.was_allowed((user.name, connection.host, ext.topic)):
            return self._plain.allows(connection, payload)
        if signature is None:
            return True
        if limits is not None and limits.failed_proofs.has_blocked and self._gatekeeper.is_blocked(name, connection):
            return False
        return user.secret.has_signed(content + payload[body_at:], signature)
