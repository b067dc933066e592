"""Both header codecs: lenient cases, refusals, and the names of the refusals."""

from __future__ import annotations

import struct

import pytest

from pymq.errors import ProtocolViolation
from pymq.wire.command import (
    EXT_FIELD_COUNT_MAX,
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    HEADER_SIZE_MAX_BYTES,
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    Command,
    decode_command,
    encode_command,
    request,
)
from pymq.wire.headers.route import RouteHeader
from pymq.wire.reply import Reply


def payload(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    """Return a frame without its length."""
    return struct.pack(">I", len(header) | kind << 24) + header + body


def reason(raw: bytes) -> str:
    with pytest.raises(ProtocolViolation) as caught:
        decode_command(raw)
    assert str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize("serialize", [0, 1])
def test_a_command_survives_both_codecs(serialize: int) -> None:
    command = Command(
        105,
        opaque=-7,
        flag=FLAG_RESPONSE,
        language="GO",
        version=317,
        remark="ümlaut \n",
        ext={"topic": "T", "k": "ü\x01\x02"},
        body=b"\0body",
        serialize=serialize,
    )
    frame = encode_command(command)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4] == serialize
    assert decode_command(frame[4:]) == command


@pytest.mark.parametrize(("cut", "code"), [(3442, 200050), (3443, 200051), (3447, 200055), (3543, 200151), (11, 11)])
def test_codes_of_pops_that_a_binary_header_cuts_are_whole_again(cut: int, code: int) -> None:
    command = Command(cut, ext={"topic": "T"}, serialize=SERIALIZE_ROCKETMQ)
    assert decode_command(encode_command(command)[4:]).code == code
    command.flag = FLAG_RESPONSE
    assert decode_command(encode_command(command)[4:]).code == cut, "the code of an answer is no request's"


def test_the_binary_header_is_byte_for_byte_what_java_writes() -> None:
    command = Command(105, version=479, ext={"topic": "T"}, serialize=SERIALIZE_ROCKETMQ)
    assert (
        encode_command(command).hex() == "0000002501000021"
        "0069"
        "00"
        "01df"
        "00000000"
        "00000000"
        "00000000"
        "0000000c"
        "0005746f706963"
        "0000000154"
    )


def test_codes_beyond_16_bits_go_out_as_json() -> None:
    command = Command(200050, opaque=3, serialize=SERIALIZE_ROCKETMQ)
    again = decode_command(encode_command(command)[4:])
    assert (again.code, again.opaque, again.serialize) == (200050, 3, 0)


def test_a_request_of_our_own() -> None:
    command = request(105, RouteHeader(topic="T"), oneway=True)
    assert (command.ext, command.flag, command.language) == ({"topic": "T"}, FLAG_ONEWAY, "PYTHON")
    assert command.is_oneway
    assert not command.is_response


def test_fields_that_are_not_text_become_text() -> None:
    raw = b'{"code":1,"opaque":2,"extFields":{"n":5,"b":true,"f":false,"z":null,"o":{"a":[1]},"d":1.5}}'
    assert decode_command(payload(raw)).ext == {"n": "5", "b": "true", "f": "false", "o": '{"a":[1]}', "d": "1.5"}


@pytest.mark.parametrize(
    ("language", "expected"),
    [(b'"GO"', "GO"), (b'"KLINGON"', "KLINGON"), (b"9", "GO"), (b"99", "OTHER"), (b"null", "OTHER")],
)
def test_languages_come_as_names_or_numbers(language: bytes, expected: str) -> None:
    assert decode_command(payload(b'{"code":1,"opaque":2,"language":' + language + b"}")).language == expected


