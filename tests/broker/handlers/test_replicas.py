"""Join requests: the answer of a master, and the refusal of a slave."""

from __future__ import annotations

from typing import Any

import msgspec

from pymq.wire.bodies_replication import JoinAnswer, JoinRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.ha import OFFSET_MAX, encode_report
from tests.broker.replication.cable import Cable
from tests.broker.replication.taker import Taker
from tests.broker.world import Caller, World, master_side

JOIN = RequestCode.PYMQ_JOIN_MASTER


def request(world: World, **changes: Any) -> bytes:
    config = world.config
    fields: dict[str, Any] = {
        "cluster": config.broker_cluster_name,
        "broker_name": config.broker_name,
        "broker_id": 1,
        "address": "127.0.0.1:20911",
        "segment_size_bytes": config.mapped_file_size_commit_log_bytes,
        "log_start": 0,
        "log_end": 0,
    }
    return msgspec.json.encode(JoinRequest(**{**fields, **changes}))


def joined(world: World, **changes: Any) -> JoinAnswer:
    return msgspec.json.decode(Caller(world).ok(JOIN, request(world, **changes)).body, type=JoinAnswer)


def test_a_slave_is_given_a_token_a_place_and_the_epoch_history() -> None:
    world = World(haListenPort=10999)
    world.put("T", b"one")
    answer = joined(world)
    assert answer.token < 0
    assert (answer.start, answer.ha_address, answer.master_role) == (0, "127.0.0.1:10999", "ASYNC_MASTER")
    assert [(entry.epoch, entry.start) for entry in answer.epoch_history] == [(1, 0)]


def test_the_address_for_slaves_may_be_another() -> None:
    assert joined(World(brokerIP2="10.1.2.3", haListenPort=10999)).ha_address == "10.1.2.3:10999"


def test_the_token_is_good_for_a_connection() -> None:
    world = World()
    world.put("T", b"one")
    answer = joined(world)
    cable = Cable()
    cable.listeners["ha"] = master_side(world.parts).ha_service.accept
    peer = Taker()
    cable.connect("ha", peer)
    cable.settle()
    peer.write(encode_report(answer.token) + encode_report(0))
    cable.settle()
    assert peer.data.endswith(bytes(world.parts.store.read_log(0, 1 << 20)))
    assert master_side(world.parts).ha_service.live_address(1) == "127.0.0.1:20911"


def test_a_slave_that_must_truncate_gets_no_token() -> None:
    world = World()
    first = world.put("T", b"one")
    assert world.parts.replication.epoch_file.history.entries
    end = world.parts.store.physical_max_offset
    epoch_history = joined(world).epoch_history
    answer = joined(world, log_end=end + 5, tail_bytes=end + 5, tail_digest="x", epoch_history=epoch_history)
    assert (answer.token, answer.start) == (0, end)
    assert first.physical_offset == 0


def test_a_refusal_names_the_values() -> None:
    world = World()
    code, remark = Caller(world).refused(JOIN, request(world, cluster="other"))
    assert code == ResponseCode.INVALID_PARAMETER
    assert "brokerClusterName is other on the slave and DefaultCluster on this master" in remark


def test_an_unreadable_join_request_is_refused() -> None:
    world = World()
    deep = b'{"other":' + b"[" * 100_000
    behind = b'{"epochHistory": [{"epoch": 1, "start": %d, "epochId": "a"}]}' % (OFFSET_MAX + 1)
    for body in (b"", b"{", b"[]", b'{"cluster": 5}', b'{"cluster": "\xff"}', deep, behind):
        code, remark = Caller(world).refused(JOIN, body)
        assert code == ResponseCode.INVALID_PARAMETER
        assert "the joining can't be read" in remark


def test_a_slave_refuses_a_join_request() -> None:
    world = World(brokerId=2)
    code, remark = Caller(world).refused(JOIN, request(world))
    assert "is no master but slave 2" in remark
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE, "it may be about to become one: worth another try soon"
