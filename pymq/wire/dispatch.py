"""Answers requests: a server's route table, the interface of handlers, and how a refusal becomes a reply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from pymq.errors import DoesNotFitError, PymqError, Refusal, StoreUnavailableError
from pymq.wire.access import Access
from pymq.wire.codes import ResponseCode, request_name
from pymq.wire.command import Command, ProvenSender
from pymq.wire.header import Header, decode_header
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

# Of a request that is no message. Decoded JSON takes up to 20 times its size.
BODY_SIZE_MAX_BYTES = 2 * 1024 * 1024


def error_reply(error: PymqError) -> Reply:
    """Return the answer to a request whose handler raised ``error``."""
    if isinstance(error, Refusal):
        return Reply(error.code, error.remark)
    return Reply(_code_of(error), str(error))


def _code_of(error: PymqError) -> int:
    if isinstance(error, StoreUnavailableError):
        return ResponseCode.SERVICE_NOT_AVAILABLE
    # The code tells clients that a repetition would fail, too.
    return ResponseCode.MESSAGE_ILLEGAL if isinstance(error, DoesNotFitError) else ResponseCode.SYSTEM_ERROR


class Peer(Protocol):
    """The other end of a connection, as handlers see it."""

    address: str  # "host:port"
    host_bytes: bytes  # packed, as records store it
    client_certificate: bytes | None  # DER of the one that TLS has verified
    closed: bool

    @property
    def is_behind(self) -> bool:
        """True while earlier answers fill its buffer, because it does not read them."""
        ...

    def push(self, command: Command) -> None:
        """Send a one-way request to the client. Drops it when the connection is closed."""
        ...

    def ask(self, command: Command, on_answer: Callable[[Command | None], None], timeout_ms: int) -> None:
        """Send a request to the client; ``on_answer`` gets its response, or None after the timeout or a close."""
        ...

    def answer(self, request: Command, reply: Reply) -> None:
        """Send a late answer for a handler that returned None.

        Drops it for one-way requests and closed connections.
        """
        ...


class _HeardPeer:
    """A peer whose late answer to one request is heard. All else is the peer's own."""

    def __init__(self, peer: Peer, hear: Callable[[Reply], None]) -> None:
        self._peer = peer
        self._hear = hear

    def answer(self, request: Command, reply: Reply) -> None:
        self._hear(reply)
        self._peer.answer(request, reply)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)


class Sender(ProvenSender, Protocol):
    """The proven sender of one request."""

    def check(self, access: Access, request: Command, header: Header | None) -> None:
        """Raise Refusal when the sender may not send this request."""
        ...

    def check_found_topic(self, access: Access, topic: str) -> None:
        """Raise Refusal when the sender may not have the record of ``topic`` that a handler found."""
        ...


class Gate(Protocol):
    """Stands before every handler of a secured server."""

    def admit(self, request: Command, peer: Peer) -> Sender:
        """Return the sender of a request, as it arrived. Raises Refusal when nothing proves one."""
        ...


class Auditor(Protocol):
    """Keeps what operators changed, and what was refused."""

    def note(self, request: Command, peer: Peer, route: Route | None, sender: Sender | None, reply: Reply) -> None:
        """Keep that this was answered. ``sender`` is None when nothing proves one."""
        ...


Handler = Callable[[Command, Any, Peer], "Reply | None"]


class Route(NamedTuple):
    """One row of a server's table: how this server handles one request code, and what its sender must be allowed.

    ``has_large_body``: of messages, or a report of all topics of a broker. The handler checks the size.
    """

    code: int
    header: type[Header] | None
    handler: Handler
    access: Access
    has_large_body: bool = False

    @property
    def name(self) -> str:
        return request_name(self.code)


def _check_access(route: Route) -> None:
    """Raise TypeError, also under ``python -O``: a row that no permission protects must not be served."""
    if not isinstance(route.access, Access):
        raise TypeError(f"the row of {route.name} says no access: name the needs of its sender")
    if problem := route.access.problem(route.header):
        raise TypeError(f"the row of {route.name}: {problem}")


class Dispatcher:
    """Answers requests from one table. Never raises for what a peer can cause."""

    def __init__(
        self,
        routes: Iterable[Route],
        server_kind: str,
        refused: Mapping[int, str] | None = None,
        gate: Gate | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        """``server_kind`` ("broker") appears in remarks; ``refused`` maps known codes to why they aren't served.

        Without a ``gate`` every peer may send every request. ``auditor`` hears of changes and refusals.

        Raises TypeError for a row whose access column is no access, or reads fields that its header does not have.
        """
        self.routes: dict[int, Route] = {}
        self._server_kind = server_kind
        self._refused = dict(refused or {})
        self._gate = gate
        self._auditor = auditor
        for route in routes:
            assert route.code not in self.routes, f"request code {route.code} has two handlers"
            _check_access(route)
            self.routes[route.code] = route
        self._changes = frozenset(route.code for route in self.routes.values() if route.access.is_change)

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        """Return the answer, or None when it comes later. For a one-way request the caller drops the answer."""
        route = self.routes.get(command.code)
        if len(command.body) > BODY_SIZE_MAX_BYTES and (route is None or not route.has_large_body):
            return Reply(
                ResponseCode.INVALID_PARAMETER,
                f"the body of {request_name(command.code)} has {len(command.body)} bytes, the limit is "
                f"{BODY_SIZE_MAX_BYTES}: send less at once",
            )
        sender = None
        try:
            sender = self._gate.admit(command, peer) if self._gate is not None else None
            if route is None:
                return self._not_served(command.code)
            header = decode_header(route.header, command.ext) if route.header is not None else None
            if sender is not None:
                sender.check(route.access, command, header)
                command.sender = sender
                if route.access.found_topic:
                    command.found_topic_check = partial(sender.check_found_topic, route.access)
            reply = route.handler(command, header, self._heard(command, peer, route, sender))
        except PymqError as error:
            reply = error_reply(error)
        except Exception as error:
            name = request_name(command.code)
            log.exception("%s from %s failed", name, peer.address)
            reply = Reply(
                ResponseCode.SYSTEM_ERROR,
                f"{name} failed inside the {self._server_kind}: {type(error).__name__}: {error}",
            )
        if (
            self._auditor is not None
            and reply is not None
            and (command.code in self._changes or reply.code == ResponseCode.NO_PERMISSION)
        ):
            self._auditor.note(command, peer, route, sender, reply)
        return reply

    def _heard(self, command: Command, peer: Peer, route: Route, sender: Sender | None) -> Peer:
        """Return the peer for a handler: the auditor hears a late answer to a change."""
        auditor = self._auditor
        if auditor is None or command.code not in self._changes:
            return peer
        return cast(Peer, _HeardPeer(peer, lambda reply: auditor.note(command, peer, route, sender, reply)))

    def _not_served(self, code: int) -> Reply:
        why = self._refused.get(code, "it is not served here")
        return Reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {code} not supported by this {self._server_kind} ({request_name(code)}): {why}",
        )
