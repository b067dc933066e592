"""Every request code of the name server through its dispatcher."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pymq.clock import ManualClock
from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings
from pymq.model import fastjson
from pymq.model.route import QueueData, TopicRoute
from pymq.model.tables import DataVersion, TopicConfig
from pymq.namesrv.handlers.broker import BROKERS_PER_CONNECTION_MAX, FILTER_SERVER_COUNT_MAX, SLAVE_COUNT_MAX
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.registration import BROKER_BYTES, NAME_BYTES
from pymq.namesrv.routes import namesrv_routes
from pymq.namesrv.server import NameServer
from pymq.namesrv.table import RouteTable
from pymq.namesrv.topics import SHARE_BYTES, TOPIC_BYTES
from pymq.net.memory_budget import REGISTRATIONS, MemoryBudget
from pymq.wire.bodies_registration import body_crc32, encode_registration
from pymq.wire.bodies_route import decode_cluster_info, decode_route, encode_route
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import request_name
from pymq.wire.command import Command
from pymq.wire.controller_codes import CONTROLLER_REFUSALS
from pymq.wire.dispatch import Dispatcher
from tests.namesrv.support import FakePeer

ADDRESS = "127.0.0.1:10911"
WHO = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
TOPICS = [TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4), TopicConfig(topic_name="TBW102", perm=7)]


class World:
    """A name server's logic without its socket."""

    def __init__(self) -> None:
        self.config = NamesrvConfig()
        self.budget = MemoryBudget()
        self.table = RouteTable(ManualClock(), budget=self.budget)
        self.kv = KvConfig()
        self.dispatcher = Dispatcher(
            namesrv_routes(self.table, self.kv, self.config, RuntimeSettings(self.config, lambda: 0)),
            "name server",
        )
        self.peer = FakePeer()

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", version: int = 479) -> Command:
        request = Command(code, ext=ext or {}, body=body, version=version)
        reply = self.dispatcher.dispatch(self.peer, request)
        assert reply is not None
        return reply.to_command(request)

    def register(self, topics: list[TopicConfig] = TOPICS, **fields: str) -> Command:
        body = encode_registration(topics, DataVersion(1), compressed=fields.get("compressed") == "true")
        return self.ask(
            103, {**WHO, "haServerAddr": "127.0.0.1:10912", "bodyCrc32": str(body_crc32(body)), **fields}, body
        )

    def topic_list(self, code: int, **ext: str) -> list[str]:
        names: list[str] = fastjson.loads(self.ask(code, ext).body)["topicList"]
        return names


@pytest.fixture
def world() -> World:
    return World()


def test_the_table_holds_exactly_the_name_servers_codes(world: World) -> None:
    assert set(world.dispatcher.routes) == {
        100,
        101,
        102,
        103,
        104,
        105,
        106,
        205,
        206,
        216,
        217,
        219,
        224,
        304,
        311,
        312,
        313,
        318,
        319,
        322,
        327,
        901,
        904,
    }


def test_the_documentation_lists_exactly_these_codes(world: World) -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = text.partition("## Request codes of the name server")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\S+) \| served \|", section, re.MULTILINE)
    assert {int(code): name for code, name in rows} == {r.code: r.name for r in world.dispatcher.routes.values()}


def test_another_code_is_named_in_the_refusal(world: World) -> None:
    answer = world.ask(Code.SEND_MESSAGE_V2)
    assert answer.code == 3
    assert "310 not supported" in (answer.remark or "")
    assert "SEND_MESSAGE_V2" in (answer.remark or "")


def test_requests_for_a_controller_are_refused_with_the_reason() -> None:
    server = NameServer(clock=ManualClock())
    for code, reason in CONTROLLER_REFUSALS.items():
        request = Command(code)
        reply = server.dispatcher.dispatch(FakePeer(), request)
        assert reply is not None
        assert reply.code == 3 and reply.remark is not None
        assert f"not supported by this name server ({request_name(code)}): {reason}" in reply.remark


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_registration_and_route(world: World, compressed: str) -> None:
    answer = world.register(compressed=compressed)
    assert (answer.code, answer.ext, answer.body) == (0, {}, b"")
    route = decode_route(world.ask(105, {"topic": "T"}).body)
    assert [(s.read_queue_nums, s.write_queue_nums, s.perm) for s in route.queue_datas] == [(8, 4, 6)]


