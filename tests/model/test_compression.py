"""Compressed bodies: whole or refused, never a part; capped by size and by ratio."""

from __future__ import annotations

import random
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model import compression, sysflag
from pymq.model.compression import InflateError, compress_body, decompress_body, inflated_begin

KINDS = ("zlib", "lz4", "zstd")
# Half of it is incompressible, so every format stores several blocks.
BODY = random.Random(1).randbytes(1500) + b"abc" * 500


@given(st.binary(max_size=2000), st.sampled_from(KINDS))
def test_round_trip(body: bytes, kind: str) -> None:
    compressed, flags = compress_body(body, kind)
    assert decompress_body(compressed, flags) == body


def test_the_flags_are_those_of_java() -> None:
    assert {kind: compress_body(b"x", kind)[1] for kind in KINDS} == {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}


def test_zlib_starts_as_javas_level_5_does() -> None:
    assert compress_body(BODY, "zlib")[0][:2] == b"\x78\x5e"


def test_an_old_producers_body_has_no_type_and_is_zlib() -> None:
    assert decompress_body(zlib.compress(BODY), sysflag.COMPRESSED) == BODY


@pytest.mark.parametrize("flags", [0, sysflag.COMPRESSION_ZSTD, sysflag.COMPRESSION_MASK, ~sysflag.COMPRESSED])
def test_a_body_without_the_flag_is_returned_unchanged(flags: int) -> None:
    assert decompress_body(b"\x78\x5eno zlib", flags) == b"\x78\x5eno zlib"


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_body_is_refused(kind: str) -> None:
    compressed, flags = compress_body(BODY, kind)
    for size in range(len(compressed)):
        with pytest.raises(InflateError):
            decompress_body(compressed[:size], flags)


def test_a_truncated_zstd_frame_without_a_size_is_refused() -> None:
    import zstandard

    # Java's ZstdOutputStream can't know the size when it writes the frame's header.
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(BODY)
    flags = sysflag.COMPRESSED | sysflag.COMPRESSION_ZSTD
    assert decompress_body(frame, flags) == BODY
    for size in range(len(frame)):
        with pytest.raises(InflateError):
            decompress_body(frame[:size], flags)


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("again", [False, True])
def test_bytes_behind_a_frame_are_not_dropped_silently(kind: str, steps: int, again: bool) -> None:
    # The frame ends in the last read step or before it.
    frame, flags = compress_body(b"x" * 10, kind)
    rest = (frame if again else b"?") + b"?" * (compression._ZSTD_STEP_BYTES * steps)
    with pytest.raises(InflateError, match=f"{kind} body has {len(rest)} bytes after its frame"):
        decompress_body(frame + rest, flags)


@given(st.data(), st.sampled_from(KINDS))
def test_a_damaged_body_is_refused_or_inflated(data: st.DataObject, kind: str) -> None:
    compressed, flags = compress_body(BODY, kind)
    damaged = bytearray(compressed)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decompress_body(bytes(damaged), flags)
    except InflateError:
        pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_body_marked_as_another_kind_is_refused(kind: str, other: str) -> None:
    if kind != other:
        with pytest.raises(InflateError):
            decompress_body(compress_body(BODY, kind)[0], sysflag.COMPRESSED | compression.NAMES[other])


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_cap_at_its_edge(kind: str) -> None:
    compressed, flags = compress_body(BODY, kind)
    assert decompress_body(compressed, flags, len(BODY)) == BODY
    with pytest.raises(InflateError, match=f"beyond {len(BODY) - 1} bytes.*smaller"):
        decompress_body(compressed, flags, len(BODY) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ratio_counts_above_a_mebibyte_only(kind: str) -> None:
    free = compression.RATIO_FREE_SIZE_BYTES
    small, flags = compress_body(bytes(free), kind)
    assert len(small) * compression.INFLATED_RATIO_MAX < free
    assert decompress_body(small, flags) == bytes(free)


@pytest.mark.parametrize("kind", ["zlib", "zstd"])
def test_the_ratio_at_its_edge(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(2 * compression.RATIO_FREE_SIZE_BYTES)
    compressed, flags = compress_body(body, kind)
    with pytest.raises(InflateError, match="ratio 200"):
        decompress_body(compressed, flags)
    ratio = -(-len(body) // len(compressed))
    monkeypatch.setattr(compression, "INFLATED_RATIO_MAX", ratio)
    assert decompress_body(compressed, flags) == body
    monkeypatch.setattr(compression, "INFLATED_RATIO_MAX", ratio - 1)
    with pytest.raises(InflateError, match=f"ratio {ratio - 1}"):
        decompress_body(compressed, flags)


def test_a_zstd_bomb_stops_near_the_cap() -> None:
    """One step of the reader inflates a bounded size, however small the compressed bytes are."""
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(32 * 1024 * 1024))
    inflater = zstandard.ZstdDecompressor().decompressobj()
    step = compression._ZSTD_STEP_BYTES
    sizes = [len(inflater.decompress(bomb[at : at + step])) for at in range(0, len(bomb), step)]
    assert len(sizes) > 3 and max(sizes) <= 8 * 1024 * 1024
    with pytest.raises(InflateError, match="beyond 1048576 bytes"):
        decompress_body(bomb, sysflag.COMPRESSED | sysflag.COMPRESSION_ZSTD)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 100, 2999, 3000, 5000])
def test_the_begin_of_a_body_is_inflated_alone(kind: str, size: int) -> None:
    compressed, flags = compress_body(BODY, kind)
    assert inflated_begin(compressed, flags, size) == BODY[:size]
    assert inflated_begin(BODY, 0, size) == BODY[:size]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damage_behind_the_begin_does_not_matter_and_one_in_it_does(kind: str) -> None:
    body = random.Random(2).randbytes(500_000)
    compressed, flags = compress_body(body, kind)
    assert inflated_begin(compressed[:-10], flags, 100) == body[:100]
    with pytest.raises(InflateError, match="can't be inflated"):
        inflated_begin(b"\xff" * 100, flags, 100)


@pytest.mark.parametrize(("kind", "package"), [("lz4", "lz4"), ("zstd", "zstandard")])
def test_a_compression_whose_package_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.frame", None)
    with pytest.raises(UsageError, match=f"compressing with {kind} needs the package {package}"):
        compress_body(b"body", kind)
