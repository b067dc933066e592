"""Bodies as text: takes compression off that applications put on, and writes binary formats as JSON."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pymq.client.codecs import AvroCodec, JsonCodec, MsgpackCodec, ProtobufCodec
from pymq.client.registered_bodies import RegisteredBodies, as_json
from pymq.client.schema_registry import SchemaRegistry
from pymq.errors import PymqError, UsageError
from pymq.model import sysflag
from pymq.model.compression import (
    INFLATION_FREE_BYTES,
    INFLATION_RATIO_MAX,
    NAMES,
    InflatedSizeError,
    InflateError,
    decompress_body,
    inflated_size_max,
)
from pymq.model.record import StoredMessage
from pymq.operations.message.content import ReadBody
from pymq.packages import pip_install

# What each compression's output begins with (RFC 1952, LZ4 frame format, RFC 8878).
MAGIC = {"gzip": b"\x1f\x8b\x08", "lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}
LAYERS = ("gzip", "zlib", "lz4", "zstd")
REGISTRY = "registry"
FORMATS = ("text", "json", "msgpack", "avro", "protobuf", REGISTRY)
AUTO = "auto"
_GZIP_WBITS = 31
AVRO_FILE_MAGIC = b"Obj\x01"
_AVRO_SINGLE_MAGIC = b"\xc3\x01"
_AVRO_SINGLE_HEAD_BYTES = 10  # the magic and the schema's fingerprint


@dataclass(frozen=True)
class Decoding:
    """What ``--decode`` and its companions say. ``steps``: compressions from the outside in, then perhaps a format.

    ``registry``: the URL of a schema registry.
    """

    steps: tuple[str, ...] = ()
    schema: Path | None = None
    descriptor: Path | None = None
    type_name: str | None = None
    registry: str | None = None


def parse_decoding(
    text: str | None,
    schema: Path | None = None,
    descriptor: Path | None = None,
    type_name: str | None = None,
    registry: str | None = None,
) -> Decoding:
    """Return the decoding that the options choose; without them none. Raises UsageError."""
    steps = tuple(part.strip().lower() for part in (text or "").split(",") if part.strip())
    for at, step in enumerate(steps):
        if step not in (AUTO, *LAYERS, *FORMATS):
            raise UsageError(f"--decode {step!r}: use {', '.join((AUTO, *LAYERS, *FORMATS))}, joined by commas")
        if step in FORMATS and at < len(steps) - 1:
            raise UsageError(f"--decode {text!r}: {step} is a format, which comes last: write for example gzip,{step}")
    wanted = steps[-1] if steps else ""
    if (schema is not None) != (wanted == "avro"):
        raise UsageError("--decode avro and --schema FILE.avsc belong together: give both")
    if (descriptor is not None and type_name is not None) != (wanted == "protobuf") or (
        (descriptor is None) != (type_name is None)
    ):
        raise UsageError("--decode protobuf, --descriptor FILE and --message TYPE belong together: give all of them")
    if (registry is not None) != (wanted == REGISTRY):
        raise UsageError("--decode registry and --registry URL belong together: give both")
    return Decoding(steps, schema, descriptor, type_name, registry)


class BodyDecoder:
    """Decodes the bodies of one output. All layers together inflate within one budget, as bodies of RocketMQ do."""

    def __init__(
        self, decoding: Decoding, ratio_max: int = INFLATION_RATIO_MAX, free_bytes: int = INFLATION_FREE_BYTES
    ) -> None:
        """Raise UsageError for a file that is no schema or descriptor, and when a library is missing.

        All bodies together may inflate to ``free_bytes`` and ``ratio_max`` times their size.
        """
        self._steps = [step for step in decoding.steps if step not in FORMATS]
        self._format = _format(decoding)
        self._ratio_max = ratio_max
        self._left_bytes = free_bytes

    def decode(self, topic: str, body: bytes) -> bytes:
        """Return a body of ``topic`` without its layers, and in a binary format as JSON. Raises PymqError."""
        for step in self._steps:
            if step == AUTO:
                kind = next((name for name, magic in MAGIC.items() if body.startswith(magic)), None)
                body = self._inflate(body, kind) if kind is not None else body
            else:
                body = self._inflate(body, step)
        return self._format(topic, body) if self._format is not None else body

    def _inflate(self, body: bytes, kind: str) -> bytes:
        self._left_bytes += len(body) * self._ratio_max
        try:
            inflated = _inflate(body, kind, self._left_bytes)
        except InflatedSizeError:
            raise InflateError(
                f"a {kind} body inflates beyond {min(inflated_size_max(len(body)), self._left_bytes)} bytes: allow a "
                "higher --inflate-ratio"
            ) from None
        self._left_bytes -= len(inflated)
        return inflated


def decoding_reader(decoder: BodyDecoder, read: ReadBody, note: Callable[[str], None]) -> ReadBody:
    """Return ``read`` with decoded bodies; one that can't be decoded stays as it is, and ``note`` hears the first."""
    is_noted = False

    def read_decoded(message: StoredMessage) -> bytes:
        nonlocal is_noted
        body = read(message)
        try:
            return decoder.decode(message.topic, body)
        except PymqError as error:
            if not is_noted:
                is_noted = True
                place = f"{message.topic} {message.broker_name}/{message.queue_id}@{message.queue_offset}"
                note(f"pymq: bodies that --decode can't read are shown as they are, the first at {place}: {error}")
            return body

    return read_decoded


