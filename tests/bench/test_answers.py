"""Answers are counted the same however the network cuts them, and only successes count as such."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from bench.answers import AnswerCounter, FrameCutter, pull_answer, split_answer, stored_offsets
from bench.frames import encode_binary, encode_json


def answer(code: int, binary: bool) -> bytes:
    encode = encode_binary if binary else encode_json
    return encode(code, 7, {"queueOffset": "3"}, flag=1)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 14]), st.booleans())), st.data())
def test_counter_gives_the_same_count_for_any_chunking(kinds: list[tuple[int, bool]], data: st.DataObject) -> None:
    stream = b"".join(answer(code, binary) for code, binary in kinds)
    counter = AnswerCounter()
    at = reported = 0
    while at < len(stream):
        size = data.draw(st.integers(1, 200))
        reported += counter.feed(stream[at : at + size])
        at += size
    assert reported == counter.frames == len(kinds)
    assert counter.succeeded == sum(code == 0 for code, _ in kinds)
    assert bool(counter.first_refusal) == any(code for code, _ in kinds)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.integers(1, 50))
def test_cutter_returns_frames_whole(payloads: list[bytes], size: int) -> None:
    stream = b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)
    cutter = FrameCutter()
    found = [frame for at in range(0, len(stream), size) for frame in cutter.feed(stream[at : at + size])]
    assert found == payloads


def test_pull_answer_and_its_messages() -> None:
    stored = [struct.pack(">I16xq", 32, offset) + b"rest" for offset in (5, 6)]
    frame = encode_json(0, 1, {"nextBeginOffset": "7", "maxOffset": "9"}, b"".join(stored), flag=1)[4:]
    code, next_offset, body_at = pull_answer(frame)
    assert (code, next_offset) == (0, 7)
    assert stored_offsets(frame[body_at:]) == [5, 6]
    header, body = split_answer(frame)
    assert header["extFields"]["maxOffset"] == "9"
    assert body == b"".join(stored)
