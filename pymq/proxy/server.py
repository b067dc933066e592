"""ProxyServer: the port of a proxy, which serves gRPC with TLS and without."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from pymq.errors import PymqError
from pymq.model.hosts import format_address
from pymq.net.limits import ServerLimits
from pymq.net.ticker import Ticker
from pymq.net.tls import ServerTls
from pymq.proxy.calls import Call, status_of
from pymq.proxy.checks import check_client_id
from pymq.proxy.gate import Gate
from pymq.proxy.protocol import messages
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import code_of
from pymq.proxy.rpc import health, reflection
from pymq.proxy.rpc.call import REQUEST_BYTES_MAX, SMALL_BYTES_MAX, RpcCall, RpcMethod
from pymq.proxy.rpc.server import RpcServer
from pymq.proxy.rpc.wire import GrpcCode, GrpcError
from pymq.proxy.service import ProxyService
from pymq.security.audit import Audit
from pymq.security.gatekeeper import Gatekeeper

log = logging.getLogger(__name__)

TICK_MS = 1_000
DRAIN_S = 5.0  # for calls that are under way at a stop
# Of a request, in bytes. Calls that are not named have SMALL_BYTES_MAX.
COMMAND_BYTES_MAX = 2 * 1024 * 1024  # settings, or the stacks of a client's threads
SUBSCRIPTIONS_BYTES_MAX = 1024 * 1024  # names of lite topics; less than a broker takes
ROUTE_BYTES_MAX = 4 * 1024  # each queue of the answer repeats a part of it
REQUEST_BYTES = {
    "SendMessage": REQUEST_BYTES_MAX,
    "AckMessage": 1024 * 1024,
    "SyncLiteSubscription": SUBSCRIPTIONS_BYTES_MAX,
    "QueryRoute": ROUTE_BYTES_MAX,
    "QueryAssignment": ROUTE_BYTES_MAX,
}

Unary = Callable[[Call, Any], Awaitable[Any]]
Streaming = Callable[[Call, Any], AsyncIterator[Any]]


class ProxyServer:
    """Serves ``service`` on one port. ``tls`` None: plain connections only."""

    def __init__(
        self,
        service: ProxyService,
        tls: ServerTls | None = None,
        gatekeeper: Gatekeeper | None = None,
        audit: Audit | None = None,
        signature_age_ms: int | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        """``gatekeeper`` None: everybody may do everything. ``audit`` hears of refusals.

        ``signature_age_ms``: how far the time that a client signs may be from now; None: any will do. ``limits``: of
        connections.
        """
        self.service = service
        self.address = ""
        self.calls: Counter[tuple[str, int]] = Counter()  # that ended, by method and code
        if gatekeeper is not None:
            gatekeeper.add_listener(lambda: self._users_changed(gatekeeper))
        self._gate = Gate(gatekeeper, audit, service.clock, signature_age_ms)
        self._health = health.Health([SERVICE])
        self.rpc = RpcServer(self._methods(), tls, clock=service.clock, limits=limits, budget=service.budget)
        self._ticker = Ticker(lambda: TICK_MS, self._tick)
        self._ticking: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, *, is_shared: bool = False) -> int:
        """Listen on ``host:port`` (0: any free port), and return the port. Raises OSError.

        ``is_shared``: other processes of this user listen there as well; each connection goes to one of them.
        """
        bound = await self.rpc.start(host, port, is_shared=is_shared)
        self.address = format_address(host, bound)
        self._ticker.start()
        return bound

    async def stop(self) -> None:
        """Take no new connection, and end after the calls under way, or after DRAIN_S."""
        self._ticker.stop()
        if self._ticking is not None:
            await asyncio.gather(self._ticking, return_exceptions=True)
        self.rpc.stop_accepting()
        self._health.end()
        self.service.end_waits()
        await self.rpc.stop(DRAIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self.service.stop()

    def _users_changed(self, gatekeeper: Gatekeeper) -> None:
        names = {user.name for user in gatekeeper.guard.users}
        self.service.clients.forget_unproven(gatekeeper.is_still_there, names)

    def _tick(self) -> None:
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick_once())

    async def _tick_once(self) -> None:
        try:
            await self.service.tick()
        except Exception:
            log.exception("a round of the proxy failed")

    def _methods(self) -> dict[bytes, RpcMethod]:
        service = self.service
        unary: dict[str, Unary] = {
            "QueryRoute": service.routing.query_route,
            "QueryAssignment": service.routing.query_assignment,
            "Heartbeat": service.clients.heartbeat,
            "SendMessage": service.publishing.send_message,
            "EndTransaction": service.orphans.end_transaction,
            "RecallMessage": service.publishing.recall_message,
            "AckMessage": service.receiving.ack_message,
            "ChangeInvisibleDuration": service.receiving.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": service.receiving.forward_message_to_dead_letter_queue,
            "NotifyClientTermination": service.clients.notify_client_termination,
            "SyncLiteSubscription": service.lites.sync_lite_subscription,
            "UpdateOffset": service.pulling.update_offset,
            "GetOffset": service.pulling.get_offset,
            "QueryOffset": service.pulling.query_offset,
        }
        methods = {name: self._unary(name, handler) for name, handler in unary.items()}
        methods["ReceiveMessage"] = self._stream("ReceiveMessage", service.receiving.receive_message)
        methods["PullMessage"] = self._stream("PullMessage", service.pulling.pull_message)
        methods["Telemetry"] = RpcMethod(
            self._telemetry,
            messages.TelemetryCommand,
            takes_stream=True,
            gives_stream=True,
            request_bytes_max=COMMAND_BYTES_MAX,
            admit=self._admit_telemetry,
        )
        described = reflection.Reflection([SERVICE, health.SERVICE, reflection.SERVICE, reflection.OLD_SERVICE])
        return {
            **{f"/{SERVICE}/{name}".encode(): method for name, method in methods.items()},
            **self._health.methods(),
            **described.methods(),
        }

    def _unary(self, name: str, handler: Unary) -> RpcMethod:
        answer_class = getattr(messages, f"{name}Response")

        def admit(rpc: RpcCall) -> list[Any] | None:
            try:
                call = _new_call(rpc)
                check_client_id(call.client_id)
                self._gate.admit(name, call)
            except PymqError as error:
                self.calls[name, code_of(error)] += 1
                return [answer_class(status=status_of(error))]
            return None

        async def serve(rpc: RpcCall, request: Any) -> Any:
            try:
                call = _call(rpc)
                self._gate.check(name, call, request)
                answer = await handler(call, request)
            except PymqError as error:
                answer = answer_class(status=status_of(error))
            self.calls[name, answer.status.code] += 1
            return answer

        size_max = REQUEST_BYTES.get(name, SMALL_BYTES_MAX)
        return RpcMethod(serve, getattr(messages, f"{name}Request"), request_bytes_max=size_max, admit=admit)

    def _stream(self, name: str, handler: Streaming) -> RpcMethod:
        answer_class = getattr(messages, f"{name}Response")

        def refused(error: PymqError) -> list[Any]:
            self.calls[name, code_of(error)] += 1
            last = [answer_class(delivery_timestamp=self.service.now())] if name == "ReceiveMessage" else []
            return [answer_class(status=status_of(error)), *last]

        def admit(rpc: RpcCall) -> list[Any] | None:
            try:
                self._gate.admit(name, _new_call(rpc))
            except PymqError as error:
                return refused(error)
            return None

        async def serve(rpc: RpcCall, request: Any) -> AsyncIterator[Any]:
            call = _call(rpc)
            try:
                self._gate.check(name, call, request)
            except PymqError as error:
                for answer in refused(error):
                    yield answer
                return
            async for each in handler(call, request):
                if each.HasField("status"):
                    self.calls[name, each.status.code] += 1
                yield each

        request_class = getattr(messages, f"{name}Request")
        return RpcMethod(serve, request_class, gives_stream=True, request_bytes_max=SMALL_BYTES_MAX, admit=admit)

    def _admit_telemetry(self, rpc: RpcCall) -> None:
        try:
            self._gate.admit("Telemetry", _new_call(rpc))
        except PymqError as error:
            raise _grpc_error(error) from error

    async def _telemetry(self, rpc: RpcCall, commands: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async def checked(call: Call) -> AsyncIterator[Any]:
            async for command in commands:
                self._gate.check("Telemetry", call, command)
                yield command
                del command  # not kept while the stream is idle

        try:
            call = _call(rpc)
            async for command in self.service.clients.telemetry(call, checked(call)):
                yield command
                del command  # not kept while the stream is idle
        except PymqError as error:
            raise _grpc_error(error) from error


def _new_call(rpc: RpcCall) -> Call:
    """Return what the handlers know of a call, which is kept until its request has come."""
    call = rpc.context = Call(rpc.metadata, None, rpc.peer)
    return call


def _call(rpc: RpcCall) -> Call:
    call: Call = rpc.context
    call.left_ms, call.keep = rpc.left_ms(), rpc.keep
    return call


def _grpc_error(error: PymqError) -> GrpcError:
    return GrpcError(_TELEMETRY_CODES.get(code_of(error), GrpcCode.INVALID_ARGUMENT), str(error))


_TELEMETRY_CODES = {
    Code.UNAUTHORIZED: GrpcCode.UNAUTHENTICATED,
    Code.FORBIDDEN: GrpcCode.PERMISSION_DENIED,
    Code.INTERNAL_SERVER_ERROR: GrpcCode.INTERNAL,
}
