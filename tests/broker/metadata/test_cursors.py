"""CursorManager: commits within the queue, resets answered once, saving by interval, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.metadata.cursors import COPIED_BY_LOOP_MAX, NO_OFFSET, CursorManager
from pymq.broker.metadata.table_saver import TableSaver, run_inline
from pymq.broker.work.worker_threads import RunInThread, WorkOutcome
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.errors import Refusal, StoreUnavailableError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import ResponseCode

PATH = "/data/config/consumerOffset.json"


class Setup:
    """Cursors over queues that end at 100."""

    def __init__(
        self, files: MemoryFiles | None = None, run_in_thread: RunInThread = run_inline, **settings: str
    ) -> None:
        self.files = files or MemoryFiles()
        self.files.makedirs("/data/config")
        self.clock = ManualClock()
        self.config = load_broker_config(None, settings)
        self.cursors = CursorManager(
            TableSaver(JsonTable(self.files, PATH), run_in_thread),
            clock=self.clock,
            config=self.config,
            max_offset=lambda topic, queue_id: 100,
        )
        self.cursors.load()

    def saved(self) -> Any:
        return JsonTable(self.files, PATH).load()["offsetTable"]


def test_commit_and_query() -> None:
    cursors = Setup().cursors
    assert cursors.query("g", "T", 0) == NO_OFFSET
    cursors.commit("g", "T", 0, 0)
    cursors.commit("g", "T", 1, 100)
    assert cursors.offsets("g", "T") == {0: 0, 1: 100}
    assert cursors.topics_of("g") == ["T"] and cursors.groups_of("T") == ["g"] and cursors.all_groups() == ["g"]


@pytest.mark.parametrize("offset", [-1, 101, 2**62])
def test_impossible_offsets_are_refused(offset: int) -> None:
    cursors = Setup().cursors
    cursors.commit("g", "T", 0, 7)
    with pytest.raises(Refusal) as error:
        cursors.commit("g", "T", 0, offset)
    assert error.value.code == ResponseCode.INVALID_PARAMETER and "100" in error.value.remark
    cursors.commit_from_pull("g", "T", 0, offset)
    assert cursors.query("g", "T", 0) == 7


def test_going_back_is_allowed_unless_offsets_are_strict() -> None:
    cursors = Setup().cursors
    cursors.commit("g", "T", 0, 9)
    cursors.commit("g", "T", 0, 3)
    assert cursors.query("g", "T", 0) == 3
    strict = Setup(strictOffsets="true").cursors
    strict.commit("g", "T", 0, 9)
    with pytest.raises(Refusal) as error:
        strict.commit("g", "T", 0, 3)
    assert error.value.code == ResponseCode.INVALID_PARAMETER
    strict.reset("g", "T", 0, 3)
    assert strict.query("g", "T", 0) == 3


def test_a_reset_is_answered_once_and_earlier_commits_are_dropped() -> None:
    cursors = Setup().cursors
    cursors.commit("g", "T", 0, 50)
    cursors.reset("g", "T", 0, 10)
    cursors.commit("g", "T", 0, 60)
    assert cursors.query("g", "T", 0) == 10
    assert cursors.take_reset("g", "T", 0) == 10
    assert cursors.take_reset("g", "T", 0) is None
    cursors.commit("g", "T", 0, 60)
    assert cursors.query("g", "T", 0) == 60


def test_saved_when_the_interval_is_over_and_only_if_changed() -> None:
    setup = Setup()
    setup.cursors.commit("g", "T", 0, 5)
    setup.cursors.tick()
    assert not setup.files.exists(PATH)
    setup.clock.advance(5000)
    setup.cursors.tick()
    assert Setup(setup.files).cursors.query("g", "T", 0) == 5
    version = setup.cursors.data_version
    setup.clock.advance(5000)
    setup.cursors.commit("g", "T", 0, 5)
    setup.cursors.tick()
    assert setup.cursors.data_version == version


def test_a_failed_save_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    setup.cursors.commit("g", "T", 0, 5)
    with monkeypatch.context() as patch:
        patch.setattr(JsonTable, "save", lambda self, value: (_ for _ in ()).throw(StoreUnavailableError("disk full")))
        setup.clock.advance(5000)
        setup.cursors.tick()
    setup.clock.advance(5000)
    setup.cursors.tick()
    assert Setup(setup.files).cursors.query("g", "T", 0) == 5


def test_the_java_broker_s_file_is_read() -> None:
    files = MemoryFiles()
    files.makedirs("/data/config")
    file = files.open(PATH, create=True)
    file.pwrite(
        0, b'{"dataVersion":{"counter":3},"offsetTable":{"T@g":{0:61,1:62},"T@g@broadcast":{0:9},"%RETRY%g@g":{0:1}}}'
    )
    file.close()
    cursors = Setup(files).cursors
    assert cursors.offsets("g", "T") == {0: 61, 1: 62}
    assert cursors.topics_of("g") == ["%RETRY%g", "T"]
    assert cursors.all_groups() == ["g"]


def test_clone_copies_topics_but_not_the_retry_topic() -> None:
    cursors = Setup().cursors
    cursors.commit("a", "T", 0, 5)
    cursors.commit("a", "U", 3, 6)
    cursors.commit("a", "%RETRY%a", 0, 1)
    assert cursors.clone("a", "b", None) == 2
    assert cursors.topics_of("b") == ["T", "U"] and cursors.query("b", "U", 3) == 6
    assert cursors.clone("a", "c", "T") == 1 and cursors.topics_of("c") == ["T"]
    assert cursors.clone("none", "d", None) == 0


def test_forgetting() -> None:
    cursors = Setup().cursors
    for group in ("a", "b"):
        cursors.commit(group, "T", 0, 5)
        cursors.commit(group, "U", 0, 5)
    cursors.reset("a", "T", 0, 1)
    cursors.forget_topic("T")
    assert cursors.groups_of("T") == [] and cursors.take_reset("a", "T", 0) is None
    cursors.forget_group("a")
    assert cursors.all_groups() == ["b"]


def test_how_far_a_group_pulled() -> None:
    cursors = Setup().cursors
    assert cursors.pulled("g", "T", 0) == NO_OFFSET
    cursors.commit("g", "T", 0, 5)
    assert cursors.pulled("g", "T", 0) == 5
    cursors.note_pulled("g", "T", 0, 9)
    assert cursors.pulled("g", "T", 0) == 9


# -- saving beside the loop, and a lost end ------------------------------------------------------------------------


def test_a_tick_saves_a_snapshot_in_a_thread() -> None:
    waiting: list[tuple[Any, Any]] = []
    home = Setup(run_in_thread=lambda work, done: waiting.append((work, done)))
    home.cursors.commit("g", "T", 0, 1)
    home.clock.advance(5_000)
    home.cursors.tick()
    home.cursors.commit("g", "T", 0, 2)
    home.clock.advance(5_000)
    home.cursors.tick()
    assert len(waiting) == 1, "one save at a time"
    work, done = waiting.pop()
    done(WorkOutcome(work))
    assert home.saved() == {"T@g": {"0": 1}}
    home.clock.advance(44_999)
    home.cursors.tick()
    assert not waiting, "the save took 5 s, so the next one waits for 45 s"
    home.clock.advance(1)
    home.cursors.tick()
    work, done = waiting.pop()
    home.cursors.save()
    assert home.saved() == {"T@g": {"0": 2}}
    home.cursors.commit("g", "T", 0, 3)
    home.cursors.save()
    done(WorkOutcome(work))
    assert home.saved() == {"T@g": {"0": 3}}, "an older state never replaces a newer one"


def test_a_thread_copies_a_large_table() -> None:
    waiting: list[tuple[Any, Any]] = []
    home = Setup(run_in_thread=lambda work, done: waiting.append((work, done)))
    for queue_id in range(COPIED_BY_LOOP_MAX + 1):
        home.cursors.commit("g", "T", queue_id, 1)
    home.clock.advance(5_000)
    home.cursors.tick()
    home.cursors.commit("g", "T", 0, 2)
    work, done = waiting.pop()
    done(WorkOutcome(work))
    saved = home.saved()["T@g"]
    assert saved["0"] == 2 and len(saved) == COPIED_BY_LOOP_MAX + 1


def test_a_slow_save_puts_off_the_next_one_for_a_minute_at_most() -> None:
    waiting: list[tuple[Any, Any]] = []
    home = Setup(run_in_thread=lambda work, done: waiting.append((work, done)))
    home.cursors.commit("g", "T", 0, 1)
    home.clock.advance(5_000)
    home.cursors.tick()
    home.clock.advance(600_000)
    work, done = waiting.pop()
    done(WorkOutcome(work))
    home.cursors.commit("g", "T", 0, 2)
    home.clock.advance(59_999)
    home.cursors.tick()
    assert not waiting
    home.clock.advance(1)
    home.cursors.tick()
    assert len(waiting) == 1


def test_the_number_of_offsets_has_a_limit() -> None:
    home = Setup(maxConsumerOffsets="1000")
    cursors = home.cursors
    for queue_id in range(999):
        cursors.commit("g", "T", queue_id, 1)
    cursors.commit("g", "U", 0, 1)
    for attempt in (
        lambda: cursors.commit("g", "U", 1, 1),
        lambda: cursors.reset("h", "T", 0, 1),
        lambda: cursors.clone("g", "h", "U"),
    ):
        with pytest.raises(Refusal) as error:
            attempt()
        assert error.value.code == ResponseCode.NO_PERMISSION
        assert "limit of 1000 committed offsets" in error.value.remark and "maxConsumerOffsets" in error.value.remark
    assert cursors.take_reset("h", "T", 0) is None and cursors.offsets("h", "U") == {}
    cursors.commit("g", "T", 5, 2)
    cursors.reset("g", "T", 6, 3)
    cursors.forget_queue("T", 7)
    cursors.commit("g", "U", 1, 1)
    cursors.forget_topic("T")
    assert cursors.clone("g", "h", "U") == 2 and cursors.groups_of("U") == ["g", "h"]
    cursors.forget_group("g")
    assert cursors.all_groups() == ["h"] and cursors.topics_of("g") == []


def test_offsets_past_their_queue_s_end_are_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    home = Setup()
    for queue_id in range(3):
        home.cursors.commit("g", "T", queue_id, 50)
    home.cursors.fit(lambda topic, queue_id: [49, 50, None][queue_id])
    assert home.cursors.offsets("g", "T") == {0: 49, 1: 50, 2: 50}
    assert "group g had consumed T queue 0 to offset 50, but the queue ends at 49" in caplog.text
    home.cursors.save()
    assert home.saved() == {"T@g": {"0": 49, "1": 50, "2": 50}}


def test_changes_are_listed_since_a_number() -> None:
    cursors = Setup().cursors
    cursors.commit("g", "T", 0, 1)
    cursors.commit("h", "T", 0, 1)
    seen = cursors.change_count
    assert cursors.changes_since(seen) == {**cursors.as_table(), "offsetTable": {}, "groupTopicMap": {}}
    cursors.commit("g", "T", 0, 1)
    assert cursors.change_count == seen, "nothing changed"
    cursors.commit("g", "T", 1, 5)
    part = cursors.changes_since(seen)
    assert part is not None and part["offsetTable"] == {"T@g": {"0": 1, "1": 5}}
    assert sorted(cursors.committed_since(seen)) == [("g", "T", 0, 1), ("g", "T", 1, 5)]
    assert len(list(cursors.committed_since(0))) == 3 and not list(cursors.committed_since(cursors.change_count))
    whole = cursors.changes_since(0)
    assert whole is not None and whole["offsetTable"] == cursors.as_table()["offsetTable"]


@pytest.mark.parametrize("take_away", ["topic", "group", "queue"])
def test_a_removal_needs_the_whole_table(take_away: str) -> None:
    cursors = Setup().cursors
    cursors.commit("g", "T", 0, 1)
    cursors.commit("h", "U", 0, 1)
    seen = cursors.change_count
    if take_away == "topic":
        cursors.forget_topic("T")
    elif take_away == "group":
        cursors.forget_group("g")
    else:
        cursors.forget_queue("T", 0)
    assert cursors.changes_since(seen) is None
    seen = cursors.change_count
    cursors.commit("h", "U", 0, 2)
    part = cursors.changes_since(seen)
    assert part is not None and part["offsetTable"] == {"U@h": {"0": 2}}


def test_advancing_never_goes_back() -> None:
    cursors = Setup().cursors
    cursors.advance("g", "T", 0, 500)
    cursors.advance("g", "T", 0, 3)
    assert cursors.query("g", "T", 0) == 500, "behind the end, for fit to take back"
