"""Rows become the same bytes in the same queues as messages of the client, and ids that repetitions share."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.client.outgoing import own_properties
from pymq.client.parcel import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from pymq.client.queue_picker import queue_of_key
from pymq.errors import UsageError
from pymq.model.compression import decompress_body
from pymq.model.javahash import string_hash
from pymq.model.message import Message, MessageQueue
from pymq.model.properties import UNIQ_KEY, decode_properties
from pymq.model.record import decode_batch
from pymq.spark.sink import message_rows
from pymq.spark.sink.message_properties import RowError
from pymq.spark.sink.message_rows import COLUMNS_MAX, COMPRESS_ABOVE_BYTES, Requests, RowEncoder, key_hashes
from pymq.spark.sink.seen_hashes import Occurrences

QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(3)]
WAIT = "WAIT\x01true\x02"
_text = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=6)
_maybe = st.none() | _text
_rows = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=9) | st.just(b"x" * (COMPRESS_ABOVE_BYTES + 1)),
        "tags": _maybe | st.just(""),
        "keys": _maybe,
        "orderingKey": _maybe,
        "properties": st.dictionaries(_text.map(lambda name: f"p{name}"), _text, max_size=3),
        "delayLevel": st.sampled_from([None, None, 0, 3, 18]),
    }
)
_TYPES = {
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "orderingKey": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "delayLevel": pa.int32(),
}


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = {}
    for name, kind in _TYPES.items():
        values = [list(row[name].items()) if name == "properties" else row[name] for row in rows]
        columns[name] = pa.array(values, kind)
    return pa.record_batch(columns)


def encoder(partition: int = 0, **settings: Any) -> RowEncoder:
    return RowEncoder("write", partition, lambda _topic: QUEUES, topic="T", **settings)


def sent(found: Requests) -> list[tuple[MessageQueue, bytes, bytes]]:
    """Return (queue, body, properties) of all messages in the order of their requests."""
    messages = []
    for outgoing, queue in found.requests:
        assert outgoing.properties.endswith(WAIT)
        if outgoing.batch:
            entries = decode_batch(outgoing.body)
            assert 1 < len(entries) <= BATCH_MESSAGES_MAX and len(outgoing.body) <= BATCH_BYTES_MAX
            messages += [(queue, body, properties) for _, body, properties in entries]
        else:
            body = decompress_body(outgoing.body, outgoing.sys_flag)
            messages.append((queue, body, outgoing.properties.removesuffix(WAIT).encode()))
    return messages


def id_of(properties: bytes) -> str:
    return decode_properties(properties)[UNIQ_KEY]


@given(st.lists(_rows, min_size=1, max_size=12), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_messages_are_those_of_the_client(rows: list[dict[str, Any]], cut: int) -> None:
    found = encoder().encode(batch_of([*rows[:cut], *rows]).slice(min(cut, len(rows))))
    left = Counter(range(len(rows)))
    messages = sent(found)
    for queue, body, properties in messages:
        for at in left:  # in order for each queue, so the first row that fits is the one
            row = rows[at]
            message = Message(
                "T",
                row["body"],
                row["tags"] or "",
                row["keys"] or "",
                row["properties"],
                delay_level=row["delayLevel"] or 0,
            )
            key = row["orderingKey"]
            if (
                own_properties(message, id_of(properties), key) == (properties, id_of(properties))
                and body == row["body"]
            ):
                assert key is None or queue == queue_of_key(QUEUES, key)
                break
        else:
            pytest.fail(f"{properties!r} is of no row")
        del left[at]
    assert not left and found.counts == {"T": len(rows)}
    assert len({id_of(properties) for _, _, properties in messages}) == len(rows)


@given(
    st.lists(st.none() | st.text(max_size=5) | st.sampled_from(["k" * COLUMNS_MAX, "k" * (COLUMNS_MAX + 1), "é" * 70]))
)
@settings(max_examples=40, deadline=None)
def test_hashes_of_keys_are_those_of_the_client(keys: list[str | None]) -> None:
    column = pa.array(["first", *keys], pa.string()).slice(1)
    assert key_hashes(column).tolist() == [0 if key is None else abs(string_hash(key)) for key in keys]


def test_the_hash_that_has_no_absolute_value_in_java() -> None:
    key = "polygenelubricants"  # its hash is -2**31
    assert string_hash(key) == -(2**31) and key_hashes(pa.array([key])).tolist() == [2**31]


@given(st.lists(st.lists(st.integers(0, 5))))
@settings(max_examples=40, deadline=None)
def test_occurrences_are_counted_over_all_batches(batches: list[list[int]]) -> None:
    occurrences, counts = Occurrences(), Counter[int]()
    for batch in batches:
        expected = {}
        for row, value in enumerate(batch):
            if counts[value]:
                expected[row] = counts[value]
            counts[value] += 1
        assert occurrences.numbers(np.array(batch, np.uint64)) == expected


def test_a_repetition_has_the_same_ids_and_queues_in_any_order_of_rows() -> None:
    bodies = [b"%d" % (number % 40) for number in range(100)]
    shuffled = random.Random(1).sample(bodies, len(bodies))

    def stored(order: list[bytes], size: int, partition: int = 0) -> list[tuple[MessageQueue, bytes, bytes]]:
        encoding = encoder(partition)
        parts = [order[first : first + size] for first in range(0, len(order), size)]
        return sorted(
            message
            for part in parts
            for message in sent(encoding.encode(pa.record_batch({"body": pa.array(part, pa.binary())})))
        )

    assert stored(bodies, 100) == stored(shuffled, 7)
    ids = {id_of(properties) for _, _, properties in stored(bodies, 100)}
    assert len(ids) == 100
    assert ids.isdisjoint(id_of(properties) for _, _, properties in stored(bodies, 100, partition=1))


def test_batches_are_cut_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_rows, "BATCH_MESSAGES_MAX", 100)
    many = pa.record_batch({"body": pa.array([b"x"] * 606), "queueKey": pa.array(["k"] * 606)})
    assert [len(decode_batch(one.body)) for one, _ in encoder().encode(many).requests] == [100] * 6 + [6]
    large = pa.record_batch({"body": pa.array([b"x" * COMPRESS_ABOVE_BYTES] * 200), "queueKey": pa.array(["k"] * 200)})
    assert max(len(one.body) for one, _ in encoder().encode(large).requests) <= BATCH_BYTES_MAX


def test_copied_properties_are_all_that_a_message_has() -> None:
    pairs = [("TAGS", "a"), ("UNIQ_KEY", "U1"), ("DELAY", "3"), ("TRAN_MSG", "true"), ("CLUSTER", "c"), ("x", "1")]
    rows = {"body": pa.array([b"1", b"2"]), "properties": pa.array([pairs, [("y", "2")]], _TYPES["properties"])}
    messages = {
        body: properties for _, body, properties in sent(encoder(copies_properties=True).encode(pa.record_batch(rows)))
    }
    assert messages[b"1"] == b"TAGS\x01a\x02UNIQ_KEY\x01U1\x02x\x011\x02"
    assert list(decode_properties(messages[b"2"])) == ["y", "UNIQ_KEY"]


@pytest.mark.parametrize(
    ("name", "values", "kind", "expected"),
    [
        ("topic", ["T", ""], pa.string(), "the topic"),
        ("topic", ["T", None], pa.string(), "its topic is null"),
        ("tags", ["a", "a\x01b"], pa.string(), "its TAGS has one of the separators"),
        ("keys", [["a"], ["a b"]], pa.list_(pa.string()), "'a b' is no key"),
        ("key", [b"a", b"\xff"], pa.binary(), "its key is not UTF-8"),
        ("orderingKey", [None, ""], pa.string(), "its key is empty"),
        ("queueId", [None, 0], pa.int32(), "is on several brokers"),
        ("delayLevel", [18, 19], pa.int32(), "its delayLevel is 19"),
        ("delayMs", [1, -1], pa.int64(), "its delayMs is -1"),
        ("properties", [[("a", "b")], [("KEYS", "x")]], _TYPES["properties"], "'KEYS' is RocketMQ's own"),
        ("properties", [[("a", "b")], [("c", "x\x02")]], _TYPES["properties"], "'c' has one of the separators"),
        (
            "headers",
            [[], [{"key": "a", "value": b"\xff"}]],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            "a header's value is not UTF-8",
        ),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(name: str, values: list[Any], kind: pa.DataType, expected: str) -> None:
    columns = {"body": pa.array([b"x", b"y"]), name: pa.array(values, kind)}
    with pytest.raises(RowError, match=expected) as caught:
        RowEncoder("write", 0, _queues).encode(pa.record_batch({"topic": pa.array(["T", "T"]), **columns}))
    assert caught.value.row == 1


def _queues(topic: str) -> list[MessageQueue]:
    if not topic:
        raise UsageError("the topic is empty")
    return QUEUES


def test_rows_over_a_limit_are_left_out_and_said() -> None:
    rows = {"body": pa.array([b"x" * 10, b"x" * 11, b"y"]), "tags": pa.array(["a", "a", "t" * 33_000])}
    found = encoder(body_size_max_bytes=10).encode(pa.record_batch(rows))
    assert found.counts == {"T": 1} and [one.row for one in found.unsendable] == [1, 2]
    assert "its body has 11 bytes, the limit is 10" in found.unsendable[0].reason
    assert "its properties have" in found.unsendable[1].reason
    assert [body for _, body, _ in sent(found)] == [b"x" * 10]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_rows_without_a_body_are_left_out_and_said(kind: pa.DataType) -> None:
    bodies = pa.array([None, "x", "", "y", None], kind)
    found = encoder().encode(pa.record_batch({"body": bodies}))
    reasons = {one.row: one.reason for one in found.unsendable}
    null, empty = "its body is null", "its body is empty: brokers refuse that"
    assert reasons == {0: null, 2: empty, 4: null} and found.counts == {"T": 2}
    assert sorted(body for _, body, _ in sent(found)) == [b"x", b"y"]
    by_topic = pa.record_batch({"body": bodies, "topic": pa.array(["T", "U", "U", "T", "U"])})
    again = RowEncoder("write", 0, _queues).encode(by_topic)
    assert {one.row: one.reason for one in again.unsendable} == reasons and again.counts == {"T": 1, "U": 1}
    assert not encoder().encode(pa.record_batch({"body": pa.array([None], kind)})).requests


def test_the_forms_of_kafka_and_of_timers() -> None:
    rows = {
        "value": pa.array(["v"]),
        "key": pa.array([b"k"]),
        "headers": pa.array(
            [[{"key": "h", "value": b"1"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
        "deliverAt": pa.array([1_800_000_000_123_456], pa.timestamp("us", tz="UTC")),
    }
    ((queue, body, properties),) = sent(encoder().encode(pa.record_batch(rows)))
    assert (queue, body) == (queue_of_key(QUEUES, "k"), b"v")
    pairs = decode_properties(properties)
    assert pairs.pop("UNIQ_KEY") and pairs == {
        "h": "1", "KEYS": "k", "TIMER_DELIVER_MS": "1800000000123", "__SHARDINGKEY": "k",
    }  # fmt: skip
