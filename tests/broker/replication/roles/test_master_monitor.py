"""MasterMonitor: when a broker probes its group, how it reacts, and how a slave finds its master."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.roles.group_probe import GroupProbe
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_monitor import (
    CLAIM_SHOWN_MS,
    HINT_PERIOD_MS,
    MEMBERS_PERIOD_MS,
    MONITOR_PERIOD_MS,
    SEARCH_PERIOD_MS,
    SUCCESSOR_WAIT_MS,
    MasterMonitor,
)
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.wire.bodies_replication import EpochEntryBody, StatusRequest
from tests.broker.replication.asking import NAMESRV, OURS, THEIRS, THIRD, Asking, epochs_up_to, status
from tests.broker.world import runtime_of


def epoch_history() -> EpochHistory:
    return EpochHistory((EpochEntry(1, 0, "b" * 16), EpochEntry(3, 70, "f" * 16)))


class Setup:
    """A master monitor over a fake group."""

    def __init__(self, role: Role) -> None:
        self.clock = ManualClock()
        self.network = Asking()
        self.config = load_broker_config(None, {"namesrvAddr": NAMESRV})
        self.changes: list[RoleChange] = []
        self.registrations = 0
        self.master_roles: list[str] = []
        self.known_peers = KnownPeers(self.config, self.clock)
        self.master_role = SeenMasterRole(role.master_role, self.master_roles.append)
        self.is_following = False
        self.has_all_slaves = True
        self.known: list[str] = []
        self.master_monitor = MasterMonitor(
            runtime_of(self.config, self.clock),
            group_probe=GroupProbe(self.network, "broker-a", self.known_peers.note_listed),
            own=OwnRole(role, cast("EpochFile", self), self.master_role, self.changes.append),
            address=OURS,
            register_now=self._register,
            side=self,
            known_peers=self.known_peers,
        )

    @property
    def history(self) -> EpochHistory:
        return epoch_history()

    def members(self) -> list[str]:
        return self.known

    def _register(self) -> None:
        self.registrations += 1

    def group(self, **brokers: tuple[str, int, int]) -> None:
        """Set the group's members, each as name=(address, id, epoch)."""
        self.network.registered[NAMESRV] = {address: broker_id for address, broker_id, _ in brokers.values()}
        self.network.brokers = {at: status(at, broker_id, epoch) for at, broker_id, epoch in brokers.values()}

    def after(self, ms: int) -> list[str]:
        self.clock.advance(ms)
        self.master_monitor.tick()
        return self.network.answer_all()


def test_a_master_looks_every_few_seconds_and_steps_down_once() -> None:
    setup = Setup(Role(0))
    setup.group(ours=(OURS, 0, 3))
    assert setup.after(MONITOR_PERIOD_MS - 1) == []
    assert setup.after(1) == [NAMESRV]
    setup.group(theirs=(THEIRS, 0, 4))
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]
    (change,) = setup.changes
    assert change.role == Role(1, master_address=THEIRS) and change.truncate_to is None


def test_name_servers_may_be_away_when_members_are_known() -> None:
    setup = Setup(Role(0))
    setup.network.registered = {}
    setup.network.brokers = {THEIRS: status(THEIRS, 0, 4)}
    setup.known = [THEIRS, OURS]
    setup.known_peers.remember(THEIRS)
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]
    assert len(setup.changes) == 1


def settled(role: Role) -> Setup:
    """Return a group of a master and a slave that was just probed and found well."""
    setup = Setup(role)
    setup.is_following = True
    addresses = (OURS, THEIRS) if role.is_master else (THEIRS, OURS)
    setup.group(master=(addresses[0], 0, 3), slave=(addresses[1], 1, 3))
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]
    return setup


@pytest.mark.parametrize("role", [Role(0), Role(1)], ids=["master", "slave"])
def test_where_nothing_changes_members_are_asked_now_and_then(role: Role) -> None:
    setup = settled(role)
    for _ in range(MEMBERS_PERIOD_MS // MONITOR_PERIOD_MS - 1):
        assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV]
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV]


