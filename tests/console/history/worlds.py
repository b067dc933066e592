"""A recorder with figures that a test puts, and what a person sees of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

from pymq.client.admin import BrokerTarget
from pymq.clock import ManualClock
from pymq.console.answers import Shell
from pymq.console.app import Console, make_app
from pymq.console.asking.cluster import Cluster
from pymq.console.asking.clusters import Clusters
from pymq.console.history.checkup import Checkup
from pymq.console.history.recorder import Recorder
from pymq.console.history.rings import Measure, Rings, Subject, point_at
from pymq.console.history.sight import Permissions, Sight
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.origins import Origins
from pymq.console.web.static_files import StaticFiles
from pymq.operations.doctor.state import ClusterState
from tests.console.asgi import Answer, request
from tests.console.asking.test_cluster import FakeAdmin

T = TypeVar("T")
HOUR_MS = 3_600_000


class AskedAdmin(FakeAdmin):
    """A client that notes who asks for what, and refuses what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.targets = [BrokerTarget("a", "east", "h:1"), BrokerTarget("b", "east", "h:2")]
        self.cluster = SimpleNamespace(masters=self._masters)
        self.brokers = SimpleNamespace(runtime_info=self._ask)
        self.topics = SimpleNamespace(stats=self._ask)
        self.groups = SimpleNamespace(lag=self._ask)

    async def _masters(self) -> list[BrokerTarget]:
        return self.targets

    async def _ask(self, name: str, topic: str = "") -> dict[str, str]:
        self.asked.append(name)
        if name in self.errors:
            raise self.errors[name]
        return {}


class Seen:
    """One context, and a person who looks at it. The hour has passed."""

    def __init__(self, series_max: int = 100) -> None:
        self.clock = ManualClock()
        self.clock.advance(HOUR_MS)
        self.admin = AskedAdmin()
        self.rings = Rings(series_max)
        self.recorder = Recorder(lambda: None, self.clock, self.rings)  # type: ignore[arg-type,return-value]
        self.permissions = Permissions(self.clock)
        self.sight = self.sight_of("reader")

    def sight_of(self, person: str) -> Sight:
        cluster = Cluster(self.admin, self.clock)  # type: ignore[arg-type]
        return Sight(self.recorder, self.permissions, cluster, self.clock, person=person, context="prod")

    def put(self, subject: Subject, measure: Measure, *values: float) -> None:
        """Put the newest points."""
        now = point_at(self.clock.monotonic_ms())
        for at, value in enumerate(values):
            self.rings.put(subject, measure, now - len(values) + 1 + at, value)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Site(Seen):
    """The pages of a console whose one context is ``prod``, for persons without a log-in."""

    def __init__(self, series_max: int = 100, *, has_samples: bool = True) -> None:
        super().__init__(series_max)
        self.sight = self.sight_of("")
        sessions = Sessions(self.clock, 8082, ["prod"])
        clusters = Clusters({"prod": "10.0.0.1:9876"}, lambda context, session: self.admin, self.clock)  # type: ignore[arg-type,return-value]
        log_ins = LogIns(sessions, None, self.clock)  # type: ignore[arg-type]
        recorders = {"prod": self.recorder} if has_samples else {}
        self.state = ClusterState(self.clock.now_ms())
        self.examined: list[int] = []
        self.checkup = Checkup(lambda: self.examine(0), [], self.clock)
        shell = Shell(
            clusters,
            sessions,
            log_ins,
            self.clock,
            StaticFiles("pymq.console"),
            recorders=recorders,
            checkups={"prod": self.checkup},
            examine=self._examine_as,
        )
        self._app = make_app(Console(shell), Origins.of_listener("127.0.0.1", 8082, "http"))

    async def examine(self, observe_ms: int) -> ClusterState:
        self.examined.append(observe_ms)
        return self.state

    async def _examine_as(self, context: str, session: Session | None, observe_ms: int) -> ClusterState:
        return await self.examine(observe_ms)

    def get(self, path: str, query: str = "") -> Answer:
        return request(self._app, f"/at/prod/{path}", query=query)

    def json(self, path: str, query: str = "") -> Any:
        return json.loads(self.get(path, f"{query}&format=json").body)
