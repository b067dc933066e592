"""The fast path for pulls equals the plain path, and declines pulls that neither find messages nor park."""

from __future__ import annotations

import errno
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.fast import pull_header
from pymq.errors import ProtocolViolation
from pymq.model.tables import TopicConfig
from pymq.wire.command import (
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    Command,
    decode_binary_header,
    decode_command,
    encode_command,
)
from tests.broker.disk import failing
from tests.broker.world import ROOT, FakePeer, World

TAGS = "TagA || TagC"
MESSAGE_COUNT = 20
CODECS = [SERIALIZE_JSON, SERIALIZE_ROCKETMQ]
# As Java's clients write them: since 5.0 with own code for the binary header, otherwise from a hash table.
SINCE_5 = [
    *("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset"),
    *("suspendTimeoutMillis", "subscription", "subVersion", "expressionType", "maxMsgBytes", "bname"),
]
HASHED = [
    *("queueId", "maxMsgBytes", "maxMsgNums", "sysFlag", "commitOffset", "subscription", "suspendTimeoutMillis"),
    *("bname", "topic", "queueOffset", "expressionType", "subVersion", "consumerGroup"),
]


def opened() -> World:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    for number in range(MESSAGE_COUNT):
        world.put("T", b"body %d" % number, TAGS=f"Tag{'ABC'[number % 3]}")
    return world


@pytest.fixture(scope="module")
def world() -> World:
    """A world for pulls that change nothing."""
    return opened()


def fields(**changes: str) -> dict[str, str]:
    return {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "3",
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        "maxMsgBytes": "1000000",
        "bname": "broker-a",
        **changes,
    }


def pull(serialize: int = SERIALIZE_JSON, flag: int = 0, code: int = 11, **changes: str) -> Command:
    return Command(code, opaque=77, flag=flag, ext=fields(**changes), serialize=serialize)


def payload_of(command: Command) -> bytes:
    return encode_command(command)[4:]


def plain_answer(world: World, command: Command) -> Command | None:
    return plain_answer_to(world, payload_of(command))[0]


def plain_answer_to(world: World, payload: bytes) -> tuple[Command | None, FakePeer]:
    peer = FakePeer()
    command = decode_command(payload)
    reply = broker_dispatcher(world.parts).dispatch(peer, command)
    answer = None if reply is None else decode_command(encode_command(reply.to_command(command))[4:])
    return answer, peer


def fast_answer(world: World, command: Command) -> Command | None:
    return fast_answer_to(world, payload_of(command))[1]


def fast_answer_to(world: World, payload: bytes) -> tuple[bool, Command | None, FakePeer]:
    """Return whether the fast path took a frame, its answer if it is there already, and who gets a later one."""
    peer = FakePeer()
    took = world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    assert took or not peer.frames
    return took, peer.frames[0] if peer.frames else None, peer


def state_of(world: World) -> tuple[Any, ...]:
    """Return what pulls change."""
    parts = world.parts
    pulled = [parts.metadata.cursors.pulled("G", "T", queue_id) for queue_id in range(2)]
    committed = [parts.metadata.cursors.query("G", "T", queue_id) for queue_id in range(2)]
    polls, stats = parts.requests.long_polls, parts.stats
    held = dict(parts.requests.long_polls._budget.held)
    return (
        pulled,
        committed,
        polls.count,
        polls.refused_count,
        polls.turn_bytes,
        held,
        stats.totals(),
        stats.missed_pulls,
    )


def late_answer(world: World, peer: FakePeer) -> tuple[Any, ...]:
    """Return what a parked pull gets when a message comes."""
    world.put("T", b"late", TAGS="TagA")
    world.put("T", b"late", queue_id=1, TAGS="TagA")
    world.parts.messages.writer.commit()
    world.parts.requests.long_polls.wake()
    return [(reply.code, reply.remark, reply.ext, reply.body) for reply in peer.answers], state_of(world)


def check_alike(payload: bytes) -> bool:
    """Check that both paths do the same with a frame that the fast path takes. Return whether it takes it."""
    fast, plain = opened(), opened()
    before = state_of(fast)
    took, answer, peer = fast_answer_to(fast, payload)
    if not took:
        assert state_of(fast) == before
        return False
    wanted, plain_peer = plain_answer_to(plain, payload)
    assert answer == wanted
    assert state_of(fast) == state_of(plain)
    assert (answer is None) == (fast.parts.requests.long_polls.count == 1)
    assert late_answer(fast, peer) == late_answer(plain, plain_peer)
    return True


