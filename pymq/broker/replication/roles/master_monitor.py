"""MasterMonitor: finds a second master of the group, so that the older one steps down; a slave finds its master.

Every few seconds it asks the name servers which brokers are registered. It asks these brokers when that list changed,
after something was wrong, and from time to time; :mod:`.second_master` decides what follows. Only known peers
(:mod:`.known_peers`) are asked. A master names itself in its requests; what another broker says there is a hint to ask
the name servers soon.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import RoleChange
from pymq.broker.replication.roles.second_master import Ourselves, judge, lowest_free_id
from pymq.broker.runtime import Runtime
from pymq.model.route import MASTER_ID

log = logging.getLogger(__name__)

MONITOR_PERIOD_MS = 5000
SEARCH_PERIOD_MS = 1000  # a slave that does not follow
# How long a claim of a broker that is not known stays among the troubles.
CLAIM_SHOWN_MS = 60_000
# The shortest time between two looks that peers' hints cause.
HINT_PERIOD_MS = 200
# How often the members are asked while nothing changes.
MEMBERS_PERIOD_MS = 30_000
# How long an old master waits until the slave that becomes the master leaves its id.
SUCCESSOR_WAIT_MS = 30_000


class KnownMembers(Protocol):
    """What is asked of a :class:`pymq.broker.replication.side.ReplicationSide`."""

    @property
    def is_following(self) -> bool:
        """True while this slave copies its master's log."""
        ...

    @property
    def has_all_slaves(self) -> bool:
        """False while a slave of this master is gone: it may follow another one."""
        ...

    def members(self) -> list[str]:
        """Where members are that are known without name servers, which may be away."""
        ...


