"""Members of a Raft group: RocketMQ's keys and PyMQ's flags give the same group, and what can't be is refused."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pymq.broker.raft.members import (
    HOST_LENGTH_MAX,
    MEMBER_COUNT_MAX,
    MEMBER_COUNT_MIN,
    NODE_NUMBER_MAX,
    Member,
    check_addresses,
    group_warnings,
    parse_peers,
    peers_of_flag,
    read_group,
)
from pymq.config.raft import RaftConfig
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import ConfigError, UsageError

THREE = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"


@dataclass
class Settings(RaftConfig):
    broker_name: str = "shard-a"


def settings(peers: str = THREE, self_id: str = "n0", **others: str) -> Settings:
    config = Settings()
    keys = {"enableDLegerCommitLog": "true", "dLegerPeers": peers, "dLegerSelfId": self_id, **others}
    for key, value in keys.items():
        config.set(key, value, "file")
    return config


def peers(count: int) -> str:
    return ";".join(f"n{number}-10.0.0.{number}:40911" for number in range(1, count + 1))


def test_rocketmqs_keys_make_a_group() -> None:
    group = read_group(
        settings(self_id="n1", dLegerGroup="shard-a", preferredLeaderId="n2;n0", raftElectionTimeout="2000")
    )
    assert group.election_timeout_ms == 2000
    assert group.name == "shard-a" and group.preferred == ("n2", "n0") and group.majority == 2
    assert group.own == Member("n1", "10.0.0.2", 40911) and group.own.address == "10.0.0.2:40911"
    assert [member.node for member in group.others] == ["n0", "n2"]
    assert [member.broker_id for member in group.members] == [1, 2, 3], "as RocketMQ's followers register"
    assert group.peers_text == THREE and group_warnings(group) == []


def test_the_order_of_the_text_does_not_count() -> None:
    shuffled = " n2-10.0.0.3:40911 ;;n0-10.0.0.1:40911; n1-10.0.0.2:40911;"
    assert parse_peers(shuffled) == parse_peers(THREE)
    assert [member.node for member in parse_peers("n10-h:1;n9-h:2;n2-h:3")] == ["n2", "n9", "n10"]


def test_hosts_may_have_dashes_and_be_ipv6() -> None:
    assert parse_peers("n0-rack-1.example:40911;n1-[::1]:40911") == (
        Member("n0", "rack-1.example", 40911),
        Member("n1", "::1", 40911),
    )
    assert parse_peers("n0-a:1;n1-[::1]:40911")[1].address == "[::1]:40911"


def test_the_flag_s_form_is_the_key_s() -> None:
    flag = "n0=10.0.0.1:40911, n1=10.0.0.2:40911,n2=10.0.0.3:40911"
    assert peers_of_flag(flag) == THREE == peers_of_flag(THREE)
    with pytest.raises(ConfigError, match=r"--peers: 'n1-b:2' is no member: write n0=HOST:PORT"):
        peers_of_flag("n0=a:1,n1-b:2")


def test_the_name_is_the_broker_s() -> None:
    assert read_group(settings()).name == "shard-a"
    with pytest.raises(UsageError, match=r"dLegerGroup='other' is not brokerName='shard-a'.*make them equal"):
        read_group(settings(dLegerGroup="other"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", r"needs the members of the group: set dLegerPeers, for example n0-"),
        (" ; ;", r"set dLegerPeers"),
        ("n0;n1-h:1", r"'n0' is no member: write its id and address, as in n0-"),
        ("x0-h:1;n1-h:2", r"'x0' is no id of a member: write n and a number from 0 to \d+ .* for example n0"),
        ("n00-h:1;n1-h:2", r"'n00' is no id .* without leading zeros"),
        ("n-h:1;n1-h:2", r"'n' is no id"),
        ("-h:1;n1-h:2", r"'' is no id"),
        ("N0-h:1;n1-h:2", r"'N0' is no id"),
        ("n٣-h:1;n1-h:2", r"is no id"),
        (f"n{NODE_NUMBER_MAX + 1}-h:1;n1-h:2", rf"a number from 0 to {NODE_NUMBER_MAX}"),
        ("n0-h;n1-h:2", r"n0 is at 'h', which is no host:port with a port from 1 to 65535"),
        ("n0-h:65536;n1-h:2", r"n0 is at 'h:65536', which is no host:port"),
        ("n0-h:-1;n1-h:2", r"which is no host:port"),
        ("n0-:1;n1-h:2", r"n0 is at ':1', which is no host:port"),
        ("n0-h:0;n1-h:2", r"n0 has port 0, allowed are 1 to 65535"),
        ("n0-a b:1;n1-h:2", r"a host has no spaces"),
        (f"n0-{'h' * (HOST_LENGTH_MAX + 1)}:1;n1-h:2", rf"at most {HOST_LENGTH_MAX} characters, this one has 254"),
        ("n0-0.0.0.0:1;n1-h:2", r"n0 is at 0.0.0.0, which is no address to connect to"),
        ("n0-[::]:1;n1-h:2", r"n0 is at ::, which is no address to connect to"),
        ("n0-a:1;n0-b:1", r"n0-a:1 and n0-b:1 have the same id: give each member its own"),
        ("n0-a:1;n1-a:1", r"n0-a:1 and n1-a:1 have the same address"),
        ("n0-Host.:1;n1-host:1", r"have the same address"),
        ("n0-[::1]:1;n1-[0:0::1]:1", r"have the same address"),
        ("n0-[::ffff:10.0.0.1]:1;n1-10.0.0.1:1", r"have the same address"),
    ],
)
def test_peers_that_can_t_be_are_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        read_group(settings(text))


def test_the_greatest_number_and_host_are_taken() -> None:
    host = "h" * HOST_LENGTH_MAX
    last = parse_peers(f"n{NODE_NUMBER_MAX}-{host}:65535;n0-h:1")[-1]
    assert (last.broker_id, last.host, last.port) == (BROKER_ID_MAX, host, 65535)


@pytest.mark.parametrize("count", [1, MEMBER_COUNT_MAX + 1])
def test_a_group_has_two_to_nine_members(count: int) -> None:
    with pytest.raises(UsageError, match=f"dLegerPeers has {count} members?, a group has 2 to 9"):
        parse_peers(peers(count))


def test_the_smallest_and_the_largest_group() -> None:
    assert len(parse_peers(peers(MEMBER_COUNT_MIN))) == 2
    assert len(parse_peers(peers(MEMBER_COUNT_MAX))) == 9


@pytest.mark.parametrize(
    ("self_id", "part"),
    [
        ("", "needs this broker's own id: set dLegerSelfId to one of n0, n1, n2"),
        ("n3", r"dLegerSelfId=n3 is not in dLegerPeers, which has n0, n1, n2: set one of them, or add n3-HOST:PORT"),
        ("broker-a", r"dLegerSelfId: 'broker-a' is no id of a member"),
    ],
)
def test_a_broker_must_be_a_member_itself(self_id: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        read_group(settings(self_id=self_id))


def test_a_leader_that_is_no_member_can_t_be_preferred() -> None:
    with pytest.raises(UsageError, match=r"preferredLeaderId: 'n7' is not in dLegerPeers, which has n0, n1, n2"):
        read_group(settings(preferredLeaderId="n1;n7"))
    assert read_group(settings(preferredLeaderId="n1;n1")).preferred == ("n1",)


def test_even_groups_work_with_a_warning() -> None:
    four = read_group(settings(peers(4), "n1"))
    assert four.majority == 3
    (warning,) = group_warnings(four)
    assert "has 4 members: a majority is 3, so the group survives the loss of 1, as one of 3 does" in warning
    assert warning.endswith("use 5 or 3")
    (warning,) = group_warnings(read_group(settings(peers(2), "n1")))
    assert warning.endswith("use 3")


def test_a_loopback_address_among_others_is_a_mistake() -> None:
    mixed = "n0-127.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"
    (warning,) = group_warnings(read_group(settings(mixed)))
    assert "n0 at 127.0.0.1:40911 is reached from its own machine alone" in warning
    laptop = "n0-localhost:1;n1-127.0.0.1:2;n2-127.0.0.1:3"
    assert group_warnings(read_group(settings(laptop))) == []


def test_names_must_have_addresses_of_their_own() -> None:
    known = {"a": ["10.0.0.1"], "b": ["10.0.0.2", "::1"], "c": ["10.0.0.1"]}

    def resolve(host: str) -> list[str]:
        return known.get(host, [])

    check_addresses(parse_peers("n0-a:1;n1-b:1;n2-c:2"), resolve)
    with pytest.raises(UsageError, match=r"n0 at a:1 and n2 at c:1 are both 10\.0\.0\.1:1: one broker can't vote"):
        check_addresses(parse_peers("n0-a:1;n1-b:1;n2-c:1"), resolve)
    with pytest.raises(UsageError, match=r"no address is known for 'nowhere', the host of n2: write an IP address"):
        check_addresses(parse_peers("n0-a:1;n1-b:1;n2-nowhere:1"), resolve)
