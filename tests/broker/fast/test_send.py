"""The fast path for plain sends equals the plain path (same records, same answers), or it declines."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.errors import ProtocolViolation
from pymq.model.hosts import pack_host
from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import decode_properties
from pymq.model.record import decode_records, encode_batch_entry
from pymq.model.tables import TopicConfig
from pymq.wire.codes import ResponseCode
from pymq.wire.command import SERIALIZE_ROCKETMQ, Command, decode_command, encode_command
from tests.broker.replication.fake_slaves import FakeSlaves
from tests.broker.world import FakePeer, World

TOPIC = "T"
QUEUES = 4


def opened(kind: str | None = None, **settings_: Any) -> World:
    """Return a broker with the topic; ``kind``: its ``message.type``."""
    world = World(**settings_)
    header = {"a": "PG", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    peer = FakePeer()
    broker_dispatcher(world.parts).dispatch(peer, Command(310, ext=header, body=b"makes the topic"))
    world.parts.messages.writer.commit()
    topic = world.parts.metadata.topics.require(TOPIC)
    if kind is not None:
        world.parts.metadata.topics.put([msgspec.structs.replace(topic, attributes={"message.type": kind})])
    return world


def outcome(world: World, peer: FakePeer) -> tuple[Any, ...]:
    """Return what a send left behind: answers and every record. Store times are equal because the clock stands."""
    world.parts.messages.writer.commit()
    records = [list(world.messages(TOPIC, queue_id)) for queue_id in range(QUEUES)]
    return (
        [vars_of(frame) for frame in peer.frames],
        records,
        world.messages("SCHEDULE_TOPIC_XXXX", 0),
        world.messages(TIMER_TOPIC),
        [world.parts.store.lights.ends(TOPIC, lite) for lite in ("a", "b", "\xe4$%")],
    )


def vars_of(command: Command) -> dict[str, Any]:
    return {name: getattr(command, name) for name in Command.__struct_fields__}


def send_both_ways(
    payload: bytes, kind: str | None = None, **settings_: Any
) -> tuple[bool, tuple[Any, ...], tuple[Any, ...]]:
    """Return (whether the fast path took it, what that left, what the plain path left)."""
    fast, plain = opened(kind, **settings_), opened(kind, **settings_)
    fast_peer, plain_peer = FakePeer(), FakePeer()
    took = fast.parts.requests.fast_path(fast_peer, payload)  # type: ignore[arg-type]
    command = decode_command(payload)
    reply = broker_dispatcher(plain.parts).dispatch(plain_peer, command)
    if reply is not None and not command.is_oneway:
        plain_peer.write(encode_command(reply.to_command(command)))
    return took, outcome(fast, fast_peer), outcome(plain, plain_peer)


def binary_payload(ext: dict[str, Any], body: bytes, *, code: int = 310, flag: int = 0, opaque: int = 7) -> bytes:
    command = Command(code, opaque=opaque, flag=flag, ext=ext, body=body, serialize=SERIALIZE_ROCKETMQ)
    return encode_command(command)[4:]


def payload_of(ext: dict[str, Any], body: bytes, *, code: int = 310, flag: int = 0, opaque: int = 7) -> bytes:
    header = json.dumps(
        {"code": code, "extFields": ext, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 479},
        separators=(",", ":"),
    ).encode()
    return b"\x00" + len(header).to_bytes(3, "big") + header + body


def ordinary(**changes: Any) -> dict[str, Any]:
    ext = {
        "a": "PG",
        "b": TOPIC,
        "c": "TBW102",
        "d": "4",
        "e": "1",
        "f": "0",
        "g": "1795248962945",
        "h": "0",
        "i": "UNIQ_KEY\x01ABC123\x02TAGS\x01TagA\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    ext.update(changes)
    return {name: value for name, value in ext.items() if value is not None}


def test_an_ordinary_send_stores_the_same_on_the_fast_path() -> None:
    took, fast, plain = send_both_ways(payload_of(ordinary(), b"body"))
    assert took
    assert fast == plain
    assert fast[0][0]["code"] == 0


@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_a_batch_stores_the_same_on_the_fast_path(make: Any) -> None:
    entries = [(b"first", b"KEYS\x01k1\x02TAGS\x01TagA\x02"), (b"second!", b"UNIQ_KEY\x01own\x02"), (b"third", b"")]
    body = b"".join(encode_batch_entry(content, own, flag=5) for content, own in entries)
    took, fast, plain = send_both_ways(make(ordinary(m="true", i="UNIQ_KEY\x01ABC\x02WAIT\x01true"), body, code=320))
    assert took
    assert fast == plain
    assert [message.body for message in fast[1][1]] == [b"first", b"second!", b"third"]
    assert fast[0][0]["ext"]["msgId"].count(",") == 2


@pytest.mark.parametrize("make", [payload_of, binary_payload])
@pytest.mark.parametrize(
    "properties",
    [
        "TIMER_DELAY_SEC\x01600\x02",
        "TAGS\x01A\x02KEYS\x01k\x02TIMER_DELAY_MS\x011",
        "TIMER_DELAY_MS\x015000\x02UNIQ_KEY\x01b\x02",
    ],
)
def test_a_timer_message_stores_the_same_on_the_fast_path(make: Any, properties: str) -> None:
    took, fast, plain = send_both_ways(make(ordinary(i=f"UNIQ_KEY\x01a\x02{properties}"), b"body"))
    assert took
    assert fast == plain
    assert fast[0][0]["ext"]["recallHandle"] and fast[0][0]["ext"]["queueId"] == "1"
    (record,) = fast[3]
    assert record.properties["REAL_TOPIC"] == TOPIC and record.body == b"body"


@pytest.mark.parametrize("make", [payload_of, binary_payload])
@pytest.mark.parametrize(
    "own", ["UNIQ_KEY\x01{:032X}\x02", "KEYS\x01k{:02}\x02UNIQ_KEY\x01{:032X}\x02TAGS\x01A\x02", ""]
)
@pytest.mark.parametrize("count", [2, 12])  # one by one, and by columns
def test_messages_of_a_batch_without_a_key_keep_theirs(make: Any, own: str, count: int) -> None:
    owns = [own.format(*[n] * own.count("{")).encode() for n in range(count)]
    body = b"".join(encode_batch_entry(b"body %02d" % n, each) for n, each in enumerate(owns))
    took, fast, plain = send_both_ways(make(ordinary(m="true", i="WAIT\x01true\x02"), body, code=320))
    assert took
    assert fast == plain
    assert "transactionId" not in fast[0][0]["ext"]
    keys = [message.properties.get("UNIQ_KEY") for message in fast[1][1]]
    assert keys == [decode_properties(each).get("UNIQ_KEY") for each in owns]


def test_broken_batches_are_declined() -> None:
    good = encode_batch_entry(b"body", b"KEYS\x01k\x02")
    for body in (good[:-1], good + b"\0", good[:4], b"\0" * 22, good + encode_batch_entry(b"b", b"DELAY\x011\x02")):
        took, fast, _ = send_both_ways(payload_of(ordinary(m="true", i="UNIQ_KEY\x01ABC\x02"), body, code=320))
        assert not took
        assert fast[1][1] == []


def test_a_binary_header_on_the_fast_path_gets_a_binary_answer() -> None:
    took, fast, plain = send_both_ways(binary_payload(ordinary(), b"body", opaque=-5))
    assert took
    assert fast == plain
    assert fast[0][0]["serialize"] == SERIALIZE_ROCKETMQ and fast[0][0]["opaque"] == -5


def test_binary_templates_are_distinguished() -> None:
    world = opened()
    peer = FakePeer()
    for queue_id, flag in (("1", "0"), ("2", "1"), ("1", "0"), ("3", "0x")):
        payload = binary_payload(ordinary(e=queue_id, f=flag), b"body")
        assert world.parts.requests.fast_path(peer, payload) == (flag != "0x")  # type: ignore[arg-type]
    world.parts.messages.writer.commit()
    assert [message.sys_flag for message in world.messages(TOPIC, 1)] == [0, 0]
    assert [message.sys_flag for message in world.messages(TOPIC, 2)] == [1]
    assert not world.parts.requests.fast_path(peer, binary_payload(ordinary(j="1"), b"body"))  # type: ignore[arg-type]


def test_unusual_sends_are_declined() -> None:
    unusual = [
        ordinary(b="unknown-topic"),
        ordinary(e="99"),
        ordinary(e="-1"),
        ordinary(i="UNIQ_KEY\x01a\x02DELAY\x011\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02TRAN_MSG\x01true\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02TIMER_DELAY_MS\x010\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02TIMER_DELAY_MS\x01soon\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02TIMER_DELAY_SEC\x01999999\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02TIMER_DELAY_MS\x0155\x02TIMER_OUT_MS\x011\x02"),
        ordinary(i="UNIQ_KEY\x01a\x02_SYS_MSG_PRIORITY_\x013\x02"),
        ordinary(i='UNIQ_KEY\x01"}\x02'),
        ordinary(m="true"),
        ordinary(j="2"),
        ordinary(f="256"),
        ordinary(f="1025"),
        ordinary(f="128"),
        ordinary(g="soon"),
        ordinary(a=None),
        ordinary(b="SCHEDULE_TOPIC_XXXX"),
    ]
    for ext in unusual:
        took, _, _ = send_both_ways(payload_of(ext, b"body"))
        assert not took, ext
    assert not send_both_ways(payload_of(ordinary(), b""))[0]


def test_a_topic_that_loses_its_permission_or_queues_is_asked_again() -> None:
    world = opened()
    payload = payload_of(ordinary(e="3"), b"body")
    assert world.parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    world.parts.messages.writer.commit()
    topic = world.parts.metadata.topics.require(TOPIC)
    world.parts.metadata.topics.put([msgspec.structs.replace(topic, perm=4)])
    assert not world.parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    world.parts.metadata.topics.put([msgspec.structs.replace(topic, read_queue_nums=2, write_queue_nums=2)])
    assert not world.parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    world.parts.metadata.topics.put([topic])
    world.config.broker_permission = 4
    assert not world.parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]


def test_an_ipv6_peer_takes_the_plain_path() -> None:
    peer = FakePeer()
    peer.host_bytes = pack_host("::1", 1)
    assert not opened().parts.requests.fast_path(peer, payload_of(ordinary(), b"x"))  # type: ignore[arg-type]


property_names = st.sampled_from(
    ["KEYS", "WAIT", "color", "XTAGS", "a", "b", "TAGS2", "KEYS", "TAGS", "MYUNIQ_KEY", "UNIQ_KEY"]
)
property_values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=6)
property_texts = st.lists(st.tuples(property_names, property_values), max_size=3).flatmap(
    lambda pairs: st.sampled_from(["\x02", ""]).map(
        lambda end: "\x02".join(f"{name}\x01{value}" for name, value in pairs) + (end if pairs else "")
    )
)


own_texts = property_texts.map(lambda text: text if not text or text.endswith("\x02") else text + "\x02")
starts = ["UNIQ_KEY\x01ABC1\x02", "", "UNIQ_KEY\x01ABC3\x02TAGS\x01TagA\x02", "DELAY\x012\x02"]
typed_starts = [*starts[:3], "__SHARDINGKEY\x01g\x02", "__SHARDINGKEY\x01\x02", "__STARTDELIVERTIME\x011\x02"]
typed_starts += ["UNIQ_KEY\x01a\x02TIMER_DELAY_SEC\x01600\x02", "TIMER_DELAY_MS\x010\x02"]
typed_starts += ["_SYS_MSG_PRIORITY_\x012\x02"]
lite_starts = ["__LITE_TOPIC\x01a\x02", "__LITE_TOPIC\x01a\x02__LITE_TOPIC\x01b\x02", "__LITE_TOPIC\x01a,b\x02"]
lite_starts += [
    "UNIQ_KEY\x01A\x02TAGS\x01t\x02__LITE_TOPIC\x01\xe4$%\x02",
    "__LITE_TOPIC\x01\x02",
    "X__LITE_TOPIC\x01a\x02",
]


@pytest.mark.slow
def test_fast_path_and_plain_path_store_the_same() -> None:
    taken: list[bool] = []

    @settings(max_examples=200, deadline=None)
    @given(
        start=st.sampled_from(starts),
        properties=property_texts,
        body=st.binary(min_size=1, max_size=40),
        queue_id=st.sampled_from([0, 1, 2, 3, 3, 4]),
        sys_flag=st.sampled_from([0, 0, 0, 0, 1, 0x301, 4, 8]),
        user_flag=st.sampled_from([0, 0, 0, 7, -(2**31)]),
        oneway=st.booleans(),
        opaque=st.integers(-(2**31), 2**31 - 1),
        make=st.sampled_from([payload_of, binary_payload]),
        batch=st.one_of(st.none(), st.lists(st.tuples(st.binary(max_size=5), own_texts), min_size=1, max_size=4)),
    )
    def check(
        start: str,
        properties: str,
        body: bytes,
        queue_id: int,
        sys_flag: int,
        user_flag: int,
        oneway: bool,
        opaque: int,
        make: Any,
        batch: Any,
    ) -> None:
        ext = ordinary(i=start + properties, e=str(queue_id), f=str(sys_flag), h=str(user_flag))
        code = 310
        if batch is not None:
            code, ext["m"] = 320, "true"
            body = b"".join(encode_batch_entry(content, own.encode()) for content, own in batch)
        took, fast, plain = send_both_ways(make(ext, body, code=code, flag=2 if oneway else 0, opaque=opaque))
        taken.append(took)
        if took:
            assert fast == plain

    check()
    print(sum(taken), "of", len(taken), "took the fast path")
    assert sum(taken) >= 5, "too few of the examples took the fast path to say anything"


def test_a_topic_of_delayed_messages_takes_them_on_the_fast_path() -> None:
    payload = payload_of(ordinary(i="UNIQ_KEY\x01a\x02TIMER_DELAY_SEC\x01600\x02"), b"body")
    took, fast, plain = send_both_ways(payload, "DELAY")
    assert took and fast == plain and len(fast[3]) == 1


def test_with_the_check_of_types_a_topic_of_one_type_is_left_to_the_plain_path() -> None:
    payload = payload_of(ordinary(), b"body")
    for kind, takes in (("NORMAL", False), ("FIFO", False), ("MIXED", True), ("UNSPECIFIED", True)):
        world = opened(kind, enableTopicMessageTypeCheck="true")
        for _ in range(2):  # the second one finds what the first one kept
            assert world.parts.requests.fast_path(FakePeer(), payload) == takes  # type: ignore[arg-type]
        world.parts.messages.writer.commit()


@pytest.mark.parametrize("checks", ["true", "false"])
@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_a_message_of_a_lite_topic_stores_the_same_on_the_fast_path(make: Any, checks: str) -> None:
    for start in (lite_starts[0], lite_starts[3]):
        took, fast, plain = send_both_ways(make(ordinary(i=start), b"body"), "LITE", enableTopicMessageTypeCheck=checks)
        assert took and fast == plain
        assert fast[1][1][0].properties["INNER_MULTI_QUEUE_OFFSET"] == "0"
    for start in (*lite_starts[1:3], *lite_starts[4:], lite_starts[0] + "__SHARDINGKEY\x01k\x02"):
        assert not send_both_ways(make(ordinary(i=start), b"body"), "LITE", enableTopicMessageTypeCheck=checks)[0]
    assert not send_both_ways(make(ordinary(i=lite_starts[0]), b"body"), "NORMAL")[0]


@pytest.mark.slow
def test_a_topic_of_one_type_takes_the_same_on_both_paths() -> None:
    taken: list[bool] = []

    @settings(max_examples=150, deadline=None)
    @given(
        kind=st.sampled_from(["NORMAL", "NORMAL", "FIFO", "FIFO", "DELAY", "DELAY", "TRANSACTION", "MIXED", "LITE"]),
        start=st.sampled_from(
            [*typed_starts, *lite_starts, *(lite + typed for lite in lite_starts for typed in typed_starts)]
        ),
        properties=property_texts,
        make=st.sampled_from([payload_of, binary_payload]),
    )
    def check(kind: str, start: str, properties: str, make: Any) -> None:
        took, fast, plain = send_both_ways(make(ordinary(i=start + properties), b"body"), kind)
        taken.append(took)
        if took:
            assert fast == plain

    check()
    assert sum(taken) >= 5, "too few of the examples took the fast path to say anything"


@pytest.mark.parametrize("code", [310, 320])
def test_a_read_only_store_is_left_to_the_plain_path(code: int) -> None:
    world = opened()
    world.parts.store._log.broken = "fsync of /data/commitlog failed"
    body = encode_batch_entry(b"first", b"") if code == 320 else b"body"
    payload = payload_of(ordinary(m=str(code == 320).lower(), i="UNIQ_KEY\x01ABC\x02"), body, code=code)
    peer = FakePeer()
    assert not world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    reply = broker_dispatcher(world.parts).dispatch(peer, decode_command(payload))
    assert reply is not None and (reply.code, reply.remark) == (14, "fsync of /data/commitlog failed")
    assert peer.frames == []


def test_an_oversized_record_is_left_to_the_plain_path() -> None:
    world = World(mappedFileSizeCommitLog=65_536)
    world.put(TOPIC)
    world.parts.metadata.topics.put([TopicConfig(topic_name=TOPIC)])
    payload = payload_of(ordinary(), b"x" * 70_000)
    assert not world.parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    reply = broker_dispatcher(world.parts).dispatch(FakePeer(), decode_command(payload))
    assert reply is not None and reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "the limit is 64133, so that the broker can store the message again" in (reply.remark or "")
    assert world.parts.requests.fast_path(FakePeer(), payload_of(ordinary(), b"body"))  # type: ignore[arg-type]
    world.parts.messages.writer.commit()
    assert [message.body for message in world.messages(TOPIC, 1)] == [b"body"]


@pytest.mark.parametrize("make", [payload_of, binary_payload])
@pytest.mark.parametrize("batch", [False, True])
def test_under_sync_flush_only_a_no_wait_send_is_answered_before_the_disk(make: Any, batch: bool) -> None:
    world = opened()
    world.config.change_at_runtime({"flushDiskType": "SYNC_FLUSH"})
    world.run_in_thread = lambda work, done: None  # the disk takes its time
    body = encode_batch_entry(b"one", b"WAIT\x01false\x02") if batch else b"one"
    for wait, answered in (("false", 1), ("true", 0), (None, 0)):
        peer = FakePeer()
        properties = "UNIQ_KEY\x01ABC\x02" + (f"WAIT\x01{wait}\x02" if wait else "")
        payload = make(ordinary(i=properties, m=str(batch).lower()), body, code=320 if batch else 310)
        assert world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
        plain_peer = FakePeer()
        broker_dispatcher(world.parts).dispatch(plain_peer, decode_command(payload))
        world.parts.messages.writer.commit()
        assert len(peer.frames) == len(plain_peer.frames) == answered
    world.parts.messages.waiting_answers.synced(world.parts.store.sync(log_only=True))
    assert len(world.messages(TOPIC, 1)) == 6


@pytest.mark.parametrize("make", [payload_of, binary_payload])
@pytest.mark.parametrize("batch", [False, True])
def test_under_sync_master_both_paths_wait_for_a_slave(make: Any, batch: bool) -> None:
    world = opened()
    slaves = FakeSlaves(world, 1)
    world.config.change_at_runtime({"brokerRole": "SYNC_MASTER"})
    body = encode_batch_entry(b"one", b"") if batch else b"one"
    sent = 0
    for wait, answered in (("false", 1), ("true", 0), (None, 0)):
        peers = FakePeer(), FakePeer()
        properties = "UNIQ_KEY\x01ABC\x02" + (f"WAIT\x01{wait}\x02" if wait else "")
        payload = make(ordinary(i=properties, m=str(batch).lower()), body, code=320 if batch else 310)
        assert world.parts.requests.fast_path(peers[0], payload)  # type: ignore[arg-type]
        broker_dispatcher(world.parts).dispatch(peers[1], decode_command(payload))
        world.parts.messages.writer.commit()
        assert [len(peer.frames) for peer in peers] == [answered, answered]
        assert len(world.messages(TOPIC, 1)) == sent, "none is seen yet"
        slaves.ack()
        sent += 2
        assert [len(peer.frames) for peer in peers] == [1, 1] and len(world.messages(TOPIC, 1)) == sent
    slaves.leave()
    peer = FakePeer()
    assert not world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    reply = broker_dispatcher(world.parts).dispatch(peer, decode_command(payload))
    assert reply is not None and reply.code == 14 and peer.frames == []


@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_messages_of_the_fast_path_are_found_by_their_keys(make: Any) -> None:
    world, peer = opened(), FakePeer()
    payload = make(ordinary(i="KEYS\x01order7 blue\x02UNIQ_KEY\x01ABC123\x02TAGS\x01TagA"), b"body")
    assert world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    world.parts.messages.writer.commit()
    for key in ("ABC123", "order7", "blue"):
        found = [bytes(raw) for raw in world.parts.store.find_by_key(TOPIC, key, 32, 0, 1 << 62)]
        assert [message.body for message in decode_records(b"".join(found))] == [b"body"], key


@pytest.mark.parametrize("make", [payload_of, binary_payload])
def test_one_way_sends_are_stored_and_not_answered(make: Any) -> None:
    batch = encode_batch_entry(b"one", b"") + encode_batch_entry(b"two", b"")
    for ext, body, code in ((ordinary(), b"body", 310), (ordinary(m="true", i="UNIQ_KEY\x01A\x02"), batch, 320)):
        took, fast, plain = send_both_ways(make(ext, body, code=code, flag=2))
        assert took
        assert fast == plain
        assert fast[0] == [] and fast[1][1]


@pytest.mark.parametrize("size", [6, 20, 24, 25, 40])
@pytest.mark.parametrize("code", [310, 320])
def test_a_header_longer_than_its_frame_takes_the_plain_path(code: int, size: int) -> None:
    """Which refuses it; a short one raised an error that nobody expects."""
    header_size = (65_856).to_bytes(3, "big")
    payload = (b"\x01" + header_size + code.to_bytes(2, "big")).ljust(size, b"\0")
    assert not opened().parts.requests.fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    with pytest.raises(ProtocolViolation, match="a header of 65856 bytes"):
        decode_command(payload)
