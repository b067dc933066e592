"""Codecs: how the objects of an application become message bodies, and bodies become objects again.

Give one to a message that is sent, ``Message("Orders", order, codec=codec)``, and call ``codec.decode(body)`` where it
arrives. Libraries that only some codecs need are imported when such a codec is made.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

import msgspec

from pymq.client.avro_bounds import AvroBounds
from pymq.errors import PymqError, UsageError
from pymq.packages import pip_install

T = TypeVar("T")
ProtoT = TypeVar("ProtoT", bound="ProtobufMessage")
SHOWN_LENGTH_MAX = 60


class CodecError(PymqError):
    """A value can't be encoded, or a body is not what the codec reads."""


class Codec(Protocol[T]):
    """What producers and consumers ask of a codec. Any object with these two methods will do."""

    def encode(self, value: T) -> bytes:
        """Return the body for ``value``. Raises CodecError."""
        ...

    def decode(self, body: bytes) -> T:
        """Return the value that ``body`` holds. Raises CodecError."""
        ...


class _MsgspecCodec(Codec[T]):
    """The base of the codecs on msgspec: dataclasses, TypedDicts, NamedTuples and msgspec.Struct work alike."""

    _format: str

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], what: object) -> None:
        self._encode = encode
        self._decode = decode
        self._what = what

    def encode(self, value: T) -> bytes:
        """Return the body for ``value``. Raises CodecError, also for a body that :meth:`decode` would refuse."""
        try:
            body = self._encode(value)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CodecError(f"{_shown(value)} can't be written as {self._format}: {error}") from error
        if self._what is not Any:
            try:
                self._decode(body)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise CodecError(f"{_shown(value)} is no {_named(self._what)}: {error}") from error
        return body

    def decode(self, body: bytes) -> T:
        """Return the value in ``body``, checked against the type. Raises CodecError."""
        try:
            value: T = self._decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CodecError(f"{_shown(body)} is no {self._format} of {_named(self._what)}: {error}") from error
        return value


class JsonCodec(_MsgspecCodec[T]):
    """JSON bodies. ``JsonCodec(Order)`` reads them as that type and checks every field; without one, as plain values.

    A type is a dataclass, TypedDict, NamedTuple, ``msgspec.Struct``, or a container such as ``list[Order]``.
    """

    _format = "JSON"

    @overload
    def __init__(self: JsonCodec[Any]) -> None: ...

    @overload
    def __init__(self, type: type[T]) -> None: ...

    def __init__(self, type: Any = Any) -> None:
        """Raise UsageError for a type that JSON can't be read as."""
        decoder = _made(lambda: msgspec.json.Decoder(type), type)
        super().__init__(msgspec.json.Encoder().encode, decoder.decode, type)


class MsgpackCodec(_MsgspecCodec[T]):
    """MessagePack bodies, smaller and faster than JSON; types as those of :class:`JsonCodec`."""

    _format = "MessagePack"

    @overload
    def __init__(self: MsgpackCodec[Any]) -> None: ...

    @overload
    def __init__(self, type: type[T]) -> None: ...

    def __init__(self, type: Any = Any) -> None:
        """Raise UsageError for a type that MessagePack can't be read as."""
        decoder = _made(lambda: msgspec.msgpack.Decoder(type), type)
        super().__init__(msgspec.msgpack.Encoder().encode, decoder.decode, type)


class TextCodec(Codec[str]):
    """Text, as UTF-8."""

    def encode(self, value: str) -> bytes:
        """Return the text as UTF-8. Raises CodecError for anything but text."""
        if not isinstance(value, str):
            raise CodecError(f"{_shown(value)} ({type(value).__name__}) is no text")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise CodecError(f"{_shown(value)} can't be written as UTF-8: {error}") from error

    def decode(self, body: bytes) -> str:
        """Return the text. Raises CodecError when the body is not UTF-8."""
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            raise CodecError(f"{_shown(body)} is no UTF-8 text: {error}") from error


