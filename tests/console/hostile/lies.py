"""What servers answer that lie, by name. Each takes the true answer and sends something else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

import msgspec

from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_command
from tests.console.hostile.liar import Lie, Say

MIB: Final = 1024 * 1024
DAY_MS: Final = 86_400_000
NAME_COUNT: Final = 1_000_000
_NUMBER: Final = re.compile(rb"(?<=[:\[,])-?[0-9]+(?=[,}\]])")
_TIME: Final = re.compile(rb"\b1[0-9]{12}\b")


def _with_body(change: Callable[[bytes], bytes]) -> Lie:
    async def lie(request: Command, answer: Command, say: Say) -> None:
        await say(encode_command(msgspec.structs.replace(answer, body=change(answer.body))))

    return lie


def _numbers(text: bytes) -> Lie:
    return _with_body(lambda body: _NUMBER.sub(text, body))


async def announce_100_mb(request: Command, answer: Command, say: Say) -> None:
    frame = encode_command(answer)
    await say((100 * MIB).to_bytes(4, "big") + frame[4:])
    for _ in range(100):
        await say(bytes(MIB))


async def never(request: Command, answer: Command, say: Say) -> None:
    await asyncio.Event().wait()


async def byte_by_byte(request: Command, answer: Command, say: Say) -> None:
    for byte in encode_command(answer):
        await say(bytes([byte]))
        await asyncio.sleep(0.1)


async def wrong_id(request: Command, answer: Command, say: Say) -> None:
    await say(encode_command(msgspec.structs.replace(answer, opaque=answer.opaque + 1_000_000)))


async def as_a_request(request: Command, answer: Command, say: Say) -> None:
    await say(encode_command(msgspec.structs.replace(answer, flag=0)))


async def long_refusal(request: Command, answer: Command, say: Say) -> None:
    await say(encode_command(Command(1, opaque=answer.opaque, flag=1, remark="<b>no</b>\x00\x1b\u202e " * 300_000)))


async def closes(request: Command, answer: Command, say: Say) -> None:
    raise ConnectionError


async def no_frame(request: Command, answer: Command, say: Say) -> None:
    await say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def negative_length(request: Command, answer: Command, say: Say) -> None:
    await say(b"\xff\xff\xff\xf0" + encode_command(answer))


async def a_million_names(request: Command, answer: Command, say: Say) -> None:
    """Lists a million topics where topics are listed; other answers are true."""
    if request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
        names = b",".join(b'"t%d"' % number for number in range(NAME_COUNT))
        answer.body = b'{"brokerAddr":null,"topicList":[' + names + b"]}"
    await say(encode_command(answer))


async def pages_without_end(request: Command, answer: Command, say: Say) -> None:
    """Has one more page of rows, whatever was asked before."""
    if (answer.body.startswith(b"{") and b"pymqNext" in answer.body) or request.ext.get("pymqAll"):
        number = int(request.ext.get("pymqAfter", "t0").lstrip("t") or 0)
        rows = b",".join(b'"t%09d":{}' % at for at in range(number, number + 10_000))
        kinds = (b"pymqEnds", b"pymqGroups", b"pymqReaders", b"pymqLags", b"pymqPlaces", b"pymqMembers")
        found = b",".join(b'"%b":{%b}' % (kind, rows) for kind in kinds)
        answer.body = b'{%b,"pymqNext":"t%09d"}' % (found, number + 10_000)
    await say(encode_command(answer))


LIES: Final[dict[str, Lie]] = {
    "announces 100 MB": announce_100_mb,
    "15 MB of nonsense": _with_body(lambda body: b"[" + b'"x",' * (15 * MIB // 4) + b"1]"),
    "7 MB of nonsense": _with_body(lambda body: b"[" + b'"x",' * (7 * MIB // 4) + b"1]"),
    "2 MB of objects": _with_body(lambda body: b"[" + b"{}," * 150_000 + b"1]"),
    "half a JSON": _with_body(lambda body: body[: len(body) // 2]),
    "nothing": _with_body(lambda body: b""),
    "another type": _with_body(lambda body: b"[1]"),
    "null": _with_body(lambda body: b"null"),
    "nulls": _with_body(lambda body: re.sub(rb":(\"[^\"]*\"|[0-9]+)", b":null", body)),
    "deep": _with_body(lambda body: b"[" * 100_000),
    "no UTF-8": _with_body(lambda body: body.replace(b"a", b"\xff\xfe")),
    "texts for numbers": _numbers(b'"many"'),
    "negative numbers": _numbers(b"-7"),
    "least numbers": _numbers(b"-9223372036854775808"),
    "huge numbers": _numbers(b"9223372036854775807"),
    "too large numbers": _numbers(b"1e400"),
    "numbers of 5,000 digits": _numbers(b"9" * 5000),
    "a clock a day ahead": _with_body(lambda body: _TIME.sub(lambda time: b"%d" % (int(time[0]) + DAY_MS), body)),
    "wrong id": wrong_id,
    "as a request": as_a_request,
    "a refusal of 5 MB": long_refusal,
    "closes": closes,
    "no frame": no_frame,
    "a negative length": negative_length,
    "a million names": a_million_names,
    "pages without end": pages_without_end,
    "never": never,
    "byte by byte": byte_by_byte,
}
