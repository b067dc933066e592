"""The quick look at a batch's properties finds what the decoder finds, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.inner_batch import INNER_FLAGS, own_properties, sized_entries, with_single_records
from pymq.model.record import MalformedRecordError, decode_batch, decode_records, encode_batch_entry
from tests.spark.record_bytes import lying, record


def decoded(entries: bytes) -> tuple[int, int, bytes]:
    """Return what the decoder finds."""
    try:
        owns = [own for _, _, own in decode_batch(entries)]
    except MalformedRecordError:
        return 0, 0, b""
    return len(owns), max(map(len, owns), default=0), b"".join(len(own).to_bytes(2, "big") + own for own in owns)


def looked_at(entries: bytes) -> tuple[int, int, bytes]:
    """Return what the quick looks find."""
    found = own_properties(entries)
    assert sized_entries(entries) == found[:2]
    return found


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=3), st.binary(max_size=4)), max_size=6),
    st.integers(1, 5),
    st.integers(0, 120),
    st.integers(0, 255),
)
def test_properties_are_those_of_the_decoder_however_entries_are_damaged(
    entries: list[tuple[int, bytes, bytes]], times: int, at: int, value: int
) -> None:
    body = b"".join(encode_batch_entry(content, own, flag) for flag, content, own in entries) * times
    assert looked_at(body) == decoded(body)
    if body:
        damaged = bytearray(body)
        damaged[at % len(body)] = value
        for each in (bytes(damaged), bytes(damaged[: at % len(body)]), body + bytes(damaged[:at])):
            assert looked_at(each) == decoded(each)


def test_batches_of_any_length_are_looked_at() -> None:
    entry = encode_batch_entry(b"body", b"UNIQ_KEY\x01a\x02")
    for count in (1, 2, 1024, 1025, 5000):
        assert looked_at(entry * count) == decoded(entry * count)


def test_a_record_whose_lengths_lie_hides_none_beside_a_batch() -> None:
    body = encode_batch_entry(b"one", b"") + encode_batch_entry(b"two", b"")
    flags, properties = INNER_FLAGS, b"INNER_NUM\x012\x02"
    batch = record(5, body, sys_flag=flags, properties=properties)
    for bad in (lying(record(4)), lying(record(7), "topic")):
        for raw in (bad + batch, batch + bad, bad + batch + bad):
            left_out: list[MalformedRecordError] = []
            found = decode_records(with_single_records(raw, 0), left_out.append)
            assert [(one.queue_offset, one.body) for one in found] == [(5, b"one"), (6, b"two")]
            assert len(left_out) == raw.count(bad)
    with pytest.raises(MalformedRecordError):
        with_single_records(batch + bytes(100), 0)


def test_a_length_of_properties_with_the_sign_bit_is_no_batch_for_the_decoder() -> None:
    entry = encode_batch_entry(b"", b"x" * 0x7FFF)
    longer = (len(entry) + 1).to_bytes(4, "big") + entry[4:20] + b"\x80\x00" + b"x" * 0x8000
    assert decoded(longer) == (0, 0, b"")
    assert own_properties(longer)[1] == 0x8000  # longer than any record's properties: the caller declines