@pytest.mark.parametrize("serialize", CODECS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"queueOffset": "0", "maxMsgNums": "1"},
        {"subscription": TAGS},
        {"subscription": ""},
        {"maxMsgBytes": "300"},
        {"maxMsgBytes": "1"},
        {"sysFlag": "7", "commitOffset": "5"},
        {"expressionType": ""},
    ],
)
def test_found_messages_get_the_same_answer_on_both_paths(changes: dict[str, Any], serialize: int) -> None:
    fast, plain = opened(), opened()
    command = pull(serialize, **changes)
    answer = fast_answer(fast, command)
    assert answer is not None and answer.body
    assert answer == plain_answer(plain, command)
    assert state_of(fast) == state_of(plain)


@pytest.mark.parametrize("serialize", CODECS)
@pytest.mark.parametrize("code", [11, 361])
@pytest.mark.parametrize(
    "changes",
    [
        {"queueOffset": "20"},
        {"queueId": "1", "queueOffset": "0"},
        {"queueOffset": "20", "sysFlag": "7", "commitOffset": "12"},
        {"queueOffset": "20", "subscription": TAGS},
    ],
)
def test_a_pull_that_waits_is_parked_as_on_the_plain_path(changes: dict[str, Any], code: int, serialize: int) -> None:
    payload = payload_of(pull(serialize, code=code, **changes))
    assert check_alike(payload)
    world = opened()
    assert fast_answer_to(world, payload)[:2] == (True, None)
    assert world.parts.requests.long_polls.count == 1
    (parked,) = world.parts.requests.long_polls._table._by_peer.popitem()[1].values()
    assert parked.request == decode_command(payload).envelope()


@pytest.mark.parametrize("serialize", CODECS)
@pytest.mark.parametrize(
    "changes",
    [
        {"queueOffset": "21"},
        {"queueOffset": "-1"},
        {"queueOffset": "20", "sysFlag": "4"},
        {"queueOffset": "20", "suspendTimeoutMillis": "0"},
        {"queueId": "1"},
        {"queueId": "2"},
        {"topic": "unknown"},
        {"sysFlag": "2"},
        {"expressionType": "SQL92"},
        {"subscription": "TagZ"},
        {"queueOffset": "soon"},
        {"queueOffset": "03"},
        {"queueOffset": "+3"},
        {"queueOffset": " 3"},
        {"queueOffset": str(2**63)},
        {"queueId": str(2**31)},
        {"flag": 1},
        {"flag": 2},
    ],
)
def test_everything_else_is_declined(world: World, changes: dict[str, Any], serialize: int) -> None:
    before = state_of(world)
    assert not fast_answer_to(world, payload_of(pull(serialize, **changes)))[0]
    assert state_of(world) == before


def test_a_pull_for_which_no_place_is_left_is_declined() -> None:
    world = opened()
    world.parts.requests.long_polls._count_max = 0
    assert not fast_answer_to(world, payload_of(pull(queueOffset="20")))[0]
    assert world.parts.requests.long_polls.refused_count == 0  # the plain path counts it


def test_a_pull_for_which_the_memory_budget_has_no_room_is_declined() -> None:
    world = opened()
    world.parts.requests.long_polls._budget.limit_bytes = 1
    assert not fast_answer_to(world, payload_of(pull(queueOffset="20")))[0]
    answer = plain_answer(world, pull(queueOffset="20"))
    assert answer is not None and answer.code == 2
    assert world.parts.stats.missed_pulls == 1


VARYING = st.sampled_from(["0", "1", "3", "19", "20", "21", "-1", "007", "1_0", " 1", "", "x", str(2**31), str(2**63)])
VALUES = {
    "queueId": VARYING,
    "queueOffset": VARYING,
    "commitOffset": VARYING,
    "sysFlag": st.sampled_from(["2", "3", "4", "6", "7"]),
    "subscription": st.sampled_from(["*", "TagA", TAGS, "\x00\x07queueId\x00\x00\x00\x011"]),
    "consumerGroup": st.sampled_from(
        ["G", "\x00\x0bqueueOffset\x00\x00\x00\x013", "\x00\x0ccommitOffset\x00\x00\x00\x02"]
    ),
    "maxMsgBytes": st.sampled_from(["1", "400", "many"]),
    "suspendTimeoutMillis": st.sampled_from(["0", "100"]),
}
CHANGES = st.dictionaries(st.sampled_from(sorted(VALUES)), st.none(), max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES[name] for name in names})
)


def raw_field(name: str, value: str) -> bytes:
    return struct.pack(">H", len(name)) + name.encode() + struct.pack(">I", len(value.encode())) + value.encode()


def binary_payload(parts: list[tuple[str, str]], remark: bytes = b"") -> bytes:
    raw = b"".join(raw_field(*part) for part in parts)
    header = struct.pack(">hBhiii", 11, 0, 479, 77, 0, len(remark)) + remark + struct.pack(">i", len(raw)) + raw
    return struct.pack(">I", len(header) | 1 << 24) + header


@settings(max_examples=25, deadline=None)
@given(
    changes=CHANGES,
    order=st.one_of(st.sampled_from([SINCE_5, HASHED]), st.permutations(SINCE_5)),
    twice=st.lists(st.sampled_from(["queueOffset", "commitOffset", "queueId", "topic"]), max_size=1),
    extra=st.binary(max_size=3),
    learned=st.booleans(),
)
def test_binary_headers_mean_the_same_on_both_paths(
    changes: dict[str, str], order: list[str], twice: list[str], extra: bytes, learned: bool
) -> None:
    wanted = fields(**changes)
    parts = [(name, wanted[name]) for name in order] + [(name, "1") for name in twice]
    payload = binary_payload(parts)
    if learned:  # the same bytes around other values are known already
        usual = {**wanted, "queueId": "0", "queueOffset": "5", "commitOffset": "0"}
        heads = pull_header.PullHeads()
        with suppress(ValueError):
            heads.decode(binary_payload([(name, usual[name]) for name in order] + [(name, "1") for name in twice]))
            head = heads.decode(payload)
            assert head is None or head == pull_header.PullHeads().decode(payload)
    check_alike(payload)
    cut = payload[: len(payload) - len(extra)] + extra  # other bytes at the end
    try:
        decode_command(cut)
    except ProtocolViolation:
        assert not fast_answer_to(opened(), cut)[0]
    else:
        check_alike(cut)


@pytest.mark.parametrize("order", [SINCE_5, HASHED])
def test_binary_headers_of_one_consumer_are_decoded_once(order: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    heads = pull_header.PullHeads()
    decoded: list[bytes] = []
    decode = decode_binary_header
    monkeypatch.setattr(pull_header, "decode_binary_header", lambda *args: decoded.append(args[0]) or decode(*args))
    for number in (0, 7, 12_345, 10**18):
        wanted = fields(queueId=str(number % 5), queueOffset=str(number), commitOffset=str(number // 2))
        head = heads.decode(binary_payload([(name, wanted[name]) for name in order]))
        assert head is not None and (head.code, head.opaque, head.flag) == (11, 77, 0)
        header = head.extFields
        assert (header.queue_id, header.queue_offset, header.commit_offset) == (number % 5, number, number // 2)
        assert (header.consumer_group, header.topic, header.max_msg_bytes) == ("G", "T", 1_000_000)
    assert len(decoded) == 1


def test_a_binary_header_with_a_remark_is_declined() -> None:
    parts = list(fields().items())
    assert check_alike(binary_payload(parts))
    assert not check_alike(binary_payload(parts, b"why"))


def test_templates_of_binary_headers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_header, "_TEMPLATE_COUNT_MAX", 3)
    heads = pull_header.PullHeads()
    for number in range(10):
        head = heads.decode(binary_payload(list(fields(topic=f"T{number}").items())))
        assert head is not None and head.extFields.topic == f"T{number}"
        assert len(heads._known) <= 3
    long = fields(subscription="t" * 2000)
    before = dict(heads._known)
    head = heads.decode(binary_payload(list(long.items())))
    assert head is not None and head.extFields.subscription == long["subscription"]
    assert heads._known == before


def test_a_pending_reset_is_left_to_the_plain_path() -> None:
    world = opened()
    world.parts.metadata.cursors.reset("G", "T", 0, 1)
    assert fast_answer(world, pull()) is None
    answer = plain_answer(world, pull())
    assert answer is not None and answer.code == 21 and answer.ext["nextBeginOffset"] == "1"
    assert fast_answer(world, pull()) is not None


def test_a_group_that_cannot_be_saved_still_reads() -> None:
    world = opened()
    with failing(world, "open", "/config/"):
        assert fast_answer(world, pull()) is not None
        answer = plain_answer(world, pull())
        assert answer is not None and answer.code == 0
    world.parts.metadata.groups.tick()
    assert b'"G"' in world.files.read_bytes(f"{ROOT}/config/subscriptionGroup.json")


def test_an_unreadable_disk_is_left_to_the_plain_path() -> None:
    world = opened()
    world.parts.metadata.groups.ensure("G")
    world.parts.store._queues.write_tails()
    with failing(world, "pread", "/consumequeue/", errno.EIO):
        assert fast_answer(world, pull()) is None
        answer = plain_answer(world, pull())
        assert answer is not None and answer.code == 1 and "Input/output error" in (answer.remark or "")
