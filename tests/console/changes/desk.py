"""A browser that changes a real broker through a console's forms."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pymq.client import PullConsumer
from pymq.clock import Clock, SystemClock
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.testing.broker import TestBroker
from tests.console.browser import Browser


class Desk:
    """Fills in forms, and knows what is in the audit."""

    def __init__(self, browser: Browser, broker: TestBroker, audit: Path) -> None:
        self.browser = browser
        self.broker = broker
        self._audit = audit
        self._token = ""

    async def form(self, path: str) -> str:
        """Open a form, and return its token; that of the form before for a page without one."""
        head, body = await self.browser.get(path)
        assert head.startswith(b"HTTP/1.1 200"), body
        if b'name="token"' in body:
            self._token = self.token(body)
        return self._token

    @staticmethod
    def token(body: bytes) -> str:
        """Return the token that stands in the forms of a page."""
        return re.findall(r'name="token" value="([^"]+)"', body.decode())[0]

    @staticmethod
    def plan_of(text: str) -> str:
        """Return the address of the plan that a page shows, "" for a page without one."""
        found = re.findall(r'action="/at/default/(plans/[^"]+)"', text)
        assert len(found) <= 1
        return found[0] if found else ""

    async def ask(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form, and return the status and the text of the answer."""
        token = await self.form(path)
        return await self.send(path, token=token, **fields)

    async def send(self, path: str, **fields: str) -> tuple[int, str]:
        """Send fields, and return the status and the text of the page that they lead to."""
        return await self.send_all(path, list(fields.items()))

    async def send_all(self, path: str, fields: list[tuple[str, str]]) -> tuple[int, str]:
        """Send fields as :meth:`send`, some perhaps several times."""
        head, body = await self.browser.get(path, fields)
        if found := re.search(rb"location: /at/default/(\S+)", head):
            head, body = await self.browser.get(found[1].decode())
        return int(head.split()[1]), body.decode()

    async def plan(self, path: str, **fields: str) -> tuple[str, str, str]:
        """Return the text, the address and the token of a new plan."""
        status, text = await self.ask(path, **fields)
        assert status == 200, text
        plan = self.plan_of(text)
        assert plan, text
        return text, plan, self.token(text.encode())

    async def change(self, path: str, confirm: str = "", **fields: str) -> str:
        """Plan and carry out a change; return the text of its result."""
        _, plan, token = await self.plan(path, **fields)
        status, text = await self.send(plan, token=token, confirm=confirm)
        assert status == 200, text
        return text

    def reader(self) -> PullConsumer:
        """Return a consumer to start, which reads the broker's queues."""
        return PullConsumer("desk", namesrv=self.broker.namesrv)

    def audit_text(self) -> str:
        """Return the whole audit."""
        return (self._audit / "audit.log").read_text()

    def audit(self) -> list[tuple[str, str, str]]:
        """Return action, subject and result of each attempt."""
        file = self._audit / "audit.log"
        lines = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        return [(line["action"], line["subject"], line["result"]) for line in lines]


def with_desk(
    broker: TestBroker,
    audit: Path,
    work: Callable[[Desk], Awaitable[None]],
    *,
    allow_changes: bool = True,
    clock: Clock | None = None,
    shows_bodies: bool = True,
) -> None:
    """Run ``work`` with a console of the broker."""

    @asynccontextmanager
    async def desk() -> AsyncIterator[Desk]:
        settings = ConsoleSettings(
            {"default": (broker.namesrv,)},
            port=0,
            allow_changes=allow_changes,
            audit_directory=str(audit),
            shows_bodies=shows_bodies,
        )
        async with running(settings, clock or SystemClock()) as console:
            yield Desk(Browser(console.url), broker, audit)

    async def run() -> None:
        async with desk() as found:
            await work(found)

    asyncio.run(run())
