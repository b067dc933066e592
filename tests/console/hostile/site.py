"""A whole console in the test's process, and an address of each of its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

from pymq.clock import SystemClock
from pymq.console.app import PAGES
from pymq.console.metrics import ConsoleMetrics
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.security.credentials import Credentials
from tests.console.asgi import Answer, asked

CONTEXT: Final = "prod"
STREAMS: Final = ("topics/{topic}/tail/events", "messages/events")
ROUTES: Final = (*PAGES, "about")
# What stands in the addresses. The id is the place of a topic's first message.
NAMES: Final = {
    "{topic}": "orders",
    "{group}": "readers",
    "{client}": "a@1",
    "{broker}": "broker-a",
    "{user}": "reader",
}
PLACE: Final = "broker-a:0:0"
# What a person fills into the form of each change.
FIELDS: Final[dict[str, dict[str, str]]] = {
    "auth/{user}/delete": {},
    "auth/{user}/rule": {"resource": "*", "actions": "All"},
    "auth/{user}/rule/delete": {"resource": "Topic:orders"},
    "auth/{user}/update": {"type": "Super"},
    "brokers/{broker}/{id}/drain": {"force": "on"},
    "brokers/{broker}/{id}/promote": {},
    "brokers/{broker}/{id}/settings": {"key": "maxTopics", "value": "7"},
    "brokers/{broker}/{id}/undrain": {},
    "dlq/{group}/purge": {},
    "dlq/{group}/resend": {},
    "groups/{group}/delete": {},
    "groups/{group}/reset": {"value": "start"},
    "groups/{group}/update": {"retry_max": "3"},
    "messages/{topic}/{id}/consume": {"group": "readers", "member": "a@1"},
    "messages/{topic}/{id}/send": {"topic": "orders", "body": "x"},
    "namesrv/settings": {"key": "orderMessageEnable", "value": "true"},
    "namesrv/values": {"namespace": "settings", "key": "color", "value": "blue"},
    "new/group": {"group": "mine"},
    "new/topic": {"topic": "mine"},
    "new/user": {"user": "mine", "secret": "x", "type": "Super"},
    "raft/{broker}/members": {"node": "n1"},
    "raft/{broker}/transfer": {},
    "topics/{topic}/delete": {},
    "topics/{topic}/send": {"body": "x"},
    "topics/{topic}/shrink": {"to": "1"},
    "topics/{topic}/update": {"write_queues": "1"},
}


def address_of(route: str, **names: str) -> str:
    """Return an address of a route below its context; ``names``: others than those of :data:`NAMES`."""
    path = route.replace("{id}", "0") if route.startswith("brokers/") and "id" not in names else route
    for part, value in {**NAMES, "{id}": PLACE, **{f"{{{name}}}": value for name, value in names.items()}}.items():
        path = path.replace(part, value)
    assert "{" not in path, f"name what stands in {path}"
    return path


def query_of(path: str) -> str:
    """Return the query without which an address has nothing to show."""
    return "topic=orders" if path in ("messages/events", "messages/export") else ""


def is_download(path: str) -> bool:
    """Return whether an address leads to a file, and to JSON only when there is none."""
    return path.endswith(("/body", "/export"))


def addresses() -> Iterator[tuple[str, str]]:
    """Yield each route with an address."""
    for route in ROUTES:
        yield route, address_of(route)


class Site:
    """A console of one cluster, asked without its socket."""

    def __init__(self, console: ConsoleMetrics) -> None:
        self.console = console
        self.host = console.url.partition("://")[2]

    async def get(self, path: str, query: str = "", cookie: str = "") -> Answer:
        """Return the answer at a path below the context. Streams end when they begin."""
        headers = {"Cookie": cookie} if cookie else {}
        return await asked(self.console.counted, f"/at/{CONTEXT}/{path}", query=query, headers=headers, host=self.host)

    async def post(self, path: str, cookie: str = "", origin: str | None = None, **fields: str) -> Answer:
        """Return the answer to a form, which comes from a page of the console unless ``origin`` says another."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers |= {"Origin": self.console.url if origin is None else origin} if origin != "" else {}
        headers |= {"Cookie": cookie} if cookie else {}
        path, body = f"/at/{CONTEXT}/{path}", urlencode(fields).encode()
        return await asked(self.console.counted, path, method="POST", headers=headers, body=body, host=self.host)

    def log_in(self, name: str, secret: str) -> str:
        """Open a session without a proof; return its cookie."""
        sessions = self.console.sessions
        _, cookie = sessions.open(name, Credentials(name, secret), "127.0.0.1", CONTEXT)
        return sessions.set_cookie(CONTEXT, cookie).partition(";")[0]


@asynccontextmanager
async def site(namesrv: str) -> AsyncIterator[Site]:
    """Run a console of the cluster with that name server."""
    async with running(ConsoleSettings({CONTEXT: (namesrv,)}, port=0), SystemClock()) as console:
        yield Site(console)
