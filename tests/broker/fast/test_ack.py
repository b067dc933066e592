"""The fast path of acknowledgements equals the plain path, and those of one turn are one record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import SERIALIZE_ROCKETMQ, Command, decode_command, encode_command
from tests.broker.disk import failing
from tests.broker.handlers.test_lite_pops import LitePops
from tests.broker.handlers.test_pop import REVIVE, Found, Popping
from tests.broker.world import FakePeer


def popped() -> tuple[Popping, list[dict[str, str]]]:
    """Return a world with two queues, of which a pop and a retry topic have handed out, and the receipts' fields."""
    p = Popping(queue_count=2)
    for number in range(8):
        p.world.put("T", b"%d" % number, queue_id=number % 2)
    old = p.pop(count=2, invisible_ms=1000)
    p.wait(1000)
    found = [old, p.pop(count=1, queueId=1), *(p.pop(count=3) for _ in range(3)), p.pop(order="true")]
    receipts = [_fields(each, number) for each in found for number in range(len(each.messages))]
    assert {each["topic"] for each in receipts} == {"T", "%RETRY%g+T"}
    return p, receipts


def _fields(found: Found, number: int) -> dict[str, str]:
    return {"consumerGroup": "g", **{name: str(value) for name, value in found.receipt(number).items()}}


def payload_of(ext: dict[str, Any], opaque: int = 7, flag: int = 0, **members: Any) -> bytes:
    """Return an acknowledgement as clients write it: the code first, and the fields in any order."""
    fields = {"code": 200051, "extFields": ext, "flag": flag, "language": "JAVA", "opaque": opaque, **members}
    header = json.dumps(fields, separators=(",", ":")).encode()
    return b"\x00" + len(header).to_bytes(3, "big") + header


def binary_payload(ext: dict[str, Any], opaque: int = 7, flag: int = 0) -> bytes:
    """Return an acknowledgement as Java's clients write it with binary headers: the code is cut to 16 bits."""
    texts = {name: str(value) for name, value in ext.items() if value is not None}
    code = RequestCode.ACK_MESSAGE & 0xFFFF
    return encode_command(Command(code, opaque=opaque, flag=flag, ext=texts, serialize=SERIALIZE_ROCKETMQ))[4:]


def state(p: Popping, peer: FakePeer) -> tuple[Any, ...]:
    """Return what acknowledgements left behind: answers, records, open check points and counts."""
    points, revive_queues = p.world.parts.pop.revive_log.check_points, range(p.world.config.revive_queue_num)
    return (
        sorted((frame.opaque, frame.code, frame.serialize, frame.remark, str(frame.ext)) for frame in peer.frames),
        [p.world.messages(REVIVE, queue_id) for queue_id in revive_queues],
        {key: (point.left, point.turn_acks) for key, point in points._open.items()},
        points.invisible,
        p.world.parts.requests.pops.ineffective_ack_count,
    )


def serve(p: Popping, peer: FakePeer, payload: bytes, *, is_fast: bool) -> bool:
    """Serve a frame as a connection does. Return True when the fast path took it."""
    if is_fast and p.world.parts.requests.fast_path(peer, payload):  # type: ignore[arg-type]
        return True
    command = decode_command(payload)
    reply = p.dispatcher.dispatch(peer, command)
    if reply is not None and not command.is_oneway:
        peer.write(encode_command(reply.to_command(command)))
    return False


