"""Faults: requests that a test's broker refuses, delays or loses. They stand before the broker's table of requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from pymq.errors import UsageError
from pymq.net.server import Connection, FastPath, Server
from pymq.wire.codes import RequestCode, request_name
from pymq.wire.command import FLAG_ONEWAY, Command
from pymq.wire.dispatch import Dispatcher, Peer
from pymq.wire.reply import Reply

# What a test calls a kind of request, and the codes that clients use for it.
REQUEST_KINDS: Mapping[str, frozenset[int]] = {
    "send": frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}),
    "pull": frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}),
    "pop": frozenset({RequestCode.POP_MESSAGE}),
    "ack": frozenset({RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE}),
    "send back": frozenset({RequestCode.CONSUMER_SEND_MSG_BACK}),
    "end transaction": frozenset({RequestCode.END_TRANSACTION}),
    "read offset": frozenset({RequestCode.QUERY_CONSUMER_OFFSET}),
    "commit offset": frozenset({RequestCode.UPDATE_CONSUMER_OFFSET}),
    "lock": frozenset({RequestCode.LOCK_BATCH_MQ}),
    "heartbeat": frozenset({RequestCode.HEART_BEAT}),
}
_TOPIC_FIELDS = {
    RequestCode.SEND_MESSAGE_V2: "b",
    RequestCode.SEND_BATCH_MESSAGE: "b",
    RequestCode.CONSUMER_SEND_MSG_BACK: "originTopic",
}
# Requests that carry the client's time, to tell how long they were on their way.
_TIMED_CODES = frozenset({RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION})

# Does what the fault is about. Takes the dispatcher behind it.
Effect = Callable[[Dispatcher, Peer, Command], "Reply | None"]


class Fault:
    """One fault. It ends after ``count`` requests, at :meth:`end`, or at the end of a ``with`` block.

    ``effect`` None: it counts requests and lets them through, also to other faults.
    """

    def __init__(
        self, effect: Effect | None, codes: frozenset[int] | None, topic: str | None, count: int | None
    ) -> None:
        """``codes`` None: all requests; ``topic`` None: those of all topics; ``count`` None: until it is ended."""
        self.hit_count = 0
        self.effect = effect
        self._codes = codes
        self._topic = topic
        self._left = count
        self._changed = threading.Condition()

    @property
    def is_over(self) -> bool:
        """True when it meets no more requests."""
        return self._left == 0

    def end(self) -> None:
        """Let all further requests through."""
        with self._changed:
            self._left = 0

    def wait(self, hit_count: int = 1, timeout_s: float = 30.0) -> None:
        """Return once the fault has met so many requests. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hit_count >= hit_count, timeout_s):
                raise TimeoutError(
                    f"the fault met {self.hit_count} requests within {timeout_s:g} s, wanted {hit_count}: check its "
                    "topic and its kind of request"
                )

    def meets(self, command: Command) -> bool:
        """Return True, and count the request, when the fault is about it."""
        if self._codes is not None and command.code not in self._codes:
            return False
        if self._topic is not None and command.ext.get(_TOPIC_FIELDS.get(command.code, "topic")) != self._topic:
            return False
        with self._changed:
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            self.hit_count += 1
            self._changed.notify_all()
        return True

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Faults:
    """The faults of one broker: the :class:`~pymq.broker.assembly.front.Front` before it. The oldest match wins."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object], is_moved: Callable[[], bool]) -> None:
        """``call_later(seconds, function)`` runs on the broker's loop; ``is_moved`` tells whether the broker's time
        is not the machine's."""
        self._call_later = call_later
        self._is_moved = is_moved
        self._faults: list[Fault] = []

    def add(self, effect: Effect | None, requests: str | int | None, topic: str | None, count: int | None) -> Fault:
        """Add a fault for a kind of request (REQUEST_KINDS), a request code, or None for all. Raises UsageError."""
        if count is not None and count < 1:
            raise UsageError(f"a fault for {count} requests does nothing: give 1 or more, or None for no limit")
        fault = Fault(effect, _codes(requests), topic, count)
        self._faults = [*(each for each in self._faults if not each.is_over), fault]
        return fault

    def clear(self) -> None:
        """End all faults."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.end()

    def delayed(self, duration_s: float) -> Effect:
        """Return the effect of a request that is handled so many seconds later."""

        def effect(inner: Dispatcher, peer: Peer, command: Command) -> None:
            def handle() -> None:
                if not peer.closed and (reply := inner.dispatch(peer, command)) is not None:
                    peer.answer(command, reply)

            self._call_later(duration_s, handle)

        return effect

    def stand_before(self, server: Server) -> None:
        """See :class:`~pymq.broker.assembly.front.Front`."""
        server.dispatcher = _FaultDispatcher(self, server.dispatcher)
        if server.fast_path is not None:
            server.fast_path = self._unless_faulty(server.fast_path)

    def take(self, command: Command) -> Effect | None:
        """Return what the oldest fault that meets this request does to it; None lets it through."""
        effect: Effect | None = None
        for fault in self._faults:
            if (fault.effect is None or effect is None) and fault.meets(command):
                effect = effect or fault.effect
        if self._faults and all(fault.is_over for fault in self._faults):
            self._faults = []
        return effect

    def in_broker_time(self, command: Command) -> None:
        """Let a request of a client on machine time count as new: its time says nothing to a broker on another."""
        if command.code in _TIMED_CODES and self._is_moved():
            command.ext["bornTime"] = "0"

    def _unless_faulty(self, fast_path: FastPath) -> FastPath:
        def fast_or_plain(connection: Connection, payload: bytes) -> bool:
            return not self._faults and fast_path(connection, payload)

        return fast_or_plain


class _FaultDispatcher(Dispatcher):
    def __init__(self, faults: Faults, inner: Dispatcher) -> None:
        super().__init__(inner.routes.values(), "broker")
        self._faults = faults
        self._inner = inner

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        self._faults.in_broker_time(command)
        effect = self._faults.take(command)
        return self._inner.dispatch(peer, command) if effect is None else effect(self._inner, peer, command)


def refused(code: int, remark: str) -> Effect:
    """Return the effect of a request that is not handled and answered with ``code``."""
    return lambda inner, peer, command: Reply(code, f"{remark} ({request_name(command.code)})")


def dropped(inner: Dispatcher, peer: Peer, command: Command) -> None:
    """The effect of a request that never arrives."""


def answer_dropped(inner: Dispatcher, peer: Peer, command: Command) -> None:
    """The effect of an answer that never arrives: the request is handled as one without an answer."""
    if command.code not in REQUEST_KINDS["pull"]:  # a pull changes nothing at the broker
        command.flag |= FLAG_ONEWAY
        inner.dispatch(peer, command)


def _codes(requests: str | int | None) -> frozenset[int] | None:
    if requests is None:
        return None
    if isinstance(requests, int):
        return frozenset({requests})
    codes = REQUEST_KINDS.get(requests)
    if codes is None:
        raise UsageError(f"{requests!r} is no kind of request: use {', '.join(REQUEST_KINDS)}, or a request code")
    return codes