def test_absent_fields_have_defaults_and_unknown_ones_are_ignored() -> None:
    command = decode_command(payload(b'{"opaque":2,"code":1,"zzz":[{}],"extFields":null}'))
    assert (command.flag, command.version, command.remark, command.ext, command.body) == (0, 0, None, {}, b"")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "short-frame"),
        (b"\0\0\0", "short-frame"),
        (payload(b"{}")[:5], "header-length"),
        (b"\0\xff\xff\xff{}", "header-length"),
        (payload(bytes(HEADER_SIZE_MAX_BYTES + 1)), "header-size"),
        (payload(b'{"code":1,"opaque":1}', kind=2), "serialize-type"),
        (payload(b'{"code":1,"opaque":1}', kind=255), "serialize-type"),
        (payload(b""), "json-header"),
        (payload(b"[]"), "json-header"),
        (payload(b"null"), "json-header"),
        (payload(b'"code"'), "json-header"),
        (payload(b"{}"), "json-header"),
        (payload(b'{"code":1}'), "json-header"),
        (payload(b'{"opaque":1}'), "json-header"),
        (payload(b'{"code":null,"opaque":1}'), "json-header"),
        (payload(b'{"code":1.5,"opaque":1}'), "json-header"),
        (payload(b'{"code":2147483648,"opaque":1}'), "json-header"),
        (payload(b'{"code":1,"opaque":-2147483649}'), "json-header"),
        (payload(b'{"code":1,"opaque":1,"flag":99999999999}'), "json-header"),
        (payload(b'{"code":' + b"9" * 100_000 + b',"opaque":1}'), "json-header"),
        (payload(b'{"code":1,"opaque":1,"extFields":[1]}'), "json-header"),
        (payload(b'{"code":1,"opaque":1,"extFields":{"a":' + b"9" * 100_000 + b"}}"), "json-header"),
        (payload(b'{"code":1,"opaque":1,"extFields":{"a":"\xff"}}'), "json-header"),
        (payload(b'{"code":1,"opaque":1,"extFields":{"a":"\\ud800"}}'), "json-header"),
        (payload(b'{"code":1,"opaque":1} x'), "json-header"),
        (payload(b'{"code":1,"opaque":1,"x":' + b"[" * 9 + b"]" * 9 + b"}"), "nesting"),
        (payload(b'{"code":1,"opaque":1,"x":' + b"[" * 400_000), "nesting"),
        (payload(b"", kind=1), "binary-header"),
        (payload(bytes(20), kind=1), "binary-header"),
        (payload(bytes(13) + b"\x7f\xff\xff\xff" + bytes(4), kind=1), "binary-header"),
        (payload(bytes(13) + b"\xff\xff\xff\xff" + bytes(4), kind=1), "binary-header"),
        (payload(bytes(17) + b"\0\0\0\3\0\1k", kind=1), "binary-header"),
        (payload(bytes(17) + b"\0\0\0\7\0\1k\0\0\0\5", kind=1), "binary-header"),
        (payload(bytes(17) + b"\0\0\0\x08\0\1\xff\0\0\0\1v", kind=1), "binary-header"),
        (payload(bytes(17) + b"\0\0\0\x08\xff\xff\0\0\0\0\1v", kind=1), "binary-header"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:24]),
)
def test_commands_that_no_peer_may_send(raw: bytes, expected: str) -> None:
    assert reason(raw) == expected


@pytest.mark.parametrize("count", [EXT_FIELD_COUNT_MAX, EXT_FIELD_COUNT_MAX + 1])
@pytest.mark.parametrize("serialize", [0, 1])
def test_the_number_of_named_fields_is_capped(serialize: int, count: int) -> None:
    frame = encode_command(Command(1, ext={f"k{i}": "v" for i in range(count)}, serialize=serialize))
    if count <= EXT_FIELD_COUNT_MAX:
        assert len(decode_command(frame[4:]).ext) == count
    else:
        assert reason(frame[4:]) == ("ext-count" if serialize == 0 else "binary-header")


def test_brackets_inside_strings_do_not_count_as_nesting() -> None:
    text = '{{{{{{{{{{[[[[[[[[[["\\' * 50
    command = Command(1, opaque=1, ext={"properties": text})
    assert decode_command(encode_command(command)[4:]).ext == {"properties": text}


def test_commands_compare_by_value_and_have_a_repr() -> None:
    assert Command(1, opaque=2) == Command(1, opaque=2)
    assert Command(1, opaque=2) != Command(1, opaque=3)
    other: object = "command"
    assert Command(1) != other
    assert "code=7" in repr(Command(7, flag=FLAG_RESPONSE))


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
def test_an_envelope_is_enough_for_an_answer_and_holds_nothing_large(serialize: int) -> None:
    asked = Command(10, opaque=7, flag=2, ext={"topic": "T"}, remark="why", body=b"body", serialize=serialize)
    assert asked.envelope() == Command(10, opaque=7, flag=2, serialize=serialize)
    reply = Reply(1, "no")
    assert reply.to_command(asked.envelope()) == reply.to_command(asked)
