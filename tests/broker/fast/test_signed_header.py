"""Binary headers of signed sends: what is read of them is what the plain path reads, or the plain path reads them."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.broker.fast.header import SendExt
from pymq.broker.fast.signed_header import (
    SHAPE_SIZE_MAX_BYTES,
    SHAPES_MAX,
    SHAPES_OF_BEGIN_MAX,
    SignedBinaryExt,
    SignedBinaryTemplates,
)
from pymq.security.signature import ACCESS_KEY, LATE_FIELD, SIGNATURE, Secret, signed_content, signed_fields
from pymq.wire.command import decode_command
from tests.broker.fast.test_send import ordinary

SECRET = Secret("a-secret-of-a-producer")
Fields = list[tuple[str, str]]


def payload_of(fields: Fields, body: bytes = b"body", opaque: int = 7) -> bytes:
    """Return a frame without its length; fields may stand in it twice, in any order, and be empty."""
    ext = b"".join(
        struct.pack(">h", len(name.encode())) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in fields
    )
    header = struct.pack(">hBhii", 310, 0, 479, opaque, 0) + struct.pack(">i", 0) + struct.pack(">i", len(ext)) + ext
    return b"\x01" + len(header).to_bytes(3, "big") + header + body


def signed(body: bytes = b"body", **changes: Any) -> Fields:
    return list(signed_fields("producer", SECRET, ordinary(**changes), body).items())


def as_java(fields: Fields) -> Fields:
    """Return the fields as Java's client writes them when a hook has signed: those of the header twice."""
    own = [(name, value) for name, value in fields if len(name) == 1]
    middle = len(fields) // 2
    return own + fields[middle:] + fields[:middle]


def read(templates: SignedBinaryTemplates, payload: bytes) -> SignedBinaryExt | None:
    head = templates.decode(payload, 4 + int.from_bytes(payload[1:4], "big"))
    if head is None or not isinstance(head.extFields, SignedBinaryExt):
        return None
    return head.extFields


def check(templates: SignedBinaryTemplates, payload: bytes) -> bool:
    """True when the header is read; then it is as the plain path reads it."""
    ext = read(templates, payload)
    if ext is None:
        return False
    command = decode_command(payload)
    fields = command.ext
    assert ext.content + command.body == signed_content(fields, command.body)
    assert (ext.access_key, ext.signature.decode()) == (fields[ACCESS_KEY], fields[SIGNATURE])
    always = msgspec.structs.fields(SendExt)[:9]
    assert [str(getattr(ext, each.name)) for each in always] == [fields[each.encode_name] for each in always]
    return True


@pytest.mark.parametrize("order", [list, as_java])
def test_a_known_shape_is_read_with_other_times_properties_and_signatures(order: Any) -> None:
    templates = SignedBinaryTemplates()
    for number in range(40):
        body = b"x" * number
        fields = signed(body, g=str(1795248962945 + number), i=f"UNIQ_KEY\x01{number:03X}é\x02" + "K" * number)
        assert check(templates, payload_of(order(fields), body, opaque=number))
    assert templates._shape_count == 1


@given(
    st.lists(st.sampled_from([*"abcdefghijlmn", "k", "gg", "Z", ACCESS_KEY, SIGNATURE, LATE_FIELD, "é"]), max_size=4),
    st.sampled_from(["", "0", "7", "1795248962945", "S" * 28, "\x00\x01g\x00\x00\x00\x0d"]),
    st.integers(0, 30),
)
def test_what_is_read_is_what_the_plain_path_reads(names: list[str], value: str, at: int) -> None:
    """Also when a shape that was learned from one header is met by another."""
    templates = SignedBinaryTemplates()
    fields = signed()
    assert check(templates, payload_of(fields))
    changed = fields[:at] + [(name, value) for name in names] + fields[at:]
    check(templates, payload_of(changed))
    check(templates, payload_of([(name, "1795248962946" if name == "g" else value) for name, value in changed]))
    assert check(templates, payload_of(signed(i="other")))


@pytest.mark.parametrize(
    "more",
    [
        [("g", "1795248962999")],
        [("i", "other")],
        [("h", "1")],
        [("gg", "between the varying")],
        [("é", "ordered in another way")],
        [(LATE_FIELD, "not covered")],
        [(SIGNATURE, "S" * 28)],
        [("o", "o" * SHAPE_SIZE_MAX_BYTES)],
    ],
    ids=lambda more: more[0][0],
)
def test_others_take_the_plain_path(more: Fields) -> None:
    templates = SignedBinaryTemplates()
    for fields in (signed(), as_java(signed())):
        assert read(templates, payload_of(fields + more)) is None
        assert read(templates, payload_of(fields)) is not None
    without = [(name, value) for name, value in signed() if name != ACCESS_KEY]
    assert read(templates, payload_of(without)) is None
    short = [(name, value[:27] if name == SIGNATURE else value) for name, value in signed()]
    assert read(templates, payload_of(short)) is None or read(SignedBinaryTemplates(), payload_of(short)) is None


def test_few_shapes_are_kept() -> None:
    templates = SignedBinaryTemplates()
    for number in range(SHAPES_OF_BEGIN_MAX + 3):
        assert check(templates, payload_of(signed(n=f"broker-{number}")))
    assert templates._shape_count == SHAPES_OF_BEGIN_MAX == sum(map(len, templates._shapes.values()))
    for number in range(SHAPES_MAX):
        assert read(templates, payload_of(signed(a=f"producer-{number}"))) is not None
    assert templates._shape_count == SHAPES_OF_BEGIN_MAX
    assert sum(map(len, templates._shapes.values())) == templates._shape_count
