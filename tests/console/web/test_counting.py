"""Answers are counted by their status."""

from __future__ import annotations

from pymq.console.web.asgi import Receive, Scope, Send, answer_text
from pymq.console.web.counting import Counted
from tests.console.asgi import request


async def finds_one(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200 if scope["path"] == "/one" else 404, "")


def test_each_answer_counts_once() -> None:
    counted = Counted(finds_one)
    for path in ("/one", "/two", "/one"):
        request(counted, path)
    assert counted.answers == {200: 2, 404: 1}
