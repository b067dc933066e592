"""Directories of a real RocketMQ 5.3.3 broker (clean, killed and torn) serve every message of their manifests."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.model.record import decode_record
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.json_table import JsonTable
from pymq.store.store import MessageStore, StoreSettings
from tests.golden_stores import unpack
from tests.store.support import die, read_all

NAMES = ("store-clean", "store-killed", "store-torn")
SETTINGS = StoreSettings(
    segment_size_bytes=65536, queue_file_size_bytes=2000, index_slot_count=500, index_entry_count=2000
)


def open_store(root: Path) -> MessageStore:
    store = MessageStore(root=str(root), files=RealFiles(), clock=ManualClock(1_800_000_000_000), settings=SETTINGS)
    store.open()
    return store


def check_all(store: MessageStore, manifest: dict[str, Any]) -> None:
    assert store.physical_max_offset == manifest["afterRecovery"]["commitLogMaxOffset"]
    found = {
        (topic, queue_id, m.queue_offset): m
        for topic, queue_id in store.queues()
        for m in read_all(store, topic, queue_id)
    }
    for wanted in manifest["messages"]:
        message = found.pop((wanted["topic"], wanted["queueId"], wanted["queueOffset"]))
        assert message.physical_offset == wanted["commitLogOffset"]
        assert message.size_bytes == wanted["storeSize"]
        assert hashlib.sha256(message.content()).hexdigest() == wanted["bodySha256"]
        assert message.body_crc == wanted["bodyCRC"]
        # The manifest omits what every client adds when it reads, even if a retry stored it.
        stored = {name: value for name, value in message.properties.items() if name not in ("MIN_OFFSET", "MAX_OFFSET")}
        assert stored == wanted["properties"]
        assert message.offset_message_id == wanted["offsetMsgId"]
        assert decode_record(store.record_at(message.physical_offset)).body == message.body
    assert not found
    for topic, queues in manifest["topics"].items():
        for queue in queues:
            limits = store.min_offset(topic, queue["queueId"]), store.max_offset(topic, queue["queueId"])
            assert limits == (queue["minOffset"], queue["maxOffset"])


def check_keys(store: MessageStore, manifest: dict[str, Any]) -> None:
    for wanted in manifest["messages"]:
        unique = wanted["properties"].get("UNIQ_KEY")
        for key in {*(wanted["keys"] or "").split(), *([unique] if unique else [])}:
            records = store.find_by_key(wanted["topic"], key, 64)
            assert wanted["commitLogOffset"] in [decode_record(record).physical_offset for record in records]


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_served_and_stays_after_restarts(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    for _ in range(2):
        store = open_store(root)
        check_all(store, manifest)
        check_keys(store, manifest)
        store.close()
        assert not (root / "abort").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lost", [("consumequeue",), ("index",), ("consumequeue", "index"), ("checkpoint",)])
def test_deleted_queues_and_index_are_rebuilt_from_the_log(name: str, lost: tuple[str, ...], tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    for part in lost:
        path = root / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    store = open_store(root)
    check_all(store, manifest)
    check_keys(store, manifest)
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_kill_right_after_opening_changes_nothing(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    die(open_store(root))
    store = open_store(root)
    check_all(store, manifest)
    check_keys(store, manifest)
    store.close()


def test_the_torn_record_does_not_come_back(tmp_path: Path) -> None:
    root, _ = unpack("store-torn", tmp_path)
    store = open_store(root)
    end = store.physical_max_offset
    segment = store._log.find(end)
    assert segment is not None
    assert not any(segment.view()[end - segment.start :])
    store.close()


def test_the_config_tables_are_read(tmp_path: Path) -> None:
    root, manifest = unpack("store-killed", tmp_path)
    files = RealFiles()
    offsets = JsonTable(files, str(root / "config" / "consumerOffset.json")).load()["offsetTable"]
    assert offsets == manifest["onDisk"]["consumerOffsets"]
    delays = JsonTable(files, str(root / "config" / "delayOffset.json")).load()["offsetTable"]
    assert delays == manifest["onDisk"]["delayOffsets"]
