"""TopicManager: the topics at start, automatic creation, and changes that count once saved."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from pymq.broker.metadata.saved_state import raise_failure
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.metadata.topics import TopicManager
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.errors import Refusal, StoreUnavailableError
from pymq.model.tables import TopicConfig
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import ResponseCode
from tests.broker.disk import Threads

PATH = "/data/config/topics.json"


def manager(files: MemoryFiles | None = None, **settings: str) -> TopicManager:
    files = files or MemoryFiles()
    files.makedirs("/data/config")
    config = load_broker_config(None, settings)
    topics = TopicManager(TableSaver(JsonTable(files, PATH)), clock=ManualClock(), config=config)
    topics.load()
    return topics


def first_send(topics: TopicManager, topic: str, template: str, queue_count: int) -> TopicConfig:
    """Return the topic as it is when the answer to a first send may leave."""
    topics.make_for_send(topic, template, queue_count, raise_failure)
    return topics.require(topic)


def refusal(error: pytest.ExceptionInfo[Refusal]) -> tuple[int, str]:
    return error.value.code, error.value.remark


def test_the_system_topics_are_there_at_start() -> None:
    topics = manager()
    shown = {name: (topic.write_queue_nums, topic.perm) for name, topic in topics.all().items()}
    assert shown == {
        "TBW102": (8, 7),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "SELF_TEST_TOPIC": (1, 6),
        "BenchmarkTest": (1024, 6),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "RMQ_SYS_TRACE_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
    }
    assert topics.system_names() == sorted(shown)


def test_a_first_send_makes_a_topic_from_the_template() -> None:
    topics = manager()
    heard: list[list[str]] = []
    topics.add_listener(heard.append)
    made = first_send(topics, "T", "TBW102", 4)
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (4, 4, 6)
    assert first_send(topics, "U", "TBW102", 99).write_queue_nums == 8
    assert heard == [["T"], ["U"]]
    assert first_send(topics, "T", "TBW102", 1) is topics.get("T")


def test_no_topic_is_made_when_that_is_off_but_retry_topics_are() -> None:
    topics = manager(autoCreateTopicEnable="false")
    with pytest.raises(Refusal) as error:
        first_send(topics, "T", "TBW102", 4)
    code, remark = refusal(error)
    assert code == ResponseCode.TOPIC_NOT_EXIST and "'T' not exist" in remark and "create" in remark
    assert first_send(topics, "%RETRY%g", "TBW102", 4).write_queue_nums == 1


def test_an_operator_s_own_template_makes_topics_in_any_case() -> None:
    topics = manager(autoCreateTopicEnable="false")
    topics.put([TopicConfig(topic_name="Template", read_queue_nums=2, write_queue_nums=2, perm=7)])
    assert first_send(topics, "T", "Template", 4).write_queue_nums == 2
    for system in ("DefaultCluster", "broker-a"):  # these have the bit, too
        with pytest.raises(Refusal):
            first_send(topics, "U", system, 4)


def test_a_template_without_the_inherit_bit_makes_nothing() -> None:
    topics = manager()
    topics.put([TopicConfig(topic_name="Template")])
    with pytest.raises(Refusal):
        first_send(topics, "T", "Template", 4)


@pytest.mark.parametrize(
    ("template", "queue_count", "perm"),
    [
        ({"writeQueueNums": 2, "readQueueNums": 5, "perm": 7}, 2, 6),  # the template's queues for writing count
        ({"writeQueueNums": 16, "readQueueNums": 16, "perm": 5}, 4, 4),
        ({"writeQueueNums": 16, "readQueueNums": 16, "perm": 3}, 4, 2),
        ({"writeQueueNums": 0, "readQueueNums": 0, "perm": 7}, 1, 6),
    ],
)
def test_a_new_topic_inherits_the_template_s_permission_and_queues(
    template: dict[str, int], queue_count: int, perm: int
) -> None:
    files = MemoryFiles()
    files.makedirs("/data/config")
    row = {"topicName": "TBW102", "topicSysFlag": 3, "topicFilterType": "MULTI_TAG", **template}
    JsonTable(files, PATH).save({"topicConfigTable": {"TBW102": row}})
    made = first_send(manager(files), "T", "TBW102", 4)
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (queue_count, queue_count, perm)
    assert (made.topic_sys_flag, made.topic_filter_type) == (0, "MULTI_TAG")


def test_the_first_send_of_a_unit_marks_its_topic() -> None:
    topics = manager()
    topics.make_for_send("T", "TBW102", 1, raise_failure, is_unit=True)
    topics.make_for_send("%RETRY%g", "", 1, raise_failure, is_unit=True)
    assert (topics.require("T").topic_sys_flag, topics.require("%RETRY%g").topic_sys_flag) == (1, 2)


def test_the_template_follows_settings_that_change_at_run_time() -> None:
    files = MemoryFiles()
    topics = manager(files, autoCreateTopicEnable="false")
    config = topics._config
    topics.follow_settings(config.change_at_runtime({"defaultTopicQueueNums": "3"}))
    assert topics.get("TBW102") is None
    topics.follow_settings(config.change_at_runtime({"autoCreateTopicEnable": "true"}))
    assert first_send(topics, "T", "TBW102", 4).write_queue_nums == 3 and topics.is_system("TBW102")
    topics.follow_settings(config.change_at_runtime({"defaultTopicQueueNums": "5", "maxTopics": "99"}))
    topics.follow_settings(config.change_at_runtime({"maxTopics": "98"}))
    assert first_send(topics, "U", "TBW102", 9).write_queue_nums == 5
    assert manager(files).require("TBW102").read_queue_nums == 5  # saved with the other topics


def test_a_slave_s_template_is_its_master_s() -> None:
    topics = manager(brokerId="1")
    topics.follow_settings(topics._config.change_at_runtime({"defaultTopicQueueNums": "3"}))
    assert topics.require("TBW102").write_queue_nums == 8


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "a\0b", "a\nb", "x" * 128, "ü"])
def test_illegal_names_are_refused(name: str) -> None:
    topics = manager()
    for attempt in (lambda: first_send(topics, name, "TBW102", 4), lambda: topics.put([TopicConfig(topic_name=name)])):
        with pytest.raises(Refusal) as error:
            attempt()
        assert error.value.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    "change",
    [
        {"read_queue_nums": 0},
        {"write_queue_nums": 65536},
        {"perm": 16},
        {"perm": -1},
        {"topic_filter_type": "NONE"},
        {"attributes": {"nope": "1"}},
        {"attributes": {"message.type": "WRONG"}},
        {"attributes": {"reserve.time": "x"}},
        {"topic_name": "TBW102"},
        {"topic_name": "rmq_sys_wheel_timer"},
    ],
)
def test_unacceptable_configurations_are_refused_and_change_nothing(change: dict[str, object]) -> None:
    topics = manager()
    before = topics.all()
    good = TopicConfig(topic_name="Good")
    fields: dict[str, Any] = {"topic_name": "T", **change}
    with pytest.raises(Refusal) as error:
        topics.put([good, TopicConfig(**fields)])
    assert error.value.code == ResponseCode.INVALID_PARAMETER
    assert topics.all() == before


def test_read_and_write_queue_numbers_differ_while_a_topic_shrinks() -> None:
    topics = manager()
    topics.put([TopicConfig(topic_name="T", read_queue_nums=16, write_queue_nums=8)])
    found = topics.require("T")
    assert (found.read_queue_nums, found.write_queue_nums, found.queue_count) == (16, 8, 16)


def test_topics_survive_a_restart_with_their_version() -> None:
    files = MemoryFiles()
    topics = manager(files)
    topics.put([TopicConfig(topic_name="T", perm=4, attributes={"message.type": "FIFO"})])
    again = manager(files)
    assert again.require("T") == topics.require("T")
    assert again.data_version == topics.data_version
    assert again.data_version.counter == topics.data_version.counter > 0


def test_a_file_of_the_java_broker_with_oddities_is_read() -> None:
    files = MemoryFiles()
    files.makedirs("/data/config")
    text = b"""{"dataVersion":{"counter":7,"timestamp":1},"topicConfigTable":{
        "T":{"topicName":"T","readQueueNums":3,"writeQueueNums":2,"perm":6,"topicFilterType":"SINGLE_TAG",
             "topicSysFlag":0,"order":false,"attributes":null},
        "../evil":{"topicName":"../evil"}, "Bad":{"topicName":"Bad","perm":"no number"}, "Odd": 5}}"""
    file = files.open(PATH, create=True)
    file.pwrite(0, text)
    file.close()
    topics = manager(files)
    assert topics.require("T").read_queue_nums == 3
    assert {"../evil", "Bad", "Odd"}.isdisjoint(topics.all())
    assert topics.data_version.counter == 8  # the system topics were added


def test_the_number_of_topics_is_bounded() -> None:
    topics = manager(maxTopics="20")
    with pytest.raises(Refusal) as error:
        for i in range(30):
            first_send(topics, f"T{i}", "TBW102", 1)
    assert error.value.code == ResponseCode.NO_PERMISSION and "maxTopics" in error.value.remark
    assert topics.ensure_internal("%RETRY%g").write_queue_nums == 1
    assert first_send(topics, "T0", "TBW102", 1)


def test_deleting() -> None:
    topics = manager()
    topics.put([TopicConfig(topic_name="T")])
    topics.delete("T")
    topics.delete("T")
    with pytest.raises(Refusal):
        topics.delete("TBW102")
    with pytest.raises(Refusal):
        topics.require("T")


def test_attributes_change_by_sign() -> None:
    topics = manager()
    topics.put([TopicConfig(topic_name="T", attributes={"message.type": "FIFO", "reserve.time": "9"})])
    assert topics.changed_attributes("T", "-reserve.time,+message.type=DELAY") == {"message.type": "DELAY"}
    assert topics.changed_attributes("New", None) == {}
    for bad in ("message.type=FIFO", "+nope=1", "-nope", "+message.type=WRONG"):
        with pytest.raises(Refusal):
            topics.changed_attributes("T", bad)


def test_a_change_that_cannot_be_saved_is_undone() -> None:
    files = MemoryFiles()
    topics = manager(files)
    topics.put([TopicConfig(topic_name="T")])
    before, version = topics.all(), topics.data_version
    heard: list[list[str]] = []
    topics.add_listener(heard.append)

    def fault(call: str, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    for attempt in (
        lambda: topics.put([TopicConfig(topic_name="T", perm=4), TopicConfig(topic_name="U")]),
        lambda: topics.delete("T"),
    ):
        with pytest.raises(StoreUnavailableError, match=r"topics\.json"):
            attempt()
    assert topics.all() == before and topics.data_version == version and not heard


def test_a_first_send_on_a_full_disk_makes_nothing() -> None:
    files = MemoryFiles()
    topics = manager(files)

    def fault(call: str, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match=r"topics\.json"):
        first_send(topics, "T", "TBW102", 4)
    assert topics.get("T") is None
    files.fault = None
    made = first_send(topics, "T", "TBW102", 4)
    assert manager(files).require("T") == made


class Slow:
    """Topics on a disk that takes its time: saves wait for ``threads.run_one()``."""

    def __init__(self, **settings: str) -> None:
        self.files = MemoryFiles()
        manager(self.files)
        self.threads = Threads()
        saver = TableSaver(JsonTable(self.files, PATH), self.threads)
        self.topics = TopicManager(saver, clock=ManualClock(), config=load_broker_config(None, settings))
        self.topics.load()
        self.changed: list[list[str]] = []
        self.topics.add_listener(self.changed.append)

    def run(self) -> None:
        while self.threads.waiting:
            self.threads.run_one()


def test_a_topic_that_is_being_deleted_serves_until_that_is_saved() -> None:
    slow = Slow()
    topics = slow.topics
    topics.make_for_send("T", "TBW102", 4, raise_failure)
    slow.run()
    topics.delete("T")
    assert topics.require("T").write_queue_nums == 4 and slow.changed == [["T"]]
    slow.run()
    assert topics.get("T") is None and slow.changed == [["T"], ["T"]]


def test_changes_are_checked_against_those_that_are_not_saved_yet() -> None:
    slow = Slow(maxTopics="20")
    topics = slow.topics
    topics.put([TopicConfig(topic_name=f"T{i}") for i in range(18 - len(topics.all()))])
    slow.run()
    slow.changed.clear()
    topics.put([TopicConfig(topic_name="A", attributes=topics.changed_attributes("A", "+message.type=FIFO"))])
    topics.put([TopicConfig(topic_name="A", attributes=topics.changed_attributes("A", "+reserve.time=9"))])
    topics.put([TopicConfig(topic_name="B")])
    with pytest.raises(Refusal, match="maxTopics"):
        topics.make_for_send("C", "TBW102", 1, raise_failure)
    with pytest.raises(Refusal, match="maxTopics"):
        topics.put([TopicConfig(topic_name="C")])
    topics.delete("B")
    topics.put([TopicConfig(topic_name="C")])
    assert slow.changed == []
    slow.run()
    assert topics.require("A").attributes == {"message.type": "FIFO", "reserve.time": "9"}
    assert topics.get("B") is None and topics.get("C") is not None


def test_a_topic_created_again_during_its_deletion_is_there() -> None:
    slow = Slow()
    topics = slow.topics
    topics.put([TopicConfig(topic_name="T", perm=4)])
    slow.run()
    topics.put([TopicConfig(topic_name="Other")])
    topics.delete("T")
    topics.put([TopicConfig(topic_name="T")])
    slow.run()
    assert topics.require("T").perm == 6
    assert manager(slow.files).all() == topics.all()


def test_first_sends_wait_for_one_save_and_for_an_operator_s_topic() -> None:
    slow = Slow()
    slow.topics.put([TopicConfig(topic_name="T", read_queue_nums=9, write_queue_nums=9)])
    heard: list[str] = []
    for name in ("T", "U", "U"):
        slow.topics.make_for_send(name, "TBW102", 2, lambda error, name=name: heard.append(f"{name} {error}"))
    assert slow.topics.get("T") is None and slow.topics.get("U") is None and heard == []
    slow.run()
    assert heard == ["T None", "U None", "U None"]
    assert slow.topics.require("T").write_queue_nums == 9
    assert slow.topics.require("U").write_queue_nums == 2
    assert slow.changed == [["T"], ["U"]]
    again = manager(slow.files)
    assert again.all() == slow.topics.all() and again.data_version == slow.topics.data_version


def test_retry_and_dead_letter_topics_have_a_limit_of_their_own() -> None:
    topics = manager(maxTopics="20", maxGroups="20")
    ordinary = 20 - len(topics)
    for i in range(ordinary):
        first_send(topics, f"T{i}", "TBW102", 1)
    topics.ensure_all_internal({f"%RETRY%g{i}": 1 for i in range(39)})
    assert topics.ensure_internal("%DLQ%g").write_queue_nums == 1
    count = len(topics)
    for attempt in (
        lambda: topics.ensure_internal("%RETRY%more"),
        lambda: topics.ensure_all_internal({"%RETRY%g1": 1, "%DLQ%more": 1}),
        lambda: first_send(topics, "%RETRY%more", "TBW102", 1),
        lambda: topics.put([TopicConfig(topic_name="%DLQ%more")]),
    ):
        with pytest.raises(Refusal) as error:
            attempt()
        code, remark = refusal(error)
        assert code == ResponseCode.NO_PERMISSION and "limit of 40 retry and dead-letter topics" in remark
    with pytest.raises(Refusal) as error:
        first_send(topics, "T", "TBW102", 1)
    assert "limit of 20 topics" in refusal(error)[1]
    assert len(topics) == count
    topics.delete("%RETRY%g0")
    assert topics.ensure_internal("%RETRY%more") is topics.get("%RETRY%more")
    topics.delete("T0")
    assert first_send(topics, "T", "TBW102", 1).topic_name == "T"