class MasterMonitor:
    """Monitors the group of one broker. Call :meth:`tick` about every 100 ms."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        group_probe: GroupProbe,
        own: OwnRole,
        address: str,
        register_now: Callable[[], None] = lambda: None,
        side: KnownMembers,
        known_peers: KnownPeers,
    ) -> None:
        """``address`` is our own. ``register_now`` has this broker register again: the answer to a slave's registration
        names its master, and brokers believe a master that name servers list."""
        self._group_probe = group_probe
        self._clock = runtime.clock
        self._config = runtime.config
        self._role = own.role
        self._address = address
        self._epoch_file = own.epoch_file
        self._change_role = own.change_role
        self._side = side
        self._known_peers = known_peers
        self._master_role = own.master_role
        self._register_now = register_now
        self._is_asking = False
        self._is_closed = False
        self._looked_ms = self._began_ms = self._members_ms = runtime.clock.monotonic_ms()
        self._registered: dict[str, int] = {}  # address -> id, when the members were asked last
        self._is_settled = False  # by the answers of that time
        self._is_urgent = not own.role.is_master  # what kind of master the group has is not known yet
        self._known_master = ""
        self.second_master = ""  # the problem with a second master; empty without one
        self.second_master_address = ""
        self._other_master = ""  # the address of a known master that sent a request
        self._claimed_master = ""  # of one that is not known, until the name servers were asked
        self._claim, self._claimed_ms = "", 0
        self._is_hinted = False
        self._distrusted: tuple[str, ...] = ()
        self._refusal = ""
        known_peers.on_hint = self.look_soon

    @property
    def troubles(self) -> list[str]:
        """Problems for the operator: a second master; members whose word does not count; a name server that has another
        broker under our id."""
        is_recent = self._clock.monotonic_ms() - self._claimed_ms < CLAIM_SHOWN_MS
        claim = self._claim if is_recent else ""
        return [text for text in (self.second_master, *self._distrusted, self._refusal, claim) if text]

    def note_refused(self, why: str) -> None:
        """Note why a name server refused our registration; empty when none does. The next tick probes the group."""
        self._refusal = why
        self._is_urgent = bool(why)

    def note_other_master(self, address: str) -> None:
        """Note a broker at ``address`` that says it is the master. It is asked when it is known, or turns out to be."""
        if not self._role.is_master or address in (self._address, self._other_master):
            return
        if self._known_peers.is_known(address):
            self._other_master = address
            self._is_urgent = True
        else:
            self._claimed_master, self._claimed_ms = address, self._clock.monotonic_ms()
            self._claim = self._known_peers.note_stranger(address, "claims to be the master")

    def look_soon(self) -> None:
        """Ask the name servers soon: a peer that they did not list wants something. At most every HINT_PERIOD_MS."""
        self._is_hinted = True

    def close(self) -> None:
        """Ignore answers that come from now on."""
        self._is_closed = True

    def tick(self) -> None:
        """Start a probe when one is due."""
        if self._is_asking or self._is_closed or not self._is_due():
            return
        self._is_asking = True
        self._group_probe.registered(self._config.namesrv_addresses, self._look)

    def _is_due(self) -> bool:
        if self._is_urgent:
            return True
        waited_ms = self._clock.monotonic_ms() - self._looked_ms
        if self._is_hinted and waited_ms >= HINT_PERIOD_MS:
            return True
        return waited_ms >= MONITOR_PERIOD_MS or (waited_ms >= SEARCH_PERIOD_MS and not self._is_content())

    def _is_content(self) -> bool:
        return self._role.is_master or self._side.is_following

    def _look(self, registered: dict[str, int]) -> None:
        """Ask the members, unless nothing changed."""
        self._looked_ms = self._clock.monotonic_ms()
        self._is_hinted = False
        self._take_claim()
        if not self._is_closed:
            self._known_peers.save()
        if self._role.is_master and registered and self._address not in registered:
            self._register_now()  # other masters believe only a listed one
        if self._is_closed or self._is_as_before(registered):
            self._is_asking = False
            return
        self._registered, self._members_ms = registered, self._looked_ms
        if not self._role.is_master and self._side.is_following:
            for address in self._side.members():
                self._known_peers.confirm(address)  # our master, of which this broker may be the successor
        away = [] if registered else self._known_peers.addresses()
        also = [*filter(self._known_peers.is_known, [*self._side.members(), self._other_master]), *away]
        self._group_probe.members(registered, self._address, self._taken, also, is_master=self._role.is_master)

    def _take_claim(self) -> None:
        claimed, self._claimed_master = self._claimed_master, ""
        if claimed and self._known_peers.is_known(claimed):
            self._other_master, self._is_urgent, self._claim = claimed, True, ""

    def _is_as_before(self, registered: dict[str, int]) -> bool:
        if not registered or registered != self._registered:  # without name servers the members must be asked
            return False
        if self._is_urgent or not self._is_settled or not self._is_content() or not self._side.has_all_slaves:
            return False
        return self._clock.monotonic_ms() - self._members_ms < MEMBERS_PERIOD_MS

    def _taken(self, members: list[Member]) -> None:
        self._is_asking = self._is_urgent = False
        self._looked_ms = self._clock.monotonic_ms()
        if self._is_closed:
            return
        self._known_peers.note_members(members)
        masters = self._role.is_master + sum(member.broker_id == MASTER_ID for member in members)
        if not any(member.address == self._other_master and member.broker_id == MASTER_ID for member in members):
            self._other_master = ""
        self._is_settled = masters == 1 and all(member.answered and not member.is_changing for member in members)
        if self._role.is_master:
            self._check_masters(members)
        else:
            config = self._config
            ours = [member for member in members if member.is_of(config.broker_cluster_name, config.broker_name)]
            self._check_id(ours)
            self._note_master(ours)

    def _check_id(self, ours: list[Member]) -> None:
        """Take another id when a living member has ours and a name server refused our registration for that.

        Ids move when the master changes: a slave that was away meanwhile may find its id taken.
        """
        own_id = self._role.broker_id
        settled = [member for member in ours if member.answered and not member.is_changing]
        owner = next((member for member in settled if member.broker_id == own_id), None)
        if not self._refusal or owner is None or self._is_successor(owner):
            return
        free = lowest_free_id(ours)
        why = f"id {own_id} of {self._config.broker_name} belongs to {owner.address} now, {free} is free"
        self._change_role(RoleChange(replace(self._role, broker_id=free), why))

    def _is_successor(self, slave: Member) -> bool:
        """Return True for the slave that this broker stepped down for: it becomes the master and leaves its id."""
        waited_ms = self._clock.monotonic_ms() - self._began_ms
        return slave.address == self._role.master_address and waited_ms < SUCCESSOR_WAIT_MS

    def _check_masters(self, members: list[Member]) -> None:
        config = self._config
        us = Ourselves(config.broker_cluster_name, config.broker_name, self._address, self._epoch_file.history)
        found = judge(us, members)
        if found.second_master != self.second_master:
            self.second_master, self.second_master_address = found.second_master, found.second_master_address
            if found.second_master:
                log.error("%s", found.second_master)
        for text in found.distrusted:
            if text not in self._distrusted:
                log.error("%s", text)
        self._distrusted = found.distrusted
        if found.step_down is not None:
            self._change_role(RoleChange(found.step_down, found.why))

    def _note_master(self, ours: list[Member]) -> None:
        masters = [member for member in ours if member.broker_id == MASTER_ID and member.answered and not member.doubt]
        if not masters:
            self._known_master = ""
            return
        master = max(masters, key=lambda member: member.epoch)
        if master.status is not None:
            self._master_role.note(master.status.role)
        if master.address != self._known_master:
            self._known_master = master.address
            self._register_now()
