"""Runs a console: one listening socket, its sessions and clients, until its owner ends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pymq.client import Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.client.admin.connection import AnswerLimits
from pymq.clock import Clock
from pymq.config.security import is_loopback
from pymq.console.answers import Shell
from pymq.console.app import PAGES, Console, make_app
from pymq.console.asking.clusters import Clusters
from pymq.console.audit import FILE_COUNT_MAX, SIZE_MAX_BYTES, Audit
from pymq.console.changes.flow import Changes
from pymq.console.history.checkup import Checkup
from pymq.console.history.recorder import Recorder
from pymq.console.history.rings import SERIES_MAX, Rings
from pymq.console.metrics import ConsoleMetrics
from pymq.console.pages.about import About
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.counting import Counted
from pymq.console.web.origins import Origins
from pymq.console.web.renewed_tls import RenewedTls
from pymq.console.web.serving import BACKLOG, serving
from pymq.console.web.static_files import StaticFiles
from pymq.errors import ConfigError
from pymq.net.tls import ServerContext
from pymq.operations.auth.proof import Proof, prove
from pymq.operations.doctor.gather import Gatherer, SocketProbe
from pymq.operations.doctor.registry import all_checks
from pymq.operations.doctor.state import ClusterState
from pymq.operations.message.reading import READER_GROUP
from pymq.operations.message.resending import RESEND_GROUP
from pymq.operations.message.schemas import Schemas
from pymq.operations.unlisted import unlisted
from pymq.security.audit_file import AuditFile
from pymq.security.credentials import Credentials

CLEANING_PERIOD_S: Final = 10.0
# A broker with 20,000 topics sums lags and ends for seconds; the page that asks must end within its own deadline.
REQUEST_TIMEOUT_S: Final = 8.0
# A broker's answer about 20,000 topics has 4 MiB, and takes 22 MiB parsed.
ANSWER_LIMITS: Final = AnswerLimits(frame_bytes_max=8 * 1024 * 1024, parsed_bytes_max=48 * 1024 * 1024)
DOCTOR_TIMEOUT_S: Final = 2.0  # of each request; a page waits for several of a broker, one after the other


@dataclass(frozen=True)
class ConsoleSettings:
    """How a console is reached, and what it may do.

    ``contexts``: the name servers ("host:port" texts) of each cluster, by the name of its context. ``public_url``:
    where browsers reach the console behind a proxy, "" without one. ``is_insecure``: others may come without TLS and
    log-in. ``shows_bodies``: whether bodies and properties of messages are shown, followed and downloaded.
    ``schemas``: a folder as of :class:`~pymq.operations.message.schemas.Schemas`. ``credentials``: what the console's
    own requests are signed with, by context; persons sign theirs. ``brokers``: the names of those that a cluster should
    have, by context, where they are known.
    """

    contexts: Mapping[str, tuple[str, ...]]
    host: str = "127.0.0.1"
    port: int = 8082
    public_url: str = ""
    is_insecure: bool = False
    allow_changes: bool = False
    audit_directory: str = ""
    shows_bodies: bool = True
    schemas: Path | None = None
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    brokers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches the console."""
        return is_loopback(self.host) and not self.public_url

    def check(self, *, has_tls: bool) -> list[str]:
        """Return warnings. Raises ConfigError for a console that strangers could read or listen to."""
        is_encrypted = has_tls or self.public_url.startswith("https://")
        if self.is_local or is_encrypted:
            return []
        if not self.is_insecure:
            raise ConfigError(
                f"the console would send secrets and messages to other machines without TLS, from {self.host}: give it "
                "a certificate (PYMQ_TLS_SERVER_CERT_PATH), or --behind-proxy with --public-url https://..., or "
                "--insecure"
            )
        return [f"other machines reach the console at {self.host} without TLS: others can read along (--insecure)"]


