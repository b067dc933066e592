"""Compressed bodies: what is stored of what clients send, and what each client gets of what is stored."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

pytest.importorskip("google.protobuf")

from pymq.model import sysflag
from pymq.model.compression import NAMES, compress_body, decompress_body
from pymq.proxy import bodies
from pymq.proxy.bodies import ZLIB_FLAGS, Body
from pymq.proxy.checks import BODY_BYTES_MAX
from pymq.proxy.protocol.names import Code, Encoding
from pymq.proxy.refusals import ProxyRefusal

TEXT = b"".join(b"line %d of a body\n" % number for number in range(400))
LARGE = bytes(number * number % 251 for number in range(90_000))  # compressed, it is inflated in a thread


def stored(content: bytes) -> Body:
    return asyncio.run(bodies.stored_body(content))[0]


def given(content: bytes, flags: int, language: str) -> Body:
    return asyncio.run(bodies.given_body(content, flags, language))


def code(content: bytes) -> int:
    with pytest.raises(ProxyRefusal) as caught:
        stored(content)
    return caught.value.code


def named_gzip(content: bytes) -> bytes:
    """Return a gzip body whose head has a file's name."""
    plain = gzip.compress(content)
    return plain[:3] + b"\x08" + plain[4:10] + b"name\x00" + plain[10:]


@pytest.mark.parametrize("content", [TEXT, LARGE, b"x"])
@pytest.mark.parametrize("pack", [gzip.compress, named_gzip, zlib.compress])
def test_what_is_said_to_be_compressed_is_stored_as_zlib(content: bytes, pack: object) -> None:
    found = stored(pack(content))  # type: ignore[operator]
    assert found.mark == ZLIB_FLAGS
    assert zlib.decompress(found.content) == decompress_body(*found) == content


def test_a_body_that_consumers_would_not_inflate_is_stored_inflated_up_to_the_limit() -> None:
    at_the_limit = gzip.compress(bytes(BODY_BYTES_MAX))
    assert stored(at_the_limit) == Body(bytes(BODY_BYTES_MAX), 0)
    assert code(gzip.compress(bytes(BODY_BYTES_MAX + 1))) == Code.MESSAGE_BODY_TOO_LARGE


def test_a_body_inflates_no_farther_than_its_request_may() -> None:
    packed = zlib.compress(bytes(100_000))
    assert asyncio.run(bodies.stored_body(packed, 100_000)) == (Body(packed, ZLIB_FLAGS), 100_000)
    for left_bytes in (99_999, 0, -5):
        with pytest.raises(ProxyRefusal) as caught:
            asyncio.run(bodies.stored_body(packed, left_bytes))
        assert caught.value.code == Code.MESSAGE_BODY_TOO_LARGE


def test_a_stored_body_that_inflates_too_far_is_left_to_its_reader() -> None:
    at_the_limit, beyond = (zlib.compress(bytes(bodies.INFLATED_BYTES_MAX + more) + LARGE * more) for more in (0, 1))
    # Its ratio is over 200, so clients would not inflate it either; what counts here is that nobody does.
    assert given(beyond, ZLIB_FLAGS, "RUST") == Body(beyond, Encoding.GZIP)
    assert len(at_the_limit) < bodies.INFLATED_BYTES_MAX


@pytest.mark.parametrize(
    "content",
    [TEXT, b"\x1f\x8b", gzip.compress(TEXT)[:-1], gzip.compress(TEXT) + b"x", zlib.compress(TEXT)[:-1], b"\x78\x9cno"],
)
def test_a_body_that_is_not_what_it_is_said_to_be_is_refused(content: bytes) -> None:
    assert code(content) == Code.MESSAGE_CORRUPTED


def test_bodies_that_are_stored_together_have_one_mark() -> None:
    packed = Body(zlib.compress(TEXT), ZLIB_FLAGS)
    assert asyncio.run(bodies.of_one_mark([Body(b"a", 0), Body(b"b", 0)])) == ([b"a", b"b"], 0)
    assert asyncio.run(bodies.of_one_mark([packed, packed])) == ([packed.content] * 2, ZLIB_FLAGS)
    contents, flags = asyncio.run(bodies.of_one_mark([Body(b"a", 0), packed]))
    assert flags == ZLIB_FLAGS
    assert [decompress_body(each, flags) for each in contents] == [b"a", TEXT]


@pytest.mark.parametrize("content", [TEXT, LARGE])
def test_each_client_gets_what_it_can_read(content: bytes) -> None:
    packed = zlib.compress(content)
    for language in ("JAVA", "CPP", "GOLANG", "PYTHON", ""):
        for flags in (sysflag.COMPRESSED, ZLIB_FLAGS):
            assert given(packed, flags, language) == Body(packed, Encoding.GZIP)
    for language in bodies.GZIP_ONLY:
        found = given(packed, ZLIB_FLAGS, language)
        assert (gzip.decompress(found.content), found.mark) == (content, Encoding.GZIP)
    assert given(packed, ZLIB_FLAGS, "RUST") == Body(content, Encoding.IDENTITY)
    for kind in NAMES.keys() - {"zlib"}:
        for language in ("JAVA", "HTTP"):
            assert given(*compress_body(content, kind), language) == Body(content, Encoding.IDENTITY)


def test_a_stored_body_that_can_not_be_inflated_is_left_to_its_reader() -> None:
    assert given(b"broken", ZLIB_FLAGS, "RUST") == Body(b"broken", Encoding.GZIP)
    assert given(b"plain", 0, "RUST") == Body(b"plain", Encoding.IDENTITY)
