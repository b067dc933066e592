"""One exception tree: each class knows the response code a peer gets and the exit code a shell gets.

Two kinds of error exist. What a peer or an operator can cause is one of these classes, with a text that names the
value, the limit and the next step. What only a bug can cause is an ``assert``.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4
EXIT_REFUSED = 5


class PymqError(Exception):
    """Base of everything PyMQ raises on purpose."""

    exit_code: int = EXIT_FAILED


class UsageError(PymqError):
    """The operator wrote something that can't be meant: a bad option, value or file."""

    exit_code = EXIT_USAGE


class StoppedError(PymqError):
    """The operator told a server to stop before its start was over."""

    exit_code = EXIT_OK


class ConfigError(UsageError):
    """A setting is unknown, ill-typed or out of its range."""


class UnsafeError(PymqError):
    """What was asked for can't be done now, or could lose messages and the operator has not allowed that."""

    exit_code = EXIT_REFUSED


class ExpressionError(UsageError):
    """A filter expression is wrong or over a limit; ``column`` counts its characters from 1."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        self.column = column
        self.reason = text


class FilterError(PymqError):
    """A filter can't judge a message; what becomes of the message is the subscription's choice."""


class FilterStopError(FilterError):
    """A filter can't judge a message, and its subscription wants to stop then."""


class NotFoundError(PymqError):
    """The topic, group, message or file asked for does not exist."""

    exit_code = EXIT_NOT_FOUND


class UnreachableError(PymqError):
    """No connection, or no answer in time, from a server."""

    exit_code = EXIT_UNREACHABLE


class RequestTimeoutError(UnreachableError):
    """The connection stands but the answer did not come in time."""


class RefusedError(PymqError):
    """Client side: a server answered with a code other than success.

    ``code`` is the response code, ``remark`` the server's text, ``address`` the server ("host:port").
    """

    exit_code = EXIT_REFUSED

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        super().__init__(f"{address + ': ' if address else ''}refused with code {code}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark or ""
        self.address = address


class Refusal(PymqError):
    """Server side: a handler declines a request; the peer gets ``code`` and ``remark``, the connection stays open."""

    exit_code = EXIT_REFUSED

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class ProtocolViolation(PymqError):
    """The peer broke the framing rules: its connection is closed without an answer.

    ``reason`` is a short fixed word used as a counter's label, the text says what was seen.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class StoreError(PymqError):
    """The store can't do what was asked."""


class StoreUnavailableError(StoreError):
    """The store refuses writes for now (full or failing disk, shutting down); reads go on."""


class CorruptRecordError(StoreError):
    """Bytes read from the store fail their check; ``physical_offset`` says where."""

    def __init__(self, physical_offset: int, text: str) -> None:
        super().__init__(text)
        self.physical_offset = physical_offset


class UnreadableError(StoreError):
    """The disk fails to give bytes of the store back; other bytes may well be readable."""