@asynccontextmanager
async def running(
    settings: ConsoleSettings, clock: Clock, *, tls: ServerContext | None = None
) -> AsyncIterator[ConsoleMetrics]:
    """Serve a console during the ``with`` block, and yield its figures with its address.

    Raises OSError for a port in use, ConfigError for a certificate that can't be used, UsageError for a public URL
    that is none and for a folder of schemas that can't be read.
    """
    schemas = Schemas(settings.schemas)
    renewed = None if tls is None else await RenewedTls.of(tls)
    public = Origins.of_public_url(settings.public_url) if settings.public_url else None
    listener = socket.create_server(
        (settings.host, settings.port),
        family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
        backlog=BACKLOG,
    )
    port = listener.getsockname()[1]
    origins = public or Origins.of_listener(settings.host, port, "https" if tls is not None else "http")

    def make_admin(context: str, session: Session | None) -> Admin:
        return admin_of(context, session.credentials if session is not None else None)

    def admin_of(context: str, credentials: Credentials | None) -> Admin:
        servers = list(settings.contexts[context])
        return Admin(
            servers,
            timeout_s=REQUEST_TIMEOUT_S,
            is_partial=True,
            clock=clock,
            credentials=credentials,
            limits=ANSWER_LIMITS,
        )

    def make_consumer(context: str, session: Session | None) -> PullConsumer:
        credentials = session.credentials if session is not None else None
        return PullConsumer(READER_GROUP, namesrv=settings.contexts[context], clock=clock, credentials=credentials)

    def make_producer(context: str, session: Session | None) -> Producer:
        credentials = session.credentials if session is not None else None
        return Producer(RESEND_GROUP, namesrv=settings.contexts[context], clock=clock, credentials=credentials)

    async def proves(context: str, credentials: Credentials) -> Proof:
        return await prove(lambda given: admin_of(context, given), credentials)

    sessions = Sessions(clock, port, settings.contexts)
    shown = {name: ";".join(servers) for name, servers in settings.contexts.items()}
    clusters = Clusters(shown, make_admin, clock, make_consumer, make_producer if settings.allow_changes else None)
    recorders = {name: _recorder(name, settings, admin_of, clock) for name in settings.contexts}

    async def examine(context: str, credentials: Credentials | None, observe_ms: int) -> ClusterState:
        names = settings.brokers.get(context, ())
        return await gatherer(settings.contexts[context], credentials, clock, observe_ms, names).state()

    async def examine_as(context: str, session: Session | None, observe_ms: int) -> ClusterState:
        return await examine(context, session.credentials if session is not None else None, observe_ms)

    checks = all_checks()
    checkups = {
        name: Checkup(partial(examine, name, settings.credentials.get(name), 0), checks, clock)
        for name in settings.contexts
    }
    needs_log_in = not settings.is_local and not settings.is_insecure
    changes = None
    if settings.allow_changes:
        file = AuditFile(settings.audit_directory, SIZE_MAX_BYTES, FILE_COUNT_MAX) if settings.audit_directory else None
        changes = Changes(Audit(clock, file), clock)
    shell = Shell(
        clusters=clusters,
        sessions=sessions,
        log_ins=LogIns(sessions, proves, clock),
        clock=clock,
        static=StaticFiles("pymq.console"),
        needs_log_in=needs_log_in,
        changes=changes,
        shows_bodies=settings.shows_bodies,
        schemas=schemas,
        recorders=recorders,
        checkups=checkups,
        examine=examine_as,
    )
    is_encrypted = origins.all[0].startswith("https:")
    about = About(
        list(settings.contexts),
        lambda: {
            "sessions": len(sessions),
            "persons with connections": len(clusters),
            "series of the last hour": sum(recorder.rings.count for recorder in recorders.values()),
        },
    )
    counted = Counted(make_app(Console(shell, {**PAGES, "about": about.page}), origins, is_encrypted=is_encrypted))
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_keep_clean(sessions, clusters, renewed))]
    tasks += [loop.create_task(recorder.run()) for recorder in recorders.values()]
    try:
        async with serving(counted, listener, tls=renewed.context if renewed is not None else None):
            try:
                yield ConsoleMetrics(origins.all[0], counted, sessions, shell.log_ins, clusters, shell.streams)
            finally:
                shell.streams.end_all("the console stops")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        own = [each.close() for each in recorders.values()] + [each.close() for each in checkups.values()]
        await asyncio.gather(clusters.close(), *own)


def gatherer(
    servers: Sequence[str],
    credentials: Credentials | None,
    clock: Clock,
    observe_ms: int,
    names: Sequence[str] = (),
) -> Gatherer:
    """Return what asks a cluster for all that the doctor's checks need. ``names``: brokers that it should have."""

    def open_admin(addresses: Sequence[str]) -> Admin:
        return Admin(
            addresses,
            timeout_s=DOCTOR_TIMEOUT_S,
            clock=clock,
            credentials=credentials,
            limits=ANSWER_LIMITS,
        )

    return Gatherer(
        servers,
        open_admin,
        clock=clock,
        probe=SocketProbe(),
        observe_ms=observe_ms,
        missing=partial(unlisted, names),
    )


def _recorder(
    context: str,
    settings: ConsoleSettings,
    admin_of: Callable[[str, Credentials | None], Admin],
    clock: Clock,
) -> Recorder:
    """Return the recorder of a context. All contexts together have :data:`SERIES_MAX` series."""
    credentials = settings.credentials.get(context)
    rings = Rings(SERIES_MAX // len(settings.contexts))
    return Recorder(lambda: admin_of(context, credentials), clock, rings, has_credentials=credentials is not None)


async def _keep_clean(sessions: Sessions, clusters: Clusters, tls: RenewedTls | None) -> None:
    while True:
        await asyncio.sleep(CLEANING_PERIOD_S)
        if tls is not None:
            await tls.renew()
        sessions.end_old()
        clusters.close_idle()
