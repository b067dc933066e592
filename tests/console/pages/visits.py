"""Pages asked with canned answers of a cluster, as data and as HTML."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast

from pymq.clock import ManualClock
from pymq.console.answers import Shell
from pymq.console.app import Console, make_app
from pymq.console.asking.cluster import Cluster
from pymq.console.asking.clusters import Clusters
from pymq.console.pages.page import Download, Events, MakePage, Page, Redirect, Visit
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Sessions
from pymq.console.web.bodies import parse_form
from pymq.console.web.origins import Origins
from pymq.console.web.static_files import StaticFiles
from tests.console.asgi import Answer, request
from tests.console.golden import RENDERED


class FakeCluster:
    """Answers questions by the first part of their keys: with a value, or by raising an error."""

    def __init__(self, answers: Mapping[str, Any], unreached: Mapping[str, str] | None = None) -> None:
        self.answers = answers
        self.unreached = dict(unreached or {})
        self.asked: list[Hashable] = []

    async def ask(self, key: Hashable, question: Callable[[Any], Any], **options: Any) -> Any:
        self.asked.append(key)
        answer = self.answers[key[0] if isinstance(key, tuple) else cast(str, key)]
        if isinstance(answer, Exception):
            raise answer
        return answer


def visit(cluster: FakeCluster, query: str = "", **path: str) -> Visit:
    """Return a visit of a page. ``path``: the parts that its address names."""
    parameters = parse_form(query.encode())
    return Visit(cast(Cluster, cluster), parameters, path, ManualClock())


def page_of(make: MakePage, cluster: FakeCluster, query: str = "", **path: str) -> Page:
    """Return a page."""

    async def ask() -> Page:
        page = await make(visit(cluster, query, **path))
        assert isinstance(page, Page)
        return page

    return asyncio.run(ask())


def html_of(make: MakePage, cluster: FakeCluster, query: str = "", **path: str) -> Answer:
    """Return the answer of a console with that page alone."""

    class Fixed:
        contexts: Mapping[str, str] = {"prod": "10.0.0.1:9876"}

        def get(self, context: str, session: Any) -> FakeCluster:
            return cluster

    clock = ManualClock()
    sessions = Sessions(clock, 8082, ["prod"])
    log_ins = LogIns(sessions, cast(Any, None), clock)
    shell = Shell(cast(Clusters, Fixed()), sessions, log_ins, clock, StaticFiles("pymq.console"))

    async def with_path(given: Visit) -> Page | Download | Events | Redirect:
        return await make(Visit(given.cluster, given.parameters, path, given.clock))

    app = make_app(Console(shell, {"things": with_path}), Origins.of_listener("127.0.0.1", 8082, "http"))
    answer = request(app, "/at/prod/things", query=query)
    RENDERED.append(answer.text)
    return answer
