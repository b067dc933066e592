"""The body of a broker's registration at a name server (REGISTER_BROKER, 103), plain and compressed.

Any peer may send one. So the reader bounds what it makes of a body before it makes it: how many topics there are, how
many JSON values, and how many bytes a compressed body inflates to. It inflates piece by piece and keeps no more than
one part at a time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pymq.errors import Refusal
from pymq.model.compression import INFLATED_RATIO_MAX, RATIO_FREE_SIZE_BYTES
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.codes import ResponseCode

TOPIC_COUNT_MAX = 40_000
INFLATED_SIZE_MAX_BYTES = 16 * 1024 * 1024
# JSON values that one topic may have on average. Java writes 9, and a few for each attribute.
VALUES_PER_TOPIC_MAX = 12
# JSON values beside those of topics: the version, filter servers, the mappings of static topics.
OTHER_VALUES_MAX = 4096
# One part of the compressed form: a topic with its attributes, or the filter servers.
PART_SIZE_MAX_BYTES = 64 * 1024

_I32 = struct.Struct(">i")
_VERSION_FULL_BODY = 37  # 3.0.11: before it the body was the topic table alone
_COMPRESSION_LEVEL = 9
_STEP_BYTES = 64 * 1024


class TopicTable(msgspec.Struct, rename="camel", kw_only=True):
    """Topic configurations with their version (Java: TopicConfigSerializeWrapper)."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()


class RegisterBody(msgspec.Struct, rename="camel", kw_only=True):
    """The body of REGISTER_BROKER (103), plain form."""

    filter_server_list: list[str] | None = []
    topic_config_serialize_wrapper: TopicTable = msgspec.field(default_factory=TopicTable)


class Registered(NamedTuple):
    """The content of a registration's body, the same for every form of it."""

    topics: dict[str, TopicConfig]
    data_version: DataVersion
    filter_servers: list[str]


def body_crc32(body: bytes) -> int:
    """Return the checksum of a registration's body as sent, which the request's header carries."""
    return zlib.crc32(body) & 0x7FFFFFFF


def encode_registration(
    topics: Iterable[TopicConfig],
    data_version: DataVersion,
    filter_servers: Iterable[str] = (),
    *,
    compressed: bool = False,
) -> bytes:
    """Encode the body of a registration. The compressed form loses ``order`` and ``topic_sys_flag``, as in Java."""
    if compressed:
        return zlib.compress(_encode_compact(topics, data_version, filter_servers), _COMPRESSION_LEVEL)
    table = TopicTable(topic_config_table={config.topic_name: config for config in topics}, data_version=data_version)
    return encode_body(RegisterBody(filter_server_list=list(filter_servers), topic_config_serialize_wrapper=table))


def decode_registration(
    body: bytes,
    *,
    compressed: bool,
    version: int,
    inflated_size_max_bytes: int = INFLATED_SIZE_MAX_BYTES,
    topic_count_max: int = TOPIC_COUNT_MAX,
) -> Registered:
    """Decode the body of a registration by a broker of ``version``.

    Raises Refusal: SYSTEM_ERROR for a body that can't be read, INVALID_PARAMETER for one beyond a limit or with a topic
    under another topic's name.
    """
    if not body:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            "the registration has no body: send the broker's topics, as topicConfigSerializeWrapper",
        )
    if not compressed or version < _VERSION_FULL_BODY:
        return _decode_plain(body, version, topic_count_max)
    try:
        return _decode_compact(_Inflater(body, inflated_size_max_bytes), topic_count_max)
    except (zlib.error, ValueError, struct.error) as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the compressed registration can't be read: {error}") from error


def _decode_plain(body: bytes, version: int, topic_count_max: int) -> Registered:
    _check_topic_count(body.count(b'"topicName"'), topic_count_max)
    _check_value_count(body.count(b",") + body.count(b"{"), topic_count_max)
    if version < _VERSION_FULL_BODY:
        table: TopicTable = decode_body(TopicTable, body)
        servers: list[str] = []
    else:
        plain: RegisterBody = decode_body(RegisterBody, body)
        table, servers = plain.topic_config_serialize_wrapper, plain.filter_server_list or []
    _check_topic_count(len(table.topic_config_table), topic_count_max)  # names may be written with escapes
    for name, config in table.topic_config_table.items():
        if name != config.topic_name:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the entry {name[:80]!r} of the topic table describes the topic {config.topic_name[:80]!r}: give both "
                "one name",
            )
    return Registered(table.topic_config_table, table.data_version, servers)


