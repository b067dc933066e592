"""RegisteredBodies: bodies in Avro, Protobuf or JSON as plain values, by the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pymq.client.codecs import AvroCodec, CodecError, JsonCodec
from pymq.client.protobuf_files import MAIN, compiled
from pymq.client.schema_registry import (
    AVRO,
    JSON,
    Framed,
    Schema,
    SchemaRegistry,
    unframed,
)
from pymq.errors import UsageError
from pymq.packages import pip_install

INDEXES_MAX = 32  # levels of nested types in Protobuf's message index
_VARINT_BYTES_MAX = 5

Decode = Callable[[bytes], Any]


class RegisteredBodies:
    """Decodes bodies. A schema is fetched and compiled at its first use, and kept with the registry's."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._decoders: dict[int, tuple[Schema, Decode]] = {}

    def decode(self, topic: str, body: bytes) -> Any:
        """Return the value of a body of ``topic``.

        Raises CodecError, RegistryError, and UsageError without a library.
        """
        framed = unframed(body)
        schema = self._registry.by_topic(topic) if framed.schema_id is None else self._registry.by_id(framed.schema_id)
        known = self._decoders.get(id(schema))
        if known is None:
            if len(self._decoders) > len(self._registry):
                self._decoders.clear()  # the registry has forgotten their schemas
            known = self._decoders[id(schema)] = schema, _decoder(schema, is_framed=framed.schema_id is not None)
        try:
            return known[1](framed.payload)
        except CodecError as error:
            raise CodecError(f"{_named(framed, topic)}: {error}") from error


def _named(framed: Framed, topic: str) -> str:
    return f"schema {framed.schema_id}" if framed.schema_id is not None else f"the schema of {topic}-value"


def _decoder(schema: Schema, *, is_framed: bool) -> Decode:
    if schema.kind == AVRO:
        return AvroCodec(schema.text, [each.text for each in schema.references.values()]).decode
    if schema.kind == JSON:
        return JsonCodec().decode
    return _protobuf(schema, is_framed=is_framed)


def _protobuf(schema: Schema, *, is_framed: bool) -> Decode:
    try:
        from google.protobuf import (  # noqa: PLC0415 - Protobuf's schemas alone need it
            descriptor_pb2,
            descriptor_pool,
            json_format,
            message_factory,
        )
    except ImportError as error:
        raise UsageError(f"Protobuf needs the package protobuf: {pip_install('registry')}") from error
    files = descriptor_pb2.FileDescriptorSet.FromString(
        compiled(schema.text, {name: each.text for name, each in schema.references.items()})
    )
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    main = pool.FindFileByName(MAIN)
    top = list(main.message_types_by_name.values())

    def decode(payload: bytes) -> Any:
        indexes, payload = message_indexes(payload) if is_framed else ([0], payload)
        kinds, kind = top, None
        for index in indexes:
            if index >= len(kinds):
                raise CodecError(f"the message index {indexes} names no type: there are {len(kinds)} at that place")
            kind = kinds[index]
            kinds = list(kind.nested_types)
        message = message_factory.GetMessageClass(kind)()
        try:
            message.ParseFromString(payload)
        except Exception as error:  # protobuf's own DecodeError
            raise CodecError(f"the body is no {message.DESCRIPTOR.full_name}: {error}") from error
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return decode


def message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return where the type stands among the schema's types, and the rest. Raises CodecError.

    Numbers are zigzag varints; none means [0].
    """
    count, at = _zigzag(payload, 0)
    if not 0 <= count <= INDEXES_MAX:
        raise CodecError(f"a message index of {count} levels, the limit is {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        if index < 0:
            raise CodecError(f"the message index has {index}")
        indexes.append(index)
    return indexes or [0], payload[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + place + 1
    raise CodecError("the body ends within the message index, or its number is too long")


def as_json(value: Any) -> bytes:
    """Return a decoded value as JSON; bytes become base64, what JSON has no word for its text. Raises CodecError."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"the body can't be shown as JSON: {error}") from error
