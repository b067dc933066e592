"""Templates of frames: a header is encoded once with marks, and later frames get their values in their places.

So a template has the bytes that the plain encoder writes, without a copy of its rules.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

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
_SIZE_MASK = 0xFFFFFF
_BINARY_MARK = SERIALIZE_ROCKETMQ << 24
_I32 = struct.Struct(">i")
# Of the short values in a binary header.
_SIZES = [_I32.pack(size) for size in range(256)]
_pack_size = _I32.pack

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


class AnswerTemplate:
    """The frames of one kind of typed answer, in both encodings.

    A frame's ``values`` are the texts of the fields that vary, in the order in which the header has them.
    """

    __slots__ = ("_binary_end", "_binary_start", "_fields", "_json")

    def __init__(self, answer: Header | None, marks: Sequence[str | int] = (), remark: str | None = None) -> None:
        """``marks``: the values of ``answer`` that vary, in the header's order; each stands in it once."""
        ext = {} if answer is None else encode_header(answer)
        command = Command(0, opaque=_OPAQUE, flag=FLAG_RESPONSE, ext=ext, remark=remark)
        texts = [str(mark) for mark in marks]
        quoted = {encode_text(text): b'"%b"' for text in texts}
        self._json = _with_places(encode_json_header(command), {**quoted, b'"opaque":%d' % _OPAQUE: b'"opaque":%d'})
        header = encode_binary_header(command)
        fixed_end = len(encode_binary_header(Command(0, remark=remark))) - _I32.size
        self._binary_start = header[:_BINARY_OPAQUE_AT]
        self._binary_end = header[_BINARY_OPAQUE_AT + _I32.size : fixed_end]  # flag and remark
        sized = {_pack_size(len(text.encode())) + text.encode(): b"%b%b" for text in texts}
        self._fields = _with_places(header[fixed_end + _I32.size :], sized)

    def json(self, opaque: int, values: tuple[bytes, ...] = (), body_size_bytes: int = 0) -> bytes:
        """Return the frame with a JSON header, without its body of ``body_size_bytes``. ``values`` need no escapes."""
        header = self._json % (*values, opaque)
        size = len(header)
        return FRAME_HEAD.pack(4 + size + body_size_bytes, size) + header

    def binary(self, opaque: int, values: tuple[bytes, ...] = (), body_size_bytes: int = 0) -> bytes:
        """Return the frame with a binary header. No value is empty: the encoder leaves such a field out."""
        sized: list[bytes] = []
        for value in values:
            size = len(value)
            sized += (_SIZES[size] if size < len(_SIZES) else _pack_size(size), value)
        fields = self._fields % tuple(sized)
        start, end = self._binary_start, self._binary_end
        size = len(start) + len(end) + 2 * _I32.size + len(fields)
        return b"".join(
            (
                FRAME_HEAD.pack(4 + size + body_size_bytes, size & _SIZE_MASK | _BINARY_MARK),
                start,
                _pack_size(opaque),
                end,
                _pack_size(len(fields)),
                fields,
            )
        )


def _with_places(header: bytes, places: Mapping[bytes, bytes]) -> bytes:
    header = header.replace(b"%", b"%%")
    for mark, place in places.items():
        assert header.count(mark) == 1, header
        header = header.replace(mark, place)
    return header
