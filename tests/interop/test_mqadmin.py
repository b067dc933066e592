"""The commands of mqadmin 5.3.3 against the server under test: their output must be true."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Message, StoredMessage
from pymq.client.sync import Admin, Producer, PushConsumer
from pymq.config import BrokerConfig
from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.mqadmin import MqAdmin
from tests.interop.support.mqadmin_commands import REFUSED, SUBCOMMANDS
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.second_runs import SecondRuns

MESSAGE_COUNT = 8
GET_ALL_MESSAGE_REQUEST_MODE = 402


class World:
    """A topic of four queues with two messages each, a producer, and a consumer that has read all messages."""

    def __init__(self, admin: MqAdmin, server: Broker) -> None:
        self.admin = admin
        self.server = server
        self.topic = self.name("world")
        self.group = self.name("group")
        self.producer_group = self.name("producer")
        probe.create_topic(server.namesrv, server.broker, self.topic)
        admin.run("!produce", self.producer_group)
        self.sent = [
            admin.run("!send", self.topic, "TagA", f"key{i}", f"body {i}").split() for i in range(MESSAGE_COUNT)
        ]
        admin.run("!consume", self.group, self.topic)
        probe.wait_until("the consumer to read everything", self._all_read)
        self.client_id = admin.run("!clientid")

    def name(self, purpose: str) -> str:
        """Return a name that no other test uses."""
        return f"adm-{purpose}-{uuid.uuid4().hex[:8]}"

    def _all_read(self) -> bool:
        self.admin.run("!persist")
        return "Consume Diff Total: 0" in self.admin.run("consumerProgress", "-g", self.group, "-t", self.topic)

    def fresh_topic(self, queues: int = 4) -> str:
        """Make a new topic on the broker under test."""
        topic = self.name("topic")
        probe.create_topic(self.server.namesrv, self.server.broker, topic, queues)
        return topic


@pytest.fixture(scope="module")
def admin(server: Broker, second_runs: SecondRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    driver = MqAdmin(server.namesrv, tmp_path_factory.mktemp("mqadmin"), second_runs)
    # The first command of a JVM also prints the start of the logging library.
    driver.run("clusterList")
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def world(admin: MqAdmin, server: Broker) -> World:
    return World(admin, server)


def rows(printed: str, first: str) -> list[list[str]]:
    """Return the lines that start with the word `first`, split into words."""
    return [line.split() for line in printed.splitlines() if line.split()[:1] == [first]]


def fields(printed: str) -> dict[str, str]:
    """Return the lines `name: value` or `name = value` of an output."""
    found = re.findall(r"^([\w ./-]+?)\s*[:=]\s+(.*)$", printed, re.MULTILINE)
    return {name.strip(): value.strip() for name, value in found}


def test_cluster_list(admin: MqAdmin, server: Broker) -> None:
    (row,) = rows(admin.run("clusterList"), server.cluster)
    assert row[1:4] == [server.broker_name, "0", server.broker]
    (more,) = rows(admin.run("clusterList", "-m"), server.cluster)
    assert more[1] == server.broker_name


def test_topic_lists(world: World) -> None:
    listed = world.admin.run("topicList").split()
    assert world.topic in listed and "TBW102" in listed and f"%RETRY%{world.group}" in listed
    grouped = rows(world.admin.run("topicList", "-c"), world.server.cluster)
    assert [world.server.cluster, world.topic, world.group] in grouped
    assert world.admin.run("topicClusterList", "-t", world.topic).split() == [world.server.cluster]


def test_update_topic_in_cluster_mode_and_in_broker_mode(world: World) -> None:
    in_cluster, in_broker = world.name("c"), world.name("b")
    printed = world.admin.run("updateTopic", "-c", world.server.cluster, "-t", in_cluster, "-w", "4", "-r", "4")
    assert f"create topic to {world.server.broker} success" in printed
    printed = world.admin.run(
        "updateTopic", "-b", world.server.broker, "-t", in_broker, "-w", "2", "-r", "3", "-p", "6"
    )
    assert "readQueueNums=3" in printed and "writeQueueNums=2" in printed
    probe.wait_until("both routes", lambda: {in_cluster, in_broker} <= set(world.admin.run("topicList").split()))
    for topic, (read, write) in {in_cluster: (4, 4), in_broker: (3, 2)}.items():
        (queues,) = json.loads(_strict(world.admin.run("topicRoute", "-t", topic)))["queueDatas"]
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (read, write, 6)
    row = world.admin.run("topicRoute", "-t", in_broker, "-l").splitlines()[1].split()
    assert row[-3:] == ["3", "2", "6"]


def _strict(printed: str) -> str:
    """Return strict JSON: mqadmin prints fastjson's bare number keys."""
    return re.sub(r"\{(\d+):", r'{"\1":', printed)


