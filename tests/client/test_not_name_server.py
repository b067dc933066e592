"""A broker, or a web server, that is used as a name server: the error says what it is and what to give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pymq.client.not_name_server import SHOWN_LENGTH_MAX, is_strange, not_name_server_error
from pymq.errors import RefusedError
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command

UNSERVED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def said(answer: Callable[[Command], Command]) -> str:
    async def ask(command: Command) -> Command:
        assert command.code == RequestCode.GET_BROKER_CONFIG
        return answer(command)

    return str(asyncio.run(not_name_server_error("10.0.0.1:10911", ask)))


def test_only_what_every_name_server_serves_tells() -> None:
    assert is_strange(RequestCode.GET_ROUTEINFO_BY_TOPIC, UNSERVED)
    assert not is_strange(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST)
    assert not is_strange(RequestCode.PYMQ_GET_REPLICATION_STATUS, UNSERVED), "RocketMQ's name servers don't serve it"


def test_a_broker_is_named_with_its_name_servers() -> None:
    body = b"brokerName=broker-a\nnamesrvAddr=10.0.0.9:9876;10.0.0.8:9876\n"
    assert said(lambda _: Command(0, body=body)) == (
        "10.0.0.1:10911 is the broker broker-a, not a name server: its name servers are 10.0.0.9:9876;10.0.0.8:9876"
    )
    assert said(lambda _: Command(0, body=b"brokerName=broker-a\n")).endswith(
        "it doesn't say what its name servers are"
    )


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"listenPort=1\n", b"brokerName=\n"])
def test_what_says_nothing_of_itself_may_be_a_broker(body: bytes) -> None:
    expected = "10.0.0.1:10911 is no name server, it may be a broker: give the address of a name server"
    assert said(lambda _: Command(0, body=body)) == expected
    assert said(lambda _: Command(UNSERVED, body=b"brokerName=a\n")) == expected

    def refuse(_: Command) -> Command:
        raise RefusedError(ResponseCode.NO_PERMISSION, "no")

    assert said(refuse) == expected


def test_a_liar_prints_no_control_characters_and_no_long_text() -> None:
    body = b"brokerName=\x1b[2J" + b"x" * 100_000 + b"\nnamesrvAddr=" + b"y" * 100_000 + b"\n"
    text = said(lambda _: Command(0, body=body))
    assert "\x1b" not in text and len(text) < 3 * SHOWN_LENGTH_MAX
