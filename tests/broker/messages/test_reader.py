"""Reader: limits of an answer, and RocketMQ's code for every outcome of a read."""

from __future__ import annotations

import pytest

from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.reader import response_code
from pymq.model.javahash import tags_code
from pymq.model.record import decode_records
from pymq.store.read.reading import GetStatus
from pymq.wire.headers.pull import PULL_COUNT_DEFAULT, PULL_COUNT_MAX
from tests.broker.world import World


@pytest.mark.parametrize(
    ("status", "offset", "code"),
    [
        (GetStatus.FOUND, 0, 0),
        (GetStatus.OFFSET_OVERFLOW_ONE, 5, 19),
        (GetStatus.OFFSET_FOUND_NULL, 5, 19),
        (GetStatus.NO_MATCHED_MESSAGE, 5, 20),
        (GetStatus.MESSAGE_WAS_REMOVING, 5, 20),
        (GetStatus.OFFSET_TOO_SMALL, 5, 21),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 5, 21),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 19),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 5, 21),
        (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 19),
        (GetStatus.NO_MATCHED_LOGIC_QUEUE, -1, 21),
    ],
)
def test_codes(status: GetStatus, offset: int, code: int) -> None:
    assert response_code(status, offset) == code


def test_every_status_has_a_code() -> None:
    assert {response_code(status, 1) for status in GetStatus} == {0, 19, 20, 21}


def filled() -> World:
    world = World(maxTransferCountOnMessageInMemory=8, maxTransferBytesOnMessageInMemory=1024)
    for number in range(20):
        world.put("T", b"%d" % number, TAGS="AB"[number % 2])
    return world


@pytest.mark.parametrize(
    ("count", "size_bytes", "found"),
    [(3, None, 3), (1000, None, 8), (0, None, 1), (-5, None, 1), (8, 1, 1), (8, 0, 8), (8, -1, 8), (8, 1 << 30, 8)],
)
def test_limits(count: int, size_bytes: int | None, found: int) -> None:
    code, result = filled().parts.messages.reader.read("T", 0, 2, count, size_bytes, MessageFilter())
    messages = decode_records(b"".join(result.chunks))
    assert code == 0 and result.count == len(messages) == found
    assert [message.queue_offset for message in messages] == list(range(2, 2 + found))
    assert result.next_offset == 2 + found and result.size_bytes == sum(map(len, result.chunks))


@pytest.mark.parametrize(("wide", "found"), [(1, 1), (12, 12), (0, 1), (-1, 1), (5000, 18)])
def test_a_reader_that_says_so_gets_more_than_the_limit(wide: int, found: int) -> None:
    world = filled()
    world.config.change_at_runtime({"maxTransferBytesOnMessageInMemory": "1000000"})
    _, result = world.parts.messages.reader.read("T", 0, 2, 32, None, MessageFilter(), wide)
    assert result.count == found


def test_a_client_gets_as_many_messages_as_rocketmq_gives() -> None:
    world = World()
    for number in range(PULL_COUNT_MAX + 3):
        world.put("T", b"%d" % number)
    read = world.parts.messages.reader.read
    assert world.config.max_transfer_count == PULL_COUNT_DEFAULT == 32
    assert read("T", 0, 0, 1000, None, MessageFilter()).result.count == PULL_COUNT_DEFAULT
    assert read("T", 0, 0, 1000, None, MessageFilter(), PULL_COUNT_MAX + 1).result.count == PULL_COUNT_MAX


def test_limits_follow_a_change_at_run_time() -> None:
    world = filled()
    world.config.change_at_runtime({"maxTransferCountOnMessageInMemory": "2"})
    assert world.parts.messages.reader.read("T", 0, 0, 32, None, MessageFilter()).result.count == 2


def test_codes_of_tags_select() -> None:
    reader = filled().parts.messages.reader
    code, result = reader.read("T", 0, 0, 3, None, MessageFilter(frozenset({tags_code("B")})))
    assert code == 0
    assert [message.body for message in decode_records(b"".join(result.chunks))] == [b"1", b"3", b"5"]
    assert reader.read("T", 0, 0, 3, None, MessageFilter(frozenset({1}))).code == 20


def test_the_ends_of_queues() -> None:
    reader = filled().parts.messages.reader
    assert reader.ends("T", 0) == (0, 20)
    assert reader.ends("T", 1) == reader.ends("Nope", 0) == (0, 0)
