"""Reigns, and how far two logs are the same; compared with logs whose every byte remembers who wrote it."""

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.broker.replication import lineage as lineages
from pymq.broker.replication.lineage import REIGNS_KEPT, CommonPoint, Lineage, Reign, common_point

NONE = Lineage()
ONE = Lineage((Reign(1, 0, "a"),))


def test_epochs_grow_with_each_master() -> None:
    lineage = NONE.begin(0, "a").begin(10, "b")
    assert lineage == Lineage((Reign(1, 0, "a"), Reign(2, 10, "b")))
    assert (NONE.epoch, lineage.epoch) == (0, 2)


def test_the_same_master_keeps_its_epoch() -> None:
    assert ONE.renew(10, "b") == Lineage((Reign(1, 0, "a"), Reign(1, 10, "b")))
    assert NONE.renew(5, "a") == Lineage((Reign(1, 5, "a"),))


def test_a_reign_that_wrote_nothing_is_forgotten() -> None:
    assert ONE.begin(10, "b").begin(10, "c") == Lineage((Reign(1, 0, "a"), Reign(3, 10, "c")))


def test_a_cut_log_claims_no_reign_behind_its_end() -> None:
    lineage = ONE.begin(10, "b").begin(20, "c")
    assert lineage.cut(20) == lineage
    assert lineage.cut(19) == ONE.begin(10, "b")


def many(count: int) -> list[Lineage]:
    """What a master's log claims after each of so many starts, each of which wrote 10 bytes."""
    lives = [ONE]
    for number in range(1, count):
        lives.append(lives[-1].renew(number * 10, f"{number}"))
    return lives


def test_so_many_reigns_are_kept() -> None:
    """With one more, two of the older half become a stretch, those that wrote least."""
    lineage = ONE
    for number in range(1, REIGNS_KEPT):
        lineage = lineage.begin(number * 10 - (number == 70), f"{number}")
    assert len(lineage.reigns) == REIGNS_KEPT
    longer = lineage.begin(REIGNS_KEPT * 10, "newest")
    assert len(longer.reigns) == REIGNS_KEPT
    assert longer.reigns[:68] == lineage.reigns[:68]
    assert (longer.reigns[68].epoch, longer.reigns[68].start) == (70, 680)
    assert longer.reigns[68].is_stretch
    assert longer.reigns[69:-1] == lineage.reigns[70:]
    assert longer.reigns[-1] == Reign(REIGNS_KEPT + 1, REIGNS_KEPT * 10, "newest")


