"""KnownPeers: whose word counts in a group, and which connections may be slaves'."""

from __future__ import annotations

from unittest import mock

import pytest

from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.known_peers import (
    KNOWN_PEERS_FILE,
    REMEMBERED_PEERS_MAX,
    SAVE_PERIOD_MS,
    KnownPeers,
    known_peers_table,
)
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.store.disk.fs import make_directory
from pymq.store.disk.memory_fs import MemoryFiles
from tests.broker.replication.asking import OURS, THEIRS, THIRD, status


def known_peers(**settings: str) -> KnownPeers:
    return KnownPeers(load_broker_config(None, settings), ManualClock())


def test_listed_brokers_are_known_and_stay_so_while_the_name_servers_are_away() -> None:
    peers = known_peers()
    assert not peers.is_known(THEIRS) and peers.addresses() == []
    peers.note_listed({OURS: 0, THEIRS: 1})
    peers.note_listed({})
    assert peers.is_known(THEIRS) and peers.addresses() == [OURS, THEIRS]
    peers.note_listed({OURS: 0})
    assert peers.is_known(THEIRS), "it may be a master that the name servers refuse"


class Directory:
    """A broker's directory, and a clock."""

    def __init__(self) -> None:
        self.files, self.clock = MemoryFiles(), ManualClock()
        make_directory(self.files, "/data/config")

    def peers(self) -> KnownPeers:
        found = KnownPeers(load_broker_config(None, {}), self.clock, known_peers_table(self.files, "/data"))
        found.load()
        return found


def test_what_is_remembered_survives_a_restart() -> None:
    directory = Directory()
    peers = directory.peers()
    peers.note_listed({THEIRS: 1})
    peers.save()
    peers.note_listed({THIRD: 1})
    peers.save()
    assert directory.peers().is_known(THEIRS) and not directory.peers().is_known(THIRD), "saves have a pace"
    directory.clock.advance(SAVE_PERIOD_MS)
    peers.save()
    assert directory.peers().addresses() == [THEIRS, THIRD]


def test_a_place_in_the_group_is_on_the_disk_at_once_and_a_name_servers_list_gives_none() -> None:
    directory = Directory()
    peers = directory.peers()
    peers.note_listed({THEIRS: 0})
    peers.save()
    assert not directory.peers().is_confirmed(THEIRS)
    peers.confirm(THIRD)
    assert directory.peers().is_confirmed(THIRD) and directory.peers().is_known(THIRD)
    for number in range(2 * REMEMBERED_PEERS_MAX):
        peers.note_listed({f"10.1.0.{number}:1": number})
    directory.clock.advance(SAVE_PERIOD_MS)
    peers.save()
    assert directory.peers().is_confirmed(THIRD), "listed addresses, however many, take no confirmed one's place"
    for number in range(REMEMBERED_PEERS_MAX):
        peers.confirm(f"10.2.0.{number}:1")
    assert not directory.peers().is_confirmed(THIRD) and directory.peers().is_confirmed("10.2.0.0:1")


def test_a_damaged_file_and_a_full_disk_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    directory = Directory()
    path = f"/data/config/{KNOWN_PEERS_FILE}"
    table = known_peers_table(directory.files, "/data")
    table.save({"addresses": [7]})
    peers = directory.peers()
    assert peers.addresses() == [] and path[6:] in caplog.text
    peers.note_listed({THEIRS: 1})

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with mock.patch.object(directory.files, "open", full_disk):
        peers.save()
    assert "could not be saved" in caplog.text and not directory.peers().is_known(THEIRS)
    directory.clock.advance(SAVE_PERIOD_MS)
    peers.save()
    assert directory.peers().is_known(THEIRS)


