"""Metadata of a directory that Apache RocketMQ 5.3.3 wrote: read whole, and its delayed messages delivered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.assembly.plain_place import PlainPlace
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.model import fastjson
from pymq.model.record import decode_records
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.json_table import CHECKSUM
from tests.broker.world import AlwaysRegistered, runtime_of
from tests.golden_stores import packed_store, unpack

STORE = "store-clean"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[BrokerParts]:
    """Yield the parts of a broker on a copy of the directory, opened a second after it was left."""
    _, manifest = unpack(STORE, tmp_path)
    keys = manifest["brokerConfig"]
    sizes = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
    overrides = {name: str(keys[name]) for name in ("brokerName", "listenPort", *sizes)}
    config = load_broker_config(None, {**overrides, "storePathRootDir": str(tmp_path / "store")})
    last_ms = max(message["storeTimestamp"] for message in manifest["messages"])
    clock = ManualClock(last_ms + 1000)
    made = BrokerParts(
        runtime_of(config, clock, RealFiles()),
        Role(config.broker_id),
        PlainPlace(KnownPeers(config, clock)),
        Owner(lambda change: None),
        AlwaysRegistered(config),
    )
    made.open()
    yield made
    made.close()


def original(name: str) -> Any:
    """Return one of the directory's tables as Apache left it."""
    with packed_store(STORE) as archive:
        for member in archive:
            if member.name == f"store/config/{name}.json":
                file = archive.extractfile(member)
                assert file is not None
                return fastjson.loads(file.read())
    raise AssertionError(name)


def test_every_topic_group_and_offset_is_there(parts: BrokerParts) -> None:
    topics = original("topics")["topicConfigTable"]
    found = parts.metadata.topics.all()
    for name, topic in topics.items():
        assert (found[name].read_queue_nums, found[name].write_queue_nums, found[name].perm) == (
            topic["readQueueNums"],
            topic["writeQueueNums"],
            topic["perm"],
        )
        assert found[name].attributes == topic["attributes"]
    assert parts.metadata.groups.all().keys() == original("subscriptionGroup")["subscriptionGroupTable"].keys()
    offsets = original("consumerOffset")["offsetTable"]
    shown = parts.metadata.cursors.as_table()["offsetTable"]
    assert shown == {key: {str(queue): at for queue, at in queues.items()} for key, queues in offsets.items()}


def test_tables_keep_everything_apache_wrote(parts: BrokerParts) -> None:
    """PyMQ saves Apache's members with Apache's values, and adds only topics of its own defaults."""
    parts.metadata.topics._state.change_at_once(lambda topics: None)
    parts.metadata.groups._state.change_at_once(lambda groups: None)
    parts.metadata.topics.save()
    parts.metadata.groups.save()
    parts.metadata.cursors._dirty = parts.messages.delays._dirty = True
    parts.metadata.cursors.save()
    parts.messages.delays.save()
    for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset"):
        before = with_text_keys(original(name))
        after = with_text_keys(
            fastjson.loads(parts.runtime.files.read_bytes(f"{parts.store._root}/config/{name}.json"))
        )
        assert after.pop(CHECKSUM) and after["dataVersion"].keys() == before["dataVersion"].keys()
        assert after["dataVersion"]["counter"] > before["dataVersion"]["counter"]
        del after["dataVersion"], before["dataVersion"]
        for topic in ("TBW102", "RMQ_SYS_TRACE_TOPIC") if name == "topics" else ():
            del after["topicConfigTable"][topic]
        for derived in (before, after):
            for topics in derived.get("groupTopicMap", {}).values():
                topics.sort()
        assert after == before


def with_text_keys(value: Any) -> Any:
    """Return ``value`` with text keys and without nulls, which Apache leaves out and reads as missing."""
    if isinstance(value, dict):
        return {str(key): with_text_keys(item) for key, item in value.items() if item is not None}
    return value


def test_delayed_messages_that_apache_left_are_delivered_once(parts: BrokerParts) -> None:
    clock = parts.clock
    assert isinstance(clock, ManualClock)
    before = {key: parts.store.max_offset(*key) for key in parts.store.queues()}
    waiting = {
        level: parts.store.max_offset("SCHEDULE_TOPIC_XXXX", level - 1) - offset
        for level, offset in parts.messages.delays.offsets().items()
    }
    assert sum(waiting.values()) > 0
    assert not parts.messages.delays.tick()
    clock.advance(7_200_000)
    while parts.messages.delays.tick():
        pass
    assert parts.messages.delays.delivered_count == sum(waiting.values()) and parts.messages.delays.dropped_count == 0
    delivered = []
    for topic, queue_id in list(parts.store.queues()):
        start = before.get((topic, queue_id), 0)
        if parts.store.max_offset(topic, queue_id) > start:
            result = parts.store.get(topic, queue_id, start, 32, 1 << 20)
            delivered += decode_records(b"".join(result.chunks))
    assert len(delivered) == sum(waiting.values())
    assert all(message.topic == message.properties["REAL_TOPIC"] for message in delivered)