class AvroCodec(Codec[Any]):
    """Avro: ``AvroCodec(schema)`` for a schema as its JSON text. Needs the extra ``avro``.

    Bodies hold one value in Avro's binary encoding, without the schema. ``references``: schemas of the named types that
    it uses, each behind those that it needs itself.
    """

    def __init__(self, schema: str | bytes, references: Sequence[str | bytes] = ()) -> None:
        """Raise UsageError for a text that is no schema, for one by which a body of some bytes may be of any size, and
        without the library.
        """
        try:
            import fastavro  # noqa: PLC0415 - only this codec needs it
        except ImportError as error:
            raise UsageError(f"Avro needs the package fastavro: {pip_install('avro')}") from error
        self._fastavro = fastavro
        try:
            named: dict[str, Any] = {}
            for needed in references:
                fastavro.parse_schema(msgspec.json.decode(needed), named_schemas=named)
            own = msgspec.json.decode(schema)
            self._schema = fastavro.parse_schema(own, named_schemas=named, expand=bool(references))
            self._bounds = AvroBounds(self._schema, named)
        except Exception as error:  # the library has errors of its own for each kind of mistake
            raise UsageError(f"{_shown(schema)} is no Avro schema: {error}") from error
        if not self._bounds.is_bounded:
            raise UsageError(
                f"{_shown(schema)} has an array of items without bytes, so a short body may have any number"
            )

    def encode(self, value: Any) -> bytes:
        """Return the value's bytes. Raises CodecError for one that does not fit the schema."""
        target = io.BytesIO()
        try:
            self._fastavro.schemaless_writer(target, self._schema, value)
        except Exception as error:  # as above
            raise CodecError(f"{_shown(value)} can't be written as Avro: {error}") from error
        return target.getvalue()

    def decode(self, body: bytes) -> Any:
        """Return the value in ``body``. Raises CodecError, also for bytes behind the value."""
        source = io.BytesIO(body)
        try:
            self._bounds.check_depth(body)
            value = self._fastavro.schemaless_reader(source, self._schema)
        except Exception as error:  # as above
            raise CodecError(f"{_shown(body)} is no Avro of this schema: {error}") from error
        if source.tell() != len(body):
            raise CodecError(f"{_shown(body)} has {len(body) - source.tell()} bytes behind the value of this schema")
        return value

    def decode_file(self, body: bytes) -> list[Any]:
        """Return the values of an Avro object container file, read by its own schema. Raises CodecError."""
        try:
            return list(self._fastavro.reader(io.BytesIO(body)))
        except Exception as error:  # as above
            raise CodecError(f"{_shown(body)} is no Avro file: {error}") from error


class ProtobufMessage(Protocol):
    """What :class:`ProtobufCodec` needs of a class that protoc generated."""

    def SerializeToString(self) -> bytes:
        """Return the message's bytes."""
        ...

    def ParseFromString(self, serialized: bytes) -> Any:
        """Fill the message from bytes."""
        ...


class ProtobufCodec(Codec[ProtoT]):
    """Protocol buffers: ``ProtobufCodec(Order)`` for a class that protoc generated."""

    def __init__(self, type: type[ProtoT]) -> None:
        """Raise UsageError for a class that protoc has not generated."""
        missing = [name for name in ("SerializeToString", "ParseFromString") if not hasattr(type, name)]
        if missing:
            raise UsageError(
                f"{_named(type)} has no {' and no '.join(missing)}: give a class that protoc generated from a .proto"
            )
        self._type = type

    def encode(self, value: ProtoT) -> bytes:
        """Return the message's bytes. Raises CodecError for another type, and for a required field that is not set."""
        if not isinstance(value, self._type):
            raise CodecError(f"{_shown(value)} is no {_named(self._type)}")
        try:
            return value.SerializeToString()
        except Exception as error:  # protobuf's own EncodeError: the library is not imported here
            raise CodecError(f"the {_named(self._type)} can't be written: {error}") from error

    def decode(self, body: bytes) -> ProtoT:
        """Return the message in ``body``. Raises CodecError."""
        value = self._type()
        try:
            value.ParseFromString(body)
        except Exception as error:  # protobuf's own DecodeError
            raise CodecError(f"{_shown(body)} is no {_named(self._type)}: {error}") from error
        return value


def _made(make: Callable[[], Any], type: object) -> Any:
    try:
        return make()
    except TypeError as error:
        raise UsageError(f"{_named(type)} is no type for a codec: {error}") from error


def _named(type: object) -> str:
    return "any value" if type is Any else getattr(type, "__qualname__", None) or repr(type)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[:SHOWN_LENGTH_MAX] + "…"
