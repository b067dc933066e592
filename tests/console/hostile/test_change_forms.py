"""Forms that send messages, with what no form asks for: each wrong field is named, and nothing is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from pymq.client import Admin, Message, Producer
from pymq.clock import SystemClock
from pymq.console.change_routes import CHANGES
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.console.web.asgi import App
from pymq.testing.broker import TestBroker
from tests.console.asgi import Answer, asked
from tests.console.changes.desk import Desk
from tests.console.hostile.site import CONTEXT, FIELDS, PLACE, address_of
from tests.console.hostile.test_parameters import NUMBERS, TEXTS, read

__all__ = ["read"]  # a fixture

FORMS = [path for path in CHANGES if path.startswith(("messages/", "dlq/")) or path.endswith("/send")]
LETTERS = "%DLQ%readers"
NEVER = {"NUL": "a%00b", "bad UTF-8": "%ff", "60 KB": "x" * 60_000}
# What is no fault: the form is as large as that, and an empty field means that there is none.
TAKEN = {("body", "60 KB"), ("count", "empty"), ("rate", "empty"), ("delay_level", "empty")}
HOSTILE = ["<img src=x onerror=alert(1)>", "{{ 7*7 }}", "\u202e\x1b[31m", "javascript:alert(1)", "\ufffe\U0001f600"]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as found:
        found.create_topic("orders", queue_count=1)
        found.create_topic(LETTERS, queue_count=1)

        async def send() -> None:
            async with Producer("test", namesrv=found.namesrv) as producer:
                for topic in ("orders", LETTERS):
                    await producer.send(Message(topic, b"hello"))

        asyncio.run(send())
        yield found


class Person:
    """Somebody with a session, who sends forms without a browser."""

    def __init__(self, app: App, url: str) -> None:
        self._app = app
        self._url = url
        self._cookie = ""
        self._token = ""

    async def get(self, path: str, query: str = "") -> Answer:
        """Return the answer to a request for a form."""
        headers = {"Cookie": self._cookie} if self._cookie else {}
        return await asked(self._app, f"/at/{CONTEXT}/{path}", query=query, headers=headers, host=self._host)

    async def open(self, path: str) -> None:
        """Open a form, for a session and its token."""
        answer = await self.get(path)
        assert answer.status == 200, answer.text
        self._cookie = (answer.header("set-cookie") or self._cookie).partition(";")[0]
        self._token = Desk.token(answer.body)

    async def post(self, path: str, body: str) -> Answer:
        """Return the answer to a form that is encoded already."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._url, "Cookie": self._cookie}
        sent = f"token={quote(self._token)}&{body}".encode()
        at = f"/at/{CONTEXT}/{path}"
        return await asked(self._app, at, method="POST", headers=headers, body=sent, host=self._host)

    @property
    def _host(self) -> str:
        return self._url.partition("://")[2]


@asynccontextmanager
async def person(broker: TestBroker, audit: Path) -> AsyncIterator[Person]:
    settings = ConsoleSettings({CONTEXT: (broker.namesrv,)}, port=0, allow_changes=True, audit_directory=str(audit))
    async with running(settings, SystemClock()) as console:
        yield Person(console.counted, console.url)


async def counts(broker: TestBroker) -> list[int]:
    """Return how many messages each topic of the test has taken."""
    async with Admin(broker.namesrv) as admin:
        return [sum(at.max_offset for at in (await admin.topics.stats(each)).values()) for each in ("orders", LETTERS)]


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_field_is_named(
    broker: TestBroker, tmp_path: Path, read: dict[str, str], form: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        names = {"id": quote(PLACE, safe="")} if form.startswith("messages/") else {}
        path, right = address_of(form, **names), FIELDS[form]
        before = await counts(broker)
        async with person(broker, tmp_path) as found:
            await found.open(path)
            for name, kind in dict(read).items():
                if name != "format":
                    for what, value in NEVER.items():
                        answer = await found.get(path, f"{name}={value[:5_000]}")
                        assert answer.status == 400 and f"{name}: " in answer.text, f"GET {name} ({kind}) {what}"
            read.clear()
            assert (await found.post(path, urlencode(right))).status in (303, 404)
            for name, kind in dict(read).items():
                if name in ("token", "format"):  # of every form, and of the address
                    continue
                others = urlencode({key: value for key, value in right.items() if key != name})
                wrong = dict(NEVER) | (NUMBERS if kind == "number" else {})
                if kind != "all":
                    wrong["twice"] = f"1&{name}=1"
                for what, value in wrong.items():
                    if (name, what) in TAKEN:
                        continue
                    answer = await found.post(path, f"{others}&{name}={value}")
                    assert answer.status == 400 and f"{name}: " in answer.text, f"{name} ({kind}) {what}: {answer.text}"
                for value in [*TEXTS.values(), *map(quote, HOSTILE)]:
                    answer = await found.post(path, f"{others}&{name}={value}")
                    assert answer.status in (303, 400, 404), f"{name} {value}: {answer.status}"
                    assert "<img" not in answer.text and "\u202e" not in answer.text and "\x1b" not in answer.text
        assert await counts(broker) == before, "a plan sends nothing"

    with caplog.at_level(logging.INFO, "pymq.console"):
        asyncio.run(work())
    assert not [each for each in caplog.records if each.name.startswith("pymq.console")]
