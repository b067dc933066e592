"""The clients of a console: what asks its clusters, signed as a person or as the console itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pymq.client import Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.client.admin.connection import AnswerLimits
from pymq.clock import Clock
from pymq.console.asking.clusters import Clusters
from pymq.console.asking.room import Room
from pymq.console.history.checkup import Checkup
from pymq.console.history.recorder import Recorder
from pymq.console.history.rings import Rings
from pymq.console.memory import MemoryBudget
from pymq.console.people.sessions import Session
from pymq.console.settings import ConsoleSettings
from pymq.operations.auth.proof import Proof, prove
from pymq.operations.doctor.gather import Gatherer, SocketProbe
from pymq.operations.doctor.registry import all_checks
from pymq.operations.doctor.state import ClusterState
from pymq.operations.message.reading import READER_GROUP
from pymq.operations.message.resending import RESEND_GROUP
from pymq.operations.unlisted import unlisted
from pymq.security.credentials import Credentials

# A broker with 20,000 topics sums lags and ends for seconds; the page that asks must end within its own deadline.
REQUEST_TIMEOUT_S: Final = 8.0
DOCTOR_TIMEOUT_S: Final = 2.0  # of each request; a page waits for several of a broker, one after the other


class Clients:
    """Makes clients. A session of nobody asks without a signature."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def admin(self, context: str, credentials: Credentials | None) -> Admin:
        """Return a client for the admin calls of pages."""
        return Admin(
            list(self._settings.contexts[context]),
            timeout_s=REQUEST_TIMEOUT_S,
            is_partial=True,
            clock=self._clock,
            credentials=credentials,
            limits=self._settings.memory.answers,
        )

    def clusters(self) -> Clusters:
        """Return the clusters that persons ask. Without changes nobody sends."""
        settings = self._settings
        shown = {name: ";".join(servers) for name, servers in settings.contexts.items()}
        return Clusters(
            shown,
            lambda context, session: self.admin(context, _of(session)),
            self._clock,
            self._consumer,
            self._producer if settings.allow_changes else None,
            Room(settings.memory.kept_bytes_max),
        )

    def recorder(self, context: str) -> Recorder:
        """Return the recorder of a context. All contexts share the series that the memory budget allows."""
        settings = self._settings
        credentials = settings.credentials.get(context)
        rings = Rings(settings.memory.series_max // len(settings.contexts))
        return Recorder(
            lambda: self.admin(context, credentials), self._clock, rings, has_credentials=credentials is not None
        )

    def checkup(self, context: str) -> Checkup:
        """Return the shared findings of a context, made with the console's own credentials."""
        examine = partial(self._examine, context, self._settings.credentials.get(context), 0)
        return Checkup(examine, all_checks(), self._clock)

    async def examine(self, context: str, session: Session | None, observe_ms: int) -> ClusterState:
        """Look at a cluster as the person of a session, for the doctor's checks. Raises PymqError."""
        return await self._examine(context, _of(session), observe_ms)

    async def prove(self, context: str, credentials: Credentials) -> Proof:
        """Return what a cluster says about credentials. Raises UnreachableError, RefusedError."""
        return await prove(lambda given: self.admin(context, given), credentials)

    def _consumer(self, context: str, session: Session | None) -> PullConsumer:
        servers = self._settings.contexts[context]
        return PullConsumer(READER_GROUP, namesrv=servers, clock=self._clock, credentials=_of(session))

    def _producer(self, context: str, session: Session | None) -> Producer:
        servers = self._settings.contexts[context]
        return Producer(RESEND_GROUP, namesrv=servers, clock=self._clock, credentials=_of(session))

    async def _examine(self, context: str, credentials: Credentials | None, observe_ms: int) -> ClusterState:
        settings = self._settings
        names, servers = settings.brokers.get(context, ()), settings.contexts[context]
        return await gatherer(servers, credentials, self._clock, observe_ms, names, settings.memory.answers).state()


def _of(session: Session | None) -> Credentials | None:
    return session.credentials if session is not None else None


def gatherer(
    servers: Sequence[str],
    credentials: Credentials | None,
    clock: Clock,
    observe_ms: int,
    names: Sequence[str] = (),
    limits: AnswerLimits | None = None,
) -> Gatherer:
    """Return what asks a cluster for all that the doctor's checks need. ``names``: brokers that it should have."""

    def open_admin(addresses: Sequence[str]) -> Admin:
        return Admin(
            addresses,
            timeout_s=DOCTOR_TIMEOUT_S,
            clock=clock,
            credentials=credentials,
            limits=limits or MemoryBudget().answers,
        )

    return Gatherer(
        servers,
        open_admin,
        clock=clock,
        probe=SocketProbe(),
        observe_ms=observe_ms,
        missing=partial(unlisted, names),
    )