@pytest.mark.parametrize(
    ("version", "ext", "quoted"),
    [(400, {}, False), (401, {}, True), (317, {"acceptStandardJsonOnly": "true"}, True), (0, {}, False)],
)
def test_keys_are_quoted_for_clients_that_can_read_them(
    world: World, version: int, ext: dict[str, str], quoted: bool
) -> None:
    world.register()
    body = world.ask(105, {"topic": "T", **ext}, version=version).body
    assert (b'{"0":"' in body, b'{0:"' in body) == (quoted, not quoted)
    assert b'"filterServerTable":{}' in body
    assert decode_route(body).broker_datas[0].broker_addrs == {0: ADDRESS}


def test_an_unknown_topic_answers_17_and_names_it(world: World) -> None:
    answer = world.ask(105, {"topic": "nope"})
    assert answer.code == 17
    assert "No topic route info in name server for the topic: nope" in (answer.remark or "")


def test_a_missing_field_is_named(world: World) -> None:
    answer = world.ask(105, {})
    assert answer.code == 1
    assert "topic" in (answer.remark or "")


def test_a_wrong_checksum_is_refused(world: World) -> None:
    answer = world.register(bodyCrc32="1")
    assert answer.code == 1
    assert "crc32 not match" in (answer.remark or "")
    assert world.topic_list(206) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("brokerName", ""),
        ("brokerName", "a\nb"),
        ("brokerName", "x" * 256),
        ("clusterName", ""),
        ("brokerAddr", "nowhere"),
        ("brokerAddr", "h:99999"),
        ("brokerId", "-1"),
    ],
)
def test_unusable_identities_are_refused(world: World, field: str, value: str) -> None:
    fields: dict[str, Any] = {field: value}
    answer = world.register(**fields)
    assert answer.code == 29
    assert field in (answer.remark or "")
    assert len(world.table.brokers) == 0


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":[]}', b"\xff\xfe", b"[" * 100_000])
def test_an_invalid_registration_body_is_refused(world: World, body: bytes) -> None:
    answer = world.ask(103, {**WHO, "haServerAddr": "h:1"}, body)
    assert answer.code == 1
    assert answer.remark


def test_a_registration_that_inflates_without_end_is_refused(world: World) -> None:
    part = b"\0\0\xea\x60" + b"T 4 4 6 S {}".ljust(60_000)
    body = zlib.compress(b"\0\0\0\2{}\0\0\0\x02" + part + bytes(80 * 1024 * 1024), 9)
    assert world.ask(103, {**WHO, "compressed": "true"}, body).code == 1
    assert len(world.table.brokers) == 0


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02{}\x7f\xff\xff\xff",
        b"\0\0\0\x02{}\0\0\0\1\0\0\0\x03T 1",
    ],
)
def test_compressed_forms_with_wrong_lengths_are_refused(world: World, inner: bytes) -> None:
    assert world.ask(103, {**WHO, "compressed": "true"}, zlib.compress(inner)).code in (1, 29)


@pytest.mark.parametrize(
    "bad",
    [
        TopicConfig(topic_name="huge", read_queue_nums=65_536),
        TopicConfig(topic_name="negative", write_queue_nums=-1),
        TopicConfig(topic_name="perm", perm=99),
        TopicConfig(topic_name="perm", perm=16),
        TopicConfig(topic_name="perm", perm=-1),
        TopicConfig(topic_name="new\nline"),
        TopicConfig(topic_name="n" * 256),
        TopicConfig(topic_name=""),
    ],
)
def test_a_registration_with_an_impossible_topic_is_refused_whole(world: World, bad: TopicConfig) -> None:
    answer = world.register([TopicConfig(topic_name="good"), bad])
    assert answer.code == 29
    assert "not registered" in (answer.remark or "")
    assert (world.topic_list(206), len(world.table.brokers)) == ([], 0)


def test_the_extremes_of_a_topic_are_accepted(world: World) -> None:
    edges = [
        TopicConfig(topic_name="most", read_queue_nums=65_535, write_queue_nums=65_535, perm=15),
        TopicConfig(topic_name="n" * 255, read_queue_nums=0, write_queue_nums=0, perm=0),
    ]
    assert world.register(edges).code == 0