def serve_both_ways(payloads: list[bytes], turn_size: int = 3) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Return (how many frames the fast path took, what they left with it, and without it)."""
    took, left = 0, []
    for is_fast in (True, False):
        (p, _), peer = popped(), FakePeer()
        for at in range(0, len(payloads), turn_size):
            for payload in payloads[at : at + turn_size]:
                took += serve(p, peer, payload, is_fast=is_fast)
            p.world.parts.end_turn()
        left.append(state(p, peer))
    return took, left[0], left[1]


ODD: dict[str, list[Any]] = {
    "consumerGroup": ["", "other", None, 5],
    "topic": ["T", "gone", "%RETRY%g+T", "", None],
    "queueId": ["1", "2", "-1", "", "x", "1.0", 1, 1.0, True, None],
    "offset": ["0", "1", "3", "4", "99", "-1", "", "01", " 1", "1.0", 1, 2**63, None],
    "extraInfo": ["", "0 1 2 3 4 broker-a", "a b c d e broker-a 0 0", None],
}


@st.composite
def odd_receipts(draw: st.DrawFn, text: str) -> str:
    """Return a receipt with other parts, more or fewer of them."""
    parts = text.split(" ")
    change = draw(st.sampled_from(["cut", "long", "number", "broker", "same"]))
    if change == "cut":
        return " ".join(parts[: draw(st.integers(0, len(parts)))])
    if change == "long":
        return text + draw(st.sampled_from([" ", " 17", " 17 18"]))
    if change == "number":
        parts[draw(st.integers(0, 4))] = draw(st.sampled_from(["0", "1", "999", "-1", "x", "", "00"]))
    if change == "broker":
        parts[5] = draw(st.sampled_from(["broker-b", "", "broker-a "]))
    return " ".join(parts)


@st.composite
def acknowledgements(draw: st.DrawFn, receipts: list[dict[str, str]], odd: dict[str, list[Any]] = ODD) -> list[bytes]:
    payloads = []
    for opaque in range(draw(st.integers(4, 24))):
        fields: dict[str, Any] = dict(draw(st.sampled_from(receipts)))
        if draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(sorted(odd)))
            fields[name] = draw(st.sampled_from(odd[name]))
            if draw(st.booleans()):
                del fields[name]
        elif draw(st.booleans()):
            fields["extraInfo"] = draw(odd_receipts(fields["extraInfo"]))
        fields = dict(draw(st.permutations(sorted(fields.items()))))
        make = draw(st.sampled_from([payload_of, payload_of, binary_payload]))
        payloads.append(make(fields, opaque, draw(st.sampled_from([0, 0, 0, 2]))))
    return payloads


RECEIPTS = popped()[1]


@settings(max_examples=20, deadline=None)
@given(acknowledgements(RECEIPTS), st.integers(1, 12))
def test_fast_and_plain_acknowledgements_leave_the_same(payloads: list[bytes], turn_size: int) -> None:
    _, fast, plain = serve_both_ways(payloads, turn_size)
    assert fast == plain


@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_ordinary_acknowledgements_take_the_fast_path(make: Any) -> None:
    receipts = [each for each in RECEIPTS if each["extraInfo"].split(" ")[3] != "999"]
    payloads = [make({**each, "bname": "broker-a"}, number) for number, each in enumerate(receipts)]
    took, fast, plain = serve_both_ways(payloads)
    assert took == len(payloads) - 2 and fast == plain, "all but those of the hand-out that is over"
    assert [each[1] for each in fast[0]] == [0] * len(payloads)


def test_the_fast_path_declines_what_the_plain_path_answers_differently() -> None:
    p, receipts = popped()
    peer, fast = FakePeer(), p.world.parts.requests.fast_path
    ext = next(each for each in receipts if each["topic"] == "%RETRY%g+T")
    declined = [
        payload_of(ext, flag=1),  # an answer
        payload_of(ext) + b"body",
        payload_of(ext, opaque=2**31),
        payload_of({**ext, "offset": "77"}),
        payload_of(ext)[:-1],
        b"\x02" + binary_payload(ext)[1:],
        binary_payload(ext)[:-1],
        binary_payload({**ext, "offset": "x"}),
        encode_command(Command(RequestCode.HEART_BEAT, ext=ext))[4:],
    ]
    assert not any(fast(peer, payload) for payload in declined)  # type: ignore[arg-type]
    p.world.parts.store.refuse_writes("a test", by="test")
    assert not fast(peer, payload_of(ext))  # type: ignore[arg-type]
    p.world.parts.store.refuse_writes(None, by="test")
    p.world.parts.metadata.topics.delete("%RETRY%g+T")
    assert not fast(peer, payload_of(ext))  # type: ignore[arg-type]
    assert p.world.parts.requests.fast_acks.count == 0


def test_the_fast_path_declines_what_lies_outside_of_the_queue_or_the_topic() -> None:
    p, receipts = popped()
    fast, peer = p.world.parts.requests.fast_path, FakePeer()
    ext = next(
        each for each in receipts if (each["topic"], each["queueId"]) == ("T", "1") and "999" not in each["extraInfo"]
    )
    p.world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=2)])
    assert not fast(peer, payload_of(ext))  # type: ignore[arg-type]
    p.world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    assert fast(peer, payload_of(ext))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_fast", [False, True])
def test_the_acknowledgements_of_a_turn_are_one_record_of_each_check_point(is_fast: bool) -> None:
    p = Popping()
    for number in range(5):
        p.world.put("T", b"%d" % number)
    first, second = p.pop(count=3), p.pop(count=2)
    receipts = [first.receipt(2), second.receipt(1), first.receipt(0), first.receipt(2)]
    assert p.ack_together(receipts, lambda: is_fast) == [0, 0, 0, 0]
    now = p.world.clock.now_ms()
    _, both = p.world.messages(REVIVE, int(first.ext["reviveQid"]))
    assert both.body == b'{"ao":-1,"aol":[0,2],"bn":"broker-a","c":"g","pt":%d,"q":0,"so":0,"t":"T"}' % now
    assert (both.tags, both.properties["UNIQ_KEY"]) == ("bAck", f"T@0@-1@g@{now}@broker-a@ack")
    _, one = p.world.messages(REVIVE, int(second.ext["reviveQid"]))
    assert one.body == b'{"ao":4,"bn":"broker-a","c":"g","pt":%d,"q":0,"so":3,"t":"T"}' % now
    p.wait(60_000)
    assert p.pop().bodies == [b"1", b"3"]
    again = Popping(p.world.reopened())
    again.wait(60_000)
    assert again.pop().bodies == [b"1", b"3"]


@pytest.mark.parametrize("is_fast", [False, True])
def test_acknowledgements_whose_commit_fails_are_refused_and_change_nothing(is_fast: bool) -> None:
    p = Popping()
    for body in (b"a", b"b"):
        p.world.put("T", body)
    found = p.pop(invisible_ms=1000)
    receipts = [found.receipt(0), found.receipt(1)]
    with failing(p.world, "pwrite", "commitlog"):
        assert p.ack_together(receipts, lambda: is_fast) == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    assert p.ack_together(receipts[:1], lambda: is_fast) == [0]
    p.wait(1000)
    assert p.pop().bodies == [b"b"]


def test_acknowledgements_are_refused_when_the_store_takes_no_writes_at_the_turns_end() -> None:
    p = Popping()
    for body in (b"a", b"b"):
        p.world.put("T", body)
    found, store = p.pop(invisible_ms=1000), p.world.parts.store
    is_closed = iter((False, True))

    def is_fast() -> bool:
        if next(is_closed):  # the first one has been taken
            store.refuse_writes("a test", by="test")
        return True

    refused = p.ack_together([found.receipt(0), found.receipt(1)], is_fast)
    assert refused == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    store.refuse_writes(None, by="test")
    p.wait(1000)
    assert p.pop().bodies == [b"a", b"b"]


def lites_popped() -> tuple[LitePops, list[dict[str, str]]]:
    """Return a world in which lite topics with one to three messages were popped, and the receipts' fields."""
    p = LitePops()
    for lite, bodies in (("a", "012"), ("b", "0"), ("c$1", "01"), ("d", "01")):
        p.fill(lite, *bodies)
    p.subscribe("a", "b", "c$1")
    first = p.pop(count=2)
    p.subscribe("d", client="two")
    found = [first, p.pop(), p.pop("two")]
    receipts = [
        {"consumerGroup": "g", **{name: str(value) for name, value in each.receipt(number).items()}}
        for each in found
        for number in range(len(each.messages))
    ]
    p.fill("b", "1")
    return p, receipts


