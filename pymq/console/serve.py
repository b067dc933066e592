"""Runs a console: one listening socket, its sessions and clients, until its owner ends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pymq.clock import Clock
from pymq.console.answers import Shell
from pymq.console.app import PAGES, Console, make_app
from pymq.console.asking.clusters import Clusters
from pymq.console.audit import FILE_COUNT_MAX, SIZE_MAX_BYTES, Audit
from pymq.console.changes.flow import Changes
from pymq.console.clients import Clients
from pymq.console.metrics import ConsoleMetrics
from pymq.console.pages.about import About
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Sessions
from pymq.console.settings import ConsoleSettings
from pymq.console.web.counting import Counted
from pymq.console.web.origins import Origins
from pymq.console.web.renewed_tls import RenewedTls
from pymq.console.web.serving import BACKLOG, serving
from pymq.console.web.static_files import StaticFiles
from pymq.net.tls import ServerContext
from pymq.operations.message.schemas import Schemas
from pymq.security.audit_file import AuditFile

CLEANING_PERIOD_S: Final = 10.0


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

    clients = Clients(settings, clock)
    sessions, clusters = Sessions(clock, port, settings.contexts), clients.clusters()
    recorders = {name: clients.recorder(name) for name in settings.contexts}
    checkups = {name: clients.checkup(name) for name in settings.contexts}
    needs_log_in = not settings.is_local and not settings.is_insecure
    changes = None
    if settings.allow_changes:
        file = AuditFile(settings.audit_directory, SIZE_MAX_BYTES, FILE_COUNT_MAX) if settings.audit_directory else None
        changes = Changes(Audit(clock, file), clock)
    shell = Shell(
        clusters=clusters,
        sessions=sessions,
        log_ins=LogIns(sessions, clients.prove, clock),
        clock=clock,
        static=StaticFiles("pymq.console"),
        needs_log_in=needs_log_in,
        changes=changes,
        shows_bodies=settings.shows_bodies,
        schemas=schemas,
        recorders=recorders,
        checkups=checkups,
        examine=clients.examine,
        streams=settings.memory.streams(),
    )
    is_encrypted = origins.all[0].startswith("https:")
    about = About(
        list(settings.contexts),
        settings.memory,
        lambda: {
            "sessions": len(sessions),
            "persons with connections": len(clusters),
            "series of the last hour": sum(recorder.rings.count for recorder in recorders.values()),
            "bytes of kept answers": clusters.room.held_bytes,
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


async def _keep_clean(sessions: Sessions, clusters: Clusters, tls: RenewedTls | None) -> None:
    while True:
        await asyncio.sleep(CLEANING_PERIOD_S)
        if tls is not None:
            await tls.renew()
        sessions.end_old()
        clusters.close_idle()