def test_a_second_master_is_refused_unless_it_is_a_slave_with_a_newer_epoch(world: World) -> None:
    other = "127.0.0.1:20911"
    world.register(masterEpoch="4")
    refused = world.register(brokerAddr=other, masterEpoch="4")
    assert refused.code == 16
    for word in (ADDRESS, other, "epoch 4", "broker-a", "brokerId"):
        assert word in (refused.remark or "")
    assert world.register(brokerAddr=other, masterEpoch="5").code == 16, "it is no member of the group yet"
    slave = world.register(brokerAddr=other, brokerId="1", masterEpoch="4")
    assert slave.code == 0 and (slave.ext or {})["masterAddr"] == ADDRESS
    assert world.register(brokerAddr="127.0.0.1:30911", brokerId="1").code == 16
    assert world.register(brokerAddr=other, masterEpoch=str(2**61)).code == 16
    assert world.register(brokerAddr=other, masterEpoch="5").code == 0
    table = decode_cluster_info(world.ask(106).body).broker_addr_table
    assert table["broker-a"].broker_addrs == {0: other}


def test_a_master_names_the_slaves_that_may_succeed_it(world: World) -> None:
    named, other = "127.0.0.1:20911", "127.0.0.1:30911"
    assert world.register(masterEpoch="4", slaveAddresses=f"{named};127.0.0.1:7").code == 0
    for number, address in enumerate((named, other), 1):
        assert world.register(brokerAddr=address, brokerId=str(number), masterEpoch="4").code == 0
    assert world.register(brokerAddr=other, masterEpoch="5").code == 16
    assert world.register(brokerAddr=named, masterEpoch="5").code == 0


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"slaveAddresses": ";".join(f"h:{n}" for n in range(SLAVE_COUNT_MAX + 1))}, "slaveAddresses"),
        ({"slaveAddresses": "x" * 256}, "slaveAddresses"),
        ({"haServerAddr": "x" * 256}, "haServerAddr"),
        ({"haServerAddr": "a\nb"}, "haServerAddr"),
    ],
)
def test_addresses_have_limits(world: World, fields: dict[str, Any], word: str) -> None:
    answer = world.register(**fields)
    assert answer.code == 29 and word in (answer.remark or "")
    assert len(world.table.brokers) == 0


def test_filter_servers_have_a_limit(world: World) -> None:
    def register(count: int) -> int:
        body = encode_registration(TOPICS, DataVersion(1), [f"h:{number}" for number in range(count)])
        return world.ask(103, WHO, body).code

    assert register(FILTER_SERVER_COUNT_MAX + 1) == 29
    assert register(FILTER_SERVER_COUNT_MAX) == 0


def test_a_registration_without_a_body_is_refused(world: World) -> None:
    answer = world.ask(103, WHO)
    assert (answer.code, "no body" in (answer.remark or "")) == (29, True)
    assert len(world.table.brokers) == 0


def test_one_connection_registers_a_few_brokers(world: World) -> None:
    def register(number: int) -> int:
        return world.register(brokerName=f"b{number}", brokerAddr=f"127.0.0.1:{number + 1}").code

    assert {register(number) for number in range(BROKERS_PER_CONNECTION_MAX)} == {0}
    assert register(BROKERS_PER_CONNECTION_MAX) == 16
    world.peer = FakePeer()
    assert register(BROKERS_PER_CONNECTION_MAX) == 0


def test_entries_of_topics_have_a_limit_over_all_brokers(world: World) -> None:
    world.config.change_at_runtime({"maxTopicEntries": "20"})
    topics = [TopicConfig(topic_name=f"T{number}") for number in range(10)]
    assert [world.register(topics, brokerName=f"b{n}", brokerAddr=f"h:{n + 1}").code for n in range(3)] == [0, 0, 16]
    assert world.register(topics, brokerName="b0", brokerAddr="h:1").code == 0, "a known broker reports on"
    assert world.ask(104, {**WHO, "brokerName": "b0", "brokerAddr": "h:1"}).code == 0
    assert world.register(topics, brokerName="b2", brokerAddr="h:3").code == 0, "what left makes room"


def test_registrations_count_until_they_go(world: World) -> None:
    world.register()
    first = world.budget.held[REGISTRATIONS]
    topics = 2 * (TOPIC_BYTES + SHARE_BYTES) + 2 * len("TTBW102")
    assert first == BROKER_BYTES + 2 * NAME_BYTES + 4 * len("broker-aC") + topics
    assert world.budget.held_for(world.peer) == 0, "no connection is closed because of them"
    world.register()
    assert world.budget.held[REGISTRATIONS] == first, "a repetition costs nothing"
    world.register(brokerName="b", brokerAddr="h:1")
    world.ask(104, {**WHO, "brokerName": "b", "brokerAddr": "h:1"})
    assert world.budget.held[REGISTRATIONS] == first
    world.table.delete_topic("T")
    assert world.budget.held[REGISTRATIONS] == first - TOPIC_BYTES - SHARE_BYTES - 2
    world.table.connection_closed(world.peer)
    assert world.budget.total_bytes == 0


