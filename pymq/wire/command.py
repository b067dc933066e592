"""One request or response: header, named fields and body, with both header codecs (Java: RemotingCommand).

A frame is ``i32 length | i8 header type | u24 header length | header | body``; ``length`` counts what follows it.
Header type 0 is JSON, 1 is the binary form ROCKETMQ. Limits refuse input that would cost memory or time out of
proportion to its size.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from pymq.errors import ProtocolViolation
from pymq.model.access import Need
from pymq.wire.codes import CUT_CODES, LANGUAGE_CODES, LANGUAGES, VERSION_5_3_3
from pymq.wire.header import Header, Int32, encode_header

SERIALIZE_JSON = 0
SERIALIZE_ROCKETMQ = 1
FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

FRAME_SIZE_MAX_BYTES = 16 * 1024 * 1024  # Java: NettyDecoder's frameMaxLength
HEADER_SIZE_MAX_BYTES = 1024 * 1024
EXT_FIELD_COUNT_MAX = 1024
HEADER_NESTING_MAX = 8  # levels of nested braces; a header needs two

_BINARY_FIXED = struct.Struct(">hBhii")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
FRAME_HEAD = struct.Struct(">iI")  # length of the rest; header type and header length
# The binary header has 16 bits for code and version.
_INT16 = range(-0x8000, 0x8000)


class ProvenSender(Protocol):
    """Who sent a request to a secured server, as a handler sees it."""

    @property
    def name(self) -> str:
        """The user's name."""
        ...

    @property
    def is_administrator(self) -> bool:
        """True for a user that may change every user."""
        ...

    @property
    def is_proven(self) -> bool:
        """True when something shows that the request comes from the user."""
        ...

    @property
    def is_still_there(self) -> bool:
        """True while the proof counts: users may have been deleted, or got other secrets since."""
        ...

    def may_read(self, topic: str) -> bool:
        """Return whether the sender may consume ``topic`` now."""
        ...

    def may_publish(self, topic: str) -> bool:
        """Return whether the sender may publish to ``topic`` now: users and permissions may have changed since."""
        ...

    def may(self, need: Need) -> bool:
        """Return whether the sender is allowed ``need`` now."""
        ...


class _Coded(msgspec.Struct):
    """Holds the one field of :class:`Command` that can be passed by position."""

    code: int


class Command(_Coded, kw_only=True):
    """A request or a response. ``ext`` maps wire names to strings; ``serialize`` is the header codec it came in.

    The dispatcher of a secured server sets ``sender``, and ``found_topic_check`` (see :meth:`check_found_topic`).
    """

    opaque: int = 0
    flag: int = 0
    language: str = "JAVA"
    version: int = VERSION_5_3_3
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    serialize: int = SERIALIZE_JSON
    found_topic_check: Callable[[str], None] | None = None
    sender: ProvenSender | None = None

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & FLAG_ONEWAY)

    def check_found_topic(self, topic: str) -> None:
        """Check that the sender may have a record of ``topic``, which the request itself does not name.

        A handler of a row with ``found_topic`` calls it once it has found the record. Raises Refusal(NO_PERMISSION).
        """
        if self.found_topic_check is not None:
            self.found_topic_check(topic)

    def envelope(self) -> Command:
        """Return what a late answer needs of this request, without anything that a peer can make large."""
        return Command(self.code, opaque=self.opaque, flag=self.flag, serialize=self.serialize)

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        fields = f"code={self.code} opaque={self.opaque} ext={self.ext} remark={self.remark!r}"
        return f"<{kind} {fields} body={len(self.body)}B>"


