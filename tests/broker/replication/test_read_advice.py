"""The broker that master and slave suggest to a consumer; a slave never makes a consumer lose its offset."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.replication.roles.role import Role
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, decode_command, encode_command
from tests.broker.replication.fake_slaves import FakeSlaves
from tests.broker.world import Caller, FakePeer, World, slave_side

MEMORY_BYTES = 100_000  # of which 40 per cent are the limit
PULL: dict[str, Any] = {
    "consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4,
    "commitOffset": 0, "suspendTimeoutMillis": 20_000, "subscription": "*", "subVersion": 0,
}  # fmt: skip
SUSPEND = {"sysFlag": 6}


def filled(world: World, **group: Any) -> World:
    """Fill a queue of ``world`` with five messages, 20 KB apart."""
    world.parts.requests.pulls._advice._memory_bytes = MEMORY_BYTES
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", **group)])
    for _ in range(5):
        world.put("T", b"x" * 20_000)
    return world


def master(slaves: int = 1, *, group: dict[str, int] | None = None, **settings: Any) -> World:
    world = filled(World(**settings), **(group or {}))
    FakeSlaves(world, slaves)
    return world


def slave(*, is_following: bool, group: dict[str, int] | None = None, **settings: Any) -> World:
    """Return a slave with the directory of such a master."""
    before = filled(World(), **(group or {}))
    before.parts.close()
    world = World(before.files, before.clock, role=Role(2), **settings)
    world.parts.requests.pulls._advice._memory_bytes = MEMORY_BYTES
    world.parts.requests.pulls._advice._is_following = lambda: is_following
    return world


def pull(world: World, **changes: Any) -> tuple[int, dict[str, int]]:
    """Return (response code, fields) of a pull that is answered at once."""
    reply = Caller(world).ask(RequestCode.PULL_MESSAGE, **{**PULL, **changes})
    assert reply is not None
    return reply.code, fields_of(reply.to_command(Command(11)))


def fields_of(answer: Command) -> dict[str, int]:
    return {name: int(value) for name, value in (answer.ext or {}).items()}


def suggested(world: World, **changes: Any) -> int:
    """Return the broker id that the fast and the plain path suggest."""
    fields = {name: str(value) for name, value in {**PULL, **changes}.items()}
    payload = encode_command(Command(RequestCode.PULL_MESSAGE, ext=fields))[4:]
    peer = FakePeer()
    took = world.parts.requests.fast_path(peer, payload)  # type: ignore[arg-type]
    code, plain = pull(world, **changes)
    assert took is (code == ResponseCode.SUCCESS)
    if took:
        assert fields_of(peer.frames[0]) == plain
    return plain["suggestWhichBrokerId"]


# -- the master ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "broker_id"), [(0, 1), (2, 1), (3, 0), (4, 0), (5, 0)])
def test_a_consumer_far_behind_is_sent_to_a_slave(offset: int, broker_id: int) -> None:
    """What counts is the next message: from offset 4 on there are less than 40 KB."""
    assert suggested(master(), queueOffset=offset) == broker_id


def test_a_consumer_at_the_limit_stays_at_the_master() -> None:
    world = master()
    queue = world.parts.store.queue_view("T", 0)
    assert queue is not None
    behind = world.parts.store.physical_max_offset - queue.unit(1)[0]
    for memory, broker_id in ((behind * 100, 0), (behind * 100 - 100, 1)):
        world.config.access_message_in_memory_max_ratio = 1
        world.parts.requests.pulls._advice._memory_bytes = memory
        assert suggested(world) == broker_id


def test_without_a_slave_no_consumer_is_sent_away() -> None:
    assert suggested(master(slaves=0)) == 0


def test_a_group_setting_chooses_where_it_reads() -> None:
    world = master(group={"broker_id": 3, "which_broker_when_consume_slowly": 2})
    assert (suggested(world), suggested(world, queueOffset=4)) == (2, 3)


def test_switched_off_the_master_serves_all_consumers() -> None:
    world = master(group={"broker_id": 3}, slaveReadEnable="false")
    assert (suggested(world), suggested(world, queueOffset=4)) == (0, 0)


def test_a_filter_without_a_match_moves_on_at_the_suggested_broker() -> None:
    world = master()
    code, fields = pull(world, subscription="nothing")
    assert code == ResponseCode.PULL_RETRY_IMMEDIATELY and fields["suggestWhichBrokerId"] == 0
    assert fields["nextBeginOffset"] == 5


# -- a slave -----------------------------------------------------------------------------------------------------------


def test_a_consumer_that_has_caught_up_returns_to_a_living_master() -> None:
    world = slave(is_following=True)
    assert suggested(world, queueOffset=4) == 0
    assert suggested(world, queueOffset=0) == 1, "still far behind: a slave serves it"


def test_while_the_master_is_away_consumers_stay() -> None:
    world = slave(is_following=False)
    assert (suggested(world), suggested(world, queueOffset=4)) == (2, 2)


def test_a_slave_that_may_not_serve_answers_as_rocketmq_s() -> None:
    world = slave(is_following=False, slaveReadEnable="false")
    caller = Caller(world)
    code, remark = caller.refused(RequestCode.PULL_MESSAGE, **PULL)
    assert code == ResponseCode.SYSTEM_BUSY and "slaveReadEnable=true" in remark
    caller.ok(RequestCode.UPDATE_BROKER_CONFIG, b"slaveReadEnable=true\n")
    assert pull(world)[0] == ResponseCode.SUCCESS


@pytest.mark.parametrize("offset", [6, 1_000_000])
def test_an_offset_that_this_slave_does_not_have_yet_is_kept(offset: int) -> None:
    """Its master gave messages that did not come here: the consumer must not be sent back to have them twice."""
    world = slave(is_following=False)
    code, fields = pull(world, queueOffset=offset)
    assert code == ResponseCode.PULL_NOT_FOUND and fields["nextBeginOffset"] == offset
    assert pull(master(), queueOffset=offset)[0] == ResponseCode.PULL_OFFSET_MOVED


def test_an_offset_that_only_the_master_has_still_is_kept() -> None:
    """A slave may begin at its master's last segment: what lies before is no reason to skip it."""
    world = slave(is_following=False)
    queue = world.parts.store.queue_view("T", 0)
    assert queue is not None
    queue.min_offset = 3
    code, fields = pull(world, queueOffset=1)
    assert code == ResponseCode.PULL_NOT_FOUND and fields["nextBeginOffset"] == 1


