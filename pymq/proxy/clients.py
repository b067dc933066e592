"""The clients themselves: Heartbeat, Telemetry and NotifyClientTermination."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from pymq.clock import Clock
from pymq.model.hosts import host_of
from pymq.proxy.backend import Backend
from pymq.proxy.calls import Call, status_ok
from pymq.proxy.checks import check_client_id
from pymq.proxy.protocol.messages import HeartbeatResponse, NotifyClientTerminationResponse, TelemetryCommand
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import Session, Sessions, check_owner
from pymq.proxy.settings import GroupRules, answer_settings, check_settings, settings_size
from pymq.security.gatekeeper import ProvenCall

log = logging.getLogger(__name__)

# A client that reads no answers gets no further ones beyond these.
UNREAD_COMMANDS_MAX = 64
UNREAD_COMMANDS_BYTES_MAX = 4 * 1024 * 1024  # of them together; one of any size is taken
NAME_LENGTH_MAX = 64  # of a client's language and version


class Stream:
    """The server's side of a Telemetry stream. Thousands are open and idle: a queue of asyncio would take 3 KB each."""

    __slots__ = ("_commands", "_is_ended", "_size_bytes", "_waiter")

    def __init__(self) -> None:
        self._commands: list[Any] = []
        self._size_bytes = 0
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None

    def send(self, command: Any) -> bool:
        """Send a command. Return False when the client reads none."""
        size_bytes = command.ByteSize()
        is_full = (
            self._size_bytes + size_bytes > UNREAD_COMMANDS_BYTES_MAX or len(self._commands) >= UNREAD_COMMANDS_MAX
        )
        if self._commands and is_full:
            return False
        self._commands.append(command)
        self._size_bytes += size_bytes
        self._wake()
        return True

    def end(self) -> None:
        """End the stream after what was sent."""
        self._is_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Any:
        """Return the next command to write; None at the end of the stream."""
        while not self._commands:
            if self._is_ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        command = self._commands.pop(0)
        self._size_bytes -= command.ByteSize()
        return command


class Clients:
    """Keeps the sessions. ``on_left(session)`` is called for each client that left, or was silent for too long."""

    def __init__(
        self,
        backend: Backend,
        sessions: Sessions,
        clock: Clock,
        on_left: Callable[[Session], None],
        on_settled: Callable[[Session], None],
        on_answer: Callable[[Call, Any], None],
    ) -> None:
        """``on_settled(session)`` is called for each client that sent settings, ``on_answer`` for other commands."""
        self._backend = backend
        self._sessions = sessions
        self._clock = clock
        self._on_left = on_left
        self._on_settled = on_settled
        self._on_answer = on_answer

    async def heartbeat(self, call: Call, request: Any) -> Any:
        """Note that a client is alive, also one that has to send settings first."""
        client_id = check_client_id(call.client_id)
        if self._sessions.find(client_id) is None:
            self._sessions.strangers.heard(client_id, call.user, self._clock.monotonic_ms())
        self._known(call)
        return HeartbeatResponse(status=status_ok())

    async def notify_client_termination(self, call: Call, request: Any) -> Any:
        """Forget a client that leaves."""
        session = self._known(call)
        self._sessions.remove(call.client_id)
        self._on_left(session)
        return NotifyClientTerminationResponse(status=status_ok())

    def forget_silent(self) -> None:
        """Forget the clients that were silent for too long."""
        for session in self._sessions.silent(self._clock.monotonic_ms()):
            log.info("client %s was silent for too long", session.client_id)
            self._on_left(session)

    def forget_unproven(self, is_there: Callable[[ProvenCall], bool], users: Collection[str]) -> None:
        """Forget the clients whose users were deleted, or got other secrets, and end their streams.

        ``is_there``: whether a proof still counts; ``users``: the names of those that are there.
        """
        for session in self._sessions.all():
            if session.proven is not None and not is_there(session.proven):
                self._sessions.remove(session.client_id)
                self.end_stream(session)
                self._on_left(session)
        self._sessions.strangers.forget_others(users)

    def end_streams(self) -> None:
        """End all streams of clients that sent settings."""
        for session in self._sessions.all():
            self.end_stream(session)

    def end_stream(self, session: Session) -> None:
        """End the stream of a client, if it is open."""
        if isinstance(session.stream, Stream):
            session.stream.end()

    async def telemetry(self, call: Call, commands: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what a client gets: the answers to its settings, and what the server asks it.

        Raises ProxyRefusal for settings that can't be served.
        """
        check_client_id(call.client_id)
        stream = Stream()
        reading = asyncio.ensure_future(self._read(call, commands, stream))
        reading.add_done_callback(lambda _: stream.end())
        try:
            while (command := await stream.next()) is not None:
                yield command
                del command  # an answer takes 3 KB, and the next one may come in minutes
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            session = self._sessions.find(call.client_id)
            if session is not None and session.stream is stream:
                session.stream = None

    async def _read(self, call: Call, commands: AsyncIterator[Any], stream: Stream) -> None:
        async for command in commands:
            kind = command.WhichOneof("command")
            if kind == "settings":
                stream.send(await self._settle(call, command.settings, stream))
            elif kind is not None:
                self._on_answer(call, command)
            del command  # not kept while the stream is idle

    async def _settle(self, call: Call, settings: Any, stream: Stream) -> Any:
        """Note a client's settings, and return the answer."""
        group = check_settings(settings)
        rules = await self._backend.group_rules(group) if group else GroupRules()
        answer = answer_settings(settings, rules)
        if group:
            settings.subscription.fifo = rules.is_orderly  # the session keeps these settings: the answer takes 3 KB
        now_ms = self._clock.monotonic_ms()
        session = Session(
            call.client_id,
            settings,
            call.language[:NAME_LENGTH_MAX],
            (call.version or "")[:NAME_LENGTH_MAX],
            now_ms,
            host=host_of(call.peer),
            size_bytes=settings_size(settings) + len(call.client_id),
            user=call.user,
            proven=call.proven,
            stream=stream,
        )
        known = self._sessions.find(call.client_id)
        if known is not None:
            check_owner(known, call.user)
            session.joined = known.joined
        if not self._sessions.put(session):
            raise ProxyRefusal(Code.TOO_MANY_REQUESTS, f"this server has {len(self._sessions)} clients: use another")
        if self._sessions.find(call.client_id) is not session:
            raise ProxyRefusal(Code.TOO_MANY_REQUESTS, "the settings of this server's clients take too much memory")
        self._on_settled(session)
        return TelemetryCommand(status=status_ok(), settings=answer)

    def _known(self, call: Call) -> Session:
        client_id = check_client_id(call.client_id)
        session = self._sessions.touch(client_id, call.user, self._clock.monotonic_ms())
        if session is None:
            text = f"client {client_id} has sent no settings: open a Telemetry stream first"
            raise ProxyRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        return session