@pytest.mark.parametrize("role", [Role(0), Role(1)], ids=["master", "slave"])
@pytest.mark.parametrize("found", [{OURS: 1, THEIRS: 1}, {THEIRS: 0}, {THEIRS: 1}])
def test_members_are_asked_when_name_servers_say_something_else(role: Role, found: dict[str, int]) -> None:
    setup = settled(role)
    setup.network.registered[NAMESRV] = found
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]


def test_members_are_asked_when_name_servers_say_nothing() -> None:
    setup = settled(Role(0))
    setup.network.registered = {}
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS], "those that were listed last"
    setup.known = [THIRD]
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS], "a member that is not known is not asked"
    setup.known_peers.remember(THIRD)
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THIRD, THEIRS]


def test_members_are_asked_when_a_slave_has_gone() -> None:
    """A group in which only the slave itself knows its new master."""
    setup = settled(Role(0))
    setup.has_all_slaves = False
    setup.network.brokers[THEIRS] = status(THEIRS, 1, 4)
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS]
    assert len(setup.changes) == 1


def test_members_are_asked_again_as_long_as_one_is_away_or_there_are_two_masters() -> None:
    setup = settled(Role(0))
    setup.network.registered[NAMESRV][THIRD] = 2
    for _ in range(3):
        assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    setup.network.brokers[THIRD] = status(THIRD, 0, 2)
    for _ in range(3):
        assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    setup.network.brokers[THIRD] = status(THIRD, 2, 2)
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV]


def test_one_group_probe_at_a_time() -> None:
    setup = Setup(Role(0))
    setup.clock.advance(MONITOR_PERIOD_MS)
    setup.master_monitor.tick()
    setup.clock.advance(MONITOR_PERIOD_MS)
    setup.master_monitor.tick()
    assert len(setup.network.waiting) == 1


def test_a_second_master_is_reported_until_it_is_gone() -> None:
    setup = Setup(Role(0))
    setup.group(theirs=(THEIRS, 0, 3))
    setup.after(MONITOR_PERIOD_MS)
    (trouble,) = setup.master_monitor.troubles
    assert THEIRS in trouble and not setup.changes
    setup.group(ours=(OURS, 0, 3))
    setup.after(MONITOR_PERIOD_MS)
    assert setup.master_monitor.troubles == []


def test_a_master_that_probes_announces_itself_and_is_probed_at_once() -> None:
    """One that name servers refuse is seen by the one they have."""
    setup = settled(Role(0))
    setup.after(MEMBERS_PERIOD_MS)
    assert msgspec.json.decode(setup.network.last_body, type=StatusRequest).master == OURS
    setup.network.brokers[THIRD] = status(THIRD, 0, 3)
    setup.known_peers.remember(THIRD)
    setup.master_monitor.note_other_master(OURS)
    assert setup.after(0) == []
    setup.master_monitor.note_other_master(THIRD)
    assert setup.after(0) == [NAMESRV, THEIRS, THIRD]
    assert setup.master_monitor.second_master_address == THIRD
    setup.master_monitor.note_other_master(THIRD)
    assert setup.after(0) == [], "two masters don't keep each other busy"
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    setup.network.brokers[THIRD] = status(THIRD, 2, 3)
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    assert setup.master_monitor.second_master_address == "" and setup.master_monitor.troubles == []
    assert setup.after(MONITOR_PERIOD_MS) == [NAMESRV]


def test_a_claim_of_an_unknown_broker_has_the_name_servers_asked_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setup = settled(Role(0))
    setup.network.brokers[THIRD] = status(THIRD, 0, 4)
    setup.master_monitor.note_other_master(THIRD)
    assert setup.after(HINT_PERIOD_MS - 1) == []
    assert setup.after(1) == [NAMESRV]
    for number in range(100):
        setup.master_monitor.note_other_master(f"10.0.7.{number}:1")
        assert setup.after(0) == [], "hints have their own pace"
    assert setup.after(HINT_PERIOD_MS) == [NAMESRV]
    assert not setup.changes and setup.known_peers.stranger_count == 101
    assert THIRD in caplog.text and len(caplog.records) == 1
    (trouble,) = setup.master_monitor.troubles
    assert "10.0.7.99:1" in trouble and "no name server lists it" in trouble
    setup.clock.advance(CLAIM_SHOWN_MS)
    assert setup.master_monitor.troubles == []


