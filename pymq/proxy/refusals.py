"""Refusals: how a call that can't be served ends, and the codes for what brokers and the client library raise."""

from __future__ import annotations

from pymq.errors import NoQueueError, NotFoundError, PymqError, RefusedError, RequestTimeoutError
from pymq.proxy.protocol.names import Code
from pymq.wire.codes import ResponseCode

TEXT_LENGTH_MAX = 1024  # of a status; clients write it to their logs

_OF_BROKERS = {
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.LMQ_QUOTA_EXCEEDED: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
}


class ProxyRefusal(PymqError):
    """A call is refused: the client gets ``code`` (of :class:`~pymq.proxy.protocol.names.Code`) and the text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def code_of(error: PymqError) -> int:
    """Return the code of the status for an error."""
    match error:
        case ProxyRefusal():
            return error.code
        case RefusedError():
            return _OF_BROKERS.get(error.code, Code.INTERNAL_SERVER_ERROR)
        case NoQueueError():
            return Code.FORBIDDEN
        case NotFoundError():
            return Code.TOPIC_NOT_FOUND
        case RequestTimeoutError():
            return Code.PROXY_TIMEOUT
        case _:
            return Code.INTERNAL_SERVER_ERROR


def text_of(error: PymqError) -> str:
    """Return the text of the status for an error."""
    return str(error)[:TEXT_LENGTH_MAX]