def test_of_ever_so_many_the_first_and_the_newest_ones_stay() -> None:
    lives = many(5 * REIGNS_KEPT)
    reigns = lives[-1].reigns
    assert REIGNS_KEPT - 1 <= len(reigns) <= REIGNS_KEPT
    assert reigns[0] == ONE.reigns[0]
    assert reigns[-REIGNS_KEPT // 2 + 3 :] == tuple(life.reigns[-1] for life in lives[-REIGNS_KEPT // 2 + 3 :])
    assert not any(before.is_stretch and after.is_stretch for before, after in pairwise(reigns))


def test_a_slave_that_was_away_for_ever_so_long_gets_little_again() -> None:
    """Whenever it went: it shares what was before the stretch that it went in."""
    lives = many(5 * REIGNS_KEPT)
    lineage, end = lives[-1], 50 * REIGNS_KEPT
    for number, then in enumerate(lives):
        common = common_point(lineage, end, then, number * 10 + 10)
        assert common.is_known
        assert 0 <= number * 10 + 10 - common.offset < end // 40


def test_what_lies_in_a_stretch_is_not_taken_for_the_reigns_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave had more of the first reign than its master after a power loss, and was made a master itself."""
    monkeypatch.setattr(lineages, "REIGNS_KEPT", 5)
    ours = ONE
    for number in range(1, 6):
        ours = ours.renew(number * 10, f"{number}")
    assert ours.reigns[1].is_stretch
    theirs = ONE.begin(17, "x").begin(40, "y")
    assert common_point(ours, 60, theirs, 50) == CommonPoint(10, True)


def test_a_stretch_of_the_same_reigns_is_the_same_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineages, "REIGNS_KEPT", 5)
    before = ONE.begin(10, "b").begin(20, "c").begin(30, "d").begin(40, "e")
    ours, theirs = before.begin(50, "f"), before.begin(60, "g")
    assert ours.reigns[1].is_stretch
    assert ours.reigns[:4] == theirs.reigns[:4] == (ONE.reigns[0], ours.reigns[1], Reign(4, 30, "d"), Reign(5, 40, "e"))
    assert common_point(ours, 70, theirs, 80) == CommonPoint(50, True)
    assert common_point(ours, 70, theirs.cut(25), 25) == CommonPoint(25, True)
    assert common_point(ours, 70, before.cut(25), 25) == CommonPoint(10, True)


def test_the_newest_shared_reign_counts_up_to_the_lesser_end() -> None:
    ours, theirs = ONE.begin(10, "b"), ONE.begin(15, "c")
    assert common_point(ours, 30, theirs, 40) == CommonPoint(10, True)
    assert common_point(ours, 30, ours, 25) == CommonPoint(25, True)


def test_nothing_is_known_of_a_log_without_lineage() -> None:
    assert common_point(ONE, 30, NONE, 40) == CommonPoint(30, False)
    assert common_point(NONE, 30, ONE, 20) == CommonPoint(20, False)


def test_nothing_is_known_behind_the_first_of_reigns_that_share_none() -> None:
    theirs = Lineage((Reign(1, 8, "z"),))
    assert common_point(ONE.cut(0), 30, theirs, 40) == CommonPoint(0, False)


class Log:
    """Who wrote each byte, and what the log says of that."""

    def __init__(self) -> None:
        self.writers: list[str] = []
        self.lineage = NONE
        self.is_master = False


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # which log
        st.sampled_from(["write", "promote", "crash", "reign", "follow"]),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([5, 6, 8, REIGNS_KEPT]))
def test_logs_are_the_same_up_to_their_common_point(history: list[tuple[int, str, int, int]], kept: int) -> None:
    """Three brokers, in any order made masters, stopped uncleanly, and copying from each other as the rules have it."""
    with mock.patch.object(lineages, "REIGNS_KEPT", kept):
        look_at_common_points(history)


def look_at_common_points(history: list[tuple[int, str, int, int]]) -> None:
    logs = [Log(), Log(), Log()]
    logs[0].lineage, logs[0].is_master = NONE.begin(0, "first"), True
    for number, (which, what, size, other) in enumerate(history):
        log = logs[which]
        if what == "write":
            log.writers += [f"{which} at step {number}"] * (size if log.is_master else 0)
        elif what == "reign":
            for turn in range(size if log.is_master else 0):
                log.writers.append(f"{which} at step {number}.{turn}")
                log.lineage = log.lineage.renew(len(log.writers), f"{number}.{turn}")
        elif what == "promote":
            log.lineage, log.is_master = log.lineage.begin(len(log.writers), f"{number}"), True
        elif what == "crash":
            del log.writers[max(len(log.writers) - size, 0) :]
            log.lineage = log.lineage.cut(len(log.writers))
            if log.is_master:
                log.lineage = log.lineage.renew(len(log.writers), f"{number}")
        elif other != which:
            follow(log, logs[other], size)
    for ours in logs:
        for theirs in logs:
            common = common_point(ours.lineage, len(ours.writers), theirs.lineage, len(theirs.writers))
            if common.is_known:
                assert ours.writers[: common.offset] == theirs.writers[: common.offset]


def follow(slave: Log, master: Log, size: int) -> None:
    """Cuts what differs, then copies ``size`` bytes; from slaves too, which PyMQ refuses."""
    common = common_point(master.lineage, len(master.writers), slave.lineage, len(slave.writers))
    if slave.writers and not common.is_known:
        return
    del slave.writers[common.offset :]
    end = min(len(slave.writers) + size, len(master.writers))
    slave.writers += master.writers[len(slave.writers) : end]
    slave.lineage, slave.is_master = master.lineage.cut(end), False
