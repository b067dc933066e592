"""Two lengths of one body are refused."""

from __future__ import annotations

import pytest

from pymq.console.web.asgi import Receive, Scope, Send, answer_text
from pymq.console.web.lengths import OneLength
from tests.console.asgi import request


async def says_hello(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200, "hello")


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}])
def test_one_length_is_passed(headers: dict[str, str]) -> None:
    assert request(OneLength(says_hello), "/", headers=headers).text == "hello\n"


def test_two_lengths_are_refused_and_end_the_connection() -> None:
    answer = request(OneLength(says_hello), "/", headers={"Content-Length": "5", "Transfer-Encoding": "chunked"})
    assert answer.status == 400 and answer.header("connection") == "close"
