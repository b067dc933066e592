"""GroupProbe: each registered broker is asked once, and all answers give one result."""

from __future__ import annotations

import pytest

from pymq.broker.replication.roles.group_probe import MEMBER_COUNT_MAX, GroupProbe, Member
from pymq.wire.bodies_route import ClusterInfo, decode_cluster_info
from pymq.wire.codes import ResponseCode
from tests.broker.replication.asking import NAMESRV, OURS, THEIRS, THIRD, Asking, status

OTHER_NAMESRV = "10.0.9.2:9876"


def take(network: Asking, *name_servers: str, also: tuple[str, ...] = ()) -> list[Member]:
    taken: list[list[Member]] = []
    GroupProbe(network, "broker-a").take(name_servers or (NAMESRV,), OURS, taken.append, also)
    network.answer_all()
    (members,) = taken
    return members


def test_each_other_member_is_asked_for_its_own_status() -> None:
    network = Asking()
    network.registered = {NAMESRV: {OURS: 0, THEIRS: 1}, OTHER_NAMESRV: {THIRD: 2}}
    network.brokers = {THEIRS: status(THEIRS, 0, epoch=7), THIRD: None}
    theirs, third = take(network, NAMESRV, OTHER_NAMESRV)
    assert (theirs.registered_id, theirs.broker_id, theirs.epoch, theirs.answered) == (1, 0, 7, True)
    assert (third.registered_id, third.broker_id, third.epoch, third.answered) == (2, 2, 0, True)


def test_an_absent_member_is_in_the_result() -> None:
    network = Asking()
    network.registered = {NAMESRV: {THEIRS: 0}}
    assert take(network, NAMESRV, OTHER_NAMESRV) == [Member(THEIRS, 0, answered=False)]


def test_a_member_in_a_role_change_is_listed_without_status() -> None:
    network = Asking()
    network.registered = {NAMESRV: {THEIRS: 0}}
    network.changing = {THEIRS}
    assert take(network) == [Member(THEIRS, 0, answered=True, is_changing=True)]


def test_addresses_beside_the_registered_ones_are_asked_too() -> None:
    network = Asking()
    network.brokers = {THEIRS: status(THEIRS, 0)}
    (member,) = take(network, also=(THEIRS, OURS))
    assert (member.address, member.registered_id, member.broker_id) == (THEIRS, -1, 0)


@pytest.mark.parametrize("name_servers", [(), (NAMESRV,)], ids=["none configured", "none answers"])
def test_without_name_servers_no_member_is_found(name_servers: tuple[str, ...]) -> None:
    network = Asking()
    network.registered = {}
    taken: list[list[Member]] = []
    GroupProbe(network, "broker-a").take(name_servers, OURS, taken.append)
    network.answer_all()
    assert taken == [[]]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"brokerName":1}', b'{"brokerName":"\xff"}', b'{"other":' + b"[" * 100_000]
)
def test_an_invalid_answer_is_ignored(body: bytes) -> None:
    network = Asking()
    network.registered = {NAMESRV: {THEIRS: 1}}
    network.bodies = {THEIRS: body}
    assert take(network) == [Member(THEIRS, 1, answered=True, is_unreadable=True)]
    network.bodies = {}
    network.codes = {THEIRS: ResponseCode.SYSTEM_BUSY}
    assert take(network) == [Member(THEIRS, 1, answered=True, is_failing=True)]
    network.bodies = {NAMESRV: body}
    assert take(network) == []


def test_the_number_of_probed_addresses_is_bounded() -> None:
    network = Asking()
    network.registered = {NAMESRV: {f"10.1.{number >> 8}.{number & 255}:1": number for number in range(300)}}
    assert len(take(network)) == MEMBER_COUNT_MAX


def test_a_repeated_name_server_answer_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Asking()
    network.registered = {NAMESRV: {THEIRS: 1}}
    reads: list[bytes] = []

    def reading(body: bytes) -> ClusterInfo:
        reads.append(body)
        return decode_cluster_info(body)

    monkeypatch.setattr("pymq.broker.replication.roles.group_probe.decode_cluster_info", reading)
    group_probe, found = GroupProbe(network, "broker-a"), list[dict[str, int]]()

    def look(*name_servers: str) -> dict[str, int]:
        group_probe.registered(name_servers, found.append)
        network.answer_all()
        return found[-1]

    assert look(NAMESRV) == look(NAMESRV) == {THEIRS: 1}
    assert len(reads) == 1
    network.registered = {NAMESRV: {THEIRS: 1, THIRD: 2}}
    assert look(NAMESRV) == {THEIRS: 1, THIRD: 2}
    assert len(reads) == 2
    network.registered = {}
    assert look(NAMESRV) == {}
    look(OTHER_NAMESRV)
    assert NAMESRV not in group_probe._heard  # only the present name servers' answers are kept