def test_a_master_that_name_servers_do_not_list_registers_at_once() -> None:
    setup = settled(Role(0))
    assert setup.registrations == 0
    setup.network.registered = {}
    setup.after(MONITOR_PERIOD_MS)
    assert setup.registrations == 0, "no name server answers"
    setup.network.registered = {NAMESRV: {THEIRS: 0}}
    setup.after(MONITOR_PERIOD_MS)
    assert setup.registrations == 1


def test_a_claim_counts_as_soon_as_a_name_server_lists_the_broker() -> None:
    setup = settled(Role(0))
    setup.network.brokers[THIRD] = status(THIRD, 0, 4)
    setup.network.registered[NAMESRV][THIRD] = 3
    setup.master_monitor.note_other_master(THIRD)
    assert setup.after(HINT_PERIOD_MS) == [NAMESRV, THEIRS, THIRD]
    (change,) = setup.changes
    assert change.role.master_address == THIRD


@pytest.mark.parametrize("epoch_history", [[EpochEntryBody(2, 0, "c" * 16)], epochs_up_to(1 << 60)])
def test_a_listed_broker_of_another_history_or_of_an_impossible_epoch_demotes_no_master(
    epoch_history: list[EpochEntryBody], caplog: pytest.LogCaptureFixture
) -> None:
    setup = settled(Role(0))
    setup.network.registered[NAMESRV][THIRD] = 3
    setup.network.brokers[THIRD] = status(THIRD, 3, epoch_history=epoch_history)
    for _ in range(3):
        setup.after(MONITOR_PERIOD_MS)
    assert not setup.changes
    is_newer = epoch_history[-1].epoch > 3
    named = [THIRD in text and f"epoch {epoch_history[-1].epoch}" in text for text in setup.master_monitor.troubles]
    assert named == [True] * is_newer and caplog.text.count("which does not count") == is_newer
    setup.network.brokers[THIRD] = status(THIRD, 0, epoch_history=epoch_history)
    setup.after(MEMBERS_PERIOD_MS)
    assert not setup.changes and setup.master_monitor.second_master_address == THIRD


def test_a_slave_does_not_call_itself_a_master() -> None:
    setup = Setup(Role(1))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.after(0)
    assert setup.network.last_body == b""
    setup.master_monitor.note_other_master(THIRD)
    assert setup.after(1) == []


def test_a_refused_registration_is_a_trouble_and_looked_into_at_once() -> None:
    setup = Setup(Role(0))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.master_monitor.note_refused(f"{THEIRS} is master")
    assert setup.master_monitor.troubles == [f"{THEIRS} is master"]
    assert setup.after(0) == [NAMESRV, THEIRS] and len(setup.changes) == 1
    setup.master_monitor.note_refused("")
    assert setup.master_monitor.troubles == []
    assert setup.after(1) == []


def test_a_slave_without_a_master_searches_each_second_and_registers_when_there_is_one() -> None:
    setup = Setup(Role(1))
    assert setup.after(0) == [NAMESRV]
    assert setup.after(SEARCH_PERIOD_MS - 1) == []
    assert setup.after(1) == [NAMESRV]
    assert setup.registrations == 0
    setup.group(theirs=(THEIRS, 0, 4), third=(THIRD, 2, 4))
    setup.after(SEARCH_PERIOD_MS)
    assert setup.registrations == 1 and setup.master_roles == ["ASYNC_MASTER"]
    setup.after(SEARCH_PERIOD_MS)
    assert setup.registrations == 1, "the same master needs no other registration"
    setup.group(third=(THIRD, 0, 5))
    setup.after(SEARCH_PERIOD_MS)
    assert setup.registrations == 2
    assert not setup.changes and setup.master_monitor.troubles == []


def test_a_following_slave_probes_rarely_and_a_lost_link_at_once() -> None:
    setup = Setup(Role(1))
    setup.is_following = True
    assert setup.after(0) == [NAMESRV], "once at its start"
    assert setup.after(SEARCH_PERIOD_MS) == []
    assert setup.after(MONITOR_PERIOD_MS - SEARCH_PERIOD_MS) == [NAMESRV]
    assert setup.after(SEARCH_PERIOD_MS) == []
    setup.is_following = False
    assert setup.after(0) == [NAMESRV]


