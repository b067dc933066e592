"""Typed headers: text in, types out, and refusals that name the field."""

from __future__ import annotations

import pytest

from pymq.errors import Refusal
from pymq.wire.header import Header, Int32, Int64, decode_header, encode_header


class Sample(Header, kw_only=True, frozen=True):
    """A header with every kind of field."""

    group_name: str
    queue_id: Int32
    queue_offset: Int64 = 0
    order: bool | None = None


def test_wire_names_are_camel_case_and_values_typed() -> None:
    header = decode_header(Sample, {"groupName": "g", "queueId": "3", "queueOffset": "-1", "order": "true", "zzz": "?"})
    assert header == Sample(group_name="g", queue_id=3, queue_offset=-1, order=True)
    assert encode_header(header) == {"groupName": "g", "queueId": "3", "queueOffset": "-1", "order": "true"}


def test_fields_that_are_none_are_left_out() -> None:
    assert encode_header(Sample(group_name="g", queue_id=0)) == {"groupName": "g", "queueId": "0", "queueOffset": "0"}


def test_empty_text_counts_as_absent_in_fields_that_are_not_text() -> None:
    assert decode_header(Sample, {"groupName": "g", "queueId": "1", "queueOffset": ""}).queue_offset == 0


@pytest.mark.parametrize(
    ("ext", "named"),
    [
        ({}, "groupName"),
        ({"groupName": "g"}, "queueId"),
        ({"groupName": "g", "queueId": "x"}, "queueId"),
        ({"groupName": "g", "queueId": ""}, "queueId"),
        ({"groupName": "g", "queueId": "1.5"}, "queueId"),
        ({"groupName": "g", "queueId": "2147483648"}, "queueId"),
        ({"groupName": "g", "queueId": "1", "queueOffset": "9223372036854775808"}, "queueOffset"),
        ({"groupName": "g", "queueId": "1", "queueOffset": "9" * 5000}, "queueOffset"),
        ({"groupName": "g", "queueId": "1", "order": "maybe"}, "order"),
    ],
)
def test_a_refusal_names_the_field(ext: dict[str, str], named: str) -> None:
    with pytest.raises(Refusal) as caught:
        decode_header(Sample, ext)
    assert caught.value.code == 1
    assert named in caught.value.remark


def test_the_bounds_are_javas() -> None:
    ext = {"groupName": "g", "queueId": "-2147483648", "queueOffset": "9223372036854775807"}
    header = decode_header(Sample, ext)
    assert (header.queue_id, header.queue_offset) == (-(2**31), 2**63 - 1)
