"""Properties found in raw bytes equal those of the decoder, in every kind of record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.filter.raw_properties import SEPARATOR, getter, source_of
from pymq.model import sysflag
from pymq.model.hosts import pack_host
from pymq.model.properties import decode_properties
from pymq.model.record import encode_record

RAW = st.lists(st.sampled_from(["a", "b", "ab", "x", "\x01", "\x02", "\x01", "\x02"]), max_size=30).map("".join)


@given(RAW)
def test_found_as_decoded(raw: str) -> None:
    properties = decode_properties(raw.encode())
    for name in ("a", "b", "ab", "x"):
        value = getter(name)(SEPARATOR + raw.encode())
        assert (None if value is None else value.decode()) == properties.get(name)


@pytest.mark.parametrize("flags", [0, sysflag.BORN_HOST_V6, sysflag.STORE_HOST_V6])
@pytest.mark.parametrize("topic", ["T", "t" * 127, "t" * 200])
@pytest.mark.parametrize("raw", [b"", b"a\x015\x02"])
def test_the_source_of_a_record(flags: int, topic: str, raw: bytes) -> None:
    record = encode_record(
        topic=topic.encode(),
        body=b"\x02a\x019\x02",
        properties=raw,
        queue_id=0,
        flag=0,
        sys_flag=flags,
        queue_offset=3,
        physical_offset=4,
        born_timestamp_ms=5,
        born_host=pack_host("::1" if flags & sysflag.BORN_HOST_V6 else "127.0.0.1", 1),
        store_timestamp_ms=6,
        store_host=pack_host("::1" if flags & sysflag.STORE_HOST_V6 else "127.0.0.1", 1),
        reconsume_times=0,
        prepared_transaction_offset=0,
    )
    assert source_of(memoryview(record)) == SEPARATOR + raw