def test_a_slave_takes_a_free_id_if_a_living_one_has_its_id() -> None:
    setup = Setup(Role(1))
    setup.group(theirs=(THEIRS, 0, 4), third=(THIRD, 1, 4))
    setup.after(SEARCH_PERIOD_MS)
    assert not setup.changes, "as long as name servers take it, it stays what it is"
    setup.master_monitor.note_refused(f"{THIRD} is slave 1")
    setup.after(0)
    (change,) = setup.changes
    assert change.role.broker_id == 2 and change.truncate_to is None
    assert THIRD in change.why


def test_a_slave_waits_until_a_dead_one_with_its_id_is_forgotten() -> None:
    setup = Setup(Role(1))
    setup.network.registered[NAMESRV] = {THEIRS: 0, THIRD: 1}
    setup.network.brokers[THEIRS] = status(THEIRS, 0, 4)
    setup.master_monitor.note_refused(f"{THIRD} is slave 1")
    setup.after(0)
    assert not setup.changes


def test_a_slave_waits_for_an_id_that_is_about_to_be_free() -> None:
    """A hand-over gives the old master the id of the slave that becomes the master at the same time."""
    setup = Setup(Role(1))
    setup.group(third=(THIRD, 1, 4))
    setup.network.changing = {THIRD}
    setup.master_monitor.note_refused(f"{THIRD} is slave 1")
    setup.after(0)
    assert not setup.changes


def test_an_old_master_waits_for_its_successors_id_for_a_limited_time() -> None:
    """It is a slave already, and the other one does not know yet that it becomes the master."""
    setup = Setup(Role(1, master_address=THIRD))
    setup.group(third=(THIRD, 1, 4))
    setup.master_monitor.note_refused(f"{THIRD} is slave 1")
    setup.after(SUCCESSOR_WAIT_MS - 1)
    assert not setup.changes
    setup.master_monitor.note_refused(f"{THIRD} is slave 1")
    setup.after(1)
    (change,) = setup.changes
    assert change.role.broker_id == 2


def test_a_slave_follows_the_newer_of_two_masters() -> None:
    setup = Setup(Role(1))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.network.registered["10.0.9.2:9876"] = {THIRD: 0}
    setup.config.namesrv_addr = f"{NAMESRV};10.0.9.2:9876"
    setup.network.brokers[THIRD] = status(THIRD, 0, 9, role="SYNC_MASTER")
    setup.after(SEARCH_PERIOD_MS)
    assert setup.master_roles == ["SYNC_MASTER"] and setup.master_role.name == "SYNC_MASTER"


@pytest.mark.parametrize("word", ["SLAVE", "", "sync_master", "MASTER"])
def test_an_invalid_master_role_is_not_kept(word: str) -> None:
    """It would be what this broker calls itself the day it takes over: neither of the two, so it promised nothing."""
    setup = Setup(Role(1, master_role="SYNC_MASTER"))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.network.brokers[THEIRS] = status(THEIRS, 0, 4, role=word)
    setup.after(SEARCH_PERIOD_MS)
    setup.master_role.note(word)
    assert setup.master_roles == [] and setup.master_role.name == "SYNC_MASTER"


@pytest.mark.parametrize("fields", [{"cluster": "other"}, {"broker_name": "broker-b"}])
def test_a_slave_ignores_another_groups_master_at_a_reused_address(fields: dict[str, str]) -> None:
    """Its kind would be kept for the day this slave takes over: an ASYNC_MASTER's where messages were promised."""
    setup = Setup(Role(1, master_role="SYNC_MASTER"))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.network.brokers[THEIRS] = status(THEIRS, 0, 4, **fields)
    setup.after(SEARCH_PERIOD_MS)
    assert setup.registrations == 0 and setup.master_roles == [] and setup.master_role.name == "SYNC_MASTER"


def test_after_its_end_answers_change_nothing() -> None:
    setup = Setup(Role(0))
    setup.group(theirs=(THEIRS, 0, 4))
    setup.clock.advance(MONITOR_PERIOD_MS)
    setup.master_monitor.tick()
    setup.master_monitor.close()
    setup.network.answer_all()
    assert not setup.changes
    assert setup.after(MONITOR_PERIOD_MS) == []