def test_registrations_get_half_of_the_budget(world: World) -> None:
    world.register()
    held = world.budget.held[REGISTRATIONS]
    more = [*TOPICS, TopicConfig(topic_name="Next")]
    needed = TOPIC_BYTES + SHARE_BYTES + 2 * len("Next")
    world.budget.limit_bytes = 2 * (held + needed) - 2
    answer = world.register(more)
    assert answer.code == 2 and f"the limit is {held + needed - 1} " in (answer.remark or "")
    assert world.topic_list(206) == ["T", "TBW102"] and world.register().code == 0
    world.budget.limit_bytes += 2
    world.budget.hold("unfinished_frames", 10 * world.budget.limit_bytes)
    assert world.register(more).code == 0, "what strangers hold keeps no broker out"
    assert world.budget.held[REGISTRATIONS] == held + needed


def test_one_topic_that_does_not_fit_is_refused(world: World) -> None:
    world.register()
    world.budget.limit_bytes = 2 * world.budget.held[REGISTRATIONS]
    route = TopicRoute(queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)])
    assert world.ask(217, {"topic": "One"}, encode_route(route)).code == 2
    world.budget.limit_bytes *= 2
    assert world.ask(217, {"topic": "One"}, encode_route(route)).code == 0


def test_strangers_unregister_nothing(world: World) -> None:
    world.register()
    own, world.peer = world.peer, FakePeer()
    answer = world.ask(104, WHO)
    assert answer.code == 16 and ADDRESS in (answer.remark or "")
    assert world.topic_list(206) == ["T", "TBW102"]
    world.peer = own
    assert world.ask(104, WHO).code == 0
    assert world.topic_list(206) == []


def test_a_strangers_version_query_keeps_no_broker_alive(world: World) -> None:
    asked = msgspec.json.encode({"counter": 1, "stateVersion": 0, "timestamp": 0})
    world.register()
    world.peer = FakePeer()
    assert world.ask(322, WHO, asked).ext == {"changed": "true"}


def test_strangers_change_no_brokers_topic(world: World) -> None:
    world.register()
    route = world.ask(105, {"topic": "T"}).body
    world.peer = FakePeer()
    changed = route.replace(b'"perm":6', b'"perm":4')
    assert world.ask(217, {"topic": "T"}, changed).code == 16
    assert decode_route(world.ask(105, {"topic": "T"}).body).queue_datas[0].perm == 6


def test_the_topic_limit_holds_and_the_broker_stays(world: World) -> None:
    world.config.change_at_runtime({"maxTopics": "20"})
    assert world.register().code == 0
    answer = world.register([TopicConfig(topic_name=f"T{i}") for i in range(20)])
    assert answer.code == 16
    assert "maxTopics" in (answer.remark or "")
    assert world.topic_list(206) == ["T", "TBW102"]


def test_the_broker_limit_holds(world: World) -> None:
    world.config.change_at_runtime({"maxBrokers": "1"})
    assert world.register().code == 0
    answer = world.register(brokerName="b", brokerAddr="127.0.0.1:2")
    assert answer.code == 16
    assert world.register().code == 0


def test_a_slave_gets_the_address_of_its_master(world: World) -> None:
    world.register()
    answer = world.register(brokerId="1", brokerAddr="127.0.0.1:2")
    assert answer.ext == {"haServerAddr": "127.0.0.1:10912", "masterAddr": ADDRESS}


def test_the_order_of_topics_goes_to_brokers_and_clients(world: World) -> None:
    world.register()
    assert world.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}).code == 0
    assert fastjson.loads(world.register().body) == {"table": {"T": "broker-a:4"}}
    assert decode_route(world.ask(105, {"topic": "T"}).body).order_topic_conf is None
    world.config.change_at_runtime({"orderMessageEnable": "true", "returnOrderTopicConfigToBroker": "false"})
    assert decode_route(world.ask(105, {"topic": "T"}).body).order_topic_conf == "broker-a:4"
    assert world.register().body == b""


def test_unregistering(world: World) -> None:
    world.register()
    assert world.ask(104, WHO).code == 0
    assert world.ask(105, {"topic": "T"}).code == 17
    assert decode_cluster_info(world.ask(106).body).broker_addr_table == {}


