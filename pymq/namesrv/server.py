"""NameServer: connects table, handlers and the listening side, and looks for silent brokers at intervals."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pymq.clock import Clock
from pymq.config import NamesrvConfig
from pymq.config.runtime import Keeper, RuntimeSettings
from pymq.model.access import EVERY_NAME
from pymq.model.hosts import format_address
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.routes import namesrv_routes
from pymq.namesrv.table import RouteTable
from pymq.net.limits import make_budget, server_limits
from pymq.net.memory_budget import MemoryBudget
from pymq.net.server import Connection, Server
from pymq.net.server_hooks import ServerHooks
from pymq.net.ticker import Ticker
from pymq.net.tls_settings import TlsContexts
from pymq.security.acl_file import LOOK_PERIOD_MS
from pymq.security.credentials import Credentials
from pymq.security.security import (
    open_audit,
    open_certificate_users,
    open_requests,
    open_security,
    server_credentials,
)
from pymq.security.sender_limits import SenderLimits
from pymq.wire.controller_codes import CONTROLLER_REFUSALS
from pymq.wire.dispatch import Dispatcher

log = logging.getLogger(__name__)


class NameServer:
    """One name server.

    ``table`` and ``kv`` are its whole state; ``server`` holds the connections and their counters.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        config: NamesrvConfig | None = None,
        budget: MemoryBudget | None = None,
        keeper: Keeper | None = None,
        credentials: Credentials | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``budget``: the process's, when another role shares it; ``keeper``, which saves before it returns, keeps
        changes of settings; ``credentials``: those of servers, in place of the file that the settings name; ``now_s``
        measures how long work takes.

        Raises ConfigError for a file of the security settings that can't be used.
        """
        self.config = config or NamesrvConfig()
        budget = budget or make_budget(self.config.memory_budget_bytes)
        self.table = RouteTable(clock, self.config, budget)
        self.kv = KvConfig()
        self.runtime_settings = RuntimeSettings(
            self.config,
            clock.now_ms,
            keeper,
            no_keeper_text="this name server keeps nothing on disk: start it with runtimeSettingsPath=FILE",
        )
        routes = namesrv_routes(self.table, self.kv, self.config, self.runtime_settings)
        credentials = credentials or server_credentials(self.config)
        self.security = open_security(self.config, EVERY_NAME, credentials)
        gate = self.security.gatekeeper if self.security is not None else None
        if gate is not None:
            gate.limits = SenderLimits(clock, self.config)
            gate.open_requests = open_requests(self.config)
        open_certificate_users(self.config.tls_server_principal_mapping_rules, gate, clock)
        self.audit = open_audit(self.config, clock, "name server", EVERY_NAME)
        self.dispatcher = Dispatcher(routes, "name server", CONTROLLER_REFUSALS, gate, self.audit)
        self.server = Server(
            self.dispatcher,
            clock=clock,
            limits=server_limits(self.config),
            hooks=ServerHooks(on_disconnect=self._connection_closed),
            budget=budget,
            tls=TlsContexts.of(self.config, clock).client_ports,
            now_s=now_s,
        )
        self.config.add_listener(lambda changed: self.server.take_limits(server_limits(self.config)))
        self.address = ""
        self._tickers = [Ticker(lambda: self.config.scan_interval_ms, self._run_tick)]
        if self.security is not None:
            self._tickers.append(Ticker(lambda: LOOK_PERIOD_MS, self.security.look))
        if self.audit is not None:
            self._tickers.append(Ticker(lambda: LOOK_PERIOD_MS, self.audit.tick))

    async def start(self, host: str | None = None, port: int | None = None) -> int:
        """Listen on ``host:port``, by default as configured (port 0: any free port), and return the port."""
        self.runtime_settings.load()
        host = self.config.bind_address if host is None else host
        bound = await self.server.start(host, self.config.listen_port if port is None else port)
        self.address = format_address(host, bound)
        for ticker in self._tickers:
            ticker.start()
        log.info("name server listens on %s", self.address)
        return bound

    async def stop(self) -> None:
        """Close the listener and all connections. The registrations exist only in this object."""
        for ticker in self._tickers:
            ticker.stop()
        await self.server.stop()
        if self.audit is not None:
            self.audit.close()

    def tick(self) -> None:
        """Remove the brokers that were silent for too long."""
        for identity in self.table.expire():
            log.warning("broker offline, no sign of life: %s", identity)

    def _run_tick(self) -> None:
        begun_s = self.server.turns.begin()
        self.tick()
        self.server.turns.end(begun_s, "job: silent brokers")

    def _connection_closed(self, connection: Connection) -> None:
        for identity in self.table.connection_closed(connection):
            log.warning("broker offline, its connection from %s is closed: %s", connection.address, identity)
