"""Watch: two masters of one name are found, and the older one steps down; a slave hears of its master.

Every few seconds the name servers are asked who is registered, and those brokers too when that changed, when something
was not as it should be, and now and then; :mod:`.second_masters` says what follows from their answers. Masters that look at
others say who they are, so that whoever is not registered is seen all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from pymq.broker.replication.epoch_history import EpochHistory
from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.role import ChangeRole, Role, RoleChange
from pymq.broker.replication.roles.second_master import Ourselves, judge, lowest_free_id
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import MASTER_ROLES
from pymq.model.route import MASTER_ID

log = logging.getLogger(__name__)

MONITOR_PERIOD_MS = 5000
SEARCH_PERIOD_MS = 1000  # a slave that does not follow
# How often the members of a group in which nothing changes are asked all the same.
MEMBERS_PERIOD_MS = 30_000
# How long an old master waits for the id of the slave that is to become the master.
SUCCESSOR_WAIT_MS = 30_000


class MasterMonitor:
    """Looks at the group of one broker while its parts live. Call :meth:`tick` about every 100 ms."""

    def __init__(
        self,
        *,
        group_probe: GroupProbe,
        clock: Clock,
        config: BrokerConfig,
        role: Role,
        address: str,
        epoch_history: Callable[[], EpochHistory],
        change_role: ChangeRole,
        is_following: Callable[[], bool] = lambda: False,
        has_all_slaves: Callable[[], bool] = lambda: True,
        known: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``address``: our own; ``has_all_slaves``: no slave of this master has gone, who may have gone to another one;
        ``known``: where members are that we know without name servers, which may be away."""
        self._group_probe = group_probe
        self._clock = clock
        self._config = config
        self._role = role
        self._address = address
        self._epoch_history = epoch_history
        self._change_role = change_role
        self._is_following = is_following
        self._has_all_slaves = has_all_slaves
        self._known = known
        # The composition root's: a slave's registration tells where its master is; what kind of master it is
        # is kept for the day this broker takes over.
        self.register_now: Callable[[], None] = lambda: None
        self.on_master_role: Callable[[str], None] = lambda master_role: None
        self._is_asking = False
        self._is_closed = False
        self._looked_ms = self._began_ms = self._members_ms = clock.monotonic_ms()
        self._registered: dict[str, int] = {}  # address -> id, when the members were asked last
        self._is_settled = False  # by what they said then
        self._is_urgent = not role.is_master  # what kind of master the group has is not known yet
        self._known_master = ""
        self.master_role = role.master_role  # what a slave's master was when it was last seen
        self.second_master = ""  # why another master is a problem, empty when there is none
        self.second_master_address = ""
        self._told_of = ""  # a master that looked at us
        self._refusal = ""

    @property
    def troubles(self) -> list[str]:
        """What an operator should know: another master, a name server that has somebody else under our id."""
        return [text for text in (self.second_master, self._refusal) if text]

    def note_refused(self, why: str) -> None:
        """A name server did not take our registration; empty: all do. The next tick takes a group probe."""
        self._refusal = why
        self._is_urgent = bool(why)

    def note_other_master(self, address: str) -> None:
        """A broker at ``address`` says that it is the master. The next tick takes a group probe, once for each."""
        if self._role.is_master and address not in (self._address, self._told_of):
            self._told_of = address
            self._is_urgent = True

    def note_master_role(self, master_role: str) -> None:
        """The group's master is an ASYNC_MASTER or a SYNC_MASTER, which is kept; another word is no master's."""
        if master_role in MASTER_ROLES:
            self.master_role = master_role
            self.on_master_role(master_role)

    def close(self) -> None:
        """Answers under way are ignored."""
        self._is_closed = True

    def tick(self) -> None:
        """Looks around when it is time."""
        if self._is_asking or self._is_closed or not self._is_due():
            return
        self._is_asking = True
        self._group_probe.registered(self._config.namesrv_addresses, self._look)

    def _is_due(self) -> bool:
        if self._is_urgent:
            return True
        waited_ms = self._clock.monotonic_ms() - self._looked_ms
        return waited_ms >= MONITOR_PERIOD_MS or (waited_ms >= SEARCH_PERIOD_MS and not self._is_content())

    def _is_content(self) -> bool:
        return self._role.is_master or self._is_following()

    def _look(self, registered: dict[str, int]) -> None:
        """Asks the members unless all is as it was."""
        self._looked_ms = self._clock.monotonic_ms()
        if self._is_closed or self._is_as_before(registered):
            self._is_asking = False
            return
        self._registered, self._members_ms = registered, self._looked_ms
        also = [*self._known(), *filter(None, [self._told_of])]
        self._group_probe.members(registered, self._address, self._taken, also, is_master=self._role.is_master)

    def _is_as_before(self, registered: dict[str, int]) -> bool:
        if not registered or registered != self._registered:  # without name servers only the members themselves tell
            return False
        if self._is_urgent or not self._is_settled or not self._is_content() or not self._has_all_slaves():
            return False
        return self._clock.monotonic_ms() - self._members_ms < MEMBERS_PERIOD_MS

    def _taken(self, members: list[Member]) -> None:
        self._is_asking = self._is_urgent = False
        self._looked_ms = self._clock.monotonic_ms()
        if self._is_closed:
            return
        masters = self._role.is_master + sum(member.broker_id == MASTER_ID for member in members)
        if not any(member.address == self._told_of and member.broker_id == MASTER_ID for member in members):
            self._told_of = ""
        self._is_settled = masters == 1 and all(member.answered and not member.is_changing for member in members)
        if self._role.is_master:
            self._check_masters(members)
        else:
            config = self._config
            ours = [member for member in members if member.is_of(config.broker_cluster_name, config.broker_name)]
            self._check_id(ours)
            self._note_master(ours)

    def _check_id(self, ours: list[Member]) -> None:
        """Ids move when masters change: a slave that was away meanwhile may find another one under its own.

        A name server refused it for that, and whoever has the id lives: it takes another.
        """
        own_id = self._role.broker_id
        settled = [member for member in ours if member.answered and not member.is_changing]
        holder = next((member for member in settled if member.broker_id == own_id), None)
        if not self._refusal or holder is None or self._is_successor(holder):
            return
        free = lowest_free_id(ours)
        why = f"id {own_id} of {self._config.broker_name} belongs to {holder.address} now, {free} is free"
        self._change_role(RoleChange(replace(self._role, broker_id=free), why))

    def _is_successor(self, slave: Member) -> bool:
        """Whether it is about to become the master that this broker stepped down for, and so leaves its id."""
        waited_ms = self._clock.monotonic_ms() - self._began_ms
        return slave.address == self._role.master_address and waited_ms < SUCCESSOR_WAIT_MS

    def _check_masters(self, members: list[Member]) -> None:
        config = self._config
        us = Ourselves(config.broker_cluster_name, config.broker_name, self._address, self._epoch_history())
        found = judge(us, members)
        if found.second_master != self.second_master:
            self.second_master, self.second_master_address = found.second_master, found.second_master_address
            if found.second_master:
                log.error("%s", found.second_master)
        if found.step_down is not None:
            self._change_role(RoleChange(found.step_down, found.why))

    def _note_master(self, ours: list[Member]) -> None:
        masters = [member for member in ours if member.broker_id == MASTER_ID and member.answered]
        if not masters:
            self._known_master = ""
            return
        master = max(masters, key=lambda member: member.epoch)
        if master.status is not None:
            self.note_master_role(master.status.role)
        if master.address != self._known_master:
            self._known_master = master.address
            self.register_now()
