"""The reflection service: tells tools such as grpcurl the definitions of what is served, by v1 and v1alpha."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pymq.proxy.protocol.messages import (
    POOL,
    ErrorResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)
from pymq.proxy.rpc.call import RpcCall, RpcMethod
from pymq.proxy.rpc.wire import GrpcCode

SERVICE = "grpc.reflection.v1.ServerReflection"
REQUEST_BYTES_MAX = 4 * 1024  # the answer repeats it
OLD_SERVICE = "grpc.reflection.v1alpha.ServerReflection"  # the same messages, and what many tools ask for


class Reflection:
    """Describes these services."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = sorted(services)

    def methods(self) -> dict[bytes, RpcMethod]:
        """Return what serves the calls of the service."""
        method = RpcMethod(
            self._info,
            ServerReflectionRequest,
            takes_stream=True,
            gives_stream=True,
            request_bytes_max=REQUEST_BYTES_MAX,
        )
        return {f"/{name}/ServerReflectionInfo".encode(): method for name in (SERVICE, OLD_SERVICE)}

    async def _info(self, _: RpcCall, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            answer = ServerReflectionResponse(valid_host=request.host, original_request=request)
            kind = request.WhichOneof("message_request")
            try:
                if kind == "list_services":
                    services = [ServiceResponse(name=name) for name in self._services]
                    answer.list_services_response.CopyFrom(ListServiceResponse(service=services))
                elif kind == "file_by_filename":
                    answer.file_descriptor_response.CopyFrom(_files(POOL.FindFileByName(request.file_by_filename)))
                elif kind == "file_containing_symbol":
                    file = POOL.FindFileContainingSymbol(request.file_containing_symbol)
                    answer.file_descriptor_response.CopyFrom(_files(file))
                else:
                    answer.error_response.CopyFrom(
                        ErrorResponse(error_code=GrpcCode.NOT_FOUND, error_message="there are no extensions here")
                    )
            except KeyError:
                text = "nothing of this name is served here"
                answer.error_response.CopyFrom(ErrorResponse(error_code=GrpcCode.NOT_FOUND, error_message=text))
            yield answer


def _files(first: Any) -> Any:
    """Return a file of definitions and all files that it imports."""
    found: dict[str, Any] = {}
    left = [first]
    while left:
        file = left.pop()
        if file.name not in found:
            found[file.name] = file.serialized_pb
            left += file.dependencies
    return FileDescriptorResponse(file_descriptor_proto=list(found.values()))
