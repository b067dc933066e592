"""Gate: who sends a call, and whether that user may. The users and rules are those of the brokers.

A client signs the time in its metadata: ``authorization: MQv2-HMAC-SHA1 Credential=USER, SignedHeaders=x-mq-date-time,
Signature=HEX``. Java: the clients' Signature and the proxy's DefaultAuthenticationContextBuilder.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error, unhexlify
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.access import Action, Need, group_need, topic_need
from pymq.proxy.calls import Call
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.security.audit import Audit
from pymq.security.gatekeeper import Gatekeeper, ProvenCall
from pymq.security.signature import Secret
from pymq.wire.codes import ResponseCode

AUTHORIZATION = "authorization"
DATE_TIME = "x-mq-date-time"
TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_SIGNED = re.compile(
    r"MQv2-HMAC-SHA1\s+Credential=([^,/\s]*)[^,]*,\s*SignedHeaders=x-mq-date-time,\s*Signature=([0-9A-Fa-f]*)\s*\Z"
)
PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET


def _topic_and_group(request: Any) -> list[Need]:
    return [topic_need(request.topic.name, SUB), group_need(request.group.name, SUB)]


def _queue_and_group(request: Any) -> list[Need]:
    return [topic_need(request.message_queue.topic.name, SUB), group_need(request.group.name, SUB)]


def _group_if_named(request: Any) -> list[Need]:
    return [group_need(request.group.name, SUB)] if request.group.name else []


def _settings_needs(command: Any) -> list[Need]:
    settings = command.settings
    needs = [topic_need(topic.name, PUB) for topic in settings.publishing.topics]
    if settings.HasField("subscription"):
        needs.append(group_need(settings.subscription.group.name, SUB))
        needs += [topic_need(entry.topic.name, SUB) for entry in settings.subscription.subscriptions]
    return needs


NEEDS: dict[str, Callable[[Any], list[Need]]] = {
    "QueryRoute": lambda request: [topic_need(request.topic.name, PUB, SUB, GET)],
    "QueryAssignment": _topic_and_group,
    "Heartbeat": _group_if_named,
    "SendMessage": lambda request: [topic_need(name, PUB) for name in {each.topic.name for each in request.messages}],
    "EndTransaction": lambda request: [topic_need(request.topic.name, PUB)],
    "RecallMessage": lambda request: [topic_need(request.topic.name, PUB)],
    "ReceiveMessage": _queue_and_group,
    "PullMessage": _queue_and_group,
    "UpdateOffset": _queue_and_group,
    "GetOffset": _queue_and_group,
    "QueryOffset": lambda request: [topic_need(request.message_queue.topic.name, SUB, GET)],
    "AckMessage": _topic_and_group,
    "ChangeInvisibleDuration": _topic_and_group,
    "ForwardMessageToDeadLetterQueue": _topic_and_group,
    "SyncLiteSubscription": _topic_and_group,
    "NotifyClientTermination": _group_if_named,
    "Telemetry": _settings_needs,
}


class Gate:
    """``gatekeeper`` None: everybody may do everything, and what a client shows is not looked at.

    ``audit`` hears of refusals.
    """

    def __init__(
        self, gatekeeper: Gatekeeper | None, audit: Audit | None, clock: Clock, age_max_ms: int | None = None
    ) -> None:
        """``age_max_ms``: how far the signed time may be from now; None: any time will do, as in RocketMQ."""
        self._gatekeeper = gatekeeper
        self._audit = audit
        self._clock = clock
        self._age_max_ms = age_max_ms

    def admit(self, name: str, call: Call) -> None:
        """Prove who makes a call of the method ``name``, by its metadata: nothing of its request is read so far.

        Raises ProxyRefusal: UNAUTHORIZED, or TOO_MANY_REQUESTS beyond a limit of the address.
        """
        if self._gatekeeper is None:
            return
        shown = _SIGNED.match(call.metadata.get(AUTHORIZATION, ""))
        user, signature = shown.groups() if shown is not None else ("", "")
        try:
            if user and self._age_max_ms is not None:
                check_age(call.metadata.get(DATE_TIME, ""), self._clock.now_ms(), self._age_max_ms)
            call.proven = prove(self._gatekeeper, call, user, signature)
        except ProxyRefusal as error:
            self._note(name, user, call, (), error)
            raise
        call.user = user

    def check(self, name: str, call: Call, request: Any) -> None:
        """Check what an admitted call of the method ``name`` asks for.

        Raises ProxyRefusal: UNAUTHORIZED, FORBIDDEN, or TOO_MANY_REQUESTS beyond a limit of the user or its address.
        """
        if self._gatekeeper is None:
            return
        if call.proven is None:
            self.admit(name, call)
            assert call.proven is not None
        needs = NEEDS[name](request)
        try:
            self._gatekeeper.check_call(call.proven, needs, request.ByteSize())
        except Refusal as error:
            code = Code.TOO_MANY_REQUESTS if error.code == ResponseCode.SYSTEM_BUSY else Code.FORBIDDEN
            refusal = ProxyRefusal(code, str(error))
            self._note(name, call.user, call, needs, refusal)
            raise refusal from error

    def _note(self, name: str, user: str, call: Call, needs: Iterable[Need], error: ProxyRefusal) -> None:
        if self._audit is not None and error.code in (Code.UNAUTHORIZED, Code.FORBIDDEN):
            self._audit.note_call(name, user, call.peer, needs, error.code, str(error))


def check_age(signed_time: str, now_ms: int, age_max_ms: int) -> None:
    """Check the time that a client signed, in UTC: who hears a signature can use it so long. Raises ProxyRefusal."""
    try:
        signed_ms = int(datetime.strptime(signed_time, TIME_FORMAT).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise ProxyRefusal(Code.UNAUTHORIZED, f"the signed time {signed_time!r:.40} is no {DATE_TIME}") from None
    if abs(now_ms - signed_ms) > age_max_ms:
        text = f"the signed time {signed_time} is {abs(now_ms - signed_ms) // 1000} s from this server's, the limit is "
        text += f"{age_max_ms // 1000} s: set the client's clock, and its time zone to UTC"
        raise ProxyRefusal(Code.UNAUTHORIZED, text)


def prove(gatekeeper: Gatekeeper, call: Call, user: str, signature: str) -> ProvenCall:
    """Return who makes a call: ``user`` with ``signature`` (hexadecimal), or nobody. Raises ProxyRefusal."""
    content = call.metadata.get(DATE_TIME, "").encode()

    def is_proven(secret: Secret) -> bool:
        return bool(content) and secret.has_signed(content, _base64(signature))

    try:
        return gatekeeper.prove_call(user, is_proven, call.peer)
    except Refusal as error:
        if error.code == ResponseCode.SYSTEM_BUSY:
            raise ProxyRefusal(Code.TOO_MANY_REQUESTS, str(error)) from error
        raise ProxyRefusal(Code.UNAUTHORIZED, str(error)) from error


def _base64(signature: str) -> bytes:
    """Return a signature in the form of RocketMQ's remoting."""
    try:
        return b64encode(unhexlify(signature))
    except Error:
        return b""
