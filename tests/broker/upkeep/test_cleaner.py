"""Cleaner: a whole broker that deletes old messages, on a clock and a disk moved by hand."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from pymq.broker.upkeep.cleaner import (
    CHANGED_DELAY_MS,
    FIRST_PASS_DELAY_MS,
    MANUAL_PASS_COUNT,
    PACED_FOR_MS,
    Cleaner,
    retention_settings,
)
from pymq.broker.upkeep.known_retention import RETENTION_FILE, KnownRetention
from pymq.broker.upkeep.problem_log import ProblemLog
from pymq.clock import ManualClock
from pymq.config import BrokerConfig
from pymq.model.tables import TopicConfig
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.retention import RetentionSettings
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.disk import Threads, failing
from tests.broker.world import ROOT, Caller, World

HOUR_MS = 3_600_000
SEGMENT = 65_536
BODY = b"x" * 6000  # ten messages fill a segment
MIDNIGHT_MS = 1_699_920_000_000  # UTC


class SmallDisk(MemoryFiles):
    """A disk of four mebibytes, of which others use ``others_bytes`` and the store what its log segments hold."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(now_ms=clock.now_ms)
        self.total = 4 << 20
        self.others_bytes = 0

    def total_bytes(self, path: str) -> int:
        return self.total

    def free_bytes(self, path: str) -> int:
        log_bytes = sum(len(node.data) for name, node in self.nodes.items() if "/commitlog/" in name)
        return max(0, self.total - self.others_bytes - log_bytes)


