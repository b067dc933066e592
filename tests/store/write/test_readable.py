"""The log takes nothing that a reader would not take back, whatever it is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import DoesNotFitError
from pymq.model.draft import Draft
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES
from pymq.model.record import decode_record, encode_batch_entry
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.scan.scanner import End, is_torn, scan
from pymq.store.store import MessageStore
from pymq.store.write.readable import check_properties
from tests.store.support import BORN, make_store

SEGMENT_BYTES = 1 << 16
V6 = bytes(range(16)) + b"\x00\x00\x2a\x9f"
HOSTS = st.sampled_from([BORN, V6, bytes(7), b""])
INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([2**31, -(2**31) - 1, 2**40])
INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63, -(2**63) - 1])
PROPERTIES = st.one_of(
    st.binary(max_size=40),
    st.integers(32_500, 33_500).map(lambda size: b"K\x01" + b"v" * (size - 3) + b"\x02"),
    st.sampled_from([b"", b"A\x01b\x02", b"A\x01\0\x02", b"\0" * 600, b"A\x01b\0"]),
)
TOPICS = st.sampled_from(["T", "%RETRY%" + "g" * 121, "%DLQ%" + "t" * 250])
CALL = st.fixed_dictionaries(
    {
        "way": st.sampled_from(["stage", "many", "inner", "plain", "batch"]),
        "topic": TOPICS,
        "body": st.binary(max_size=30) | st.integers(30_000, 34_000).map(bytes),
        "properties": PROPERTIES,
        "flag": INT32,
        "sys_flag": INT32.map(lambda flags: flags & ~0x8C),  # transactions and inner batches have their own ways
        "born_timestamp_ms": INT64,
        "born_host": HOSTS,
        "reconsume_times": INT32,
        "prepared": INT64,
        "count": st.integers(1, 9),
    }
)


def ask(store: MessageStore, call: dict[str, Any]) -> int:
    """Stage what is asked for; return how many records that is."""
    host, topic, body, properties = call["born_host"], call["topic"], call["body"], call["properties"]
    draft = Draft(
        body, properties, call["born_timestamp_ms"], host, 0, call["flag"], call["sys_flag"], properties,
        call["reconsume_times"],
    )  # fmt: skip
    stager = store.plain_stager()
    if call["way"] == "stage":
        draft.prepared_transaction_offset = call["prepared"]
        store.stage(topic, 0, draft)
        return 1
    if call["way"] == "many":
        store.stage_many(topic, 0, [draft] * call["count"])
        return int(call["count"])
    if call["way"] == "inner":
        store.stage_inner(topic + "i" if len(topic) < 9 else topic[:-1], 0, draft, call["count"])
        return 1
    queue = stager.queue(topic, 0)
    if queue is None or len(host) != len(BORN):
        return 0
    if call["way"] == "plain":
        draft.prepared_transaction_offset = call["prepared"]
        stager.stage(queue, draft)
        return 1
    if len(properties) > PROPERTIES_SIZE_MAX_BYTES:
        return 0
    draft.body = encode_batch_entry(body, properties) * call["count"]
    draft.properties = b"S\x01" + b"s" * call["count"] + b"\x02"
    taken = stager.stage_batch(queue, draft, 100, ())
    return 0 if taken is None else len(taken[0])


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(CALL, min_size=1, max_size=8))
def test_what_is_taken_can_be_read_back_and_a_refusal_leaves_nothing(calls: list[dict[str, Any]]) -> None:
    store = make_store(MemoryFiles(), ManualClock(), segment_size_bytes=SEGMENT_BYTES, index_enabled=False)
    store.open()
    wanted = 0
    for number, call in enumerate(calls):
        try:
            wanted += ask(store, call)
        except DoesNotFitError:
            pass
        if number % 2:
            store.commit()
    store.stage("T", 0, Draft(b"last", b"", 0, BORN))
    store.commit()
    found = list(scan(store._log, 0, check_crc=True))
    assert isinstance(found[-1], End) and found[-1].offset == store.physical_max_offset
    records = [record for record in found if not isinstance(record, End)]
    assert len(records) == wanted + 1
    assert not [record for record in records if is_torn(record, record.offset % SEGMENT_BYTES)]
    for record in records:
        decode_record(store.record_at(record.offset), check_crc=True)
    store._release()


def test_the_edges() -> None:
    check_properties(b"a" * PROPERTIES_SIZE_MAX_BYTES)
    for text, refuse in (
        ("32768 bytes, the limit is 32767", lambda: check_properties(b"a" * (PROPERTIES_SIZE_MAX_BYTES + 1))),
        ("a NUL at byte 2", lambda: check_properties(b"a\x01\0\x02")),
    ):
        with pytest.raises(DoesNotFitError, match=text):
            refuse()
