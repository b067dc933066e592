"""Asks an ASGI application in the process, without a socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pymq.console.web.asgi import App

HOST = "127.0.0.1:8082"
ORIGIN = f"http://{HOST}"


@dataclass
class Answer:
    """What the application sent."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        found = [value.decode() for key, value in self.headers if key == name.encode()]
        assert len(found) < 2, found
        return found[0] if found else None

    @property
    def text(self) -> str:
        return self.body.decode()


def request(app: App, path: str, **parts: Any) -> Answer:
    """Return the answer to one request; ``parts`` as of :func:`asked`."""
    return asyncio.run(asked(app, path, **parts))


async def asked(
    app: App,
    path: str,
    *,
    method: str = "GET",
    query: str = "",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    host: str | None = HOST,
    stays: bool = False,
) -> Answer:
    """Return the answer to one request, in the loop of the caller. ``stays``: the browser waits for its end."""
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    if host is not None:
        raw.append((b"host", host.encode("latin-1")))
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "headers": raw,
        "scheme": "http",
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8082),
        "http_version": "1.1",
        "root_path": "",
        "state": {},
    }
    return await _ask(app, scope, [body], stays=stays)


async def _ask(app: App, scope: dict[str, Any], parts: list[bytes], *, stays: bool) -> Answer:
    answer, waiting = Answer(), list(parts)

    async def receive() -> dict[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}
        if stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message["headers"])
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer
