"""EpochHistory: how far two logs are equal, checked with logs in which every byte records its writer."""

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.broker.replication.history import epoch_history as epoch_histories
from pymq.broker.replication.history.epoch_history import (
    ENTRIES_MAX,
    CommonPoint,
    EpochEntry,
    EpochHistory,
    common_point,
    shares_entry,
    why_implausible,
)
from pymq.model.epochs import EPOCH_JUMP_MAX

NONE = EpochHistory()
ONE = EpochHistory((EpochEntry(1, 0, "a"),))


def test_epochs_grow_with_each_master() -> None:
    epoch_history = NONE.begin(0, "a").begin(10, "b")
    assert epoch_history == EpochHistory((EpochEntry(1, 0, "a"), EpochEntry(2, 10, "b")))
    assert (NONE.epoch, epoch_history.epoch) == (0, 2)


def test_the_same_master_keeps_its_epoch() -> None:
    assert ONE.renew(10, "b") == EpochHistory((EpochEntry(1, 0, "a"), EpochEntry(1, 10, "b")))
    assert NONE.renew(5, "a") == EpochHistory((EpochEntry(1, 5, "a"),))


def test_an_epoch_without_bytes_is_forgotten() -> None:
    assert ONE.begin(10, "b").begin(10, "c") == EpochHistory((EpochEntry(1, 0, "a"), EpochEntry(3, 10, "c")))


def test_a_truncated_log_claims_no_epoch_after_its_end() -> None:
    epoch_history = ONE.begin(10, "b").begin(20, "c")
    assert epoch_history.truncate(20) == epoch_history
    assert epoch_history.truncate(19) == ONE.begin(10, "b")


def many(count: int) -> list[EpochHistory]:
    """Returns the epoch histories that a log claims after each of several starts, each of which wrote 10 bytes."""
    lives = [ONE]
    for number in range(1, count):
        lives.append(lives[-1].renew(number * 10, f"{number}"))
    return lives


def test_the_number_of_epochs_is_bounded() -> None:
    """One more epoch makes two neighbors of the older half merge, those with the fewest bytes."""
    epoch_history = ONE
    for number in range(1, ENTRIES_MAX):
        epoch_history = epoch_history.begin(number * 10 - (number == 70), f"{number}")
    assert len(epoch_history.entries) == ENTRIES_MAX
    longer = epoch_history.begin(ENTRIES_MAX * 10, "newest")
    assert len(longer.entries) == ENTRIES_MAX
    assert longer.entries[:68] == epoch_history.entries[:68]
    assert (longer.entries[68].epoch, longer.entries[68].start) == (70, 680)
    assert longer.entries[68].is_merged
    assert longer.entries[69:-1] == epoch_history.entries[70:]
    assert longer.entries[-1] == EpochEntry(ENTRIES_MAX + 1, ENTRIES_MAX * 10, "newest")


def test_of_many_epochs_the_first_and_the_newest_stay() -> None:
    lives = many(5 * ENTRIES_MAX)
    entries = lives[-1].entries
    assert ENTRIES_MAX - 1 <= len(entries) <= ENTRIES_MAX
    assert entries[0] == ONE.entries[0]
    assert entries[-ENTRIES_MAX // 2 + 3 :] == tuple(life.entries[-1] for life in lives[-ENTRIES_MAX // 2 + 3 :])
    assert not any(before.is_merged and after.is_merged for before, after in pairwise(entries))


def test_a_slave_after_a_long_absence_gets_few_bytes_again() -> None:
    """Whenever it went: it shares what was before the merged entry that its log ends in."""
    lives = many(5 * ENTRIES_MAX)
    epoch_history, end = lives[-1], 50 * ENTRIES_MAX
    for number, then in enumerate(lives):
        common = common_point(epoch_history, end, then, number * 10 + 10)
        assert common.is_known
        assert 0 <= number * 10 + 10 - common.offset < end // 40


def test_what_lies_in_a_merged_entry_is_not_taken_for_the_epochs_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave had more of the first epoch than its master after a power loss, and was made a master itself."""
    monkeypatch.setattr(epoch_histories, "ENTRIES_MAX", 5)
    ours = ONE
    for number in range(1, 6):
        ours = ours.renew(number * 10, f"{number}")
    assert ours.entries[1].is_merged
    theirs = ONE.begin(17, "x").begin(40, "y")
    assert common_point(ours, 60, theirs, 50) == CommonPoint(10, True)


def test_a_merged_entry_of_the_same_epochs_is_the_same_merged_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_histories, "ENTRIES_MAX", 5)
    before = ONE.begin(10, "b").begin(20, "c").begin(30, "d").begin(40, "e")
    ours, theirs = before.begin(50, "f"), before.begin(60, "g")
    assert ours.entries[1].is_merged
    assert (
        ours.entries[:4]
        == theirs.entries[:4]
        == (ONE.entries[0], ours.entries[1], EpochEntry(4, 30, "d"), EpochEntry(5, 40, "e"))
    )
    assert common_point(ours, 70, theirs, 80) == CommonPoint(50, True)
    assert common_point(ours, 70, theirs.truncate(25), 25) == CommonPoint(25, True)
    assert common_point(ours, 70, before.truncate(25), 25) == CommonPoint(10, True)


def test_the_newest_shared_epoch_counts_up_to_the_lesser_end() -> None:
    ours, theirs = ONE.begin(10, "b"), ONE.begin(15, "c")
    assert common_point(ours, 30, theirs, 40) == CommonPoint(10, True)
    assert common_point(ours, 30, ours, 25) == CommonPoint(25, True)


def test_nothing_is_known_of_a_log_without_epoch_history() -> None:
    assert common_point(ONE, 30, NONE, 40) == CommonPoint(30, False)
    assert common_point(NONE, 30, ONE, 20) == CommonPoint(20, False)


def test_without_a_shared_epoch_nothing_past_the_first_is_known() -> None:
    theirs = EpochHistory((EpochEntry(1, 8, "z"),))
    assert common_point(ONE.truncate(0), 30, theirs, 40) == CommonPoint(0, False)


class Log:
    """The writer of each byte, and the epochs that the log claims."""

    def __init__(self) -> None:
        self.writers: list[str] = []
        self.epoch_history = NONE
        self.is_master = False


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # which log
        st.sampled_from(["write", "promote", "crash", "epoch", "follow"]),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([5, 6, 8, ENTRIES_MAX]))
def test_logs_are_the_same_up_to_their_common_point(history: list[tuple[int, str, int, int]], kept: int) -> None:
    """Three brokers, in any order made masters, stopped uncleanly, and copying from each other as the rules have it."""
    with mock.patch.object(epoch_histories, "ENTRIES_MAX", kept):
        look_at_common_points(history)


def look_at_common_points(history: list[tuple[int, str, int, int]]) -> None:
    logs = [Log(), Log(), Log()]
    logs[0].epoch_history, logs[0].is_master = NONE.begin(0, "first"), True
    for number, (which, what, size, other) in enumerate(history):
        log = logs[which]
        if what == "write":
            log.writers += [f"{which} at step {number}"] * (size if log.is_master else 0)
        elif what == "epoch":
            for turn in range(size if log.is_master else 0):
                log.writers.append(f"{which} at step {number}.{turn}")
                log.epoch_history = log.epoch_history.renew(len(log.writers), f"{number}.{turn}")
        elif what == "promote":
            log.epoch_history, log.is_master = log.epoch_history.begin(len(log.writers), f"{number}"), True
        elif what == "crash":
            del log.writers[max(len(log.writers) - size, 0) :]
            log.epoch_history = log.epoch_history.truncate(len(log.writers))
            if log.is_master:
                log.epoch_history = log.epoch_history.renew(len(log.writers), f"{number}")
        elif other != which:
            follow(log, logs[other], size)
    for ours in logs:
        for theirs in logs:
            common = common_point(ours.epoch_history, len(ours.writers), theirs.epoch_history, len(theirs.writers))
            if common.is_known:
                assert ours.writers[: common.offset] == theirs.writers[: common.offset]


def follow(slave: Log, master: Log, size: int) -> None:
    """Truncate what differs, then copy ``size`` bytes. The source may be a slave, which PyMQ itself refuses."""
    common = common_point(master.epoch_history, len(master.writers), slave.epoch_history, len(slave.writers))
    if slave.writers and not common.is_known:
        return
    del slave.writers[common.offset :]
    end = min(len(slave.writers) + size, len(master.writers))
    slave.writers += master.writers[len(slave.writers) : end]
    slave.epoch_history, slave.is_master = master.epoch_history.truncate(end), False


def test_the_first_entry_stays_without_bytes() -> None:
    """A group whose first master dies before its first message is still one group."""
    assert ONE.begin(0, "b") == EpochHistory((EpochEntry(1, 0, "a"), EpochEntry(2, 0, "b")))
    assert ONE.renew(0, "b").renew(0, "c") == EpochHistory((EpochEntry(1, 0, "a"), EpochEntry(1, 0, "c")))
    assert shares_entry(ONE.begin(0, "b"), ONE.renew(0, "c")) and not shares_entry(ONE, NONE.begin(0, "x"))
    assert common_point(ONE, 70, ONE.begin(0, "b"), 90) == CommonPoint(0, is_known=True)


@pytest.mark.parametrize(
    ("epochs", "our_epoch", "word"),
    [
        ([1, 2, 2, 3], 0, ""),
        ([EPOCH_JUMP_MAX], 0, ""),
        ([EPOCH_JUMP_MAX + 1], 0, f"jump from 0 to {EPOCH_JUMP_MAX + 1}"),
        ([1, EPOCH_JUMP_MAX + 1], 0, ""),
        ([1, EPOCH_JUMP_MAX + 2], 0, "jump from 1"),
        ([1, EPOCH_JUMP_MAX], 0, ""),
        ([600, 1200, 1800], 0, ""),
        ([600, 1200, 1800], 800, ""),
        ([600, 1200, 1800], 799, "ours is 799"),
        ([3, 2], 0, "from 3 to 2"),
    ],
)
def test_a_history_whose_epochs_jump_is_implausible(epochs: list[int], our_epoch: int, word: str) -> None:
    entries = tuple(EpochEntry(epoch, place * 10, f"{place}") for place, epoch in enumerate(epochs))
    why = why_implausible(EpochHistory(entries), our_epoch)
    assert word in why and bool(why) == bool(word)


def test_a_history_whose_starts_go_back_is_implausible() -> None:
    assert "offset 9" in why_implausible(EpochHistory((EpochEntry(1, 10, "a"), EpochEntry(2, 9, "b"))))
