"""The fields that stand before and behind answers, encoded."""

from __future__ import annotations

from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.rpc.wire import CONTENT_TYPE, ENCODINGS, IDENTITY, GrpcCode, encode_text

ANSWER_HEAD = encode_fields(
    [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        (b"grpc-accept-encoding", b",".join([IDENTITY, *sorted(ENCODINGS)])),
    ]
)
OK = encode_fields([(b"grpc-status", b"0")])
NOT_GRPC = encode_fields([(b":status", b"415")])


def trailers_of(code: GrpcCode, text: str) -> bytes:
    """Return what ends a call with a status."""
    return encode_fields([(b"grpc-status", b"%d" % code), (b"grpc-message", encode_text(text))])