def request(
    code: int, header: Header | dict[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
) -> Command:
    """Return a request as PyMQ's own client sends it. The connection sets its opaque."""
    ext = encode_header(header) if isinstance(header, Header) else dict(header or {})
    return Command(code, flag=FLAG_ONEWAY if oneway else 0, language="PYTHON", ext=ext, body=body)


class _JsonHeader(msgspec.Struct):
    """The JSON header, as lenient as Java's reader: only code and opaque must be present."""

    code: Int32
    opaque: Int32
    flag: Int32 = 0
    language: Any = None
    version: Int32 = 0
    remark: str | None = None
    extFields: dict[str, Any] | None = None


class _PlainJsonHeader(_JsonHeader):
    """The JSON header as nearly every peer writes it: the named fields are strings."""

    extFields: dict[str, str] | None = None


_decode_json_header = msgspec.json.Decoder(_JsonHeader, strict=False).decode
_decode_plain_json_header = msgspec.json.Decoder(_PlainJsonHeader, strict=False).decode
_encode_json = msgspec.json.Encoder().encode


def encode_command(command: Command) -> bytes:
    """Encode the whole frame, with its 4-byte length, in the header codec that ``command.serialize`` names.

    A code that does not fit into the binary header's 16 bits is sent as JSON; every Java peer recognizes both.
    """
    binary = command.serialize == SERIALIZE_ROCKETMQ and command.code in _INT16
    header = encode_binary_header(command) if binary else encode_json_header(command)
    size = len(header)
    mark = size | (SERIALIZE_ROCKETMQ << 24 if binary else 0)
    return b"".join((FRAME_HEAD.pack(4 + size + len(command.body), mark), header, command.body))


def encode_json_header(command: Command) -> bytes:
    """Encode the JSON header. A missing remark is left out, as fastjson leaves nulls out."""
    fields: dict[str, Any] = {
        "code": command.code,
        "extFields": command.ext,
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        fields["remark"] = command.remark
    return _encode_json(fields)


def encode_binary_header(command: Command) -> bytes:
    """Encode the ROCKETMQ header: 21 fixed bytes, the remark and the named fields. Empty values are left out."""
    remark = (command.remark or "").encode()
    ext = bytearray()
    for name, value in command.ext.items():
        raw = value.encode()
        if raw:
            key = name.encode()
            ext += _I16.pack(len(key)) + key + _I32.pack(len(raw)) + raw
    language = LANGUAGE_CODES.get(command.language, 7)
    version = command.version if command.version in _INT16 else _INT16[-1]
    fixed = _BINARY_FIXED.pack(command.code, language, version, command.opaque, command.flag)
    return b"".join((fixed, _I32.pack(len(remark)), remark, _I32.pack(len(ext)), ext))


def decode_command(payload: bytes) -> Command:
    """Decode the command in ``payload``, a frame without its 4-byte length. Raises only ProtocolViolation."""
    if len(payload) < 4:
        raise ProtocolViolation("short-frame", f"a frame of {len(payload)} bytes has no room for its header length")
    kind = payload[0]
    header_size = int.from_bytes(payload[1:4], "big")
    if header_size > len(payload) - 4:
        raise ProtocolViolation("header-length", f"a header of {header_size} bytes in a frame of {len(payload)} bytes")
    if header_size > HEADER_SIZE_MAX_BYTES:
        raise ProtocolViolation("header-size", f"a header of {header_size} bytes, the limit is {HEADER_SIZE_MAX_BYTES}")
    header = payload[4 : 4 + header_size]
    body = payload[4 + header_size :]
    if kind == SERIALIZE_JSON:
        return decode_json_header(header, body)
    if kind == SERIALIZE_ROCKETMQ:
        return decode_binary_header(header, body)
    raise ProtocolViolation("serialize-type", f"header type {kind}, known are 0 (JSON) and 1 (ROCKETMQ)")


def decode_json_header(header: bytes, body: bytes) -> Command:
    """Decode a command from a JSON header. Named fields that are numbers or booleans become strings."""
    if header.count(b"{") > HEADER_NESTING_MAX or header.count(b"[") > HEADER_NESTING_MAX:
        _check_nesting(header)
    try:
        fields: _JsonHeader = _decode_plain_json_header(header)
        ext = fields.extFields or {}
    except (ValueError, RecursionError):
        fields, ext = _decode_odd_json_header(header)
    if len(ext) > EXT_FIELD_COUNT_MAX:
        raise ProtocolViolation("ext-count", f"{len(ext)} named fields, the limit is {EXT_FIELD_COUNT_MAX}")
    language = fields.language
    if not isinstance(language, str):
        language = LANGUAGES[language] if isinstance(language, int) and 0 <= language < len(LANGUAGES) else "OTHER"
    return Command(
        fields.code,
        opaque=fields.opaque,
        flag=fields.flag,
        language=language,
        version=fields.version,
        remark=fields.remark,
        ext=ext,
        body=body,
    )


def _decode_odd_json_header(header: bytes) -> tuple[_JsonHeader, dict[str, str]]:
    """Decode a header with numbers, booleans or nulls among its named fields. Raises ProtocolViolation."""
    try:
        fields = _decode_json_header(header)
        ext = {name: _as_text(value) for name, value in (fields.extFields or {}).items() if value is not None}
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation("json-header", f"the JSON header can't be read: {error}") from error
    return fields, ext


def decode_binary_header(header: bytes, body: bytes) -> Command:
    """Decode a command from a ROCKETMQ header. The code of a pop request, cut to 16 bits, becomes whole again."""
    try:
        code, language, version, opaque, flag = _BINARY_FIXED.unpack_from(header, 0)
        at = _BINARY_FIXED.size
        remark, at = _take(header, at, _I32)
        fields, at = _take(header, at, _I32)
        ext = _decode_binary_ext(fields)
        text = remark.decode() if remark else None
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ProtocolViolation("binary-header", f"the binary header can't be read: {error}") from error
    return Command(
        code if flag & FLAG_RESPONSE else CUT_CODES.get(code, code),
        opaque=opaque,
        flag=flag,
        language=LANGUAGES[language] if language < len(LANGUAGES) else "OTHER",
        version=version,
        remark=text,
        ext=ext,
        body=body,
        serialize=SERIALIZE_ROCKETMQ,
    )


def _decode_binary_ext(fields: bytes) -> dict[str, str]:
    ext: dict[str, str] = {}
    at = 0
    while at < len(fields):
        name, at = _take(fields, at, _I16)
        value, at = _take(fields, at, _I32)
        if value:
            ext[name.decode()] = value.decode()
        if len(ext) > EXT_FIELD_COUNT_MAX:
            raise ValueError(f"more than {EXT_FIELD_COUNT_MAX} named fields")
    return ext


def _take(raw: bytes, at: int, length: struct.Struct) -> tuple[bytes, int]:
    size = length.unpack_from(raw, at)[0]
    start = at + length.size
    if size < 0 or start + size > len(raw):
        raise ValueError(f"a part of {size} bytes at {at} in {len(raw)} bytes")
    return raw[start : start + size], start + size


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else _encode_json(value).decode()


_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


def _check_nesting(header: bytes) -> None:
    """Refuse JSON that nests deeper than a header can need. Brackets inside strings don't count.

    Removes the innermost pairs level by level: a few passes in C, where a loop over bytes would take 100 ms a MiB.
    """
    brackets = _STRINGS.sub(b"", header).translate(None, _NO_BRACKETS)
    for _ in range(HEADER_NESTING_MAX):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    if brackets:
        raise ProtocolViolation("nesting", f"JSON nested deeper than {HEADER_NESTING_MAX}")