def _inflate(body: bytes, kind: str, size_max_bytes: int) -> bytes:
    if kind != "gzip":
        return decompress_body(body, sysflag.COMPRESSED | NAMES[kind], size_max_bytes)
    limit = inflated_size_max(len(body), size_max_bytes)
    inflater = zlib.decompressobj(_GZIP_WBITS)
    try:
        inflated = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise InflateError(f"the body is no gzip: {error}") from error
    if len(inflated) > limit:
        raise InflatedSizeError(f"the gzip body inflates beyond {limit} bytes")
    if not inflater.eof:
        raise InflateError("the gzip body ends early")
    return inflated


def _format(decoding: Decoding) -> Callable[[str, bytes], bytes] | None:
    if decoding.registry is not None:
        bodies = RegisteredBodies(SchemaRegistry(decoding.registry))
        return lambda topic, body: as_json(bodies.decode(topic, body))
    decode = _topicless(decoding)
    return None if decode is None else lambda _, body: decode(body)


def _topicless(decoding: Decoding) -> Callable[[bytes], bytes] | None:
    kind = decoding.steps[-1] if decoding.steps else ""
    if kind == "json":
        return lambda body: as_json(JsonCodec().decode(body))
    if kind == "msgpack":
        return lambda body: as_json(MsgpackCodec().decode(body))
    if kind == "avro":
        assert decoding.schema is not None
        return _avro(AvroCodec(_read(decoding.schema)))
    if kind == "protobuf":
        assert decoding.descriptor is not None and decoding.type_name is not None
        return _protobuf(_read(decoding.descriptor), decoding.type_name)
    return None


def _avro(codec: AvroCodec) -> Callable[[bytes], bytes]:
    def decode(body: bytes) -> bytes:
        if body.startswith(AVRO_FILE_MAGIC):
            return as_json(codec.decode_file(body))
        if body.startswith(_AVRO_SINGLE_MAGIC):
            body = body[_AVRO_SINGLE_HEAD_BYTES:]
        return as_json(codec.decode(body))

    return decode


def _protobuf(descriptors: bytes, type_name: str) -> Callable[[bytes], bytes]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    except ImportError as error:
        raise UsageError(f"--decode protobuf needs the package protobuf: {pip_install('protobuf')}") from error
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        for one in files.file:
            pool.Add(one)
        codec = ProtobufCodec(message_factory.GetMessageClass(pool.FindMessageTypeByName(type_name)))
    except KeyError as error:
        known = sorted(f"{one.package}.{kind.name}".lstrip(".") for one in files.file for kind in one.message_type)
        raise UsageError(f"--message {type_name!r}: the descriptor has {', '.join(known) or 'no types'}") from error
    except Exception as error:  # protobuf has errors of its own for each step
        raise UsageError(
            f"--descriptor is no set of descriptors: {error}; protoc --include_imports --descriptor_set_out=FILE makes "
            "one"
        ) from error

    def decode(body: bytes) -> bytes:
        text = json_format.MessageToJson(codec.decode(body), preserving_proto_field_name=True, indent=None)
        return str(text).encode()

    return decode


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
