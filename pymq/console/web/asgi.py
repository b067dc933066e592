"""The interface of ASGI, as the console's own layers use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TEXT = b"text/plain; charset=utf-8"


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return the values of the request's headers of that name, which is in small letters."""
    return [value for key, value in scope["headers"] if key == name]


async def answer_text(send: Send, status: int, text: str, *more: tuple[bytes, bytes]) -> None:
    """Send a whole answer of plain text, with ``more`` headers."""
    body = text.encode("utf-8", "backslashreplace") + b"\n"
    headers = [(b"content-type", TEXT), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
