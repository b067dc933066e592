"""Rows of messages: short, and without contents where none is shown."""

from __future__ import annotations

import pytest

from pymq.console.messages.rows import BEGIN_BYTES, HIDDEN, LABEL_CHARACTERS_MAX, body_begin, message_row
from pymq.model import sysflag
from pymq.model.compression import compress_body
from tests.console.messages.world import BEGUN_MS, stored


def test_a_row_has_the_names_of_a_record() -> None:
    row = message_row(stored(5, b"hello", TAGS="paid", KEYS="a b", UNIQ_KEY="7F01"), shows_bodies=True)
    assert row | {"store_time": ""} == {
        "topic": "orders",
        "broker": "broker-a",
        "queue": 0,
        "offset": 5,
        "message_id": "7F01",
        "id": "broker-a:0:5",
        "tags": "paid",
        "keys": "a b",
        "store_time": "",
        "store_timestamp_ms": BEGUN_MS + 5000,
        "reconsume_times": 0,
        "size_bytes": 205,
        "body_begin": "hello",
    }


def test_without_bodies_contents_are_unknown_and_places_stay() -> None:
    row = message_row(stored(5, b"secret", TAGS="secret", KEYS="secret"), shows_bodies=False)
    assert "secret" not in str(row) and row["id"] == "broker-a:0:5"
    assert all(row[name] is None for name in HIDDEN if name in row)


def test_long_labels_are_shortened() -> None:
    row = message_row(stored(5, TAGS="t" * 300, KEYS="k" * LABEL_CHARACTERS_MAX), shows_bodies=True)
    assert row["tags"] == "t" * LABEL_CHARACTERS_MAX + "\u2026" and row["keys"] == "k" * LABEL_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("body", "begin"),
    [
        (b"", ""),
        (b"x" * (BEGIN_BYTES - 1), "x" * (BEGIN_BYTES - 1)),
        (b"x" * 300, "x" * BEGIN_BYTES + "\u2026"),
        (("x" * (BEGIN_BYTES - 1) + "é").encode(), "x" * (BEGIN_BYTES - 1) + "\u2026"),
        (b"\xff\x00", "<binary: ff 00>"),
        (b"\xff" * 33, "<binary: " + " ".join(["ff"] * 32) + " \u2026>"),
    ],
)
def test_the_begin_of_a_body_is_text_or_some_bytes(body: bytes, begin: str) -> None:
    assert body_begin(stored(0, body)) == begin


def test_of_a_compressed_body_the_begin_alone_is_inflated_and_a_damaged_one_says_so() -> None:
    body, flag = compress_body(b"y" * 3_000_000)
    assert body_begin(stored(0, body, sys_flag=flag)) == "y" * BEGIN_BYTES + "\u2026"
    assert "can't be inflated" in body_begin(stored(0, b"\xff" * 9, sys_flag=sysflag.COMPRESSED))
