"""Templates of frames: a header is encoded once with marks, and later frames get their values in their places.

So a template has the bytes that the plain encoder writes, without a copy of its rules.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from pymq.wire.command import (
    FLAG_RESPONSE,
    FRAME_HEAD,
    SERIALIZE_ROCKETMQ,
    Command,
    encode_binary_header,
    encode_json_header,
)
from pymq.wire.header import Header, encode_header

# Stands where a template gets the opaque, which comes behind all named fields.
_OPAQUE = 1_888_888_888
_BINARY_OPAQUE_AT = 5  # code 2, language 1, version 2
_BINARY_MARK = SERIALIZE_ROCKETMQ << 24
_I32 = struct.Struct(">i")
_HEADS = [FRAME_HEAD.pack(4 + size, size) for size in range(1024)]  # of JSON frames without a body, by header size

encode_text = msgspec.json.Encoder().encode


def header_template(command: Command, language: str, version: int, places: Mapping[bytes, bytes]) -> bytes:
    """Return the JSON header of a request, to be filled with ``%``: with the named values, then the opaque.

    ``places`` maps each mark, as it is encoded, to its format. A mark stands in the header once.
    """
    command.opaque, command.language, command.version = _OPAQUE, language, version
    return _with_places(encode_json_header(command), {**places, b'"opaque":%d' % _OPAQUE: b'"opaque":%d'})


def frame(header: bytes, body: bytes = b"") -> bytes:
    """Return the whole frame, as encode_command writes it."""
    size = len(header)
    return b"".join((FRAME_HEAD.pack(4 + size + len(body), size), header, body))


class Place(NamedTuple):
    """Where a value stands in a typed answer. ``mark`` stands for it when the template is made, once in the answer.

    ``json``: the format of the value in a JSON header. ``binary``: in a binary one, with its size in 4 bytes before it.
    """

    mark: str | int
    json: bytes = b"%b"
    binary: bytes = b"\0\0\0%c%b"


class AnswerTemplate:
    """The frames of one kind of typed answer, in both encodings."""

    __slots__ = ("_fields", "_head", "_json", "_rest", "_rest_bytes", "_start")

    def __init__(self, answer: Header | None, places: Sequence[Place] = (), remark: str | None = None) -> None:
        """``places``: of the values that vary, in the order of the header's fields."""
        ext = {} if answer is None else encode_header(answer)
        command = Command(0, opaque=_OPAQUE, flag=FLAG_RESPONSE, ext=ext, remark=remark)
        json = {encode_text(str(place.mark)): b'"%b"' % place.json for place in places}
        self._json = _with_places(encode_json_header(command), {**json, b'"opaque":%d' % _OPAQUE: b'"opaque":%d'})
        header = encode_binary_header(command)
        fields_at = len(encode_binary_header(Command(0, remark=remark)))
        self._start = header[:_BINARY_OPAQUE_AT]
        self._rest = header[_BINARY_OPAQUE_AT + _I32.size : fields_at - _I32.size]  # flag and remark
        # The frame's and the header's sizes, what is before and behind the opaque, the size of the fields.
        self._head = struct.Struct(f">iI{_BINARY_OPAQUE_AT}si{len(self._rest)}si")
        self._rest_bytes = self._head.size - FRAME_HEAD.size
        texts = [(str(place.mark).encode(), place.binary) for place in places]
        self._fields = _with_places(header[fields_at:], {_I32.pack(len(text)) + text: form for text, form in texts})

    def json(self, values: tuple[bytes | int, ...], body_size_bytes: int = 0) -> bytes:
        """Return the frame with a JSON header, without its body. ``values``: by their places, then the opaque.

        Texts need no escapes.
        """
        header = self._json % values
        size = len(header)
        if not body_size_bytes and size < len(_HEADS):
            return _HEADS[size] + header
        return FRAME_HEAD.pack(4 + size + body_size_bytes, size) + header

    def binary(self, opaque: int, values: tuple[bytes | int, ...], body_size_bytes: int = 0) -> bytes:
        """Return the frame with a binary header, without its body.

        ``values``: by their places, each text behind its size. No text is empty: the encoder leaves such a field out.
        """
        fields = self._fields % values
        size = self._rest_bytes + len(fields)
        mark = size | _BINARY_MARK
        return self._head.pack(4 + size + body_size_bytes, mark, self._start, opaque, self._rest, len(fields)) + fields


def _with_places(header: bytes, places: Mapping[bytes, bytes]) -> bytes:
    header = header.replace(b"%", b"%%")
    for mark, place in places.items():
        assert header.count(mark) == 1, header
        header = header.replace(mark, place)
    return header