LITE_ODD = {**ODD, "topic": ["P", "Q", "T", "gone", "", None], "liteTopic": ["a", "b", "d", "gone", "", "a,b", None]}
LITE_RECEIPTS = lites_popped()[1]


def lite_state(p: LitePops, peer: FakePeer) -> tuple[Any, ...]:
    """Return what acknowledgements in lite topics left behind: answers, hand-outs, offsets, and what is due."""
    metadata = p.world.parts.metadata
    return (
        sorted((frame.opaque, frame.code, frame.serialize, frame.remark, str(frame.ext)) for frame in peer.frames),
        sorted(map(repr, metadata.order_infos.all())),
        {lite: p.committed(lite) for lite in ("a", "b", "c$1", "d")},
        p.world.parts.requests.pops.ineffective_ack_count,
        [(p.pop(client).bodies, p.pop(client).bodies) for client in ("c", "two")],
    )


def serve_lites(payloads: list[bytes], *, is_fast: bool) -> tuple[int, tuple[Any, ...]]:
    (p, _), peer = lites_popped(), FakePeer()
    took = 0
    for payload in payloads:
        if is_fast and p.world.parts.requests.fast_path(peer, payload):  # type: ignore[arg-type]
            took += 1
            continue
        command = decode_command(payload)
        reply = p.caller._dispatcher.dispatch(peer, command)
        if reply is not None and not command.is_oneway:
            peer.write(encode_command(reply.to_command(command)))
    p.turn()
    return took, lite_state(p, peer)


@settings(max_examples=30, deadline=None)
@given(acknowledgements(LITE_RECEIPTS, LITE_ODD))
def test_fast_and_plain_acknowledgements_in_lite_topics_leave_the_same(payloads: list[bytes]) -> None:
    assert serve_lites(payloads, is_fast=True)[1] == serve_lites(payloads, is_fast=False)[1]


@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_acknowledgements_in_lite_topics_take_the_fast_path(make: Any) -> None:
    payloads = [make(each, number) for number, each in enumerate(LITE_RECEIPTS)]
    took, fast = serve_lites(payloads, is_fast=True)
    assert took == len(LITE_RECEIPTS) == 7 and fast == serve_lites(payloads, is_fast=False)[1]


def test_an_acknowledgement_in_a_lite_topic_is_refused_during_a_hand_over() -> None:
    p, receipts = lites_popped()
    fence, peer = p.world.parts.replication.write_fence, FakePeer()
    fence.begin(5000, "a test")
    payload = payload_of(receipts[0])
    assert not p.world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    reply = p.caller._dispatcher.dispatch(peer, decode_command(payload))
    assert reply is not None and reply.code == 14
    fence.end()
    assert p.world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
