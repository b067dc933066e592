"""Frames made in bulk are the frames that the codec of the package would make one by one."""

import re

import pytest

from bench import frames
from bench.frames import BINARY_HEADER, JSON_HEADER, SendStream
from pymq.model.record import decode_batch
from pymq.wire.command import Command, decode_command
from pymq.wire.framing import FrameBuffer

KEY = re.compile(r"UNIQ_KEY\x01([0-9A-F]{32})\x02")


def decoded(stream: SendStream, count: int) -> list[Command]:
    data = b""
    while len(data) < count * stream.frame_bytes:
        data += bytes(stream.take(count - len(data) // stream.frame_bytes))
    return [decode_command(payload) for payload in FrameBuffer().feed(data)]


@pytest.mark.parametrize("header", [JSON_HEADER, BINARY_HEADER])
def test_single_sends(header: int) -> None:
    commands = decoded(SendStream("bench_t", 8, 128, header), frames.ROWS_PER_CHUNK + 10)
    assert {command.code for command in commands} == {310}
    assert {command.ext["b"] for command in commands} == {"bench_t"}
    assert [int(command.ext["e"]) for command in commands[:9]] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert all(command.body == b"x" * 128 and len(command.ext["g"]) == 13 for command in commands)
    assert len({command.opaque for command in commands}) == len(commands)
    keys = [KEY.search(command.ext["i"]) for command in commands]
    assert len({key[1] for key in keys if key}) == len(commands)


def test_batches_give_every_entry_its_key() -> None:
    commands = decoded(SendStream("bench_t", 4, 16, batch=32), 3)
    assert {command.code for command in commands} == {320}
    bodies = "".join((command.body or b"").decode() for command in commands)
    headers = "".join(command.ext["i"] for command in commands)
    keys = KEY.findall(bodies) + KEY.findall(headers)
    assert len(set(keys)) == len(keys) == 3 * 33


def test_streams_with_different_first_numbers_share_no_key() -> None:
    streams = (SendStream("t", 1, 1, first_number=0), SendStream("t", 1, 1, first_number=1 << 28))
    keys = [KEY.search(command.ext["i"]) for stream in streams for command in decoded(stream, 100)]
    assert len({key[1] for key in keys if key}) == 200


@pytest.mark.parametrize("suspend_ms", [0, 15_000])
def test_pull(suspend_ms: int) -> None:
    (payload,) = FrameBuffer().feed(frames.pull_frame(3, "t", "g", 5, 77, 32, suspend_ms))
    command = decode_command(payload)
    assert (command.code, command.opaque) == (11, 3)
    assert {key: command.ext[key] for key in ("queueId", "queueOffset", "maxMsgNums")} == {
        "queueId": "5",
        "queueOffset": "77",
        "maxMsgNums": "32",
    }
    assert bool(int(command.ext["sysFlag"]) & 2) == bool(suspend_ms)


def test_bodies_of_text_differ_and_have_their_size() -> None:
    commands = decoded(SendStream("bench_t", 4, 64, batch=2, text=True), 50)
    bodies = [body for command in commands for _, body, _ in decode_batch(bytes(command.body or b""))]
    assert len(bodies) == 100 and len(set(bodies)) > 95
    assert all(len(body) == 64 and b"=" in body for body in bodies)
