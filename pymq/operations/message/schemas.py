"""Schemas of a folder, by topic: ``orders.avsc`` for Avro, ``orders.shop.Order.desc`` for Protobuf's ``shop.Order``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pymq.client.codecs import CodecError
from pymq.errors import UsageError
from pymq.operations.message.bodies import AVRO_FILE_MAGIC, BodyDecoder, Decoding

AVRO_END: Final = ".avsc"
PROTOBUF_END: Final = ".desc"


class Schemas:
    """What the bodies of topics are decoded with. The folder is read once; a decoder is made at its first use."""

    def __init__(self, folder: Path | None) -> None:
        """Raise UsageError for a folder that can't be read, two files of one topic, or a descriptor without a type."""
        self._decodings: dict[str, Decoding] = {}
        self._decoders: dict[str, BodyDecoder] = {}
        for path in _files(folder):
            topic, decoding = _decoding(path)
            if topic in self._decodings:
                raise UsageError(f"{folder} has two schemas of the topic {topic}: keep one of them")
            self._decodings[topic] = decoding

    def __contains__(self, topic: str) -> bool:
        return topic in self._decodings

    def decode(self, topic: str, body: bytes) -> bytes:
        """Return a body of the topic as JSON. Raises PymqError, also for a file that is no schema.

        An Avro object container file is refused: what it compresses has no bound.
        """
        if body.startswith(AVRO_FILE_MAGIC):
            raise CodecError("it is an Avro file with a schema of its own: pymq tail --decode avro reads it")
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = self._decoders[topic] = BodyDecoder(self._decodings[topic])
        return decoder.decode(topic, body)


def _files(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (AVRO_END, PROTOBUF_END))
    except OSError as error:
        raise UsageError(f"{folder} can't be read: {error.strerror}") from error


def _decoding(path: Path) -> tuple[str, Decoding]:
    topic, _, type_name = path.name.removesuffix(path.suffix).partition(".")
    if path.suffix == AVRO_END:
        return topic, Decoding(("avro",), schema=path)
    if not type_name:
        raise UsageError(f"{path.name} names no type: call it TOPIC.TYPE.desc, for example orders.shop.Order.desc")
    return topic, Decoding(("protobuf",), descriptor=path, type_name=type_name)
