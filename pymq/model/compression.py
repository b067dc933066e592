"""Compression of message bodies: zlib, LZ4 frames or Zstandard frames, inflated under a cap on size and ratio."""

from __future__ import annotations

import zlib

from pymq.errors import PymqError, UsageError
from pymq.model import sysflag

INFLATED_SIZE_MAX_BYTES = 64 * 1024 * 1024
INFLATED_RATIO_MAX = 200
# Small bodies inflate far beyond any ratio without harm, so the ratio counts only above this size.
RATIO_FREE_SIZE_BYTES = 1024 * 1024
# What the bodies of one output may inflate to together, see pymq.model.inflation. Text compresses to a tenth, logs to a
# thirtieth; only bodies made of repetitions reach a hundredth. A small output inflates as far as its bodies may.
INFLATION_RATIO_MAX = 100
INFLATION_FREE_BYTES = 64 * 1024 * 1024
# Zstandard can't stop in mid-output. So the input is fed in steps: a step's output, at most 128 KiB for every 4 bytes,
# exceeds the cap by at most 8 MiB.
_ZSTD_STEP_BYTES = 256

NAMES = {"zlib": sysflag.COMPRESSION_ZLIB, "lz4": sysflag.COMPRESSION_LZ4, "zstd": sysflag.COMPRESSION_ZSTD}


class InflateError(PymqError):
    """A body is not valid compressed data, or would grow beyond the cap."""


class InflatedSizeError(InflateError):
    """A body would inflate beyond what is allowed."""


def compress_body(body: bytes, kind: str = "zlib", level: int = 5) -> tuple[bytes, int]:
    """Return the body compressed as ``kind`` (zlib, lz4 or zstd), and the sysFlag bits to set."""
    flags = sysflag.COMPRESSED | NAMES[kind]
    if kind == "zlib":
        return zlib.compress(body, level), flags
    try:
        if kind == "lz4":
            import lz4.frame  # noqa: PLC0415 - few bodies need it

            return lz4.frame.compress(body), flags
        import zstandard  # noqa: PLC0415 - few bodies need it

        return zstandard.ZstdCompressor(level=level).compress(body), flags
    except ModuleNotFoundError as error:
        raise UsageError(f"compressing with {kind} needs the package {error.name}: install it, or take zlib") from error


def decompress_body(body: bytes, sys_flag: int, size_max_bytes: int = INFLATED_SIZE_MAX_BYTES) -> bytes:
    """Return the body as its producer wrote it, unchanged when the compressed bit is off. Raises InflateError."""
    if not sys_flag & sysflag.COMPRESSED:
        return body
    limit = inflated_size_max(len(body), size_max_bytes)
    kind = sys_flag & sysflag.COMPRESSION_MASK
    try:
        if kind == sysflag.COMPRESSION_LZ4:
            return _inflate_lz4(body, limit)
        if kind == sysflag.COMPRESSION_ZSTD:
            return _inflate_zstd(body, limit)
        return _inflate_zlib(body, limit)
    except InflateError:
        raise
    except Exception as error:  # each library has its own errors
        raise InflateError(f"the body is marked compressed but can't be inflated: {error}") from error


def inflated_begin(body: bytes, sys_flag: int, size_bytes: int) -> bytes:
    """Return the first ``size_bytes`` of the body as its producer wrote it, without inflating the rest.

    Raises InflateError for data that is damaged so far.
    """
    if not sys_flag & sysflag.COMPRESSED:
        return body[:size_bytes]
    kind = sys_flag & sysflag.COMPRESSION_MASK
    try:
        if kind == sysflag.COMPRESSION_LZ4:
            import lz4.frame  # noqa: PLC0415 - few bodies need it

            return bytes(lz4.frame.LZ4FrameDecompressor().decompress(body, max_length=size_bytes))
        if kind == sysflag.COMPRESSION_ZSTD:
            return _begin_of_zstd(body, size_bytes)
        return zlib.decompressobj().decompress(body, size_bytes)
    except Exception as error:  # each library has its own errors
        raise InflateError(f"the body is marked compressed but can't be inflated: {error}") from error


def _begin_of_zstd(body: bytes, size_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415 - few bodies need it

    inflater = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    begin = b""
    for at in range(0, len(body), _ZSTD_STEP_BYTES):
        if len(begin) >= size_bytes or inflater.eof:
            break
        begin += inflater.decompress(body[at : at + _ZSTD_STEP_BYTES])
    return begin[:size_bytes]


def inflated_size_max(size_bytes: int, cap_bytes: int = INFLATED_SIZE_MAX_BYTES) -> int:
    """Return what a compressed body of this size may inflate to, in bytes."""
    return min(cap_bytes, max(size_bytes * INFLATED_RATIO_MAX, RATIO_FREE_SIZE_BYTES))


def _inflate_zlib(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    result = inflater.decompress(body, limit + 1)
    _check_limit(len(result), limit)
    if not inflater.eof:
        raise InflateError("the zlib body ends early")
    return result


def _inflate_lz4(body: bytes, limit: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 - few bodies need it

    inflater = lz4.frame.LZ4FrameDecompressor()
    result = inflater.decompress(body, max_length=limit + 1)
    _check_limit(len(result), limit)
    _check_end("lz4", inflater.eof, len(inflater.unused_data or b""))
    return bytes(result)


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    import zstandard  # noqa: PLC0415 - few bodies need it

    inflater = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    parts: list[bytes] = []
    total = at = 0
    while at < len(body) and not inflater.eof:
        part = inflater.decompress(body[at : at + _ZSTD_STEP_BYTES])
        at += _ZSTD_STEP_BYTES
        total += len(part)
        _check_limit(total, limit)
        parts.append(part)
    _check_end("zstd", inflater.eof, len(inflater.unused_data) + max(0, len(body) - at))
    return b"".join(parts)


def _check_end(kind: str, complete: bool, rest: int) -> None:
    """Check that the body is complete: a part of it must not pass for the whole. Producers write one frame per body."""
    if not complete:
        raise InflateError(f"the {kind} body ends early")
    if rest:
        raise InflateError(f"the {kind} body has {rest} bytes after its frame")


def _check_limit(size: int, limit: int) -> None:
    if size > limit:
        raise InflatedSizeError(
            f"the body inflates beyond {limit} bytes (cap {INFLATED_SIZE_MAX_BYTES}, ratio {INFLATED_RATIO_MAX}): "
            "send smaller messages or compress less"
        )
