"""Bodies are shown as what they are; a bad one says why, and is shown as bytes."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest

from pymq.console.messages import bodies as module
from pymq.console.messages.bodies import (
    HEX_BYTES,
    SHOWN_BYTES,
    TREE_BYTES_MAX,
    TREE_DEPTH_MAX,
    TREE_NODES_MAX,
    BodyView,
    content_of,
    hex_rows,
    view_of,
)
from pymq.errors import UsageError
from pymq.model import sysflag
from pymq.model.compression import compress_body
from tests.console.messages.world import stored


def view(
    body: bytes, kind: str = "auto", charset: str = "utf-8", bytes_max: int | None = None, flag: int = 0
) -> BodyView:
    return view_of(stored(0, body, sys_flag=flag), kind, charset, bytes_max)


def test_an_object_of_json_is_a_tree() -> None:
    shown = view(b'{"id": 17, "tags": ["a", null, true], "user": {"name": "Bob"}, "price": 1.5}')
    assert shown.kind == "json" and shown.tree is not None and not shown.notes
    assert (shown.tree.kind, shown.tree.text) == ("object", "4 members")
    number, tags, user, price = shown.tree.children
    assert (number.name, number.kind, number.text) == ("id", "number", "17")
    assert [(one.name, one.text) for one in tags.children] == [("0", "a"), ("1", "null"), ("2", "true")]
    assert tags.text == "3 items" and user.text == "1 member" and price.text == "1.5"


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"hello", "text"), (b"", "text"), (b"17", "text"), (b"\x00\x01\xff", "hex"), (b"{no json", "text")],
)
def test_what_a_body_is_is_found_out(body: bytes, kind: str) -> None:
    assert view(body).kind == kind


def test_a_body_that_is_not_what_was_asked_for_says_so_and_is_shown() -> None:
    shown = view(b"{no json", "json")
    assert shown.kind == "text" and "no JSON" in shown.notes[0] and shown.text == "{no json"
    shown = view(b"\xc1", "msgpack")
    assert shown.kind == "hex" and "no MessagePack" in shown.notes[0]


def test_message_pack_is_a_tree_with_its_bytes_in_hex() -> None:
    shown = view(msgspec.msgpack.encode({"raw": b"\x00\xff"}), "msgpack")
    assert shown.kind == "msgpack" and shown.tree is not None and shown.tree.children[0].text == "00 ff"


def test_a_text_is_read_in_its_charset_and_bytes_that_are_none_are_marked() -> None:
    assert view("世界".encode("gb18030"), "text", "gb18030").text == "世界"
    assert view("世界".encode("gb18030")).kind == "hex"
    shown = view(b"caf\xe9", "text")
    assert shown.text == "caf\ufffd" and "not all of it is utf-8" in shown.notes[0]


def test_a_character_at_the_cut_does_not_make_a_text_binary() -> None:
    shown = view(("x" * (SHOWN_BYTES - 1) + "é" * 100).encode())
    assert shown.kind == "text" and not shown.notes and shown.is_cut and shown.shown_bytes == SHOWN_BYTES


def test_a_large_body_is_cut_where_it_was_asked_to_be() -> None:
    assert view(b"x" * 100_000).shown_bytes == SHOWN_BYTES
    assert view(b"x" * 100_000, bytes_max=80_000).shown_bytes == 80_000
    shown = view(b"\xff" * 100_000)
    assert shown.kind == "hex" and shown.shown_bytes == HEX_BYTES and shown.size_bytes == 100_000


def test_a_tree_has_limits() -> None:
    wide = view(json.dumps(list(range(5000))).encode())
    assert wide.tree is not None
    assert len(wide.tree.children) + wide.tree.left_out == 5000 and len(wide.tree.children) == TREE_NODES_MAX - 1
    deep = view(b"[" * 100 + b"]" * 100)
    node, depth = deep.tree, 0
    while node is not None and node.children:
        node, depth = node.children[0], depth + 1
    assert depth == TREE_DEPTH_MAX and node is not None and node.left_out == 1
    assert view(b"[" * 100_000).kind == "text"
    large = view(json.dumps(["x" * 1000] * (TREE_BYTES_MAX // 1000)).encode(), bytes_max=100)
    assert large.kind == "text" and "not shown as a tree" in large.notes[0]
    assert view(json.dumps({"a": "x" * 10_000}).encode()).tree.children[0].text.endswith("(10,000 characters)")


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_compressed_bodies_are_inflated(kind: str) -> None:
    body, flag = compress_body(b'{"id": 17}', kind)
    shown = view(body, flag=flag)
    assert shown.kind == "json" and shown.size_bytes == 10 and not shown.notes


def test_a_body_that_can_not_be_inflated_is_shown_as_it_is_stored() -> None:
    shown = view(b"\x00no zlib", flag=sysflag.COMPRESSED)
    assert shown.kind == "hex" and "can't be inflated" in shown.notes[0] and "as they are stored" in shown.notes[0]


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_a_bomb_is_inflated_as_far_as_it_may(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INFLATED_BYTES_MAX", 100_000)
    body, flag = compress_body(b"x" * 3_000_000, kind)
    shown = view(body, flag=flag)
    assert shown.kind == "text" and shown.size_bytes is None and shown.is_cut and "inflates beyond" in shown.notes[0]
    assert not content_of(stored(0, body, sys_flag=flag)).is_whole


def test_what_an_application_compressed_is_unpacked_too() -> None:
    shown = view(gzip.compress(b'{"id": 17}'))
    assert shown.kind == "json" and "unpacked from gzip" in shown.notes[0]
    shown = view(gzip.compress(b"x" * 1000)[:-9])
    assert shown.kind == "hex" and "begins like gzip, but" in shown.notes[0]


def test_bytes_in_hex_have_an_offset_and_ascii() -> None:
    assert hex_rows(b"A\x00" + b"z" * 15).splitlines() == [
        "00000000  41 00 7a 7a 7a 7a 7a 7a 7a 7a 7a 7a 7a 7a 7a 7a  A.zzzzzzzzzzzzzz",
        "00000010  7a                                               z",
    ]


def test_a_schema_of_the_topic_decodes_its_bodies_and_says_when_it_does_not_fit() -> None:
    def decode(body: bytes) -> bytes:
        if body == b"\x08\x11":
            return b'{"id": 17}'
        raise UsageError("wrong type")

    shown = view_of(stored(0, b"\x08\x11"), "auto", "utf-8", None, decode)
    assert shown.kind == "schema" and shown.tree is not None and shown.tree.children[0].text == "17"
    shown = view_of(stored(0, b'{"a": 1}'), "auto", "utf-8", None, decode)
    assert shown.kind == "json" and "schema: wrong type" in shown.notes[0]
    shown = view_of(stored(0, b"hello"), "schema", "utf-8", None, decode)
    assert shown.kind == "text" and "schema: wrong type" in shown.notes[0]
    assert "no schema of this topic" in view(b"hello", "schema").notes[0]
    assert view_of(stored(0, b"\x08\x11"), "hex", "utf-8", None, decode).kind == "hex"
