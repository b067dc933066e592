"""Schemas and bodies for the tests of bodies as columns."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from pymq.client.protobuf_files import compiled
from pymq.spark.bodies.body_format import BodyFormat
from pymq.spark.bodies.typed_bodies import TypedBodies


def avro_record(*types: Any, name: str = "R") -> dict[str, Any]:
    """Return a record with the fields f0, f1 and on."""
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(types)]}


def avro_format(schema: Any, **fields: Any) -> BodyFormat:
    return BodyFormat("avro", json.dumps(schema), "r.avsc", **fields)


def avro_body(schema: Any, value: Any) -> bytes:
    import fastavro

    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def varint(number: int) -> bytes:
    """Return an unsigned number as Avro and Protobuf write it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def json_format(schema: str, **fields: Any) -> BodyFormat:
    return BodyFormat("json", schema, "the option bodySchema", **fields)


@cache
def descriptors(source: str) -> str:
    """Return the descriptor set of a .proto file's text, in base64."""
    return base64.b64encode(compiled(source, {})).decode()


@cache
def message_class(source: str, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled(source, {})).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def decoded(body_format: BodyFormat, bodies: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    """Return the values of bodies, and what is wrong with the bad ones, by their places."""
    values: list[Any] = []
    wrong: dict[int, str] = {}
    for part in TypedBodies(body_format).parts(["T"] * len(bodies), bodies):
        part.column.validate(full=True)
        assert part.first == len(values)
        values += part.column.to_pylist()
        wrong |= part.wrong
    return values, wrong
