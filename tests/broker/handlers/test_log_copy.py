"""Codes 9105 and 9106: digests and bytes of the log, for a broker that rebuilds its copy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from xxhash import xxh3_64_hexdigest

from pymq.broker.handlers.log_copy import CHUNK_BYTES_MIN, DIGEST_COUNT_MAX, DIGESTED_BYTES_MAX, READ_BYTES_MAX
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest, ReadLogRequest
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.world import Caller, World

SEGMENT_BYTES = 64 * 1024


@pytest.fixture
def world() -> World:
    """A log of three segments."""
    world = World(mappedFileSizeCommitLog=SEGMENT_BYTES, brokerName="broker-x", brokerClusterName="east")
    for number in range(150):
        world.put("orders", bytes([number]) * 1000)
    return world


def digests(world: World, **wanted: Any) -> LogDigests:
    body = msgspec.json.encode(LogDigestsRequest(**wanted))
    return msgspec.json.decode(Caller(world).ok(RequestCode.PYMQ_LIST_LOG_DIGESTS, body).body, type=LogDigests)


def read(world: World, start: int, size_bytes: int) -> bytes:
    body = msgspec.json.encode(ReadLogRequest(start=start, size_bytes=size_bytes))
    return Caller(world).ok(RequestCode.PYMQ_READ_LOG, body).body


def refused(world: World, code: int, body: bytes) -> str:
    found, remark = Caller(world).refused(code, body)
    assert found == ResponseCode.INVALID_PARAMETER
    return remark


def whole_log(world: World) -> bytes:
    store = world.parts.store
    raw = b"".join(bytes(segment.read(0, SEGMENT_BYTES)) for segment in store._log.segments)
    return raw[: store.physical_max_offset]


def test_digests_cover_the_log_and_name_its_broker(world: World) -> None:
    raw = whole_log(world)
    found = digests(world, chunk_bytes=40_000)
    assert (found.broker_name, found.cluster, found.segment_size_bytes) == ("broker-x", "east", SEGMENT_BYTES)
    assert (found.log_start, found.log_end) == (0, len(raw))
    ends = [40_000, SEGMENT_BYTES, SEGMENT_BYTES + 40_000, 2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES + 40_000, len(raw)]
    chunks = [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert found.digests == [xxh3_64_hexdigest(chunk) for chunk in chunks if chunk]


def test_digests_of_a_part(world: World) -> None:
    raw = whole_log(world)
    found = digests(world, start=1000, end=3000, chunk_bytes=1024)
    assert found.digests == [xxh3_64_hexdigest(raw[1000:2024]), xxh3_64_hexdigest(raw[2024:3000])]
    assert len(digests(world, chunk_bytes=1024, count_max=3).digests) == 3
    assert digests(world, start=len(raw)).digests == []


def test_deletions_are_listed_on_request(world: World) -> None:
    store = world.parts.store
    end = store.physical_max_offset
    store.delete_topics("orders")
    assert digests(world, start=end).deleted_topics == {}
    assert digests(world, start=end, with_deletions=True).deleted_topics == {"orders": end}


def test_one_answer_of_digests_is_bounded_by_the_bytes_read() -> None:
    world = World(mappedFileSizeCommitLog=2 * DIGESTED_BYTES_MAX, maxMessageSize=DIGESTED_BYTES_MAX)
    for _ in range(3):
        world.put("orders", b"x" * (DIGESTED_BYTES_MAX // 2))
    assert len(digests(world, chunk_bytes=DIGESTED_BYTES_MAX).digests) == 1
    assert len(digests(world, chunk_bytes=DIGESTED_BYTES_MAX // 4).digests) == 4
    assert len(digests(world, chunk_bytes=DIGESTED_BYTES_MAX // 4 + 1).digests) == 3


def test_bytes_come_as_they_are_up_to_their_segment_s_end(world: World) -> None:
    raw = whole_log(world)
    assert read(world, 0, 100) == raw[:100]
    assert read(world, SEGMENT_BYTES - 10, 100) == raw[SEGMENT_BYTES - 10 : SEGMENT_BYTES]
    assert read(world, len(raw) - 5, 100) == raw[-5:]


def test_one_answer_of_bytes_is_bounded() -> None:
    world = World(mappedFileSizeCommitLog=4 * READ_BYTES_MAX)
    world.put("orders", b"x" * 2 * READ_BYTES_MAX)
    assert len(read(world, 0, READ_BYTES_MAX + 1)) == READ_BYTES_MAX


@pytest.mark.parametrize("start", [-1, 10**12])
def test_a_place_outside_the_log_is_refused_with_its_bounds(world: World, start: int) -> None:
    for code, wanted in (
        (RequestCode.PYMQ_READ_LOG, ReadLogRequest(start=start, size_bytes=1)),
        (RequestCode.PYMQ_LIST_LOG_DIGESTS, LogDigestsRequest(start=start)),
    ):
        remark = refused(world, code, msgspec.json.encode(wanted))
        assert str(start) in remark and str(world.parts.store.physical_max_offset) in remark


@pytest.mark.parametrize(
    "body",
    [
        msgspec.json.encode(LogDigestsRequest(chunk_bytes=CHUNK_BYTES_MIN - 1)),
        msgspec.json.encode(LogDigestsRequest(chunk_bytes=DIGESTED_BYTES_MAX + 1)),
        msgspec.json.encode(LogDigestsRequest(count_max=0)),
        msgspec.json.encode(LogDigestsRequest(count_max=DIGEST_COUNT_MAX + 1)),
        b"{",
        b'{"start":"x"}',
    ],
)
def test_wrong_questions_for_digests_are_refused(world: World, body: bytes) -> None:
    refused(world, RequestCode.PYMQ_LIST_LOG_DIGESTS, body)


@pytest.mark.parametrize("body", [b"", b"[]", msgspec.json.encode(ReadLogRequest(start=0, size_bytes=0))])
def test_wrong_questions_for_bytes_are_refused(world: World, body: bytes) -> None:
    refused(world, RequestCode.PYMQ_READ_LOG, body)
