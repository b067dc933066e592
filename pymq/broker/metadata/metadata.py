"""Metadata: a broker's managers of topics, consumer groups, offsets, leases, clients and filter servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pymq.broker.metadata.auth_manager import AuthManager
from pymq.broker.metadata.broadcast_begins import BroadcastBegins
from pymq.broker.metadata.clients import ClientManager
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.filter_servers import FilterServers
from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.leaser import Leaser
from pymq.broker.metadata.made_by_users_table import MadeByUsersTable
from pymq.broker.metadata.order_infos import MEMBER as ORDER_INFOS_MEMBER
from pymq.broker.metadata.order_infos import OrderInfos
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.metadata.request_modes import MEMBER as MODES_MEMBER
from pymq.broker.metadata.request_modes import RequestModes
from pymq.broker.metadata.saved_table import SavedTable
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.metadata.topics import TopicManager
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, Job
from pymq.config.security import AUTH_FILE_NAME, has_users
from pymq.errors import StoreUnavailableError
from pymq.model.inner_batch import has_batch_queues
from pymq.security.made_by_users import MADE_FILE, MADE_MEMBER
from pymq.security.user_table import USERS as USERS_MEMBER
from pymq.store.store import MessageStore

# Makes a role's manager of offsets from its saver, a slave's pending offsets, and the ends of queues.
MakeCursors = Callable[[TableSaver, PendingOffsets, MaxOffset], CursorManager]


class Metadata:
    """The managers by name. A slave's cursors are its master's; ``pending_offsets`` wait for a master."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        is_master: bool,
        store: MessageStore,
        config_tables: ConfigTables,
        make_cursors: MakeCursors,
        on_filter_servers: Callable[[], None],
    ) -> None:
        """``make_cursors`` makes the offsets of this role; ``on_filter_servers`` is called when the filter servers'
        addresses change."""

        def sync_log() -> None:
            """Sync the log: no saved offset may be past its end after a power loss. A failed log stops no save."""
            with suppress(StoreUnavailableError):
                store.sync(log_only=True)

        self._is_master = is_master
        self._config_tables = config_tables
        self.share_deletions = config_tables.share_deletions
        self.topics = TopicManager(
            config_tables.saver("topics.json", "topicConfigTable"), clock=runtime.clock, config=runtime.config
        )

        def set_queue_kinds(changed: list[str]) -> None:
            for name in changed:
                topic = self.topics.get(name)
                store.set_queue_kind(name, holds_batches=topic is not None and has_batch_queues(topic.attributes))

        self.topics.add_listener(set_queue_kinds)
        self.groups = GroupManager(
            config_tables.saver("subscriptionGroup.json", "subscriptionGroupTable"),
            clock=runtime.clock,
            config=runtime.config,
            makes_groups=is_master,
        )
        self.pending_offsets = PendingOffsets(
            config_tables.saver("pendingOffsets.json", "pendingOffsets"), clock=runtime.clock
        )
        offsets = config_tables.saver("consumerOffset.json", "offsetTable", sync_log)
        self.cursors = make_cursors(offsets, self.pending_offsets, store.max_offset)
        self.made_by_users = MadeByUsersTable(config_tables.saver(MADE_FILE, MADE_MEMBER))
        self.request_modes = RequestModes(
            config_tables.saver("messageRequestMode.json", MODES_MEMBER), clock=runtime.clock
        )
        self.order_infos = OrderInfos(
            config_tables.saver("consumerOrderInfo.json", ORDER_INFOS_MEMBER),
            clock=runtime.clock,
            config=runtime.config,
        )
        self.auth = AuthManager(
            # An older file would bring back users that were deleted, and what they were allowed.
            config_tables.saver(AUTH_FILE_NAME, USERS_MEMBER, may_go_back=False),
            clock=runtime.clock,
            is_on=has_users(runtime.config),
        )
        self._saved_tables: dict[str, SavedTable[Any]] = {  # by the name of the job that saves what could not be saved
            "topics": self.topics,
            "groups": self.groups,
            "request modes": self.request_modes,
            "users": self.auth,
        }
        self.leaser = Leaser(clock=runtime.clock, config=runtime.config)
        self.clients = ClientManager(
            clock=runtime.clock, config=runtime.config, groups=self.groups, budget=runtime.budget
        )
        self.broadcast_begins = BroadcastBegins(self.clients)
        self.filter_servers = FilterServers(runtime.clock, on_filter_servers)

    def load(self) -> None:
        """Read the saved tables. Raises StoreError."""
        self.topics.load(is_copy=not self._is_master)
        self.groups.load()
        self.cursors.load()
        self.request_modes.load()
        self.order_infos.load()
        if self.auth.is_on:
            self._config_tables.check_private(AUTH_FILE_NAME)
            self.auth.load()

    def jobs(self) -> list[Job]:
        """Return the jobs that save and expire entries."""
        return [
            *[Job(name, SLOW_TICK_PERIOD_MS, table.tick) for name, table in self._saved_tables.items()],
            Job("cursors", SLOW_TICK_PERIOD_MS, self.cursors.tick),
            Job("order information", SLOW_TICK_PERIOD_MS, self.order_infos.tick),
            Job("clients", SLOW_TICK_PERIOD_MS, self.clients.tick),
            Job("filter servers", SLOW_TICK_PERIOD_MS, self.filter_servers.tick),
            Job("leases", SLOW_TICK_PERIOD_MS, self.leaser.tick),
        ]

    def stop(self) -> None:
        """Ignore the result of a save that still runs: another thread is about to save everything."""
        for table in self._saved_tables.values():
            table.stop()

    def saves(self) -> list[Callable[[], None]]:
        """Return what saves each table now, in the order to call them. Each may raise StoreError."""
        return [
            self.topics.save,
            self.groups.save,
            self.order_infos.save,
            self.request_modes.save,
            self.auth.save,
            self.pending_offsets.save,
            self.cursors.save,
        ]
