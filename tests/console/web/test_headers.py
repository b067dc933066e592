"""Each answer has the headers, whoever made it."""

from __future__ import annotations

from pymq.console.web.asgi import Receive, Scope, Send, answer_text
from pymq.console.web.headers import ALWAYS, CONTENT_SECURITY_POLICY, Headers
from tests.console.asgi import request


async def says_hello(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200, "hello")


async def says_otherwise(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-security-policy", b"script-src *"), (b"cache-control", b"max-age=60")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def test_every_answer_has_them_and_is_not_kept() -> None:
    answer = request(Headers(says_hello), "/")
    assert answer.text == "hello\n"
    for name, value in ALWAYS.items():
        assert answer.header(name.decode()) == value.decode()
    assert answer.header("cache-control") == "no-store"
    assert answer.header("strict-transport-security") is None


def test_an_answer_changes_how_long_it_is_kept_and_nothing_else() -> None:
    answer = request(Headers(says_otherwise), "/")
    assert answer.header("content-security-policy") == CONTENT_SECURITY_POLICY
    assert answer.header("cache-control") == "max-age=60"


def test_browsers_that_came_by_tls_come_by_tls_alone() -> None:
    assert request(Headers(says_hello, is_encrypted=True), "/").header("strict-transport-security")


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    for word in ("unsafe", "*", "http:", "https:", "data:", "blob:"):
        assert word not in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


def test_forms_come_with_their_origin() -> None:
    # Browsers send "Origin: null" with the forms of a page whose policy is no-referrer.
    assert ALWAYS[b"referrer-policy"] == b"same-origin"
