"""A directory of a real RocketMQ 5.3.3 broker with a topic of ``queue.type=BatchCQ`` (30 batches of 1 to 11 messages,
single messages between them, and a batch without a unique key) is served, and its units are made again byte by byte."""

from __future__ import annotations

import shutil
from pathlib import Path

from pymq.clock import ManualClock
from pymq.model.inner_batch import is_inner_batch, unwrapped
from pymq.model.record import StoredMessage, decode_records
from pymq.offline.directory import open_directory
from pymq.offline.dump import DumpedMessages, DumpSelection
from pymq.offline.verify import verify
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore, StoreSettings
from tests.golden_stores import unpack_files

STORE = "store-batches"
TOPIC = "batches"
ENDS = [84, 121]  # what Apache's broker answered to GET_MAX_OFFSET, before a delayed message came to queue 0
BODY_COUNT = sum(1 + number * 7 % 11 for number in range(30))  # of the batches


def open_store(root: Path) -> MessageStore:
    settings = StoreSettings(
        segment_size_bytes=65536, queue_file_size_bytes=2000, batch_queue_file_size_bytes=920, index_slot_count=500,
        index_entry_count=2000,
    )  # fmt: skip
    clock = ManualClock(1_900_000_000_000)
    store = MessageStore(root=str(root), files=RealFiles(), clock=clock, settings=settings)
    store.open()
    return store


def records(store: MessageStore, queue_id: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset = store.min_offset(TOPIC, queue_id)
    while offset < store.max_offset(TOPIC, queue_id):
        result = store.get(TOPIC, queue_id, offset, 32, 1 << 20)
        found += decode_records(b"".join(result.chunks))
        assert result.next_offset > offset
        offset = result.next_offset
    return found


def units(root: Path) -> dict[str, bytes]:
    files = sorted((root / "batchconsumequeue").rglob("0*"))
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}


def check(store: MessageStore) -> None:
    bodies = []
    for queue_id, end in enumerate(ENDS):
        found = records(store, queue_id)
        messages = list(unwrapped(found))
        assert [m.queue_offset for m in messages] == list(range(store.max_offset(TOPIC, queue_id)))
        assert store.max_offset(TOPIC, queue_id) - end in (0, 1)
        for record in filter(is_inner_batch, found):
            assert record.properties["INNER_BASE"] == str(record.queue_offset)
        bodies += [m.body for m in messages if m.body.startswith(b"body ")]
    assert {body.split(b"body ")[1] for body in bodies} == {b"%d" % number for number in range(BODY_COUNT)}
    assert len(bodies) == BODY_COUNT


def test_every_message_is_served_and_stays_after_restarts(tmp_path: Path) -> None:
    root = unpack_files(STORE, tmp_path)
    for _ in range(2):
        store = open_store(root)
        check(store)
        (older,) = store.find_by_key(TOPIC, "OLDER1", 32)
        assert decode_records(older)[0].body == b"older 1"  # of the batch without a unique key of its own
        store.close()


def test_units_are_made_again_as_apache_wrote_them(tmp_path: Path) -> None:
    root = unpack_files(STORE, tmp_path)
    written = units(root)
    shutil.rmtree(root / "batchconsumequeue")
    (root / "checkpoint").unlink()
    store = open_store(root)
    check(store)
    store.close()
    assert units(root) == written != {}


def test_the_tools_find_the_directory_sound_and_dump_single_messages(tmp_path: Path) -> None:
    root = unpack_files(STORE, tmp_path)
    store = open_store(root)
    ends = [store.max_offset(TOPIC, queue_id) for queue_id in range(2)]
    store.close()
    directory = open_directory(RealFiles(), str(root))
    try:
        assert verify(directory).sound
        dumped = [m for m, _ in DumpedMessages(directory.log, DumpSelection(frozenset({TOPIC})), print)]
    finally:
        directory.close()
    assert len(dumped) == sum(ends)
    unit = next((root / "batchconsumequeue").rglob("0*0"))
    with unit.open("r+b") as file:
        file.seek(46 + 28)
        file.write(b"\x01")
    directory = open_directory(RealFiles(), str(root))
    try:
        assert not verify(directory).sound
    finally:
        directory.close()
