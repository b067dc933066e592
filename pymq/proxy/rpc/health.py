"""The health service (grpc.health.v1): whether the server takes calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

from pymq.proxy.protocol.messages import HealthCheckRequest, HealthCheckResponse
from pymq.proxy.rpc.call import SMALL_BYTES_MAX, RpcCall, RpcMethod
from pymq.proxy.rpc.wire import GrpcCode, GrpcError

SERVICE = "grpc.health.v1.Health"


class Health:
    """The status of the server and of its ``services``, which share it."""

    def __init__(self, services: Collection[str]) -> None:
        self._names = {"", *services}
        self._status = HealthCheckResponse.SERVING
        self._ended = asyncio.Event()

    def methods(self) -> dict[bytes, RpcMethod]:
        """Return what serves the calls of the service."""
        return {
            b"/grpc.health.v1.Health/Check": RpcMethod(
                self._check, HealthCheckRequest, request_bytes_max=SMALL_BYTES_MAX
            ),
            b"/grpc.health.v1.Health/Watch": RpcMethod(
                self._watch, HealthCheckRequest, gives_stream=True, request_bytes_max=SMALL_BYTES_MAX
            ),
        }

    def end(self) -> None:
        """Say from now on that nothing is served; streams that watch end with that."""
        self._status = HealthCheckResponse.NOT_SERVING
        self._ended.set()

    async def _check(self, _: RpcCall, request: Any) -> Any:
        if request.service not in self._names:
            raise GrpcError(GrpcCode.NOT_FOUND, f"the service {request.service!r:.200} is not served here")
        return HealthCheckResponse(status=self._status)

    async def _watch(self, _: RpcCall, request: Any) -> AsyncIterator[Any]:
        if request.service not in self._names:
            yield HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        else:
            yield HealthCheckResponse(status=self._status)
        if not self._ended.is_set():
            await self._ended.wait()
            yield HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
