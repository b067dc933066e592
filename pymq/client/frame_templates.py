"""Templates of frames: a header is encoded once with marks, and later frames get their values in their places."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pymq.wire.command import FRAME_HEAD, Command, encode_json_header

# Stands where a template gets the opaque, which comes behind all named fields.
_OPAQUE = 1_888_888_888

encode_text = msgspec.json.Encoder().encode


def header_template(command: Command, language: str, version: int, places: Mapping[bytes, bytes]) -> bytes:
    """Return the JSON header of a request, to be filled with ``%``: with the named values, then the opaque.

    ``places`` maps each mark, as it is encoded, to its format. A mark stands in the header once.
    """
    command.opaque, command.language, command.version = _OPAQUE, language, version
    header = encode_json_header(command).replace(b"%", b"%%")
    for mark, place in (*places.items(), (b'"opaque":%d' % _OPAQUE, b'"opaque":%d')):
        assert header.count(mark) == 1, header
        header = header.replace(mark, place)
    return header


def frame(header: bytes, body: bytes = b"") -> bytes:
    """Return the whole frame, as encode_command writes it."""
    size = len(header)
    return b"".join((FRAME_HEAD.pack(4 + size + len(body), size), header, body))