def test_illegal_topic_name_is_refused(world: World) -> None:
    printed = world.admin.run("updateTopic", "-b", world.server.broker, "-t", "a/../b")
    assert "success" not in printed
    assert "a/../b" not in world.admin.run("topicList").split()


def test_a_send_after_update_topic_perm(world: World) -> None:
    topic = world.fresh_topic()
    printed = world.admin.run("updateTopicPerm", "-t", topic, "-p", "4", "-b", world.server.broker)
    assert "from 6 to 4" in printed and "perm=R--" in printed
    ext = {"a": "g", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    # Apache leaves the check of the topic's permission to clients; PyMQ refuses the send itself.
    assert probe.call(world.server.broker, 310, ext, b"x").code == (16 if world.server.kind == "pymq" else 0)
    assert "from 4 to 6" in world.admin.run("updateTopicPerm", "-t", topic, "-p", "6", "-c", world.server.cluster)
    assert probe.call(world.server.broker, 310, ext, b"x").code == 0


def test_topic_status(world: World) -> None:
    table = rows(world.admin.run("topicStatus", "-t", world.topic), world.server.broker_name)
    assert [row[1:4] for row in table] == [[str(queue), "0", "2"] for queue in range(4)]


def test_delete_topic(world: World) -> None:
    topic = world.fresh_topic()
    printed = world.admin.run("deleteTopic", "-c", world.server.cluster, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{world.server.cluster}] success" in printed
    assert "from NameServer success" in printed
    assert topic not in world.admin.run("topicList").split()


def test_consumer_progress(world: World) -> None:
    (row,) = rows(world.admin.run("consumerProgress"), world.group)
    assert row[1:5] == ["1", "V5_3_3", "PUSH", "CLUSTERING"] and row[-1] == "0"
    printed = world.admin.run("consumerProgress", "-g", world.group)
    assert [row[2:6] for row in rows(printed, world.topic)] == [[str(queue), "2", "2", "0"] for queue in range(4)]


def test_connections(world: World) -> None:
    printed = world.admin.run("consumerConnection", "-g", world.group)
    (row,) = rows(printed, world.client_id)
    assert row[2:] == ["JAVA", "V5_3_3"]
    assert [world.topic, "*"] in rows(printed, world.topic)
    for line in ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"):
        assert line in printed
    printed = world.admin.run("producerConnection", "-g", world.producer_group, "-t", world.topic)
    assert "interop-producer" in printed and "V5_3_3" in printed
    assert world.producer_group in world.admin.run("producer", "-b", world.server.broker)
    # An unknown group has no retry topic, which mqadmin looks up first.
    assert "CODE: 17" in world.admin.run("consumerConnection", "-g", world.name("unknown"))


def test_consumer_status_asks_the_client_through_the_broker(world: World) -> None:
    printed = world.admin.run("consumerStatus", "-g", world.group)
    assert world.client_id in printed and "Rebalance OK" in printed
    printed = world.admin.run("consumerStatus", "-g", world.group, "-i", world.client_id)
    assert fields(printed)["messageModel"] == "CLUSTERING"
    assert len(rows(printed, world.topic)) >= 4


def test_broker_status_and_consume_stats(world: World) -> None:
    status = fields(world.admin.run("brokerStatus", "-b", world.server.broker))
    assert int(status["commitLogMaxOffset"]) > 0 and int(status["msgPutTotalTodayNow"]) >= MESSAGE_COUNT
    totals = {f"msg{what}Total{when}" for what in ("Put", "Get") for when in ("TodayMorning", "YesterdayMorning")}
    assert {*totals, "putTps", "getTransferredTps", "getFoundTps", "getMissTps", "runtime"} <= status.keys()
    printed = world.admin.run("brokerConsumeStats", "-b", world.server.broker)
    assert [row[3:7] for row in rows(printed, world.topic) if row[1] == world.group] == [
        [str(queue), "2", "2", "0"] for queue in range(4)
    ]


def test_broker_config(world: World) -> None:
    config = fields(world.admin.run("getBrokerConfig", "-b", world.server.broker))
    assert config["brokerName"] == world.server.broker_name and config["maxMessageSize"] == "4194304"
    for value in ("4194305", "4194304"):
        update = ("updateBrokerConfig", "-b", world.server.broker, "-k", "maxMessageSize", "-v", value)
        assert "update broker config success" in world.admin.run(*update)
        after = fields(world.admin.run("getBrokerConfig", "-b", world.server.broker))
        assert after["maxMessageSize"] == value


def test_every_setting_that_changes_at_run_time_is_taken_from_mqadmin(world: World) -> None:
    if world.server.kind == "apache":
        pytest.skip("its template topic follows settings at the start alone")
    update = ("updateBrokerConfig", "-b", world.server.broker, "-k", "defaultTopicQueueNums", "-v", "3")
    with Admin(world.server.namesrv) as admin:
        config = admin.brokers.config(world.server.broker)
        assert "update broker config success" in world.admin.run(*update)
        assert admin.topics.configs(world.server.broker)["TBW102"].write_queue_nums == 3
        # The others by the same request, without a JVM for each.
        for key in BrokerConfig.names_at_runtime():
            admin.brokers.update_config(world.server.broker, {key: config[key]})
        assert admin.brokers.config(world.server.broker) == config


def test_namesrv_config_and_kv(world: World) -> None:
    assert world.server.namesrv in world.admin.run("getNamesrvConfig")
    update = ("updateKvConfig", "-s", "interop", "-k", "color", "-v", "red")
    assert "create or update kv config to namespace success" in world.admin.run(*update)
    asked = probe.call(world.server.namesrv, 101, {"namespace": "interop", "key": "color"})
    assert (asked.code, asked.ext["value"]) == (0, "red")
    assert "success" in world.admin.run("deleteKvConfig", "-s", "interop", "-k", "color")
    assert probe.call(world.server.namesrv, 101, {"namespace": "interop", "key": "color"}).code == 22


def test_order_conf(world: World) -> None:
    conf = f"{world.server.broker_name}:4"
    assert "success" in world.admin.run("updateOrderConf", "-t", world.topic, "-v", conf, "-m", "put")
    assert conf in world.admin.run("updateOrderConf", "-t", world.topic, "-m", "get")
    assert "success" in world.admin.run("updateOrderConf", "-t", world.topic, "-m", "delete")


def test_query_message_by_every_kind_of_id(world: World) -> None:
    unique, offset_id, queue, offset = world.sent[3]
    by_id = world.admin.run("queryMsgById", "-i", offset_id, "-t", world.topic)
    by_unique = world.admin.run("queryMsgByUniqueKey", "-t", world.topic, "-i", unique)
    place = ("-b", world.server.broker_name, "-i", queue, "-o", offset)
    by_offset = world.admin.run("queryMsgByOffset", "-t", world.topic, *place)
    for printed in (by_id, by_unique, by_offset):
        found = fields(printed)
        assert (found["Topic"], found["Keys"]) == (world.topic, "[key3]")
        assert (found["Queue ID"], found["Queue Offset"]) == (queue, offset)
    assert f"consumerGroup={world.group}, trackType=CONSUMED" in by_unique
    by_key = world.admin.run("queryMsgByKey", "-t", world.topic, "-k", "key3")
    assert rows(by_key, unique) == [[unique, queue, offset]]


def test_consume_a_message_directly(world: World) -> None:
    _, offset_id, _, _ = world.sent[0]
    target = ("-g", world.group, "-d", world.client_id)
    printed = world.admin.run("queryMsgById", "-i", offset_id, "-t", world.topic, *target)
    assert "CR_SUCCESS" in printed


def test_print_messages(world: World) -> None:
    printed = world.admin.run("printMsg", "-t", world.topic, "-d", "true")
    assert all(f"body {i}" in printed for i in range(MESSAGE_COUNT))
    assert "body" not in world.admin.run("printMsg", "-t", world.topic, "-s", "TagZ", "-d", "true").split("BODY")[-1]
    queue = ("-a", world.server.broker_name, "-i", "1", "-p", "true", "-d", "true")
    assert world.admin.run("printMsgByQueue", "-t", world.topic, *queue).count("BODY") == 2


def test_query_consume_queue(world: World) -> None:
    place = ("-q", "1", "-i", "0", "-c", "2", "-b", world.server.broker)
    printed = world.admin.run("queryCq", "-t", world.topic, *place, "-g", world.group)
    assert printed.count("physicOffset") >= 2 or printed.count("CQ(index:") >= 2


def test_consume_message_command(world: World) -> None:
    place = ("-b", world.server.broker_name, "-i", "2", "-o", "0", "-c", "2")
    assert world.admin.run("consumeMessage", "-t", world.topic, *place).count("MSGID") == 2


def test_groups_are_created_listed_and_deleted(world: World) -> None:
    group = world.name("made")
    settings = ("-r", "5", "-q", "2", "-s", "true")
    assert "success" in world.admin.run("updateSubGroup", "-b", world.server.broker, "-g", group, *settings)
    shown = fields(world.admin.run("getConsumerConfig", "-g", group))
    assert (shown["retryMaxTimes"], shown["retryQueueNums"]) == ("5", "2")
    assert "success" in world.admin.run("deleteSubGroup", "-b", world.server.broker, "-g", group)
    assert "retryMaxTimes" not in world.admin.run("getConsumerConfig", "-g", group)
    assert "success" in world.admin.run("updateSubGroup", "-c", world.server.cluster, "-g", group)
    assert "success" in world.admin.run("deleteSubGroup", "-c", world.server.cluster, "-g", group, "-r", "true")


def test_reset_and_clone_offsets(world: World) -> None:
    printed = world.admin.run("resetOffsetByTime", "-g", world.group, "-t", world.topic, "-s", "0")
    resets = [line.split() for line in printed.splitlines() if line.split()[:1] == [world.server.broker_name]]
    assert sorted((row[1], row[2]) for row in resets) == [(str(queue), "0") for queue in range(4)]
    probe.wait_until("the consumer to read everything again", world._all_read)
    printed = world.admin.run("skipAccumulatedMessage", "-g", world.group, "-t", world.topic)
    assert "Exception" not in printed
    clone = world.name("clone")
    assert "success" in world.admin.run("updateSubGroup", "-b", world.server.broker, "-g", clone)
    asked = {"consumerGroup": clone, "topic": world.topic, "queueId": "1"}

    def cloned() -> bool:
        printed = world.admin.run("cloneGroupOffset", "-s", world.group, "-d", clone, "-t", world.topic)
        assert "success" in printed
        return probe.call(world.server.broker, 14, asked).ext["offset"] == "2"

    # The consumer applies a reset 10 s later and commits 0 meanwhile; then it reads everything again.
    probe.wait_until("the end of the queue among the clone's offsets", cloned)


def test_stats_all(world: World) -> None:
    def no_lag() -> bool:
        printed = world.admin.run("statsAll", "-t", world.topic)
        (found,) = [row for row in rows(printed, world.topic) if row[1] == world.group]
        # What was sent and got within a day: the test's messages at least.
        assert int(found[5]) >= MESSAGE_COUNT
        return found[2] == "0" and int(found[6]) >= MESSAGE_COUNT

    # Another test's reset may still make the consumer read everything again.
    probe.wait_until("the consumer to have read everything", no_lag)


def test_wipe_and_add_write_perm(world: World) -> None:
    printed = world.admin.run("wipeWritePerm", "-b", world.server.broker_name)
    assert f"wipe write perm of broker[{world.server.broker_name}]" in printed and "OK" in printed
    assert probe.route(world.server.namesrv, world.topic)["queueDatas"][0]["perm"] == 4
    assert "OK" in world.admin.run("addWritePerm", "-b", world.server.broker_name)
    assert probe.route(world.server.namesrv, world.topic)["queueDatas"][0]["perm"] == 6


def test_cleaning_commands(world: World) -> None:
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in world.admin.run(command, "-b", world.server.broker)
    assert world.topic in world.admin.run("topicList").split()


def test_sending_commands(world: World) -> None:
    topic = world.fresh_topic()
    printed = world.admin.run("sendMessage", "-t", topic, "-p", "from mqadmin", "-k", "mk", "-c", "TagM")
    assert "SEND_OK" in printed
    pinned = ("-b", world.server.broker_name, "-i", "1")
    (row,) = rows(world.admin.run("sendMessage", "-t", topic, "-p", "pinned", *pinned), world.server.broker_name)
    assert row[1:3] == ["1", "SEND_OK"]
    checked = rows(world.admin.run("checkMsgSendRT", "-t", topic, "-a", "3", "-s", "16"), world.server.broker_name)
    assert [row[2] for row in checked] == ["true"] * 3
    assert world.admin.run("sendMsgStatus", "-b", world.server.broker_name, "-c", "2").count("SEND_OK") == 2
    # clusterRT never ends: stop it after its first line.
    printed = world.admin.run("!until", world.server.broker_name, "clusterRT", "-a", "3", "-s", "32")
    (row,) = rows(printed, world.server.cluster)
    assert row[1] == world.server.broker_name and row[-2:] == ["3", "0"]


def test_exports_and_ha_status(world: World, tmp_path: Path) -> None:
    world.admin.run("exportMetadata", "-b", world.server.broker, "-f", str(tmp_path), "-t")
    assert world.topic in (tmp_path / "topic.json").read_text()
    assert "success" in world.admin.run("exportConfigs", "-c", world.server.cluster, "-f", str(tmp_path))
    printed = world.admin.run("haStatus", "-b", world.server.broker)
    assert f"#MasterAddr\t{world.server.broker}" in printed and "#SlaveNum\t0" in printed


def test_query_msg_trace_by_id_reads_pymqs_traces(world: World) -> None:
    topic, group = world.fresh_topic(1), world.name("traced")
    seen: list[StoredMessage] = []
    consumer = PushConsumer(
        group, namesrv=world.server.namesrv, on_message=seen.extend, consume_from="first", trace=True
    )
    consumer.subscribe(topic)
    with Producer(world.name("tracer"), namesrv=world.server.namesrv, trace=True) as producer, consumer:
        sent = producer.send(Message(topic, "x", keys="trace-key"), timeout_s=30)
        probe.wait_until("the message", lambda: seen)

    def shown() -> bool:
        output = world.admin.run("queryMsgTraceById", "-i", sent.message_id)
        return "Pub" in output and group in output and "success" in output

    probe.wait_until("mqadmin to show both traces", shown)


def test_the_table_of_subcommands_has_those_of_the_jar(admin: MqAdmin) -> None:
    assert sorted(admin.run("!names").split()) == sorted(SUBCOMMANDS)


def test_update_topics_and_groups_by_a_file(world: World, tmp_path: Path) -> None:
    topics, groups = ([world.name(kind) for _ in range(3)] for kind in ("topic", "group"))
    file = tmp_path / "list.json"
    file.write_text(json.dumps([{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2} for name in topics]))
    printed = world.admin.run("updateTopicList", "-b", world.server.broker, "-f", str(file))
    assert f"submit batch of topic config to {world.server.broker} success" in printed
    probe.wait_until("the topics", lambda: set(topics) <= set(world.admin.run("topicList").split()))
    (queues,) = probe.route(world.server.namesrv, topics[2])["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (2, 2)
    file.write_text(json.dumps([{"groupName": name, "retryMaxTimes": 5} for name in groups]))
    printed = world.admin.run("updateSubGroupList", "-c", world.server.cluster, "-f", str(file))
    assert f"submit batch of subscription group config to {world.server.broker} success" in printed
    assert fields(world.admin.run("getConsumerConfig", "-g", groups[2]))["retryMaxTimes"] == "5"


def test_set_consume_mode(world: World) -> None:
    target = ("-b", world.server.broker, "-g", world.name("pops"), "-m", "POP", "-q", "2")
    world.admin.run("updateSubGroup", *target[:4])
    topic = world.fresh_topic()
    assert "success" in world.admin.run("setConsumeMode", *target, "-t", topic)
    table = probe.call(world.server.broker, GET_ALL_MESSAGE_REQUEST_MODE).body.decode()
    assert f'"{topic}"' in table and f'"{target[3]}"' in table and '"popShareQueueNum":2' in table
    assert "CODE: 17" in world.admin.run("setConsumeMode", *target, "-t", world.name("unknown"))


def test_every_option_of_update_sub_group(world: World) -> None:
    group = world.name("options")
    wanted = {
        "s": "true",
        "m": "false",
        "d": "false",
        "o": "true",
        "q": "3",
        "r": "7",
        "i": "0",
        "w": "1",
        "a": "false",
    }
    options = [word for name, value in wanted.items() for word in (f"-{name}", value)]
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    made = ("updateSubGroup", "-b", world.server.broker, "-g", group, *options, "-p", json.dumps(policy))
    assert "success" in world.admin.run(*made)
    shown = fields(world.admin.run("getConsumerConfig", "-g", group))
    flags = ("consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly")
    assert [shown[flag] for flag in flags] == ["true", "false", "false", "true"]
    assert (shown["retryQueueNums"], shown["retryMaxTimes"]) == ("3", "7")
    assert (shown["brokerId"], shown["whichBrokerWhenConsumeSlowly"]) == ("0", "1")
    assert shown["notifyConsumerIdsChangedEnable"] == "false" and "CUSTOMIZED" in shown["groupRetryPolicy"]


def test_reset_of_one_queue_of_a_group_that_is_away(world: World) -> None:
    group = world.name("away")
    assert "success" in world.admin.run("updateSubGroup", "-b", world.server.broker, "-g", group)
    place = ("-b", world.server.broker, "-q", "1", "-o", "1")
    printed = world.admin.run("resetOffsetByTime", "-g", group, "-t", world.topic, "-s", "now", *place)
    assert "reset consumer offset to 1" in printed and "Exception" not in printed
    asked = {"consumerGroup": group, "topic": world.topic, "queueId": "1"}
    assert probe.call(world.server.broker, 14, asked).ext["offset"] == "1"


def test_commands_on_a_whole_cluster(world: World, tmp_path: Path) -> None:
    cluster = ("-c", world.server.cluster)
    assert world.server.broker in world.admin.run("brokerStatus", *cluster)
    assert "#SlaveNum\t0" in world.admin.run("haStatus", *cluster)
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in world.admin.run(command, *cluster)
    assert "success" in world.admin.run("exportMetadata", *cluster, "-f", str(tmp_path))
    assert world.topic in (tmp_path / "metadata.json").read_text()
    assert "success" in world.admin.run("updateBrokerConfig", *cluster, "-k", "maxMessageSize", "-v", "4194304")


def test_messages_by_time_and_a_message_sent_again(world: World) -> None:
    times = ("-b", "0", "-e", str(2**62), "-m", "1", "-c", world.server.cluster)
    assert len(rows(world.admin.run("queryMsgByKey", "-t", world.topic, "-k", "key5", *times), world.sent[5][0])) == 1
    topic = world.fresh_topic(1)
    with Producer(world.name("again"), namesrv=world.server.namesrv) as producer:
        sent = producer.send(Message(topic, "x", keys="again"), timeout_s=30)
    assert "SEND_OK" in world.admin.run("queryMsgById", "-i", sent.offset_message_id, "-t", topic, "-s", "true")
    probe.wait_until("the second copy", lambda: probe.max_offset(world.server.broker, topic, 0) == 2)


def test_the_stack_of_a_client(world: World) -> None:
    printed = world.admin.run("consumerStatus", "-g", world.group, "-i", world.client_id, "-s")
    assert "TID:" in printed and "STATE:" in printed


def test_allocate_mq(world: World) -> None:
    printed = world.admin.run("allocateMQ", "-t", world.topic, "-i", "10.0.0.1,10.0.0.2")
    shares = json.loads(printed.splitlines()[-1])["result"]
    assert {ip: len(queues) for ip, queues in shares.items()} == {"10.0.0.1": 2, "10.0.0.2": 2}
    # mqadmin does not sort the queues, as a consumer does.
    assert sorted(queue["queueId"] for queues in shares.values() for queue in queues) == [0, 1, 2, 3]


def test_update_namesrv_config(world: World) -> None:
    for value in ("true", "false"):
        printed = world.admin.run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", value)
        assert "update name server config success!" in printed
        assert fields(world.admin.run("getNamesrvConfig"))["orderMessageEnable"] == value


def test_export_metrics(world: World, tmp_path: Path) -> None:
    assert "success" in world.admin.run("exportMetrics", "-c", world.server.cluster, "-f", str(tmp_path))
    exported = json.loads((tmp_path / "metrics.json").read_text())
    broker = exported["evaluateReport"][world.server.broker_name]
    assert broker["runtimeQuota"]["topicSize"] >= 1 and broker["runtimeQuota"]["groupSize"] >= 1
    assert "JAVA%V5_3_3" in broker["runtimeVersion"]["clientInfo"]
    assert broker["runtimeQuota"]["tps"].keys() == {"normalInTps", "normalOutTps", "transInTps", "scheduleInTps"}


def test_broker_epoch(world: World) -> None:
    printed = world.admin.run("getBrokerEpoch", "-b", world.server.broker_name)
    if world.server.kind == "apache":
        assert "this request only for controllerMode" in printed
        return
    assert f"#brokerAddr\t{world.server.broker}" in printed and "#brokerId\t0" in printed
    assert re.search(r"#Epoch: EpochEntry\{epoch=1, startOffset=0, endOffset=[1-9]", printed)


def test_commands_on_files(world: World, tmp_path: Path) -> None:
    assert "path is invalid" in world.admin.run("exportMetadataInRocksDB", "-p", str(tmp_path / "none"), "-t", "topics")
    if isinstance(world.server, PymqServer):
        # A segment of the log has the form of a compaction log.
        segment = min(world.server.store.rglob("commitlog/0*"))
        assert f"topic='{world.topic}'" in world.admin.run("dumpCompactionLog", "-f", str(segment))


def test_an_ordinary_topic_has_no_mapping_to_change(world: World) -> None:
    place = ("-b", world.server.broker_name, "-t", world.topic)
    assert "Mapping info should not be null" in world.admin.run("remappingStaticTopic", *place)


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_for_what_pymq_lacks_is_refused(world: World, name: str) -> None:
    if world.server.kind == "apache":
        pytest.skip("Apache has these parts")
    refused = REFUSED[name]
    places = {
        "$b": world.server.broker,
        "$n": world.server.namesrv,
        "$name": world.server.broker_name,
        "$c": world.server.cluster,
    }
    words = [re.sub(r"\$\w+", lambda place: places[place.group()], word) for word in refused.words.split()]
    printed = world.admin.run(name, *words)
    assert "CODE: 3" in printed and refused.remark in printed and "success" not in printed


def test_start_monitoring(world: World) -> None:
    """The last test: the monitor's clients run until the JVM ends."""
    world.admin.run("startMonitoring")

    def is_connected() -> bool:
        return "OFFSET_MOVED_EVENT" in world.admin.run("consumerConnection", "-g", "__MONITOR_CONSUMER")

    probe.wait_until("the monitor among the consumers", is_connected)
