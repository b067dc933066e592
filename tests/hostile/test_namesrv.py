"""Attacks on a name server: a stranger takes, moves and removes a master's route, and fills the memory."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator

import pytest

from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_registration import encode_registration
from pymq.wire.bodies_route import decode_cluster_info
from pymq.wire.command import Command
from tests.hostile.harness import MIB, Peer, Victim, ask, note, sized

NAME = "attacked"
MASTER = "127.0.0.1:41911"
STRANGER = "127.0.0.1:41666"
BODY = encode_registration([TopicConfig(topic_name=f"T{n}") for n in range(3)], DataVersion(1))
# What the process may hold beyond what its limits allow for it.
SLACK_BYTES = 64 * MIB


def register(peer: Peer, address: str, body: bytes = BODY, **fields: object) -> Command:
    ext = {"brokerName": NAME, "brokerAddr": address, "clusterName": "C", "brokerId": 0, "haServerAddr": "", **fields}
    return peer.call(ask(103, {key: str(value) for key, value in ext.items()}, body=body))


def addresses(victim: Victim) -> dict[int, str]:
    """Return id -> address of the attacked group."""
    with Peer(victim.namesrv) as peer:
        data = decode_cluster_info(peer.call(ask(106)).body).broker_addr_table.get(NAME)
    return data.broker_addrs if data is not None else {}


@pytest.fixture
def master(victim: Victim) -> Iterator[Peer]:
    """The connection of a registered master of epoch 4."""
    with Peer(victim.namesrv) as peer:
        assert register(peer, MASTER, masterEpoch=4, slaveAddresses="").code == 0
        yield peer


@pytest.mark.parametrize("epoch", [5, 2**31, 2**61, 2**62])
def test_a_strangers_epoch_takes_no_route(victim: Victim, master: Peer, epoch: int) -> None:
    with Peer(victim.namesrv) as stranger:
        assert register(stranger, STRANGER, masterEpoch=epoch).code == 16
        assert register(stranger, STRANGER, masterEpoch=4, brokerId=7).code == 0
        assert register(stranger, STRANGER, masterEpoch=epoch).code == 16, "as a former slave"
        assert addresses(victim)[0] == MASTER


def test_a_re_registration_and_a_close_remove_nothing(victim: Victim, master: Peer) -> None:
    for fields in ({}, {"masterEpoch": 2**61}, {"brokerId": 5}, {"brokerName": "other"}, {"clusterName": "X"}):
        with Peer(victim.namesrv) as stranger:
            register(stranger, MASTER, **fields)
        assert addresses(victim) == {0: MASTER}, fields


def test_a_stranger_unregisters_nothing(victim: Victim, master: Peer) -> None:
    who = {"brokerName": NAME, "brokerAddr": MASTER, "clusterName": "C", "brokerId": "0"}
    with Peer(victim.namesrv) as stranger:
        assert stranger.call(ask(104, who)).code == 16
    assert addresses(victim) == {0: MASTER}
    assert master.call(ask(104, who)).code == 0
    assert addresses(victim) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        encode_registration([TopicConfig(topic_name="T", read_queue_nums=-1)], DataVersion(1)),
        encode_registration([TopicConfig(topic_name="T", perm=99)], DataVersion(1)),
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"U"}}}}',
    ],
    ids=["none", "-1 queues", "permission 99", "contradictory"],
)
def test_an_impossible_registration_is_refused(victim: Victim, body: bytes) -> None:
    with Peer(victim.namesrv) as stranger:
        assert register(stranger, STRANGER, body).code == 29
    assert addresses(victim) == {}


@pytest.mark.slow
def test_topics_times_broker_names_are_bounded(victim: Victim) -> None:
    """Each request has the largest table a broker may have, under another name: 13 MiB of memory each without bound."""
    topics = [TopicConfig(topic_name=f"a-topic-with-a-name-{n:06}") for n in range(40_000)]
    body = encode_registration(topics, DataVersion(1), compressed=True)
    before = victim.rss_bytes()
    codes = []
    with Peer(victim.namesrv) as stranger:
        for number in range(sized(15, 30)):
            fields = {"brokerName": f"b{number}", "compressed": "true"}
            codes.append(register(stranger, f"127.0.0.1:{20_000 + number}", body, **fields).code)
        assert 0 in codes and codes[-1] == 16
        note(f"{(victim.rss_bytes() - before) / MIB:.0f} MiB more")
        assert victim.rss_bytes() - before < 256 * MIB


@pytest.mark.slow
def test_a_compressed_bomb_is_not_kept(victim: Victim) -> None:
    line = b"T%05d 4 4 6 SINGLE_TAG {}" + b" " * 60_000
    many = b"".join(struct.pack(">i", len(line) - 1) + line % n for n in range(1100))
    bombs = [
        struct.pack(">i2sii", 2, b"{}", 1, 64 * MIB) + bytes(64 * MIB),
        struct.pack(">i2si", 2, b"{}", 1100) + many,
        bytes(64 * MIB),
    ]
    packed = [zlib.compress(bomb, 9) for bomb in bombs]
    with Peer(victim.namesrv) as stranger:
        before = victim.rss_bytes()
        victim.reset_peak()
        for _ in range(sized(10, 30)):
            for bomb in packed:
                answer = register(stranger, STRANGER, bomb, compressed="true")
                assert answer.code == 1, answer.remark
        note(f"{(victim.peak_rss_bytes() - before) / MIB:.1f} MiB at the peak")
        assert victim.peak_rss_bytes() - before < 16 * MIB


def test_a_body_of_tiny_values_is_refused_before_it_is_read(victim: Victim) -> None:
    strings = b'{"filterServerList":["' + b'","'.join([b""] * (5 * MIB)) + b'"]}'
    topics = b",".join(b'"%x":{"topicName":"%x"}' % (n, n) for n in range(400_000))
    with Peer(victim.namesrv) as stranger:
        before = victim.rss_bytes()
        victim.reset_peak()
        for body in (strings, b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}' % topics):
            answer = register(stranger, STRANGER, body)
            assert answer.code == 29, answer.remark
        assert victim.peak_rss_bytes() - before < SLACK_BYTES


def test_the_health_of_others_is_not_affected(victim: Victim, master: Peer) -> None:
    """The name server's own master is still where it was after all attacks of this module."""
    with Peer(victim.namesrv) as peer:
        table = json.loads(peer.call(ask(106)).body.replace(b"{0:", b'{"0":'))["brokerAddrTable"]
    assert victim.broker in {address for data in table.values() for address in data["brokerAddrs"].values()}
