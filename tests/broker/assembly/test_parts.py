"""BrokerParts: parts find each other, a directory survives stops and kills, settings reach the store."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from pymq.broker.assembly.store_settings import store_settings
from pymq.config import BrokerConfig
from pymq.errors import StoppedError, StoreError
from pymq.model.message import MessageQueue
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.ha import encode_report
from tests.broker.disk import failing
from tests.broker.replication.cable import Cable
from tests.broker.replication.taker import Taker
from tests.broker.world import ROOT, Caller, World, master_side


def test_everything_kept_is_there_after_a_clean_stop() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2)])
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=7)])
    world.put("T", b"1", queue_id=1, KEYS="k")
    world.put("T", b"later", DELAY="5")
    world.parts.metadata.cursors.commit("g", "T", 1, 1)
    again = world.reopened()
    assert again.parts.metadata.topics.require("T").read_queue_nums == 3
    assert again.parts.metadata.groups.ensure("g").retry_max_times == 7
    assert again.parts.metadata.cursors.query("g", "T", 1) == 1
    assert [message.body for message in again.messages("T", 1)] == [b"1"]
    assert len(again.parts.store.find_by_key("T", "k", 10)) == 1
    again.clock.advance(60_000)
    again.parts.messages.delays.tick()
    assert [message.body for message in again.messages("T", 0)] == [b"later"]


def test_a_clean_stop_leaves_no_abort_file_and_a_kill_does() -> None:
    world = World()
    world.put("T", b"1")
    assert world.files.exists(f"{ROOT}/abort")
    world.parts.close()
    assert not world.files.exists(f"{ROOT}/abort")
    again = World(world.files, world.clock)
    again.put("T", b"2")
    killed = World(again.files.after_kill(), world.clock)
    assert [message.body for message in killed.messages("T")] == [b"1", b"2"]


def test_a_stopped_recovery_leaves_the_directory_to_the_next_start() -> None:
    world = World()
    world.put("T", b"1")
    world.put("T", b"2")
    killed = World(world.files.after_kill(), world.clock, open_at_once=False)
    with pytest.raises(StoppedError):
        killed.parts.open(lambda: True)
    assert killed.files.exists(f"{ROOT}/abort"), "the next start has to recover"
    assert not killed.parts.store.is_writable
    again = World(killed.files, world.clock)
    assert [message.body for message in again.messages("T")] == [b"1", b"2"]


def test_a_directory_serves_one_broker() -> None:
    world = World()
    with pytest.raises(StoreError, match="another broker"):
        World(world.files)
    world.parts.close()
    World(world.files).parts.close()


def test_a_stop_on_a_failing_disk_is_not_called_clean() -> None:
    world = World()
    world.put("T", b"1")
    with failing(world, "sync", "/commitlog/"), pytest.raises(StoreError):
        world.parts.close()
    assert world.files.exists(f"{ROOT}/abort")
    assert [message.body for message in World(world.files, world.clock).messages("T")] == [b"1"]


def test_a_table_that_can_t_be_saved_does_not_keep_the_store_open() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    world.put("T", b"1")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    with failing(world, "open", "/config/"), pytest.raises(StoreError):
        world.parts.close()
    again = World(world.files, world.clock)
    assert [message.body for message in again.messages("T")] == [b"1"]


@pytest.mark.parametrize("table", ["topics", "subscriptionGroup", "consumerOffset", "delayOffset"])
def test_a_table_that_can_t_be_read_frees_the_directory(table: str) -> None:
    world = World()
    world.put("T", b"1", DELAY="1")
    world.put("T", b"1")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    world.parts.metadata.groups.ensure("g")
    world.parts.close()
    with failing(world, "read_bytes", f"/config/{table}.json", errno.EIO), pytest.raises(StoreError, match=table):
        World(world.files, world.clock)
    again = World(world.files, world.clock)
    assert [message.body for message in again.messages("T")] == [b"1"]
    assert again.parts.metadata.cursors.query("g", "T", 0) == 1


def test_an_arrival_reaches_parked_pulls_and_delays() -> None:
    world = World()
    caller = Caller(world)
    pull: dict[str, Any] = {
        "consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 6,
        "commitOffset": 0, "suspendTimeoutMillis": 1000, "subVersion": 0, "subscription": "*",
    }  # fmt: skip
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    assert caller.ask(11, **pull) is None
    world.put("T", b"1", DELAY="1")
    assert world.parts.messages.delays.next_due_ms() == world.clock.now_ms() + 1000
    world.parts.requests.long_polls.wake()
    assert caller.peer.answers == []
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    world.parts.requests.long_polls.wake()
    assert [reply.code for reply in caller.peer.answers] == [0]


def test_disconnecting_slaves_touch_no_store_closed_by_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, cable, moved = World(), Cable(), []
    monkeypatch.setattr(world.parts.messages.waiting_answers, "release_confirmed", lambda: moved.append("confirmed"))
    cable.listeners["ha"] = master_side(world.parts).ha_service.accept
    taker = Taker()
    cable.connect("ha", taker)
    cable.settle()
    taker.write(encode_report(0))
    cable.settle()
    assert moved == ["confirmed"]
    world.parts.leave_group("another role")
    cable.settle()
    assert taker.is_closed and moved == ["confirmed"]


def test_message_ids_name_the_broker_s_address() -> None:
    world = World(brokerIP1="10.1.2.3", listenPort=12_345)
    world.put("T")
    (message,) = world.messages("T")
    assert message.store_host == bytes((10, 1, 2, 3)) + (12_345).to_bytes(4, "big")
    assert message.offset_message_id == "0A01020300003039" + "0" * 16


def test_locks_and_memberships_are_forgotten_by_a_restart() -> None:
    world = World()
    world.parts.metadata.leaser.lock_batch("g", "client", [MessageQueue("T", "broker-a", 0)])
    assert world.parts.metadata.leaser.is_ordered("g")
    assert not world.reopened().parts.metadata.leaser.is_ordered("g")


def test_settings_reach_the_store() -> None:
    config = BrokerConfig()
    for name, text in {
        "mappedFileSizeCommitLog": "1048576",
        "mappedFileSizeConsumeQueue": "4000",
        "maxHashSlotNum": "11",
        "maxIndexNum": "22",
        "messageIndexEnable": "false",
        "flushIntervalConsumeQueue": "333",
        "messageDelayLevel": "1s 2m",
    }.items():
        config.set(name, text, "flag")
    settings = store_settings(config)
    assert (settings.segment_size_bytes, settings.queue_file_size_bytes) == (1_048_576, 4000)
    assert (settings.index_slot_count, settings.index_entry_count, settings.index_enabled) == (11, 22, False)
    assert settings.queue_write_interval_ms() == 333
    assert settings.delay_levels_ms == (1000, 120_000)


def test_without_an_index_messages_are_found_by_offset_alone() -> None:
    world = World(MemoryFiles(), messageIndexEnable="false")
    world.put("T", b"1", KEYS="k")
    assert world.parts.store.find_by_key("T", "k", 10) == []
    assert [message.body for message in world.reopened(messageIndexEnable="false").messages("T")] == [b"1"]
