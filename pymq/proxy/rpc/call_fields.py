"""The fields of calls: a request's (method, deadline, compression), and the fields around an answer."""

from __future__ import annotations

from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.rpc.call import CallOwner, RpcCall
from pymq.proxy.rpc.connection_owner import ConnectionOwner
from pymq.proxy.rpc.wire import (
    CONTENT_TYPE,
    ENCODINGS,
    IDENTITY,
    GrpcCode,
    GrpcError,
    Metadata,
    encode_text,
    parse_timeout_ms,
)

METADATA_BYTES_MAX = 64 * 1024  # of a call; clients know it
INPUT_S_MAX = 30.0  # for the first bytes of HTTP/2, and for the whole request of a call that has one
ANSWER_HEAD = encode_fields(
    [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        (b"grpc-accept-encoding", b",".join([IDENTITY, *sorted(ENCODINGS)])),
    ]
)
OK = encode_fields([(b"grpc-status", b"0")])
NOT_GRPC = encode_fields([(b":status", b"415")])


def open_call(
    connection: CallOwner, server: ConnectionOwner, stream_id: int, fields: dict[bytes, bytes], size_bytes: int
) -> RpcCall | None:
    """Return a call; None for what is not gRPC. ``size_bytes``: of the fields.

    Raises GrpcError for a call that can't be served.
    """
    if not fields.get(b"content-type", b"").startswith(CONTENT_TYPE):
        return None
    if size_bytes > METADATA_BYTES_MAX:
        text = f"the call's metadata has {size_bytes} bytes, the limit is {METADATA_BYTES_MAX}: send less"
        raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)
    path = fields[b":path"]
    method = server.methods.get(path)
    if method is None:
        raise GrpcError(GrpcCode.UNIMPLEMENTED, f"{path.decode('utf-8', 'replace')!r:.200} is not served here")
    now_s, deadline_s = connection.now_s(), None
    if (timeout := fields.get(b"grpc-timeout")) is not None:
        timeout_ms = parse_timeout_ms(timeout)
        if not timeout_ms:
            raise GrpcError(GrpcCode.DEADLINE_EXCEEDED, "the call's deadline was over when it came")
        deadline_s = now_s + timeout_ms / 1000
    encoding = fields.get(b"grpc-encoding", IDENTITY)
    size_max = min(server.sizes.request_bytes_max, method.request_bytes_max)
    metadata, due_s = Metadata(fields), now_s + INPUT_S_MAX
    return RpcCall(connection, stream_id, method, metadata, encoding, deadline_s, due_s, size_max, server.room)


def trailers_of(code: GrpcCode, text: str) -> bytes:
    """Return what ends a call with a status."""
    return encode_fields([(b"grpc-status", b"%d" % code), (b"grpc-message", encode_text(text))])
