"""ProtobufReader: bodies that are Protobuf messages as columns."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pymq.client.codecs import CodecError
from pymq.client.registered_bodies import message_indexes
from pymq.client.schema_registry import unframed
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.spark.bodies.body_format import BadBodyError, BodyFormat, FieldBudget, no_columns

_NAMES_SHOWN_MAX = 10


class ProtobufReader:
    """Reads bodies that hold one message, with a registry's frame or without."""

    def __init__(self, body_format: BodyFormat) -> None:
        """Raise UsageError for descriptors or a type that columns can't have, or without the library."""
        try:
            from google.protobuf import message_factory
        except ImportError as error:
            raise UsageError(f"Protobuf needs the package protobuf: {pip_install('protobuf')}") from error
        from pymq.spark.bodies.protobuf_bounds import ProtobufBounds
        from pymq.spark.bodies.protobuf_columns import message_column

        self._descriptor = _message_type(body_format)
        column = message_column(self._descriptor, FieldBudget(body_format.name))
        if column is None:
            raise no_columns(body_format.name)
        self.arrow_type, self._build = column
        self._bounds = ProtobufBounds(self._descriptor)
        self._class = message_factory.GetMessageClass(self._descriptor)
        self._is_framed = bool(body_format.registry)

    def read(self, topic: str, body: bytes) -> tuple[Any, int]:
        """Return the message. Raises BadBodyError."""
        payload = self._payload(body) if self._is_framed else body
        count = self._bounds.values(payload)
        message = self._class()
        try:
            message.ParseFromString(payload)
        except Exception as error:  # the library's own DecodeError
            raise BadBodyError(str(error)) from None
        return message, count

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return messages as a column."""
        return self._build(values)

    def _payload(self, body: bytes) -> bytes:
        """Return what stands behind the frame. Raises BadBodyError for another type of the schema's file."""
        try:
            framed = unframed(body)
            if framed.schema_id is None:
                return body
            indexes, payload = message_indexes(framed.payload)
        except CodecError as error:
            raise BadBodyError(str(error)) from None
        kinds, kind = list(self._descriptor.file.message_types_by_name.values()), None
        for index in indexes:
            kind = kinds[index] if index < len(kinds) else None
            kinds = list(kind.nested_types) if kind is not None else []
        if kind is not self._descriptor:
            found = "an unknown type" if kind is None else kind.full_name
            raise BadBodyError(f"it is {found}, and not {self._descriptor.full_name}")
        return payload


def _message_type(body_format: BodyFormat) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    try:
        raw = base64.b64decode(body_format.definition, validate=True)
        files = list(descriptor_pb2.FileDescriptorSet.FromString(raw).file)
        pool = descriptor_pool.DescriptorPool()
        _add(pool, files)
    except Exception as error:  # the library's own, of several kinds
        raise UsageError(
            f"{body_format.name} is no Protobuf descriptor set ({str(error)[:200]}): make one with protoc "
            "--include_imports --descriptor_set_out=FILE"
        ) from None
    of_last = [_full_name(file, message) for file in files[-1:] for message in file.message_type]
    wanted = body_format.message
    if wanted:
        try:
            return pool.FindMessageTypeByName(wanted)
        except KeyError:
            names = [_full_name(file, message) for file in reversed(files) for message in file.message_type]
            raise UsageError(
                f"{body_format.name} has no message {wanted!r}: option bodyMessage takes one of {_listed(names)}"
            ) from None
    if len(of_last) != 1:
        raise UsageError(
            f"{body_format.name} has {len(of_last)} messages: give option bodyMessage, the full name of the one that "
            f"bodies are, such as {_listed(of_last) or 'shop.Order'}"
        )
    return pool.FindMessageTypeByName(of_last[0])


def _add(pool: Any, files: Sequence[Any]) -> None:
    """Add the files, and Google's own types that they import but lack."""
    from google.protobuf import any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2

    own = {file.name for file in files}
    for module in (any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        if module.DESCRIPTOR.name not in own:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.Add(file)


def _full_name(file: Any, message: Any) -> str:
    return f"{file.package}.{message.name}" if file.package else str(message.name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES_SHOWN_MAX]) + (", …" if len(names) > _NAMES_SHOWN_MAX else "")
