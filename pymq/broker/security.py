"""BrokerSecurity: what users and permissions change of a broker: its dispatcher, its fast path, its own requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.upkeep.jobs import Job
from pymq.broker.wiring import broker_dispatcher
from pymq.security.acl_file import LOOK_PERIOD_MS
from pymq.security.security import open_security, server_credentials

if TYPE_CHECKING:
    from pymq.broker.parts import BrokerParts
    from pymq.config import BrokerConfig
    from pymq.net.client import Sign
    from pymq.net.server import FastPath
    from pymq.security.credentials import Credentials
    from pymq.wire.dispatch import Dispatcher

ACL_JOB = "ACL file"


class BrokerSecurity:
    """One broker's. Without security settings it changes nothing."""

    def __init__(self, config: BrokerConfig, credentials: Credentials | None = None) -> None:
        """``credentials``: those of servers, in place of the file that the settings name.

        Raises ConfigError for a file that can't be used.
        """
        credentials = credentials or server_credentials(config)
        self.sign: Sign | None = credentials.sign if credentials is not None else None  # the broker's own requests
        self._security = open_security(config, config.broker_cluster_name, credentials)
        self._parts: BrokerParts | None = None
        if self._security is not None:
            self._security.gatekeeper.add_listener(self._changed)

    def dispatcher(self, parts: BrokerParts) -> Dispatcher:
        """Return the table of requests of a broker that serves with ``parts`` from now on."""
        self._parts = parts
        return broker_dispatcher(parts, None if self._security is None else self._security.gatekeeper)

    def fast_path(self, parts: BrokerParts) -> FastPath:
        """Return the fast path of ``parts``."""
        if self._security is None:
            return parts.requests.fast_path
        return parts.requests.secured_fast_path(self._security.gatekeeper)

    def jobs(self) -> list[Job]:
        """Return the job that follows the ACL file."""
        return [] if self._security is None else [Job(ACL_JOB, LOOK_PERIOD_MS, self._security.look)]

    def _changed(self) -> None:
        if self._parts is not None:
            self._parts.requests.dismiss_all()
