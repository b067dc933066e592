"""BrokerSecurity: what users and permissions change of a broker: its dispatcher, its fast path, its own requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.replication.peer_proof import PeerProof
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, Job
from pymq.config.security import has_users
from pymq.errors import ConfigError
from pymq.model.access import ResourceKind
from pymq.security.acl_file import LOOK_PERIOD_MS
from pymq.security.acl_migration import read_accounts, with_accounts
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import Users, UserType
from pymq.security.made_by_users import MadeByUsers
from pymq.security.policies import Policies
from pymq.security.security import (
    first_administrator,
    open_audit,
    open_certificate_users,
    open_requests,
    open_security,
    server_credentials,
    wanted_checks,
)
from pymq.security.sender_limits import SenderLimits
from pymq.wire.codes import RequestCode

if TYPE_CHECKING:
    from pymq.broker.assembly.parts import BrokerParts
    from pymq.broker.metadata.auth_manager import AuthManager
    from pymq.clock import Clock
    from pymq.config import BrokerConfig
    from pymq.net.client import Sign
    from pymq.net.server import FastPath
    from pymq.security.credentials import Credentials
    from pymq.wire.command import Command
    from pymq.wire.dispatch import Dispatcher, Gate

log = logging.getLogger(__name__)

ACL_JOB = "ACL file"
# What the client library asks name servers.
_OF_NAME_SERVERS = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)


class BrokerSecurity:
    """One broker's. Without security settings it changes nothing.

    Its users come from an ACL file of 4.x, or from the table that its metadata keep.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, credentials: Credentials | None = None) -> None:
        """``credentials``: of servers, in place of the file that the settings name.

        Raises ConfigError for a file or a value that can't be used.
        """
        credentials = credentials or server_credentials(config)
        self.sign: Sign | None = credentials.sign if credentials is not None else None  # the broker's own requests
        self._server_user = credentials.server_user() if credentials is not None else None
        self._config = config
        self._clock = clock
        self._cluster = config.broker_cluster_name
        self._acl = None
        self._gatekeeper: Gatekeeper | None = None
        self._accounts = read_accounts(config.plain_acl_file) if config.migrate_auth_from_v1 else None
        self._on_users: list[Callable[[], None]] = []
        if has_users(config):
            self._gatekeeper = Gatekeeper(Guard(Users(), Policies(), self._cluster, wanted_checks(config)))
        else:
            self._acl = open_security(config, self._cluster, credentials)
            self._gatekeeper = self._acl.gatekeeper if self._acl is not None else None
        open_certificate_users(config.tls_server_principal_mapping_rules, self._gatekeeper, clock)
        server = f"{config.broker_name}-{config.broker_id}"
        self.audit = open_audit(config, clock, server, self._cluster)
        self.peer_proof = PeerProof(
            is_required=self._gatekeeper is not None, prove=credentials.prove if credentials is not None else None
        )
        self._parts: BrokerParts | None = None
        if self._gatekeeper is not None:
            self._gatekeeper.add_listener(self._changed)
            self._gatekeeper.limits = SenderLimits(clock, config)
            self._gatekeeper.open_requests = open_requests(config)

    def dispatcher(self, parts: BrokerParts) -> Dispatcher:
        """Return the table of requests of a broker that serves with ``parts`` from now on.

        Raises ConfigError when there would be no administrator, StoreError when the first one can't be saved.
        """
        self._parts = parts
        auth = parts.metadata.auth
        if auth.is_on:
            self._begin(auth, is_master=parts.role.is_master)
        if self._gatekeeper is not None:
            self._gatekeeper.made = self._made_by_users(parts)
        return broker_dispatcher(parts, self._gatekeeper, self.audit)

    @property
    def member_gate(self) -> Gate | None:
        """What stands before a group's members while the broker is closed: its metadata's users are not known then."""
        if self._gatekeeper is None or not has_users(self._config):
            return self._gatekeeper
        servers = [] if self._server_user is None else [self._server_user]
        return Gatekeeper(Guard(Users(servers), Policies(), self._cluster))

    @property
    def gatekeeper(self) -> Gatekeeper | None:
        """What admits senders; None when everybody may send everything."""
        return self._gatekeeper

    def open_port(self, credentials: Credentials) -> Sign | None:
        """Return what a gRPC port of this process signs with; None when nobody checks it.

        Name servers know the servers' user, and this broker ``credentials`` from now on. No other server knows them.
        """
        if self._gatekeeper is None:
            return self.sign
        self._gatekeeper.admit_port(credentials.user(UserType.NORMAL))

        def sign(command: Command) -> None:
            if command.code not in _OF_NAME_SERVERS:
                credentials.sign(command)
            elif self.sign is not None:
                self.sign(command)

        return sign

    def _made_by_users(self, parts: BrokerParts) -> MadeByUsers | None:
        """Return the limits of what users make; None without one, and on a slave, which makes nothing."""
        config, metadata = self._config, parts.metadata
        if not parts.role.is_master or not (config.user_topic_count_max or config.user_group_count_max):
            return None
        made = MadeByUsers(
            config,
            self._clock,
            {
                ResourceKind.TOPIC: lambda name: metadata.topics.get(name) is not None,
                ResourceKind.GROUP: lambda name: metadata.groups.get(name) is not None,
            },
            metadata.made_by_users,
        )
        made.load()
        return made

    def fast_path(self, parts: BrokerParts) -> FastPath:
        """Return the fast path of ``parts``."""
        if self._gatekeeper is None:
            return parts.requests.fast_path
        if self._gatekeeper.limits is not None and self._gatekeeper.limits.is_on:
            return lambda connection, payload: False  # each request is counted
        return parts.requests.secured_fast_path(self._gatekeeper)

    def jobs(self) -> list[Job]:
        """Return the jobs that follow the ACL file, save what users have made, and tell what the audit log left out."""
        jobs = [] if self._acl is None else [Job(ACL_JOB, LOOK_PERIOD_MS, self._acl.look)]
        if self._gatekeeper is not None and self._gatekeeper.made is not None:
            jobs.append(Job("made by users", SLOW_TICK_PERIOD_MS, self._gatekeeper.made.tick))
        return jobs if self.audit is None else [*jobs, Job("audit log", LOOK_PERIOD_MS, self.audit.tick)]

    def add_users_listener(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each change of the users that the metadata keep."""
        self._on_users.append(listener)

    def _migrate(self, auth: AuthManager) -> None:
        """Make users of the accounts of an ACL file of 4.x."""
        assert self._accounts is not None
        reserved = self._server_user.name if self._server_user is not None else ""
        known = {user.name for user in auth.table.users}
        auth.change_at_start(lambda table: with_accounts(table, self._accounts.accounts, reserved))  # type: ignore[union-attr]
        taken = [user.name for user in auth.table.users if user.name not in known]
        if taken:
            log.info("accounts that became users: %s", ", ".join(taken))
            for note in self._accounts.notes:
                log.warning("%s", note)

    def _begin(self, auth: AuthManager, *, is_master: bool) -> None:
        if is_master and self._accounts is not None:
            self._migrate(auth)
        if is_master and not auth.table.has_administrator:
            first = first_administrator(self._config)
            if first is None:
                raise ConfigError(
                    "requests are checked, and no enabled user of type Super is there that could make others: "
                    "set initAuthenticationUser (pymq auth init DIR prints the settings)"
                )
            auth.ensure_administrator(first)
        if self._server_user is not None:
            auth.reserve(self._server_user)
        auth.add_listener(lambda: self._take_users(auth))
        self._take_users(auth)

    def _take_users(self, auth: AuthManager) -> None:
        if self._parts is None or self._parts.metadata.auth is not auth or self._gatekeeper is None:
            return  # of another role, which has ended
        server_user = self._server_user
        users = [user for user in auth.table.users if server_user is None or user.name != server_user.name]
        if server_user is not None:
            users.append(server_user)
        checks = wanted_checks(self._config)
        self._gatekeeper.replace(Guard(Users(users), auth.table.policies, self._cluster, checks))
        for listener in self._on_users:
            listener()

    def close(self) -> None:
        """Save what users have made, and close the audit log."""
        if self._gatekeeper is not None and self._gatekeeper.made is not None:
            self._gatekeeper.made.save()
        if self.audit is not None:
            self.audit.close()

    def _changed(self) -> None:
        if self._parts is not None:
            self._parts.requests.dismiss_all()
            self._parts.metadata.clients.forget_unproven()
        if self._gatekeeper is not None and self._gatekeeper.made is not None:
            self._gatekeeper.made.forget_others({user.name for user in self._gatekeeper.guard.users})
