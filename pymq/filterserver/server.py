"""FilterServer: the composition root. Listens for consumers, reports to its broker, keeps the worker processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pymq.clock import Clock
from pymq.config.security import AUDIT_LOG_FILE_BYTES, AUDIT_LOG_FILE_COUNT
from pymq.filter.running import OnError
from pymq.filterserver.broker_link import BrokerLink
from pymq.filterserver.classes import ClassTable
from pymq.filterserver.filtering import Filtering
from pymq.filterserver.handlers import FilterServerHandlers
from pymq.filterserver.workers import COMMAND, Filter, WorkerPool
from pymq.model.access import EVERY_NAME
from pymq.model.hosts import format_address
from pymq.net.client import RemotingClient
from pymq.net.limits import make_budget
from pymq.net.server import Server
from pymq.net.ticker import Ticker
from pymq.net.tls_settings import TlsContexts
from pymq.security.acl_file import LOOK_PERIOD_MS
from pymq.security.security import open_audit, open_certificate_users, open_security, server_credentials
from pymq.security.sender_limits import SenderLimits
from pymq.wire.dispatch import Dispatcher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FilterServerSettings:
    """``broker`` is "host:port".

    Consumers connect to ``advertised_host``, by default the address that is listened on. The settings from
    ``acl_enable`` on are :class:`SecuritySettings <pymq.config.security.SecuritySettings>`, the last ones
    :class:`AuditSettings <pymq.config.security.AuditSettings>`.
    """

    broker: str
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str = ""
    worker_count: int = 1
    on_error: OnError = OnError.SKIP
    acl_enable: bool = False
    plain_acl_file: str = ""
    inner_credentials_file: str = ""
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    init_authentication_user: str = ""
    inner_client_credentials: str = ""
    auth_file: str = ""
    auth_file_comes_later: bool = False
    audit_log_dir: str = ""
    audit_log_file_bytes: int = AUDIT_LOG_FILE_BYTES
    audit_log_file_count: int = AUDIT_LOG_FILE_COUNT


class FilterServer:
    """One filter server for one broker."""

    def __init__(
        self,
        settings: FilterServerSettings,
        *,
        clock: Clock,
        worker_command: Sequence[str] = COMMAND,
        tls: TlsContexts | None = None,
    ) -> None:
        """``tls``: of the port for consumers and of the connection to the broker.

        Raises ConfigError for a file of the security settings that can't be used.
        """
        tls = tls or TlsContexts(None, None)
        self.settings = settings
        self.address = ""
        self.workers = WorkerPool(settings.worker_count, command=worker_command)
        self.classes = ClassTable(clock, self._forget_later)
        self._clock = clock
        self.server = Server(Dispatcher([], "filter server"), clock=clock, budget=make_budget(), tls=tls.ports)
        credentials = server_credentials(settings)
        self._security = open_security(settings, EVERY_NAME, credentials)
        gate = self._security.gatekeeper if self._security is not None else None
        open_certificate_users(tls.ports.principal_rules if tls.ports is not None else "", gate, clock)
        self.audit = open_audit(settings, clock, "filter server", EVERY_NAME)
        self._security_ticker = Ticker(lambda: LOOK_PERIOD_MS, self.look_at_security)
        sign = credentials.sign if credentials is not None else None
        self._client = RemotingClient(clock=clock, on_lost=lambda _: self._lost(), sign=sign, tls=tls.outgoing)
        self._link: BrokerLink | None = None
        self._handlers: FilterServerHandlers | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_registered(self) -> bool:
        """True while the broker knows this server."""
        return self._link is not None and self._link.is_registered

    @property
    def broker_name(self) -> str:
        """The broker's name; empty until the first contact."""
        return self._link.broker_name if self._link is not None else ""

    @property
    def pending_count(self) -> int:
        """The number of requests that wait for their answer."""
        return self._handlers.pending_count if self._handlers is not None else 0

    async def start(self) -> str:
        """Listen, register at the broker as soon as possible, and return the address for consumers.

        Raises OSError.
        """
        settings = self.settings
        port = await self.server.start(settings.host, settings.port)
        self.address = format_address(settings.advertised_host or settings.host, port)
        self._link = BrokerLink(self._client, settings.broker, self.address)
        self._handlers = FilterServerHandlers(
            link=self._link,
            classes=self.classes,
            workers=self.workers,
            filtering=Filtering(self.workers, on_error=settings.on_error),
            budget=self.server.budget,
        )
        gate = self._security.gatekeeper if self._security is not None else None
        self.server.dispatcher = Dispatcher(self._handlers.routes(), "filter server", None, gate, self.audit)
        if gate is not None:
            gate.limits = SenderLimits(self._clock)
            gate.add_listener(self._handlers.dismiss_all)
        self._security_ticker.start()
        self._spawn(self._link.keep_registered())
        log.info("filter server of broker %s listens on %s", settings.broker, self.address)
        return self.address

    async def stop(self) -> None:
        """Leave the broker, which drops this server from its routes, and end connections and workers."""
        self._security_ticker.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()
        if self._handlers is not None:
            await self._handlers.stop()
        await self.server.stop()
        await self.workers.stop()
        if self.audit is not None:
            self.audit.close()
        self._log_figures()

    def _log_figures(self) -> None:
        for known in self.classes.all():
            stats = known.stats
            log.info(
                "%s read %s through filter %s: %d matched, %d skipped, %d errors, %d ms",
                known.group,
                known.topic,
                known.text.name,
                stats.matched,
                stats.skipped,
                stats.errors,
                stats.time_us // 1000,
            )

    def look_at_security(self) -> None:
        """Follow the file of users if it has changed, and say what the audit log left out."""
        if self._security is not None:
            self._security.look()
        if self.audit is not None:
            self.audit.tick()

    def _lost(self) -> None:
        if self._link is not None:
            self._link.note_lost()

    def _forget_later(self, unwanted: Filter) -> None:
        self._spawn(self.workers.forget(unwanted))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
