"""Answers that are too large to be parsed, or to be received."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client.admin import Admin
from pymq.client.admin.connection import AnswerLimits, counting_parsed, parsed_size_bytes
from pymq.errors import UnreachableError
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer

LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


def names(body: bytes, limits: AnswerLimits | None) -> set[str]:
    """Return the names of topics that a name server answers with."""

    async def ask() -> set[str]:
        server = await FakeServer().start()
        server.on(LIST, lambda _: Reply(body=body))
        try:
            async with Admin(server.address, limits=limits) as admin:
                return set(await admin.topics.names())
        finally:
            await server.stop()

    return asyncio.run(ask())


def test_the_size_of_json_in_memory_is_guessed_by_its_values() -> None:
    assert parsed_size_bytes(b'{"a":[1,2]}') == 11 + 60 + 2 * 250
    assert parsed_size_bytes(b"\0\0\1\0" + b"," * 1000) == parsed_size_bytes(b"") == 0


def test_an_answer_at_the_limit_is_taken_and_one_above_is_named() -> None:
    body = b'{"topicList":["a","b"]}'
    size = parsed_size_bytes(body)
    assert names(body, None) == names(body, AnswerLimits(parsed_bytes_max=size)) == {"a", "b"}
    with pytest.raises(UnreachableError, match=r"about [0-9]+ bytes of memory: at most"):
        names(body, AnswerLimits(parsed_bytes_max=size - 1))


def test_a_frame_that_is_too_large_is_not_received() -> None:
    body = b'{"topicList":["%b"]}' % (b"a" * 2000)
    assert names(body, AnswerLimits(frame_bytes_max=4096))
    with pytest.raises(UnreachableError, match="allowed are 4 to 1024"):
        names(body, AnswerLimits(frame_bytes_max=1024))


def test_pages_of_rows_count_together() -> None:
    """Each page is small, and there is always one more."""

    def page(command: Command) -> Reply:
        number = int((command.ext.get("pymqAfter") or "t0")[1:]) + 1
        return Reply(body=b'{"pymqEnds":{"t%05d":{}},"pymqNext":"t%05d"}' % (number, number))

    async def ask() -> int:
        server = await FakeServer().start()
        server.on(RequestCode.GET_TOPIC_STATS_INFO, page)
        try:
            async with Admin(server.address, limits=AnswerLimits(parsed_bytes_max=10_000)) as admin:
                with pytest.raises(UnreachableError, match=r"bytes of memory: at most 10,000"):
                    await admin.topics.ends_at(server.address)
                return len(server.requests[RequestCode.GET_TOPIC_STATS_INFO])
        finally:
            await server.stop()

    assert asyncio.run(ask()) < 20


def test_what_limited_connections_parse_is_counted() -> None:
    body, limits = b'{"topicList":["a","b"]}', AnswerLimits(parsed_bytes_max=10_000)
    with counting_parsed() as parsed:
        names(body, None)
        assert parsed.size_bytes == 0, "without limits nothing is measured"
        names(body, limits)
        assert parsed.size_bytes == parsed_size_bytes(body)
    names(body, limits)
    assert parsed.size_bytes == parsed_size_bytes(body), "the block has ended"
