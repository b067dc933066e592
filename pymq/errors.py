"""All exceptions of PyMQ in one tree, with the exit code of the command line.

An error that a peer or an operator can cause is one of these classes, with a text that names the value, the limit
and the next step. An error that only a bug can cause is an ``assert``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4
EXIT_REFUSED = 5
EXIT_PARTIAL = 6
_TOPIC_NOT_EXIST = 17  # the response code of RocketMQ


class PymqError(Exception):
    """The base of all exceptions that PyMQ raises on purpose."""

    exit_code: int = EXIT_FAILED


class UsageError(PymqError):
    """The operator gave a wrong option, value or file."""

    exit_code = EXIT_USAGE


class StoppedError(PymqError):
    """The operator stopped a server during its start."""

    exit_code = EXIT_OK


class ConfigError(UsageError):
    """A setting is unknown, has the wrong type, or is out of range."""


class UnsafeError(PymqError):
    """The requested action is impossible now, or could lose messages and the operator has not allowed that."""

    exit_code = EXIT_REFUSED


class ExpressionError(UsageError):
    """A filter expression is wrong or over a limit; ``column`` counts characters from 1."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        self.column = column
        self.reason = text


class FilterError(PymqError):
    """A filter fails on a message; the subscription's policy decides about the message."""


class FilterStopError(FilterError):
    """A filter fails on a message, and the subscription's policy is to stop."""


class NotFoundError(PymqError):
    """The requested topic, group, message or file does not exist."""

    exit_code = EXIT_NOT_FOUND


class NoQueueError(NotFoundError):
    """The topic exists, but no queue of it can be written, or read: its permission, or brokers without a master."""

    exit_code = EXIT_REFUSED


class UnreachableError(PymqError):
    """A server can't be connected, or does not answer in time."""

    exit_code = EXIT_UNREACHABLE


class ClosedError(UnreachableError):
    """The client is stopped, or it belongs to the process that forked this one: make a new client."""


class RequestTimeoutError(UnreachableError):
    """The connection works, but the answer did not arrive in time."""


class PartialError(PymqError):
    """A call to several servers took effect at some of them only.

    ``done`` are the addresses where it did, ``failed`` says for each other address why not.
    """

    exit_code = EXIT_PARTIAL

    def __init__(self, done: Sequence[str], failed: Mapping[str, PymqError]) -> None:
        reasons = "; ".join(f"{address}: {error}" for address, error in failed.items())
        super().__init__(f"done at {', '.join(done)}, but not at {reasons}: repeat it when that is mended")
        self.done = list(done)
        self.failed = dict(failed)


class ConflictError(PymqError):
    """Two administrators change the same topic or group at once: the later change was not made, or may be lost."""

    exit_code = EXIT_REFUSED


class RaftRefusedError(PymqError):
    """A node of a Raft group refuses a record, a change of its members or a hand-over. Nothing has changed."""

    exit_code = EXIT_REFUSED


class OverloadedError(PymqError):
    """A producer that does not wait has as much in flight as its limits allow: the message was not sent."""


class RefusedError(PymqError):
    """Client side: a server answered with a code other than success.

    ``code`` is the response code, ``remark`` the server's text, ``address`` the server ("host:port").
    """

    exit_code = EXIT_REFUSED

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        super().__init__(f"{address + ': ' if address else ''}refused with code {code}: {remark or 'no remark'}")
        if code == _TOPIC_NOT_EXIST:
            self.exit_code = EXIT_NOT_FOUND
        self.code = code
        self.remark = remark or ""
        self.address = address


class Refusal(PymqError):
    """Server side: a handler refuses a request; the peer gets ``code`` and ``remark``, the connection stays open."""

    exit_code = EXIT_REFUSED

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class ProtocolViolation(PymqError):
    """The peer broke the framing rules: its connection is closed without an answer.

    ``reason`` is a short fixed word for a counter's label; the text describes the bytes received.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class StoreError(PymqError):
    """The store can't perform a request."""


class StoreUnavailableError(StoreError):
    """The store refuses writes now (full or failing disk, shutting down); reads still work."""


class DoesNotFitError(StoreError):
    """A message is too large for the store's files or fields: a repetition of the request would fail, too."""


class CorruptRecordError(StoreError):
    """Bytes from the store fail their check at ``physical_offset``."""

    def __init__(self, physical_offset: int, text: str) -> None:
        super().__init__(text)
        self.physical_offset = physical_offset


class SearchLimitError(StoreError):
    """A look-up ended at its limit before it found anything."""


class UnreadableError(StoreError):
    """The disk can't read some bytes of the store; other bytes may be readable."""
