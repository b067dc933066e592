"""Messages as fields of a form: what comes back is what was there, byte by byte, or is not in the form."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.client import Message
from pymq.console.changes import labels
from pymq.console.changes.fields import Input
from pymq.console.changes.labels import edited, fields_of, read_body, read_properties, shown_body
from pymq.console.web.bodies import FORM_BYTES_MAX, parse_form
from pymq.console.web.parameters import BadRequest, Parameters
from tests.console.messages.world import environment


def submitted(message: Message, **changes: str) -> Parameters:
    """Return what a browser sends of the form of a message: with CR LF at each end of a line."""
    fields, _ = fields_of(message)
    values = {field.name: field.value for field in fields} | changes
    assert not any(field.kind is Input.text and "\n" in field.value for field in fields)
    body = urlencode({name: value.replace("\n", "\r\n") for name, value in values.items()}).encode()
    assert len(body) <= FORM_BYTES_MAX, "an unchanged form is taken"
    return parse_form(body)


BODIES = [b"hello", b"a\nb", b"a\r\nb", b"\n\na\n", b"a\r\nb\nc", b"\xff\x00", b"a\0b", b"a\rb", "\u202e".encode()]
BODIES += ['{"\u00fc": 1}\n\t'.encode(), b"\xef\xbb\xbfx", b"x" * 100_000, b"\n" * 20_000, "\u65e5".encode() * 9_000]


@pytest.mark.parametrize("body", [*BODIES, b"</textarea>"])
def test_an_unchanged_body_is_sent_byte_by_byte(body: bytes) -> None:
    message = Message("orders", body)
    assert edited(message, submitted(message)).body == body


@given(
    st.builds(
        Message,
        topic=st.just("orders"),
        body=st.binary(max_size=50) | st.text(max_size=50).map(lambda text: text.encode("utf-8", "replace")),
        tags=st.text(max_size=8),
        keys=st.text(max_size=8),
        properties=st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=8), max_size=3),
    )
)
def test_any_message_comes_back_as_it_was(message: Message) -> None:
    found = edited(message, submitted(message))
    assert (found.body, found.tags, found.keys, found.properties) == (
        message.body,
        message.tags,
        message.keys,
        message.properties,
    )


def test_an_edited_body_has_plain_ends_of_lines() -> None:
    message = Message("orders", b"a\r\nb")
    assert edited(message, submitted(message, body="a\nb\nc")).body == b"a\nb\nc"
    assert edited(message, submitted(message, tag="new", keys="k1 k2", properties="a=1\n\nb==2")) == Message(
        "orders", b"a\r\nb", tags="new", keys="k1 k2", properties={"a": "1", "b": "=2"}
    )


def test_what_a_form_can_t_carry_is_not_in_it_and_is_named() -> None:
    message = Message("orders", b"\xff", tags="a\u202eb", keys="\x1b", properties={"a=b": "x"})
    assert fields_of(message) == ([], ["tag", "keys", "properties", "body"])
    for properties in ({"a": "b\nc"}, {" ": "x"}, {"long": "x" * labels.PROPERTIES_ENCODED_BYTES_MAX}):
        assert fields_of(Message("orders", b"x", properties=properties))[1] == ["properties"]
    assert fields_of(Message("orders", b"x", tags="x" * (labels.LABEL_ENCODED_BYTES_MAX + 1)))[1] == ["tag"]


def test_the_longest_body_of_a_form() -> None:
    assert shown_body(b"x" * labels.BODY_ENCODED_BYTES_MAX) is not None
    assert shown_body(b"x" * (labels.BODY_ENCODED_BYTES_MAX + 1)) is None
    assert shown_body(b"{" * (labels.BODY_ENCODED_BYTES_MAX // 3)) is not None
    assert shown_body(b"{" * (labels.BODY_ENCODED_BYTES_MAX // 3 + 1)) is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"body": ""}, "body"),
        ({}, "body"),
        ({"body": "x", "properties": "no value"}, "properties"),
        ({"body": "x", "properties": "=x"}, "properties"),
        ({"body": "x", "properties": "KEYS=x"}, "properties"),
        ({"body": "x", "properties": "UNIQ_KEY=x"}, "properties"),
        ({"body": "x", "properties": "a=1\na=2"}, "properties"),
        ({"body": "x" * (labels.BODY_LENGTH_MAX + 1)}, "body"),
        ({"body": "x", "properties": "a=" + "x" * labels.PROPERTIES_LENGTH_MAX}, "properties"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, str], name: str) -> None:
    given_ = Parameters(list(fields.items()))
    with pytest.raises(BadRequest, match=f"^{name}: "):
        read_body(given_)
        read_properties(given_)


def test_a_form_shows_bodies_as_text_alone() -> None:
    fields, _ = fields_of(Message("orders", b"\n</textarea><script>alert(1)</script>", tags='"><b>'))
    session: Any = type("Session", (), {"token": "t", "name": ""})
    around = {
        "page": type("P", (), {"title": "t", "missing": {}, "command": ("send",)}),
        "context": "c",
        "contexts": ["c"],
    }
    around |= {
        "session": session,
        "section": "",
        "is_renewed": False,
        "navigation": (),
        "as_of_ms": 0,
        "allow_changes": True,
    }
    around |= {"is_renewed": False, "static": str, "at": str, "query": lambda **changes: ""}
    text = (
        environment().get_template("form.html").render(fields=fields, note="", sections=(), is_question=False, **around)
    )
    assert text.count("</textarea>") == 2 and "<script>alert" not in text and "<b>" not in text
    assert ">\n\n&lt;/textarea&gt;" in text, "a browser leaves out the first end of a line"
