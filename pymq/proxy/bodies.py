"""Compressed bodies: gRPC clients say GZIP for any compression, brokers keep zlib, and each client reads what it can.

A gzip body and a zlib body are the same deflated bytes between another head and another checksum.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pymq.model import sysflag
from pymq.model.compression import (
    InflatedSizeError,
    InflateError,
    compress_body,
    decompress_body,
    inflated_size_max,
)
from pymq.proxy.checks import BODY_BYTES_MAX
from pymq.proxy.inflating import in_thread, inflated_by
from pymq.proxy.protocol.names import Code, Encoding
from pymq.proxy.refusals import ProxyRefusal

ZLIB_FLAGS = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
ZLIB_HEAD = b"\x78\x9c"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # deflated, no name, no time, any system
GZIP_TAIL_BYTES = 8
DEFLATE_RATIO_MAX = 1032  # more is not possible
INFLATED_BYTES_MAX = 16 * 1024 * 1024  # of a body; a larger one is refused, or left to its reader
REQUEST_INFLATED_BYTES_MAX = 32 * 1024 * 1024  # of all bodies of a request
_GZIP_WINDOW, _ZLIB_WINDOW = 31, 15  # of zlib.decompressobj
GZIP_ONLY = ("NODE_JS", "HTTP")  # languages whose clients inflate nothing but gzip; Node's call themselves HTTP
INFLATES_NOTHING = ("RUST",)


class Body(NamedTuple):
    """A body as it is stored, with its system flags, or as a client gets it, with its encoding."""

    content: bytes
    mark: int


async def stored_body(content: bytes, left_bytes: int = REQUEST_INFLATED_BYTES_MAX) -> tuple[Body, int]:
    """Return a body that a client says is compressed as it is stored, with its flags; and its inflated size.

    ``left_bytes``: to which it may inflate beside the other bodies of its request. Raises ProxyRefusal.
    """
    return await inflated_by(_checked, content, left_bytes)


async def given_body(content: bytes, sys_flag: int, language: str) -> Body:
    """Return a stored body as a client of this language gets it, with its encoding."""
    if not sys_flag & sysflag.COMPRESSED:
        return Body(content, Encoding.IDENTITY)
    is_zlib = sys_flag & sysflag.COMPRESSION_MASK in (0, sysflag.COMPRESSION_ZLIB)
    if is_zlib and language not in GZIP_ONLY + INFLATES_NOTHING:
        return Body(content, Encoding.GZIP)
    as_gzip = is_zlib and language in GZIP_ONLY
    return await inflated_by(_readable, content, sys_flag, as_gzip)


async def of_one_mark(bodies: list[Body]) -> tuple[list[bytes], int]:
    """Return the contents of bodies that are stored together, and their common flags: all are compressed, or none."""
    if not any(each.mark for each in bodies):
        return [each.content for each in bodies], 0
    if all(each.mark for each in bodies):
        return [each.content for each in bodies], ZLIB_FLAGS
    return await in_thread(lambda: _compressed(bodies))


def _compressed(bodies: list[Body]) -> tuple[list[bytes], int]:
    return [each.content if each.mark else compress_body(each.content)[0] for each in bodies], ZLIB_FLAGS


def _checked(content: bytes, left_bytes: int) -> tuple[Body, int]:
    """Return a body that is said to be compressed in zlib's format, and its inflated size. Raises ProxyRefusal."""
    is_gzip = content.startswith(GZIP_MAGIC)
    size_max = min(max(inflated_size_max(len(content), INFLATED_BYTES_MAX), BODY_BYTES_MAX), max(left_bytes, 0))
    inflater = zlib.decompressobj(_GZIP_WINDOW if is_gzip else _ZLIB_WINDOW)
    try:
        inflated = inflater.decompress(content, size_max + 1)
    except zlib.error as error:
        text = f"the message's body is said to be compressed, but is neither gzip nor zlib: {error}"
        raise ProxyRefusal(Code.MESSAGE_CORRUPTED, text) from error
    if len(inflated) > size_max:
        text = f"the message's body inflates beyond {size_max} bytes: send smaller messages or compress less"
        raise ProxyRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)
    if not inflater.eof or inflater.unused_data:
        text = "the message's compressed body ends early, or has bytes behind its end"
        raise ProxyRefusal(Code.MESSAGE_CORRUPTED, text)
    return _as_stored(content, inflated, is_gzip=is_gzip), len(inflated)


def _as_stored(content: bytes, inflated: bytes, *, is_gzip: bool) -> Body:
    if len(inflated) > inflated_size_max(len(content)):
        return Body(inflated, 0)  # as it is, consumers would refuse to inflate it
    if not is_gzip:
        return Body(content, ZLIB_FLAGS)
    if content[3]:  # its head has a name or more
        return Body(zlib.compress(inflated), ZLIB_FLAGS)
    deflated = content[len(GZIP_HEAD) : -GZIP_TAIL_BYTES]
    return Body(ZLIB_HEAD + deflated + zlib.adler32(inflated).to_bytes(4, "big"), ZLIB_FLAGS)


def _readable(content: bytes, sys_flag: int, as_gzip: bool) -> Body:
    """Return a compressed body as gzip, or inflated; one that can't be inflated as it is, for its reader to judge."""
    try:
        inflated = decompress_body(content, sys_flag, INFLATED_BYTES_MAX)
    except (InflateError, InflatedSizeError):
        return Body(content, Encoding.GZIP)
    if not as_gzip:
        return Body(inflated, Encoding.IDENTITY)
    tail = zlib.crc32(inflated).to_bytes(4, "little") + (len(inflated) & 0xFFFFFFFF).to_bytes(4, "little")
    return Body(GZIP_HEAD + content[len(ZLIB_HEAD) : -4] + tail, Encoding.GZIP)