def _check_topic_count(count: int, count_max: int) -> None:
    if count > count_max:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the registration has {count} topics, the limit of one broker is {count_max}: delete topics, or raise "
            "maxTopicsPerBroker of the name server",
        )


def _check_value_count(count: int, topic_count_max: int) -> None:
    count_max = topic_count_max * VALUES_PER_TOPIC_MAX + OTHER_VALUES_MAX
    if count > count_max:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the registration has more than {count_max} JSON values, the limit for {topic_count_max} topics: remove "
            "attributes of topics, or raise maxTopicsPerBroker of the name server",
        )


def _encode_compact(topics: Iterable[TopicConfig], data_version: DataVersion, filter_servers: Iterable[str]) -> bytes:
    lines = [_topic_line(config).encode() for config in topics]
    parts = [_sized(encode_body(data_version)), _I32.pack(len(lines)), *map(_sized, lines)]
    # The closing zero is the count of static topic mappings; 5.x name servers read it, older ones stop before it.
    parts += [_sized(encode_body(list(filter_servers))), _I32.pack(0)]
    return b"".join(parts)


def _topic_line(config: TopicConfig) -> str:
    counts = f"{config.read_queue_nums} {config.write_queue_nums} {config.perm}"
    return f"{config.topic_name} {counts} {config.topic_filter_type} {encode_body(config.attributes).decode()}"


def _sized(part: bytes) -> bytes:
    return _I32.pack(len(part)) + part


class _Inflater:
    """Gives the parts of a compressed body one after another. Raises ValueError and zlib.error."""

    def __init__(self, body: bytes, size_max_bytes: int) -> None:
        self._body = body
        self._limit = min(size_max_bytes, max(len(body) * INFLATED_RATIO_MAX, RATIO_FREE_SIZE_BYTES))
        self._inflater = zlib.decompressobj()
        self._rest = body
        self._ready = bytearray()
        self._inflated_bytes = 0

    def number(self) -> int:
        """Return the next four bytes as a number."""
        value: int = _I32.unpack(self._take(_I32.size))[0]
        return value

    def part(self) -> bytes:
        """Return the next part, which begins with its size."""
        size = self.number()
        if not 0 <= size <= PART_SIZE_MAX_BYTES:
            raise ValueError(f"a part of {size} bytes, allowed are 0 to {PART_SIZE_MAX_BYTES}")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._ready) < size:
            self._inflate()
        taken = bytes(self._ready[:size])
        del self._ready[:size]
        return taken

    def _inflate(self) -> None:
        piece = b"" if self._inflater.eof else self._inflater.decompress(self._rest, _STEP_BYTES)
        self._rest = self._inflater.unconsumed_tail
        if not piece:
            raise ValueError(f"it ends after {self._inflated_bytes} bytes, in the middle of a part")
        self._inflated_bytes += len(piece)
        if self._inflated_bytes > self._limit:
            raise ValueError(
                f"it inflates beyond {self._limit} bytes (ratio {INFLATED_RATIO_MAX}, inflatedSizeBytesMax): register "
                "fewer topics, or raise inflatedSizeBytesMax of the name server"
            )
        self._ready += piece


def _decode_compact(raw: _Inflater, topic_count_max: int) -> Registered:
    version = decode_body(DataVersion, raw.part())
    count = raw.number()
    _check_topic_count(count, topic_count_max)
    topics: dict[str, TopicConfig] = {}
    value_count = 0
    for _ in range(count):  # a wrong count fails at the end of the bytes: each round reads some
        line = raw.part()
        value_count += line.count(b",") + 1
        _check_value_count(value_count, topic_count_max)
        config = _parse_topic_line(line.decode())
        if config.topic_name in topics:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the registration has the topic {config.topic_name[:80]!r} twice: register it once",
            )
        topics[config.topic_name] = config
    servers = raw.part()
    _check_value_count(servers.count(b","), topic_count_max)
    return Registered(topics, version, decode_body(list[str], servers))


def _parse_topic_line(line: str) -> TopicConfig:
    words = line.split(" ", 5)
    if len(words) < 5:
        raise ValueError(f"the topic entry {line[:80]!r} has {len(words)} of 5 words")
    attributes: dict[str, str] = decode_body(dict[str, str], words[5].encode()) if len(words) > 5 and words[5] else {}
    return TopicConfig(
        topic_name=words[0],
        read_queue_nums=int(words[1]),
        write_queue_nums=int(words[2]),
        perm=int(words[3]),
        topic_filter_type=words[4],
        attributes=attributes,
    )
