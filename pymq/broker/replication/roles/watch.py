"""Watch: two masters of one name are found, and the older one steps down; a slave hears of its master.

At a master's start a census is taken; every few seconds after it the name servers are asked who is registered, and
those brokers too when that changed, when something was not as it should be, and now and then. Whoever knows of a newer
epoch proves that another master was made since: this broker becomes a slave; but not at its start with a directory that
has nothing of that master's history, then it was not meant and the broker refuses to run. Another master with the same
epoch, or none, is nobody's to overrule: at the start this broker refuses to run, later both go on and say so, until an
operator chooses. One with an older epoch will find this broker, and step down. Masters that look at others say who they
are, so that whoever is not registered is seen all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pymq.broker.replication.lineage import Lineage
from pymq.broker.replication.roles.census import Census, Member
from pymq.broker.replication.roles.role import MASTER_ID, ChangeRole, Role, RoleChange
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import MASTER_ROLES

log = logging.getLogger(__name__)

WATCH_PERIOD_MS = 5000
SEARCH_PERIOD_MS = 1000  # a slave that does not follow
# How often the members of a group in which nothing changes are asked all the same.
MEMBERS_PERIOD_MS = 30_000
# How long an old master waits for the id of the slave that is to become the master.
SUCCESSOR_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Findings:
    """What a master makes of its group. At most one of the first two is set.

    ``step_down``: it must become this slave, for ``why``; ``rival``: another master that can't be overruled, a text
    with the next step, at ``rival_address``; ``warnings``: for the operator.
    """

    step_down: Role | None = None
    why: str = ""
    rival: str = ""
    rival_address: str = ""
    warnings: tuple[str, ...] = field(default=())


def judge(
    cluster: str,
    broker_name: str,
    own_address: str,
    lineage: Lineage,
    members: Sequence[Member],
    *,
    is_starting: bool = False,
    flags_id: int = MASTER_ID,
) -> Findings:
    """What a master with this lineage must do, given the other members of its group. ``flags_id``: which id its flags
    or file give; with the same one again it would start as the same again."""
    ours = [member for member in members if _is_of(member, cluster, broker_name)]
    newest = max(ours, key=lambda member: (member.epoch, member.broker_id == MASTER_ID), default=None)
    if newest is not None and newest.epoch > lineage.epoch:
        is_master = newest.broker_id == MASTER_ID
        what = "is the master" if is_master else f"is slave {newest.broker_id} of a master that is not there now"
        why = f"{newest.address} {what} with epoch {newest.epoch}, ours is {lineage.epoch}"
        if is_starting and not _shares_history(lineage, newest):
            return Findings(
                rival=f"{own_address} can't be master (id 0) of {broker_name}: {why}; this directory has nothing of "
                f"that history: start with --id {_lowest_free_id(ours, flags_id)} to be a slave, give another --name, "
                "or rebuild the directory first (pymq store recover)",
                rival_address=newest.address,
            )
        return Findings(step_down=Role(_free_id(newest, ours), master_address=_master_by(newest)), why=why)
    masters = [member for member in ours if member.broker_id == MASTER_ID]
    living = next((member for member in masters if member.answered and not _is_older(member, lineage)), None)
    if living is not None:
        next_step = (
            f"start this one as its slave with --id {_lowest_free_id(ours, flags_id)}"
            if is_starting
            else f"choose one, pymq broker promote {own_address} --force makes the other its slave"
        )
        return Findings(
            rival=f"{own_address} and {living.address} are both masters (id 0) of {broker_name} in cluster {cluster}, "
            f"with epochs {lineage.epoch} and {living.epoch}: stop one of them, or {next_step}",
            rival_address=living.address,
        )
    return Findings(
        warnings=tuple(
            f"{member.address} is a master of {broker_name} too, of epoch {member.epoch}, ours is {lineage.epoch}: it "
            "steps down when it hears of us"
            if member.answered
            else f"the name servers have {member.address} as master of {broker_name}, which does not answer: it is "
            "taken for dead"
            for member in masters
        )
    )


def _is_older(member: Member, lineage: Lineage) -> bool:
    """It has not heard yet that another was made master since: it steps down when it does. If the newer one kept away
    until then, the older would go on."""
    return member.answered and 0 < member.epoch < lineage.epoch


def _is_of(member: Member, cluster: str, broker_name: str) -> bool:
    """Name servers list by name alone; whoever can say what it is must be of this group."""
    status = member.status
    return status is None or (status.cluster == cluster and status.broker_name == broker_name)


def _master_by(newest: Member) -> str:
    """Where the newest master is: there, or as its slave says."""
    if newest.broker_id == MASTER_ID:
        return newest.address
    link = newest.status.link if newest.status is not None else None
    return link.master_address if link is not None else ""


def _shares_history(lineage: Lineage, member: Member) -> bool:
    theirs = member.status.lineage if member.status is not None else []
    known = {(reign.epoch, reign.start, reign.reign_id) for reign in theirs}
    return any((reign.epoch, reign.start, reign.reign_id) in known for reign in lineage.reigns)


def _free_id(newest: Member, members: Sequence[Member]) -> int:
    """The id a new master left behind, else the lowest that nobody has."""
    taken = {member.broker_id for member in members}
    left = newest.status.former_id if newest.status is not None and newest.broker_id == MASTER_ID else -1
    if left > MASTER_ID and left not in taken:
        return left
    return _lowest_free_id(members)


def _lowest_free_id(members: Sequence[Member], other_than: int = MASTER_ID) -> int:
    """Of a slave, that none of them has."""
    taken = {other_than, *(member.broker_id for member in members)}
    return next(number for number in range(1, len(taken) + 2) if number not in taken)


class GroupWatch:
    """Looks at the group of one broker while its parts live. Call :meth:`tick` about every 100 ms."""

    def __init__(
        self,
        *,
        census: Census,
        clock: Clock,
        config: BrokerConfig,
        role: Role,
        address: str,
        lineage: Callable[[], Lineage],
        change_role: ChangeRole,
        is_following: Callable[[], bool] = lambda: False,
        has_all_slaves: Callable[[], bool] = lambda: True,
        known: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``address``: our own; ``has_all_slaves``: no slave of this master has gone, who may have gone to another one;
        ``known``: where members are that we know without name servers, which may be away."""
        self._census = census
        self._clock = clock
        self._config = config
        self._role = role
        self._address = address
        self._lineage = lineage
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
        self.rival = ""  # why another master is a problem, empty when there is none
        self.rival_address = ""
        self._told_of = ""  # a master that looked at us
        self._refusal = ""

    @property
    def troubles(self) -> list[str]:
        """What an operator should know: another master, a name server that has somebody else under our id."""
        return [text for text in (self.rival, self._refusal) if text]

    def note_refused(self, why: str) -> None:
        """A name server did not take our registration; empty: all do. The next tick takes a census."""
        self._refusal = why
        self._is_urgent = bool(why)

    def note_other_master(self, address: str) -> None:
        """A broker at ``address`` says that it is the master. The next tick takes a census, once for each."""
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
        self._census.registered(self._config.namesrv_addresses, self._look)

    def _is_due(self) -> bool:
        period_ms = WATCH_PERIOD_MS if self._is_content() else SEARCH_PERIOD_MS
        return self._is_urgent or self._clock.monotonic_ms() - self._looked_ms >= period_ms

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
        self._census.members(registered, self._address, self._taken, also, is_master=self._role.is_master)

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
            self._check_id(members)
            self._note_master(members)

    def _check_id(self, members: list[Member]) -> None:
        """Ids move when masters change: a slave that was away meanwhile may find another one under its own.

        A name server refused it for that, and whoever has the id lives: it takes another.
        """
        config, own_id = self._config, self._role.broker_id
        ours = [member for member in members if _is_of(member, config.broker_cluster_name, config.broker_name)]
        settled = [member for member in ours if member.answered and not member.is_changing]
        holder = next((member for member in settled if member.broker_id == own_id), None)
        if not self._refusal or holder is None or self._is_successor(holder):
            return
        free = _lowest_free_id(ours)
        why = f"id {own_id} of {config.broker_name} belongs to {holder.address} now, {free} is free"
        self._change_role(RoleChange(replace(self._role, broker_id=free), why))

    def _is_successor(self, slave: Member) -> bool:
        """Whether it is about to become the master that this broker stepped down for, and so leaves its id."""
        waited_ms = self._clock.monotonic_ms() - self._began_ms
        return slave.address == self._role.master_address and waited_ms < SUCCESSOR_WAIT_MS

    def _check_masters(self, members: list[Member]) -> None:
        config = self._config
        found = judge(config.broker_cluster_name, config.broker_name, self._address, self._lineage(), members)
        if found.rival != self.rival:
            self.rival, self.rival_address = found.rival, found.rival_address
            if found.rival:
                log.error("%s", found.rival)
        if found.step_down is not None:
            self._change_role(RoleChange(found.step_down, found.why))

    def _note_master(self, members: list[Member]) -> None:
        masters = [member for member in members if member.broker_id == MASTER_ID and member.answered]
        if not masters:
            self._known_master = ""
            return
        master = max(masters, key=lambda member: member.epoch)
        if master.status is not None:
            self.note_master_role(master.status.role)
        if master.address != self._known_master:
            self._known_master = master.address
            self.register_now()