def test_cluster_info_and_member_group_have_bare_ids(world: World) -> None:
    world.register()
    assert world.ask(106).body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C",'
        b'"enableActingMaster":false}},"clusterAddrTable":{"C":["broker-a"]}}'
    )
    assert world.ask(901, {"clusterName": "C", "brokerName": "broker-a"}).body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}}'
    )
    empty = fastjson.loads(world.ask(901, {"clusterName": "C", "brokerName": "x"}).body)
    assert empty["brokerMemberGroup"]["brokerAddrs"] == {}


def test_data_version_query(world: World) -> None:
    asked = msgspec.json.encode({"counter": 1, "stateVersion": 0, "timestamp": 0})
    unknown = world.ask(322, WHO, asked)
    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    world.register()
    known = world.ask(322, WHO, asked)
    assert known.ext == {"changed": "false"}
    assert fastjson.loads(known.body) == {"counter": 1, "stateVersion": 0, "timestamp": 0}
    assert world.ask(322, WHO, asked.replace(b":1", b":2")).ext == {"changed": "true"}


def test_heartbeats_of_any_broker_are_answered(world: World) -> None:
    assert world.ask(904, {"clusterName": "C", "brokerAddr": ADDRESS, "brokerName": "broker-a"}).code == 0


def test_topic_lists(world: World) -> None:
    world.register()
    assert world.topic_list(206) == ["T", "TBW102"]
    assert world.topic_list(224, cluster="C") == ["T", "TBW102"]
    assert world.topic_list(224, cluster="D") == []
    assert fastjson.loads(world.ask(304).body) == {"topicList": ["C", "broker-a"], "brokerAddr": ADDRESS}
    assert [world.topic_list(code) for code in (311, 312, 313)] == [[], [], []]


def test_write_permission(world: World) -> None:
    world.register()
    assert world.ask(205, {"brokerName": "broker-a"}).ext == {"wipeTopicCount": "2"}
    assert decode_route(world.ask(105, {"topic": "T"}).body).queue_datas[0].perm == 4
    assert world.ask(327, {"brokerName": "broker-a"}).ext == {"addTopicCount": "2"}
    assert decode_route(world.ask(105, {"topic": "T"}).body).queue_datas[0].perm == 6


def test_topics_are_deleted_and_registered_one_by_one(world: World) -> None:
    world.register()
    route = world.ask(105, {"topic": "T"}).body
    assert world.ask(216, {"topic": "T"}).code == 0
    assert world.topic_list(206) == ["TBW102"]
    assert world.ask(217, {"topic": "T"}, route).code == 0
    assert decode_route(world.ask(105, {"topic": "T"}).body) == decode_route(route)
    assert world.ask(217, {"topic": "T"}, route.replace(b'"readQueueNums":8', b'"readQueueNums":99999')).code == 29


def test_values(world: World) -> None:
    assert world.ask(101, {"namespace": "n", "key": "k"}).code == 22
    assert world.ask(219, {"namespace": "n"}).code == 22
    world.ask(100, {"namespace": "n", "key": "k", "value": "v"})
    assert world.ask(101, {"namespace": "n", "key": "k"}).ext == {"value": "v"}
    assert fastjson.loads(world.ask(219, {"namespace": "n"}).body) == {"table": {"k": "v"}}
    assert world.ask(102, {"namespace": "n", "key": "k"}).code == 0
    assert world.ask(101, {"namespace": "n", "key": "k"}).code == 22


def test_settings_are_listed_and_changed(world: World) -> None:
    assert b"orderMessageEnable=false\n" in world.ask(319).body
    assert world.ask(318, body=b"orderMessageEnable=true\nscanNotActiveBrokerInterval=1000\n").code == 0
    assert world.config.order_message_enable is True
    assert b"scanNotActiveBrokerInterval=1000\n" in world.ask(319).body


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"listenPort=1", 16),
        (b"kvConfigPath=/etc/passwd", 16),
        (b"rocketmqHome=/", 16),
        (b"configBlackList=x", 16),
        (b"noSuchKey=1", 16),
        (b"orderMessageEnable=true\nlistenPort=1", 16),
        (b"orderMessageEnable=maybe", 16),
        (b"scanNotActiveBrokerInterval=0", 16),
        (b"scanNotActiveBrokerInterval=1\\u0030000", 16),
        (b"orderMessageEnable=tr\0ue", 16),
        (b"orderMessageEnable=true\\nlistenPort=1", 16),
        (b"\xff\xfe=1", 16),
    ],
)
def test_settings_off_the_list_or_out_of_range_are_refused_whole(world: World, body: bytes, code: int) -> None:
    before = world.ask(319).body
    answer = world.ask(318, body=body)
    assert answer.code == code
    assert answer.remark
    assert world.ask(319).body == before
