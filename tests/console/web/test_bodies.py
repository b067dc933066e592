"""Bodies within a size and a time, and the fields of forms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.console.web.bodies import FORM_FIELDS_MAX, TooLarge, TooSlow, parse_form, read_body, read_form
from pymq.console.web.parameters import BadRequest


def receive_of(*messages: dict[str, Any] | None) -> Any:
    """Return a ``receive`` that gives the messages in turn; None never comes."""
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        message = waiting.pop(0)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return receive


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_parts_are_joined_up_to_the_limit() -> None:
    assert asyncio.run(read_body(receive_of(part(b"ab", more=True), part(b"cd")), 4)) == b"abcd"


def test_a_larger_body_ends_where_it_is_too_large() -> None:
    with pytest.raises(TooLarge, match="more than 3 bytes") as raised:
        asyncio.run(read_body(receive_of(part(b"ab", more=True), part(b"cd", more=True), None), 3))
    assert raised.value.status == 413


def test_a_body_that_does_not_come_ends() -> None:
    with pytest.raises(TooSlow, match=r"within 0\.01 s") as raised:
        asyncio.run(read_body(receive_of(part(b"ab", more=True), None), 100, timeout_s=0.01))
    assert raised.value.status == 408


def test_a_browser_that_goes_away_ends_it() -> None:
    with pytest.raises(BadRequest, match="went away"):
        asyncio.run(read_body(receive_of({"type": "http.disconnect"}), 100))


def test_a_form_has_its_fields() -> None:
    scope = {"headers": [(b"content-type", b"application/x-www-form-urlencoded; charset=utf-8")]}
    form = asyncio.run(read_form(scope, receive_of(part(b"name=%C3%A4+b&empty="))))
    assert form.text("name") == "ä b"
    assert form.text("empty") == ""


@pytest.mark.parametrize("kind", [b"text/plain", b"multipart/form-data; boundary=x", b"application/json", b""])
def test_only_forms_are_read(kind: bytes) -> None:
    with pytest.raises(BadRequest, match="send a form"):
        asyncio.run(read_form({"headers": [(b"content-type", kind)]}, receive_of(part(b"a=b"))))


@pytest.mark.parametrize("body", [b"name=%FF", b"name=\xc3\xa4", b"&".join([b"a=1"] * (FORM_FIELDS_MAX + 1))])
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_form(body)


def test_the_most_fields_are_taken() -> None:
    parse_form(b"&".join([b"a=1"] * FORM_FIELDS_MAX))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"a=1&q=%ff&b=%ff", "q"),
        (b"a=1&%66=%ff", "f"),
        (b"q=\xff", "q"),
        (b"%ff=1", "\ufffd"),
        (b"=%ff", "request"),
        (b"x" * 100 + b"=%ff", "x" * 60),
    ],
)
def test_the_first_field_that_is_no_text_is_named(body: bytes, name: str) -> None:
    with pytest.raises(BadRequest, match=f"^{name}: it is not UTF-8"):
        parse_form(body)
