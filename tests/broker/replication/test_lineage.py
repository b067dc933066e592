"""Reigns, and how far two logs are the same; compared with logs whose every byte remembers who wrote it."""

from hypothesis import given
from hypothesis import strategies as st

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


def test_so_many_reigns_are_kept() -> None:
    lineage = NONE
    for number in range(REIGNS_KEPT + 5):
        lineage = lineage.begin(number * 10, f"{number}")
    assert len(lineage.reigns) == REIGNS_KEPT
    assert lineage.reigns[-1] == Reign(REIGNS_KEPT + 5, (REIGNS_KEPT + 4) * 10, f"{REIGNS_KEPT + 4}")


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
        st.sampled_from(["write", "promote", "crash", "follow"]),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(steps)
def test_logs_are_the_same_up_to_their_common_point(history: list[tuple[int, str, int, int]]) -> None:
    """Three brokers, in any order made masters, stopped uncleanly, and copying from each other as the rules have it."""
    logs = [Log(), Log(), Log()]
    logs[0].lineage, logs[0].is_master = NONE.begin(0, "first"), True
    for number, (which, what, size, other) in enumerate(history):
        log = logs[which]
        if what == "write":
            log.writers += [f"{which} at step {number}"] * (size if log.is_master else 0)
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