def test_what_was_named_is_remembered_and_the_oldest_of_too_many_is_forgotten() -> None:
    peers = known_peers()
    addresses = [f"10.1.0.{number}:10911" for number in range(REMEMBERED_PEERS_MAX + 1)]
    for address in addresses[:-1]:
        peers.remember(address)
    peers.remember(addresses[0])
    peers.remember(addresses[-1])
    assert [address for address in addresses if not peers.is_known(address)] == [addresses[1]]
    peers.note_listed({OURS: 0})
    assert peers.is_known(addresses[0]) and peers.addresses()[0] == OURS


@pytest.mark.parametrize(
    ("address", "peer", "is_refused"),
    [
        (THEIRS, "10.0.0.2:50000", False),
        (THEIRS, "[::ffff:10.0.0.2]:50000", False),
        (THEIRS, "10.0.0.20:50000", True),
        (THEIRS, "127.0.0.1:50000", True),
        ("127.0.0.2:10911", "127.0.0.1:50000", False),
        ("[::1]:10911", "127.0.0.1:50000", False),
        (THEIRS, "10.0.0.9:50000", False),
    ],
)
def test_a_slave_joins_from_its_own_host_or_a_named_one(address: str, peer: str, is_refused: bool) -> None:
    why = known_peers(haSlaveHosts="10.0.0.8; 10.0.0.9").why_not_from(address, peer)
    assert bool(why) == is_refused
    if is_refused:
        assert address in why and "haSlaveHosts" in why and "brokerIP1" in why


def test_a_slave_that_no_name_server_lists_is_counted_and_looked_for(caplog: pytest.LogCaptureFixture) -> None:
    peers, hints = known_peers(), list[int]()
    peers.on_hint = lambda: hints.append(1)
    for number in range(100):
        why = peers.why_not_slave(f"10.0.7.{number}:1")
        assert f"10.0.7.{number}:1" in why and "haSlaveHosts" in why
    assert (peers.stranger_count, len(hints), len(caplog.records)) == (100, 100, 1)
    peers.note_listed({THEIRS: 1})
    assert peers.why_not_slave(THEIRS) == "" and peers.stranger_count == 100
    assert known_peers(haSlaveHosts="10.0.0.3").why_not_slave(THIRD) == ""
    assert known_peers(haMasterAddress="10.0.0.3:10912").is_known(THIRD)


def test_only_rocketmqs_slaves_follow_without_a_token() -> None:
    peers = known_peers(haSlaveHosts="10.0.0.9")
    members = [
        Member("10.0.0.2:1", 1, answered=True),
        Member("10.0.0.3:1", 2, answered=True, status=status("10.0.0.3:1", 2)),
        Member("10.0.0.4:1", 3, answered=False),
        Member("10.0.0.5:1", 0, answered=True),
        Member("10.0.0.6:1", -1, answered=True),
        Member("10.0.0.7:1", 4, answered=True, is_changing=True),
        Member("10.0.0.8:1", 5, answered=True, is_failing=True),
        Member("10.0.0.10:1", 6, answered=True, is_unreadable=True),
    ]
    peers.note_members(members)
    found = [number for number in range(1, 11) if peers.may_follow_without_token(f"10.0.0.{number}:7")]
    assert found == [2, 9]
    peers.note_members([])
    assert not peers.may_follow_without_token("10.0.0.2:7")


def test_hosts_of_known_brokers() -> None:
    peers = known_peers(haSlaveHosts="10.0.0.9")
    peers.note_listed({THEIRS: 1})
    peers.remember("[fe80::1]:10911")
    assert [peers.is_known_host(f"{host}:5") for host in ("10.0.0.2", "10.0.0.9", "[fe80::1%eth0]", "10.0.0.3")] == [
        True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("address", ["", "x", "nonsense:1", "[::1", "10.0.0.2"])
def test_an_address_that_is_none_belongs_to_no_broker(address: str) -> None:
    peers = known_peers()
    peers.note_listed({THEIRS: 1})
    assert not peers.is_known(address) and not peers.is_known_host(address) and peers.why_not_from(THEIRS, address)
