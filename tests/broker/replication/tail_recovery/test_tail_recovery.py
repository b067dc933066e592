"""The write fence before an epoch start: nothing is written where slaves may hold confirmed messages, until it ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pymq.broker.replication.history.epoch_body import history_to_body
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.broker.replication.tail_recovery.unsynced_replicas import UNSYNCED_REPLICAS_MAX
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_replication import JoinRequest, ReplicationStatus
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.replication.asking import NAMESRV, status
from tests.broker.replication.tail_recovery.machines import FIRST, SECOND, SEGMENT, Machines
from tests.broker.world import ROOT, Caller, World, master_side, slave_side

BODIES = [b"%d" % number for number in range(6)]


def machines(slave_count: int = 1, **settings: Any) -> Machines:
    """Return a master whose disk has two of six messages. Every slave has all six, and none answers now."""
    group = Machines(slave_count, namesrvAddr=NAMESRV, brokerRole="SYNC_MASTER", **settings)
    group.master.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    group.put(*BODIES[:2])
    group.master.parts.store.sync()
    group.put(*BODIES[2:])
    for address in group.slaves:
        group.copy(address)
    group.lose_power()
    return group


def opened_without(group: Machines, *addresses: str) -> Machines:
    for address in addresses:
        del group.slaves[address]
    group.begin()
    return group


def group_probe(group: Machines, *there: ReplicationStatus) -> list[RoleChange]:
    """Return the role changes that the master asks for after a group probe."""
    group.network.brokers = {one.address: one for one in there}
    group.master.parts.replication.tail_recovery.tick()
    group.network.answer_all()
    return group.master.role_changes


def test_nothing_is_written_while_confirmed_messages_may_be_missing() -> None:
    group = opened_without(machines(), FIRST)
    parts = group.master.parts
    assert parts.replication.tail_recovery.is_fenced and not parts.store.is_writable
    assert (
        f"slave 1 at {FIRST}" in parts.replication.tail_recovery.fenced_for
        and "brokerRole=ASYNC_MASTER" in parts.replication.tail_recovery.fenced_for
    )
    assert group.epoch_history.newest_start == 0
    assert group.bodies == BODIES[:2], "reads go on"
    code, why = Caller(group.master).refused(
        RequestCode.SEND_MESSAGE, b"x", producerGroup="p", topic="T", defaultTopic="TBW102", defaultTopicQueueNums=4,
        queueId=0, sysFlag=0, bornTimestamp=0, flag=0, properties="", reconsumeTimes=0, unitMode="false",
    )  # fmt: skip
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE and "nothing is stored" in why
    reported = Caller(group.master).json(RequestCode.PYMQ_GET_REPLICATION_STATUS)
    assert parts.replication.tail_recovery.fenced_for in reported["problem"]


@pytest.mark.parametrize(
    ("was_clean", "has_caught_up", "flush", "is_in_doubt"),
    [
        (False, False, "ASYNC_FLUSH", True),
        (False, True, "ASYNC_FLUSH", False),
        (False, False, "SYNC_FLUSH", False),
        (True, False, "ASYNC_FLUSH", False),
    ],
)
def test_a_slave_in_recovery_may_lack_what_it_confirmed(
    was_clean: bool, has_caught_up: bool, flush: str, is_in_doubt: bool
) -> None:
    world = World(role=Role(1), namesrvAddr=NAMESRV, flushDiskType=flush)
    ha_client = slave_side(world.parts).ha_client
    assert ha_client is not None
    world.parts.replication.tail_recovery.was_clean = was_clean
    ha_client.has_caught_up = has_caught_up
    reported = Caller(world).json(RequestCode.PYMQ_GET_REPLICATION_STATUS)
    assert reported["endInDoubt"] is is_in_doubt


def test_a_master_does_not_report_itself_in_doubt() -> None:
    world = World()
    world.parts.replication.tail_recovery.was_clean = False
    assert Caller(world).json(RequestCode.PYMQ_GET_REPLICATION_STATUS)["endInDoubt"] is False


def test_no_slave_has_to_truncate_meanwhile() -> None:
    group = machines()
    slave = group.slaves[FIRST].parts
    opened_without(group, FIRST)
    joining = JoinRequest(
        cluster="DefaultCluster", broker_name="broker-a", broker_id=1, address=FIRST, segment_size_bytes=SEGMENT,
        log_start=0, log_end=slave.store.physical_max_offset,
        epoch_history=history_to_body(slave.replication.epoch_file.history),
    )  # fmt: skip
    code, why = Caller(group.master).refused(RequestCode.PYMQ_JOIN_MASTER, msgspec.json.encode(joining))
    assert (code, why) == (ResponseCode.SERVICE_NOT_AVAILABLE, group.master.parts.replication.tail_recovery.fenced_for)


def test_a_consumer_past_the_log_end_keeps_its_offset() -> None:
    group = machines()
    group.master.parts.store.sync()
    opened_without(group, FIRST)
    pull: dict[str, Any] = {
        "consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "sysFlag": 4,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    reply = Caller(group.master).ask(RequestCode.PULL_MESSAGE, **pull)
    assert reply is not None and reply.code == ResponseCode.PULL_NOT_FOUND
    assert reply.ext.next_begin_offset == 5


def test_the_epoch_begins_once_the_missing_slave_answers() -> None:
    group = opened_without(machines(), FIRST)
    assert group_probe(group) == []
    (change,) = group_probe(group, status(FIRST, 1, epoch=1))
    assert change.role == group.master.role and change.truncate_to is None
    assert group_probe(group, status(FIRST, 1, epoch=1)) == [change], "it is asked for once"


@pytest.mark.parametrize("fields", [{"cluster": "other"}, {"broker_name": "broker-b"}])
def test_a_broker_of_another_group_at_a_reused_address_is_ignored(fields: dict[str, str]) -> None:
    group = opened_without(machines(), FIRST)
    assert group_probe(group, status(FIRST, 1, epoch=1, **fields)) == []


def test_an_answer_after_its_end_changes_no_role() -> None:
    """The broker may be a slave by then, which would become the master again."""
    group = opened_without(machines(), FIRST)
    group.network.brokers = {FIRST: status(FIRST, 1, epoch=1)}
    group.master.parts.replication.tail_recovery.tick()
    group.master.parts.leave_group("another master was made")
    group.network.answer_all()
    assert group.master.role_changes == []


def test_the_next_start_is_in_doubt_again_and_recovers_all() -> None:
    group = machines()
    slave = group.slaves[FIRST]
    opened_without(group, FIRST)
    group.master.parts.close()
    assert group.master.files.exists(f"{ROOT}/abort")
    group.recover(group.master.files)
    assert group.master.parts.replication.tail_recovery.is_in_doubt
    group.slaves[FIRST] = slave
    group.begin()
    assert group.bodies == BODIES and not group.master.parts.replication.tail_recovery.is_fenced


def test_an_operator_goes_on_without_them_by_promising_less() -> None:
    group = opened_without(machines(), FIRST)
    group.master.config.broker_role = "ASYNC_MASTER"
    (change,) = group_probe(group)
    assert f"continues without slave 1 at {FIRST}" in change.why
    group.master.parts.close()
    group.recover(group.master.files, brokerRole="ASYNC_MASTER")
    group.begin()
    assert not group.master.parts.replication.tail_recovery.is_fenced and group.master.parts.store.is_writable
    assert group.epoch_history.newest_start == group.master.parts.store.physical_max_offset


@pytest.mark.parametrize(
    ("settings", "is_fenced"),
    [
        ({"inSyncReplicas": 2}, True),
        ({"inSyncReplicas": 3}, True),  # the one that answers may have lost its power too
        ({"inSyncReplicas": 1}, False),  # no slave is promised anything
        ({"flushDiskType": "SYNC_FLUSH"}, False),  # the disk has all
        ({"enableAutoInSyncReplicas": "true", "minInSyncReplicas": 1}, False),  # sends go on without slaves
        ({"enableAutoInSyncReplicas": "true", "minInSyncReplicas": 2}, True),
    ],
)
def test_when_a_missing_slave_is_reason_enough(
    settings: dict[str, Any], *, is_fenced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    group = opened_without(machines(2, **settings), SECOND)
    assert group.master.parts.replication.tail_recovery.is_fenced is is_fenced
    assert f"slave 2 at {SECOND}" in caplog.text, "it is named in any case"
    assert group.bodies == BODIES, "the other one gave all"


def test_an_async_master_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    group = machines()
    group.recover(group.master.files.after_kill(), brokerRole="ASYNC_MASTER")
    opened_without(group, FIRST)
    assert not group.master.parts.replication.tail_recovery.is_fenced
    assert f"slave 1 at {FIRST} did not answer" in caplog.text


def test_a_newer_master_is_given_way_to_in_async_mode_too() -> None:
    group = machines()
    group.recover(group.master.files.after_kill(), brokerRole="ASYNC_MASTER")
    newer = EpochHistory((*group.epoch_history.entries, EpochEntry(2, 100, "e" * 16)))
    group.slaves[FIRST].parts.replication.epoch_file.follow(newer, 1 << 20)
    group.begin()
    assert FIRST in group.master.parts.replication.tail_recovery.fenced_for
    newer_body = history_to_body(newer)
    store = group.slaves[FIRST].parts.store
    group.network.logs[FIRST] = store
    its_status = status(FIRST, 0, epoch_history=newer_body, log_end=store.physical_max_offset)
    assert group_probe(group, its_status) == [], "the watch steps down"
    assert len(group_probe(group, status(FIRST, 1, epoch=1))) == 1, "it is gone again"


def test_the_status_shows_the_recovered_tail() -> None:
    group = machines()
    start = group.master.parts.store.physical_max_offset
    group.begin()
    reported = Caller(group.master).json(RequestCode.PYMQ_GET_REPLICATION_STATUS)["recoveredTail"]
    assert (reported["start"], reported["end"], reported["sources"]) == (
        start,
        group.epoch_history.newest_start,
        [FIRST],
    )


def test_topics_that_were_lost_with_the_tail_are_made() -> None:
    group = Machines(1)
    group.master.parts.store.sync()
    group.master.put("unsaved", b"1", queue_id=5)
    group.copy(FIRST)
    group.lose_power()
    assert group.master.parts.metadata.topics.get("unsaved") is None
    group.begin()
    found = group.master.parts.metadata.topics.get("unsaved")
    assert found is not None and found.read_queue_nums == 6


def test_an_abandoned_start_leaves_the_log_in_doubt() -> None:
    group = machines()
    group.master.parts.give_up()
    group.recover(group.master.files)
    assert group.master.parts.replication.tail_recovery.is_in_doubt


def test_slaves_that_follow_are_noted_and_dropped_when_needless() -> None:
    """A join request alone notes nothing: what a start waits for was sent bytes of the log."""
    group = Machines(1)
    group.master.config.ha_slave_hosts = "10.0.0.2;127.0.0.1"
    tail, slave = group.master.parts.replication.tail_recovery, group.slaves[FIRST].parts
    joining = JoinRequest(
        cluster="DefaultCluster", broker_name="broker-a", broker_id=1, address=FIRST, segment_size_bytes=SEGMENT,
        log_start=0, log_end=0, epoch_history=history_to_body(slave.replication.epoch_file.history),
    )  # fmt: skip
    for _ in range(2 * UNSYNCED_REPLICAS_MAX):
        Caller(group.master).ok(RequestCode.PYMQ_JOIN_MASTER, msgspec.json.encode(joining))
    assert group.unsynced == {}
    master_side(group.master.parts).ha_service.on_slave(1, FIRST)
    tail.tick()
    assert group.unsynced == {"1": FIRST}, "it was just noted"
    group.clock.advance(group.master.config.ha_housekeeping_interval_ms)
    tail.tick()
    assert group.unsynced == {}


def test_bytes_that_a_new_slave_is_not_sent_are_synced_before_it_follows() -> None:
    group = Machines(1)
    group.put(*(b"%d" % number * 25_000 for number in range(8)))
    store = group.master.parts.store
    assert store.synced_offset < SEGMENT
    joining = JoinRequest(
        cluster="DefaultCluster", broker_name="broker-a", broker_id=1, address=FIRST, segment_size_bytes=SEGMENT,
        log_start=0, log_end=0,
    )  # fmt: skip
    group.master.config.ha_slave_hosts = "10.0.0.2;127.0.0.1"
    answer = Caller(group.master).json(RequestCode.PYMQ_JOIN_MASTER, msgspec.json.encode(joining))
    assert SEGMENT <= answer["start"] <= store.synced_offset


def test_a_slave_s_log_end_is_never_in_doubt() -> None:
    group = Machines(1)
    slave = group.slaves[FIRST]
    assert (
        not slave.parts.replication.tail_recovery.is_in_doubt and slave.parts.replication.tail_recovery.fenced_for == ""
    )
    slave.parts.replication.tail_recovery.tick()
    assert RecoveredTail(1, 5).size_bytes == 4
