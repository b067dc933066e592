"""Browser: asks one running console over sockets, with the cookie of a log-in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

DEADLINE_S: Final = 60

Form = Mapping[str, str] | Sequence[tuple[str, str]]


class Answer(NamedTuple):
    """What a browser gets."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split()[1])

    @property
    def text(self) -> str:
        return self.body.decode()


class Browser:
    """Keeps the cookie that answers set."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._port = urlsplit(url).port
        self.cookie = ""

    async def log_in(self, name: str, secret: str) -> None:
        """Log in, and keep the cookie."""
        answer = await self.get("login", {"name": name, "secret": secret})
        assert answer.status == 303, answer.text

    async def log_out(self) -> None:
        """Log out with the form of a page."""
        token = (await self.get("messages")).text.partition('name="token" value="')[2].partition('"')[0]
        assert (await self.get("logout", {"token": token})).status == 303

    async def open(self, path: str, form: Form | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request, and return where its answer comes from."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = b"" if form is None else urlencode(form).encode()
        head = f"{'GET' if form is None else 'POST'} /at/default/{path} HTTP/1.1\r\nHost: {self._host}\r\n"
        head += f"Origin: http://{self._host}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        head += f"Cookie: {self.cookie}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        return reader, writer

    async def get(self, path: str, form: Form | None = None) -> Answer:
        """Return an answer. ``form``: what is sent, None for nothing."""
        reader, writer = await self.open(path, form)
        try:
            whole = await asyncio.wait_for(reader.read(), DEADLINE_S)
        finally:
            writer.close()
        head, _, body = whole.partition(b"\r\n\r\n")
        if found := re.search(rb"set-cookie: ([^;]+)", head):
            self.cookie = found[1].decode()
        return Answer(head, body)

    async def data(self, path: str) -> Any:
        """Return the JSON of a page."""
        answer = await self.get(path + ("&" if "?" in path else "?") + "format=json")
        assert answer.status == 200, (path, answer)
        return json.loads(answer.body)