@pytest.mark.parametrize(("is_following", "waited_ms"), [(True, 1000), (False, 20_000)])
def test_a_pull_that_finds_nothing_waits_a_short_while_where_it_is_to_go_elsewhere(
    is_following: bool, waited_ms: int
) -> None:
    world = slave(is_following=is_following)
    caller = Caller(world)
    assert caller.ask(RequestCode.PULL_MESSAGE, **{**PULL, "queueOffset": 5, **SUSPEND}) is None
    polls = world.parts.requests.long_polls
    world.clock.advance(waited_ms - 1)
    polls.tick()
    assert caller.peer.answers == []
    world.clock.advance(1)
    polls.tick()
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.PULL_NOT_FOUND
    assert fields_of(reply.to_command(Command(11)))["suggestWhichBrokerId"] == (0 if is_following else 2)


def test_a_group_that_reads_from_slaves_waits_as_long_as_it_likes() -> None:
    world = slave(is_following=True, group={"broker_id": 2})
    caller = Caller(world)
    assert caller.ask(RequestCode.PULL_MESSAGE, **{**PULL, "queueOffset": 5, **SUSPEND}) is None
    world.clock.advance(1000)
    world.parts.requests.long_polls.tick()
    assert caller.peer.answers == []


def test_a_parked_pull_is_woken_by_replicated_messages() -> None:
    source = filled(World())
    start = source.parts.store.physical_max_offset
    world = slave(is_following=False)
    caller = Caller(world)
    assert caller.ask(RequestCode.PULL_MESSAGE, **{**PULL, "queueOffset": 5, **SUSPEND}) is None
    source.put("T", b"new")
    follower = slave_side(world.parts).follower
    assert follower is not None and follower.end == start
    follower.append(start, bytes(source.parts.store.read_log(start, 1 << 20)))
    world.parts.after_turn()
    assert caller.peer.answers == []
    follower.dispatch()
    world.parts.end_turn()
    assert not world.parts.after_turn()
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.SUCCESS and reply.body.count(b"new") == 1


def test_answers_of_both_paths_are_decoded_the_same() -> None:
    """The fast path makes its answer in one piece: the suggestion is where the plain path has it."""
    world = master()
    peer, plain = FakePeer(), FakePeer()
    command = Command(RequestCode.PULL_MESSAGE, ext={name: str(value) for name, value in PULL.items()}, opaque=7)
    assert world.parts.requests.fast_path(peer, encode_command(command)[4:])  # type: ignore[arg-type]
    reply = Caller(world).ask(RequestCode.PULL_MESSAGE, **PULL)
    assert reply is not None
    plain.write(encode_command(reply.to_command(decode_command(encode_command(command)[4:]))))
    fast, slow = peer.frames[0], plain.frames[0]
    assert (fast.ext, fast.body, fast.code, fast.opaque) == (slow.ext, slow.body, slow.code, slow.opaque)
