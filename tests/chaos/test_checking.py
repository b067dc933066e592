"""The check at the end of the rounds finds each kind of wrong; the answers to clients are understood."""

from __future__ import annotations

import pytest

from tests.chaos.checking import compare
from tests.chaos.faults import EVENTS, plans
from tests.chaos.load import Acknowledged, Ledger, Place, body_of
from tests.chaos.proxy import KINDS
from tests.interop.support.probe import Record

ID_HOST = "7F00000200002A9F"


def record(place: Place, body: bytes, log_offset: int) -> Record:
    return Record("Chaos", *place, log_offset, 0, body, {}, b"")


def three() -> tuple[dict[Place, Record], Ledger, dict[Place, bytes]]:
    """Return three stored messages, all acknowledged, one seen."""
    ledger = Ledger()
    ledger.understand(f"ok 2 0 {ID_HOST}{100:016X} 1 0 1")
    ledger.understand(f"ok 2 1 {ID_HOST}{300:016X},{ID_HOST}{500:016X} 1 1 2")
    ledger.understand("end 1 3")
    stored = {(2, n): record((2, n), body_of(1, n), 100 + 200 * n) for n in range(3)}
    return stored, ledger, {(2, 0): body_of(1, 0)}


def test_the_output_of_the_program_is_parsed() -> None:
    _, ledger, _ = three()
    assert ledger.acknowledged == {(2, n): Acknowledged(body_of(1, n), 100 + 200 * n) for n in range(3)}
    ledger.understand("refused 14 3 7 2")
    ledger.understand("refused 2 3 9 1")
    ledger.understand("stored FLUSH_SLAVE_TIMEOUT 3 10 5")
    ledger.understand("unknown RemotingTimeoutException 3 15 1")
    assert ledger.counts == {"ok": 3, "refused": 3, "stored": 5, "unknown": 1}
    assert ledger.not_stored == {body_of(3, 7), body_of(3, 8)}
    assert ledger.sent == {body_of(1, n) for n in range(3)} and not ledger.problems


def test_an_offset_that_is_given_twice_is_a_problem() -> None:
    _, ledger, _ = three()
    ledger.understand(f"ok 2 1 {ID_HOST}{900:016X} 1 3 1")
    assert "(2, 1) was acknowledged twice" in ledger.problems[0]


def test_a_batch_with_too_few_ids_is_a_problem() -> None:
    ledger = Ledger()
    ledger.understand(f"ok 2 1 {ID_HOST}{900:016X} 1 3 5")
    assert "1 ids for 5 messages" in ledger.problems[0]


def test_a_correct_run_has_no_problems() -> None:
    compare(*three())


def test_each_kind_of_problem_is_found() -> None:
    stored, ledger, seen = three()
    with pytest.raises(AssertionError, match=r"1 acknowledged messages are lost, the first at .* \(2, 2\)"):
        compare({place: stored[place] for place in [(2, 0), (2, 1)]}, ledger, seen)
    with pytest.raises(AssertionError, match="was acknowledged with"):
        compare({**stored, (2, 1): record((2, 1), b"other", 300)}, ledger, seen)
    with pytest.raises(AssertionError, match="is at 301 in the log, acknowledged was 300"):
        compare({**stored, (2, 1): record((2, 1), body_of(1, 1), 301)}, ledger, seen)
    with pytest.raises(AssertionError, match="1 messages that were seen are gone"):
        compare(stored, ledger, {**seen, (2, 3): b"seen only"})
    with pytest.raises(AssertionError, match="is there twice"):
        compare({**stored, (2, 3): record((2, 3), body_of(1, 0), 700)}, ledger, seen)
    with pytest.raises(AssertionError, match="never sent"):
        compare({**stored, (2, 3): record((2, 3), b"nobody's", 700)}, ledger, seen)
    ledger.not_stored.add(body_of(1, 2))
    with pytest.raises(AssertionError, match="refused with 14"):
        compare(stored, ledger, seen)


def test_plans_come_from_the_seed_and_hold_every_fault() -> None:
    drawn = plans(5, 30, stopped_s_max=8)
    assert drawn == plans(5, 30, stopped_s_max=8) != plans(6, 30, stopped_s_max=8)
    assert {plan.event for plan in drawn[: len(EVENTS)]} == set(EVENTS)
    assert {plan.link_kind for plan in drawn[: len(KINDS)]} == set(KINDS)
    assert all(1 <= plan.stopped_s <= 8 for plan in drawn)
