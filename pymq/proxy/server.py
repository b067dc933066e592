"""ProxyServer: the gRPC server of a proxy, behind a front that takes TLS and plain connections on one port."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from pymq.errors import PymqError
from pymq.model.hosts import format_address
from pymq.net.ticker import Ticker
from pymq.net.tls import ServerTls
from pymq.proxy.calls import Call, status_of
from pymq.proxy.checks import check_client_id
from pymq.proxy.front import Front
from pymq.proxy.gate import Gate
from pymq.proxy.protocol import messages
from pymq.proxy.protocol.messages import POOL, SERVICE
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal, code_of
from pymq.proxy.service import ProxyService
from pymq.security.audit import Audit
from pymq.security.gatekeeper import Gatekeeper

log = logging.getLogger(__name__)

INBOUND_BYTES_MAX = 130 * 1024 * 1024
METADATA_BYTES_MAX = 64 * 1024
# Calls that the event loop has not taken yet. Beyond the first number the gRPC library cancels some of the next ones by
# chance, beyond the second all. Its own numbers, 1000 and 3000, are fewer than the receives of many consumers.
UNTAKEN_CALLS_SOFT_MAX = 20_000
UNTAKEN_CALLS_MAX = 40_000
IDLE_MS_MAX = 120_000  # a connection without calls is closed then
PING_INTERVAL_MS_MIN = 10_000
TICK_MS = 1_000
DRAIN_S = 5.0  # for calls that are under way at a stop
LOOPBACK = "127.0.0.1"

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
    ) -> None:
        """``gatekeeper`` None: everybody may do everything. ``audit`` hears of refusals.

        ``signature_age_ms``: how far the time that a client signs may be from now; None: any will do.
        """
        self.service = service
        self.address = ""
        self.calls: Counter[tuple[str, int]] = Counter()  # that ended, by method and code
        self._gate = Gate(gatekeeper, audit, service.clock, signature_age_ms)
        self.front = Front(tls)
        self._server: Any = None
        self._ticker = Ticker(lambda: TICK_MS, self._tick)
        self._ticking: asyncio.Task[None] | None = None
        self._health = health.aio.HealthServicer()

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port), and return the port. Raises OSError."""
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((self._handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server, pool=POOL)
        inner_port = server.add_insecure_port(f"{LOOPBACK}:0")
        await server.start()
        self._server = server
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        try:
            bound = await self.front.start(host, port, (LOOPBACK, inner_port))
        except OSError:
            await server.stop(None)
            raise
        self.address = format_address(host, bound)
        self._ticker.start()
        return bound

    async def stop(self) -> None:
        """Take no new connection, and end after the calls under way, or after DRAIN_S."""
        self._ticker.stop()
        if self._ticking is not None:
            await asyncio.gather(self._ticking, return_exceptions=True)
        self.front.stop_accepting()
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            self.service.end_waits()
            await self._server.stop(DRAIN_S)
        await self.service.stop()
        await self.front.stop()

    def _tick(self) -> None:
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick_once())

    async def _tick_once(self) -> None:
        try:
            await self.service.tick()
        except Exception:
            log.exception("a round of the proxy failed")

    def _handlers(self) -> Any:
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
            "UpdateOffset": service.pulling.update_offset,
            "GetOffset": service.pulling.get_offset,
            "QueryOffset": service.pulling.query_offset,
        }
        methods = {name: self._unary(name, handler) for name, handler in unary.items()}
        methods["ReceiveMessage"] = self._stream("ReceiveMessage", service.receiving.receive_message)
        methods["PullMessage"] = self._stream("PullMessage", service.pulling.pull_message)
        methods["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._telemetry,
            request_deserializer=messages.TelemetryCommand.FromString,
            response_serializer=messages.TelemetryCommand.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(self, name: str, handler: Unary) -> Any:
        answer_class = getattr(messages, f"{name}Response")

        async def serve(request: Any, context: Any) -> Any:
            try:
                call = self._call(context)
                check_client_id(call.client_id)
                self._gate.check(name, call, request)
                answer = await handler(call, request)
            except PymqError as error:
                answer = answer_class(status=status_of(error))
            self.calls[name, answer.status.code] += 1
            return answer

        return grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=getattr(messages, f"{name}Request").FromString,
            response_serializer=answer_class.SerializeToString,
        )

    def _stream(self, name: str, handler: Streaming) -> Any:
        answer_class = getattr(messages, f"{name}Response")

        async def serve(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                call = self._call(context)
                self._gate.check(name, call, request)
            except PymqError as error:
                self.calls[name, code_of(error)] += 1
                yield answer_class(status=status_of(error))
                if name == "ReceiveMessage":
                    yield answer_class(delivery_timestamp=self.service.now())
                return
            async for each in handler(call, request):
                if each.HasField("status"):
                    self.calls[name, each.status.code] += 1
                yield each

        return grpc.unary_stream_rpc_method_handler(
            serve,
            request_deserializer=getattr(messages, f"{name}Request").FromString,
            response_serializer=answer_class.SerializeToString,
        )

    async def _telemetry(self, commands: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async def checked(call: Call) -> AsyncIterator[Any]:
            async for command in commands:
                self._gate.check("Telemetry", call, command)
                yield command

        try:
            call = self._call(context)
            async for command in self.service.clients.telemetry(call, checked(call)):
                yield command
                del command  # not kept while the stream is idle
        except PymqError as error:
            code = _TELEMETRY_CODES.get(code_of(error), grpc.StatusCode.INVALID_ARGUMENT)
            await context.abort(code, str(error))

    def _call(self, context: Any) -> Call:
        """Return who calls. Raises ProxyRefusal on a connection that is not the front's.

        Other users of the machine reach the port behind the front, where nobody asks for TLS or a certificate.
        """
        client = self.front.client_of(context.peer())
        if not client:
            raise ProxyRefusal(Code.FORBIDDEN, f"this port is the proxy's own: connect to {self.address}")
        left_s = context.time_remaining()
        metadata = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
        return Call(metadata, None if left_s is None else left_s * 1000, client)


_TELEMETRY_CODES = {
    Code.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    Code.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Code.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
}
_OPTIONS = (
    ("grpc.max_receive_message_length", INBOUND_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.server.max_pending_requests", UNTAKEN_CALLS_SOFT_MAX),
    ("grpc.server.max_pending_requests_hard_limit", UNTAKEN_CALLS_MAX),
    ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_INTERVAL_MS_MIN),
    ("grpc.so_reuseport", 0),
)