class Retained:
    """A world whose cleaner has a thread of its own, run to the end at each step."""

    def __init__(self, hour: int = 0, world: World | None = None, **settings: Any) -> None:
        self.clock = world.clock if world else ManualClock(MIDNIGHT_MS + hour * HOUR_MS)
        self.files = world.files if world else SmallDisk(self.clock)
        self.settings = {"mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": 400, **settings}
        self.world = world or World(self.files, self.clock, **self.settings)
        self.threads = Threads()
        parts = self.world.parts
        parts.upkeep.cleaner = self.cleaner = Cleaner(
            config=parts.config,
            clock=self.clock,
            store=parts.store,
            known=KnownRetention(JsonTable(self.files, f"{ROOT}/config/{RETENTION_FILE}")),
            run_in_thread=self.threads,
        )
        self.store = parts.store
        self.caller = Caller(self.world)

    def fill(self, segments: int, topic: str = "T", **properties: Any) -> None:
        """Store messages until the log has ``segments`` more segments."""
        if self.world.parts.metadata.topics.get(topic) is None:
            self.world.parts.metadata.topics.put([TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1)])
        wanted = len(self.store._log.segments) + segments
        while len(self.store._log.segments) < wanted:
            self.world.put(topic, BODY, **properties)
        self.store._housekeeping.write()

    def fill_old(self, segments: int) -> None:
        """Store messages an hour before the hour at which segments are deleted: each is just old enough."""
        self.fill(segments)
        self.clock.advance(HOUR_MS)

    def let_pass(self, duration_ms: int) -> None:
        self.clock.advance(duration_ms)
        self.run()

    def run(self) -> None:
        """Tick until the pass that is due, if any, has ended."""
        self.cleaner.tick()
        while self.threads.waiting:
            self.threads.run_one()
            self.cleaner.tick()

    def reopened(self) -> Retained:
        return Retained(world=self.world.reopened(**self.settings), **self.settings)

    @property
    def segment_count(self) -> int:
        return len(self.store._log.segments)

    def pull(self, offset: int) -> tuple[int, dict[str, Any]]:
        fields: dict[str, Any] = {
            "consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": offset, "maxMsgNums": 1, "sysFlag": 4,
            "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        }  # fmt: skip
        reply = self.caller.ask(RequestCode.PULL_MESSAGE, **fields)
        assert reply is not None
        return reply.code, {"next": reply.ext.next_begin_offset, "min": reply.ext.min_offset, "body": reply.body}


def test_old_messages_go_at_the_hour_and_pulls_are_moved_on() -> None:
    retained = Retained(hour=5, fileReservedTime=48, deleteWhen="04")
    retained.fill(3, KEYS="old")
    first_key = retained.store.find_by_key("T", "old", 64)
    assert first_key
    retained.clock.advance(24 * HOUR_MS)
    retained.fill(2)
    retained.let_pass(22 * HOUR_MS)  # 03:00, 46 hours
    assert retained.segment_count == 5
    retained.let_pass(HOUR_MS)
    assert retained.segment_count == 5  # the hour, but an hour too young
    retained.let_pass(2 * HOUR_MS)
    assert retained.segment_count == 5  # old enough, but the hour is over
    retained.let_pass(22 * HOUR_MS)  # 04:00 of the next day
    # The third was last written to a day later, when it got full.
    assert retained.segment_count == 3 and retained.cleaner.deleted_count == 2
    low = retained.store.min_offset("T", 0)
    code, answer = retained.pull(0)
    assert (code, answer["next"], answer["min"]) == (ResponseCode.PULL_OFFSET_MOVED, low, low) and low > 0
    assert retained.pull(low)[0] == ResponseCode.SUCCESS
    assert len(retained.store.find_by_key("T", "old", 64)) < len(first_key)
    again = retained.reopened()
    assert again.store.min_offset("T", 0) == low
    assert again.pull(0)[0] == ResponseCode.PULL_OFFSET_MOVED
    assert again.pull(low)[0] == ResponseCode.SUCCESS


TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS


def test_a_clock_ten_years_ahead_at_a_start_expires_nothing_also_when_it_is_back() -> None:
    retained = Retained(hour=4, fileReservedTime=48)
    retained.fill(5)
    true_ms = retained.clock.now_ms()
    retained.clock.set_wall(true_ms + TEN_YEARS_MS)
    for _ in range(3):  # further restarts don't make the time count
        retained = retained.reopened()
        retained.let_pass(FIRST_PASS_DELAY_MS)
        retained.fill(1)
        assert retained.cleaner.deleted_count == 0
    # The clock is right again: what was stored meanwhile expires with the rest, and not ten years later.
    retained.clock.set_wall(true_ms + HOUR_MS)
    retained = retained.reopened()
    retained.fill(1)
    for _ in range(46):
        retained.let_pass(HOUR_MS)
    assert retained.cleaner.deleted_count == 0 and retained.segment_count == 9
    for _ in range(26):
        retained.let_pass(HOUR_MS)
    assert retained.segment_count == 1


def test_after_a_year_off_an_operator_says_that_the_clock_is_right() -> None:
    retained = Retained(hour=4, fileReservedTime=48)
    retained.fill(3)
    retained.clock.advance(TEN_YEARS_MS)
    retained = retained.reopened()
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.segment_count == 3
    retained.caller.ok(RequestCode.DELETE_EXPIRED_COMMITLOG)
    retained.run()
    assert retained.segment_count == 1


def test_a_limit_that_would_delete_nearly_the_whole_log_is_refused_at_run_time() -> None:
    retained = Retained(hour=9)
    retained.fill(7)
    least = 3 * SEGMENT
    for value in (1, least - 1):
        reply = retained.caller.ask(RequestCode.UPDATE_BROKER_CONFIG, f"commitLogBytesMax={value}".encode())
        assert reply is not None and reply.code != ResponseCode.SUCCESS
        assert f"the least is {least}" in str(reply.remark)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.segment_count == 7
    retained.caller.ok(RequestCode.UPDATE_BROKER_CONFIG, f"commitLogBytesMax={least}".encode())


def test_hours_are_local() -> None:
    clock = ManualClock(MIDNIGHT_MS, timezone(timedelta(hours=4)))
    world = World(SmallDisk(clock), clock, mappedFileSizeCommitLog=SEGMENT)
    retained = Retained(world=world)
    retained.fill(3)
    retained.let_pass(24 * 4 * HOUR_MS)  # midnight in UTC is 04:00 there
    assert retained.segment_count == 1
    assert (clock.local_time().hour, clock.local_time().astimezone(UTC).hour) == (4, 0)


def test_nothing_is_deleted_in_the_first_minute_and_then_in_batches() -> None:
    retained = Retained(hour=3, fileReservedTime=1, deleteFileBatchMax=2, cleanResourceInterval=10_000)
    retained.fill_old(6)
    retained = retained.reopened()
    retained.let_pass(0)
    retained.let_pass(FIRST_PASS_DELAY_MS - 1)
    assert retained.segment_count == 6
    retained.let_pass(10_000)
    assert retained.segment_count == 4
    retained.let_pass(9_999)
    assert retained.segment_count == 4
    retained.let_pass(1)
    assert retained.segment_count == 2
    for _ in range(3):
        retained.let_pass(10_000)
    assert retained.segment_count == 1  # never the last one


def test_the_segment_is_served_until_its_file_is_gone() -> None:
    retained = Retained(hour=3, fileReservedTime=1)
    retained.fill_old(3)
    retained.clock.advance(FIRST_PASS_DELAY_MS)
    retained.cleaner.tick()
    assert len(retained.threads.waiting) == 1
    retained.cleaner.tick()
    assert len(retained.threads.waiting) == 1  # one at a time
    assert retained.pull(0)[0] == ResponseCode.SUCCESS

    def between() -> None:
        assert not retained.files.exists(f"{ROOT}/commitlog/{0:020d}")
        assert retained.pull(0)[0] == ResponseCode.SUCCESS

    retained.threads.run_one(between)
    assert retained.pull(0)[0] == ResponseCode.PULL_OFFSET_MOVED


def test_a_stop_during_a_deletion() -> None:
    retained = Retained(hour=3, fileReservedTime=1)
    retained.fill_old(3)
    retained.clock.advance(FIRST_PASS_DELAY_MS)
    retained.cleaner.tick()
    retained.cleaner.stop()
    retained.threads.run_one()
    assert retained.segment_count == 3  # the file is gone, no pull is moved on any more
    retained.cleaner.tick()
    assert retained.threads.waiting == []
    again = retained.reopened()
    assert again.segment_count == 2
    again.let_pass(FIRST_PASS_DELAY_MS)
    assert again.segment_count == 1


def test_an_operator_deletes_old_segments_at_any_hour() -> None:
    retained = Retained(hour=9, fileReservedTime=1, deleteFileBatchMax=1, cleanResourceInterval=10_000)
    retained.fill(4)
    retained.run()
    retained.clock.advance(2 * HOUR_MS)
    retained.fill(2)
    retained.caller.ok(RequestCode.DELETE_EXPIRED_COMMITLOG)
    retained.run()
    assert retained.segment_count == 5
    for _ in range(MANUAL_PASS_COUNT):
        retained.let_pass(10_000)
    assert retained.segment_count == 3  # the rest is too young
    retained.clock.advance(2 * HOUR_MS)
    retained.run()
    assert retained.segment_count == 3  # the passes asked for are used up


def test_a_log_that_is_too_large_loses_its_oldest_segments_and_the_limit_changes_at_run_time() -> None:
    retained = Retained(hour=9)
    retained.fill(6)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.segment_count == 6
    retained.caller.ok(RequestCode.UPDATE_BROKER_CONFIG, f"commitLogBytesMax={4 * SEGMENT}".encode())
    retained.let_pass(10_000)
    assert retained.segment_count == 6  # there is a minute to set it back
    retained.let_pass(CHANGED_DELAY_MS)
    assert retained.segment_count == 5
    retained.let_pass(10_000)
    assert retained.segment_count == 4
    assert retained.store._expiry.log_bytes() <= 4 * SEGMENT
    code, remark = retained.caller.refused(RequestCode.UPDATE_BROKER_CONFIG, b"deleteWhen=25")
    assert code == ResponseCode.NO_PERMISSION and "hours from 0 to 23" in remark


def reopened(before: Retained, **changed: Any) -> Retained:
    settings = before.settings | changed
    return Retained(world=before.world.reopened(**settings), **settings)


def aged(segments: int = 9) -> Retained:
    """Return a broker with segments of two hours ago, on a disk of which half is used."""
    retained = Retained(hour=9, deleteWhen="10;11;12;13", cleanResourceInterval=10_000, deleteFileBatchMax=4)
    retained.fill(segments)
    retained.clock.advance(2 * HOUR_MS)
    assert isinstance(retained.files, SmallDisk)
    retained.files.others_bytes = 2 << 20
    retained.run()
    return retained


@pytest.mark.parametrize("changed", [{"fileReservedTime": 1}, {"diskSpaceCleanForciblyRatio": 30}])
def test_a_rule_that_was_changed_in_the_file_is_slow_after_the_start(changed: dict[str, Any]) -> None:
    retained = reopened(aged(), **changed)
    retained.let_pass(0)
    retained.let_pass(CHANGED_DELAY_MS)
    assert retained.segment_count == 8
    again = reopened(retained)  # a restart does not end it
    again.let_pass(0)
    again.let_pass(CHANGED_DELAY_MS)
    assert again.segment_count == 7
    change(again, "fileReservedTime=72\ndiskSpaceCleanForciblyRatio=85")
    again.let_pass(PACED_FOR_MS)
    assert again.segment_count == 7, "what was taken back keeps the rest"


def test_what_grew_old_while_the_broker_was_stopped_goes_at_the_usual_speed() -> None:
    before = aged()
    change(before, "fileReservedTime=3")
    before.let_pass(10_000)
    before.clock.advance(2 * HOUR_MS)
    retained = reopened(before, fileReservedTime=3)
    retained.let_pass(0)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.segment_count == 5


def test_settings_of_the_last_run_that_are_damaged_count_as_none(caplog: pytest.LogCaptureFixture) -> None:
    before = aged()
    before.files.nodes[f"{ROOT}/config/{RETENTION_FILE}"].data[:] = b'{"retention": {"reserved_hours": "x"}}'
    retained = reopened(before, fileReservedTime=1)
    retained.let_pass(0)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.segment_count == 5
    assert "no change is noticed" in caplog.text


def test_a_failed_save_of_the_settings_is_said(caplog: pytest.LogCaptureFixture) -> None:
    retained = Retained(hour=9)
    with failing(retained.world, "pwrite", RETENTION_FILE):
        retained.run()
    assert "the next start compares with older ones" in caplog.text


def change(retained: Retained, text: str) -> None:
    retained.caller.ok(RequestCode.UPDATE_BROKER_CONFIG, text.encode())


def test_a_change_that_deletes_more_is_slow_for_ten_minutes_and_can_be_taken_back() -> None:
    retained = Retained(hour=9, cleanResourceInterval=10_000)
    retained.fill(9)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    change(retained, f"commitLogBytesMax={3 * SEGMENT}")
    for _ in range(6):
        retained.let_pass(10_000)
    assert retained.segment_count == 9
    retained.let_pass(10_000)
    retained.let_pass(10_000)
    assert retained.segment_count == 7
    change(retained, "commitLogBytesMax=0")
    retained.let_pass(PACED_FOR_MS)
    assert retained.segment_count == 7
    retained.fill(9)
    change(retained, f"commitLogBytesMax={12 * SEGMENT}")
    retained.let_pass(10_000)
    retained.clock.advance(CHANGED_DELAY_MS + PACED_FOR_MS - 1)
    retained.run()
    assert retained.segment_count == 15
    retained.let_pass(10_000)
    assert retained.segment_count == 12


@pytest.mark.parametrize(("limit", "is_slow"), [(3, True), (5, False)])
def test_a_limit_that_was_lowered_in_the_file_is_slow_after_the_start(limit: int, is_slow: bool) -> None:
    """The log has nine segments. Four fewer are one pass of four; six fewer mean that the limit was changed."""
    filled = Retained(hour=9)
    filled.fill(9)
    assert filled.segment_count == 9
    changed = {"commitLogBytesMax": limit * SEGMENT, "deleteFileBatchMax": 4, "cleanResourceInterval": 10_000}
    settings = filled.settings | changed
    retained = Retained(world=filled.world.reopened(**settings), **settings)
    retained.let_pass(0)
    retained.let_pass(CHANGED_DELAY_MS)
    assert retained.segment_count == (8 if is_slow else 5)
    retained.let_pass(10_000)
    assert retained.segment_count == (7 if is_slow else 5)
    change(retained, "commitLogBytesMax=0")
    retained.let_pass(PACED_FOR_MS)
    assert retained.segment_count == (7 if is_slow else 5), "what was taken back keeps the rest"


def test_a_change_that_deletes_no_more_holds_nothing_up() -> None:
    retained = Retained(hour=9, commitLogBytesMax=4 * SEGMENT, cleanResourceInterval=10_000)
    retained.fill(4)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    change(retained, "deleteFileBatchMax=3")
    retained.fill(4)
    retained.let_pass(10_000)
    assert retained.segment_count == 5


def test_a_plan_says_what_a_change_would_delete_and_changes_nothing() -> None:
    retained = Retained(hour=9)
    retained.fill(7)
    retained.clock.advance(2 * HOUR_MS)

    def plan(text: str) -> dict[str, Any]:
        found: dict[str, Any] = retained.caller.json(RequestCode.PYMQ_PLAN_BROKER_CONFIG, text.encode())
        return found

    assert plan(f"commitLogBytesMax={4 * SEGMENT}") == {
        "segments": 7,
        "doomedNow": 0,
        "doomedThen": 3,
        "doomedBytes": 3 * SEGMENT,
        "reasons": ["commitLogBytesMax"],
    }
    assert plan("fileReservedTime=1")["doomedThen"] == 6  # at the next 04:00
    assert plan("fileReservedTime=3")["doomedThen"] == 0
    assert retained.world.config.commit_log_bytes_max == 0 and retained.world.config.file_reserved_time_hours == 72
    code, remark = retained.caller.refused(RequestCode.PYMQ_PLAN_BROKER_CONFIG, b"fileReservedTime=0")
    assert code == ResponseCode.NO_PERMISSION and "fileReservedTime" in remark


def test_a_full_disk_deletes_segments_then_refuses_and_takes_writes_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pymq")
    retained = Retained(hour=9, diskSpaceCleanForciblyRatio=85, diskSpaceWarningLevelRatio=90)
    files, problems = retained.files, ProblemLog(retained.store)
    assert isinstance(files, SmallDisk)
    retained.fill(4)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    files.others_bytes = files.total * 85 // 100 - 3 * SEGMENT  # one segment too many
    retained.let_pass(10_000)
    assert retained.segment_count == 3 and retained.store.is_writable
    assert "diskSpaceCleanForciblyRatio" in caplog.text
    files.others_bytes = files.total
    for _ in range(3):
        retained.let_pass(10_000)
        problems.tick()
    assert retained.segment_count == 1 and not retained.store.is_writable
    remark = "takes no writes: the disk of /data/commitlog is 100.0 % full (0 B free of 4.0 MB)"
    send = {
        "producerGroup": "p", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0,
        "sysFlag": 0, "bornTimestamp": 0, "flag": 0, "properties": "", "reconsumeTimes": 0, "unitMode": "false",
        "maxReconsumeTimes": 0, "batch": "false",
    }  # fmt: skip
    code, text = retained.caller.refused(RequestCode.SEND_MESSAGE, b"body", **send)
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE and remark in text
    assert "diskSpaceWarningLevelRatio=90" in text and "make room" in text
    low = retained.store.min_offset("T", 0)
    assert retained.pull(low)[0] == ResponseCode.SUCCESS  # reads go on
    runtime = retained.caller.json(RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
    assert remark in runtime["storeProblems"] and runtime["commitLogDiskRatio"] == "1.0"
    assert caplog.text.count(remark) == 1  # said once
    files.others_bytes = 0
    retained.let_pass(10_000)
    problems.tick()
    assert "this is over: the store " + remark in caplog.text
    assert retained.caller.ask(RequestCode.SEND_MESSAGE, b"body", **send) is None
    retained.world.parts.messages.writer.commit()
    assert retained.caller.json(RequestCode.GET_BROKER_RUNTIME_INFO)["table"]["storeProblems"] == ""


def test_writes_are_refused_from_the_start_on_a_disk_that_is_too_full() -> None:
    retained = Retained()
    assert isinstance(retained.files, SmallDisk)
    retained.files.others_bytes = retained.files.total
    retained.run()
    assert not retained.store.is_writable


def test_a_file_that_cannot_be_deleted_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    retained = Retained(hour=3, fileReservedTime=1)
    retained.fill_old(3)
    with failing(retained.world, "remove", "commitlog", errno.EROFS):
        retained.let_pass(FIRST_PASS_DELAY_MS)
        retained.let_pass(10_000)
    assert retained.segment_count == 3 and caplog.text.count("old data can't be deleted") == 1
    retained.let_pass(10_000)
    assert retained.segment_count == 1


def test_a_queue_keeps_its_end_and_one_without_a_topic_goes_on_request() -> None:
    retained = Retained(hour=3, fileReservedTime=1)
    retained.world.parts.metadata.topics.put([TopicConfig(topic_name="Small", read_queue_nums=2, write_queue_nums=2)])
    for queue_id in (0, 1):
        retained.world.put("Small", b"1", queue_id=queue_id)
        retained.world.put("Small", b"2", queue_id=queue_id)
        retained.world.parts.metadata.cursors.commit("g", "Small", queue_id, 1)
    retained.fill_old(3)
    retained.let_pass(FIRST_PASS_DELAY_MS)
    assert retained.store.expired_queues() == [("Small", 0), ("Small", 1)]
    retained.world.parts.metadata.topics.put([TopicConfig(topic_name="Small", read_queue_nums=1, write_queue_nums=1)])
    retained.caller.ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    again = retained.reopened()
    assert sorted(again.store.queues()) == [("Small", 0), ("T", 0)]
    assert (again.store.min_offset("Small", 0), again.store.max_offset("Small", 0)) == (2, 2)
    assert [again.world.parts.metadata.cursors.query("g", "Small", queue_id) for queue_id in (0, 1)] == [1, -1]
    assert again.world.put("Small", b"3").queue_offset == 2


SWITCHES: list[tuple[str, str, Callable[[RetentionSettings], object], object]] = [
    ("fileReservedTime", "5", lambda s: s.reserved_hours, 5),
    ("deleteWhen", "04;16;", lambda s: s.delete_hours, {4, 16}),
    ("diskMaxUsedSpaceRatio", "50", lambda s: s.used_percent, 50),
    ("diskSpaceCleanForciblyRatio", "0", lambda s: s.forced_percent, 0),
    ("diskSpaceWarningLevelRatio", "99", lambda s: s.refused_percent, 90),
    ("cleanFileForciblyEnable", "false", lambda s: s.may_force, False),
    ("deleteFileBatchMax", "3", lambda s: s.batch_count, 3),
    ("commitLogBytesMax", "10GB", lambda s: s.log_bytes_max, 10 << 30),
    ("diskFreeBytesMin", "1MB", lambda s: s.free_bytes_min, 1 << 20),
]


@pytest.mark.parametrize(("key", "text", "value", "expected"), SWITCHES)
def test_keys_reach_the_policy_at_run_time(
    key: str, text: str, value: Callable[[RetentionSettings], object], expected: object
) -> None:
    config = BrokerConfig()
    assert value(retention_settings(config)) == value(RetentionSettings())
    config.change_at_runtime({key: text})
    assert value(retention_settings(config)) == expected


def test_a_write_that_fails_is_a_problem_until_one_succeeds() -> None:
    retained = Retained()
    retained.fill(1)
    store = retained.store
    with failing(retained.world, "pwrite", "commitlog"):
        retained.world.put("T", b"x")
        (problem,) = store.problems
        assert "can't write /data/commitlog" in problem and "No space left" in problem and "free there" in problem
        retained.files.others_bytes = 1000  # type: ignore[attr-defined]
        retained.world.put("T", b"x")
        assert store.problems == [problem]  # the same text, so it is logged once
        assert retained.pull(0)[0] == ResponseCode.SUCCESS
    retained.world.put("T", b"x")
    assert store.problems == []
