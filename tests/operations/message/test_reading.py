"""Batches of a pull: what came, where the next one begins, and what is gone."""

from __future__ import annotations

from pymq.client import PullStatus
from pymq.model.message import PullResult
from pymq.model.record import encode_message
from pymq.operations.message.reading import batch_of
from tests.console.messages.world import stored


def test_messages_that_were_found_come_with_the_next_offset() -> None:
    batch = batch_of(PullResult(PullStatus.FOUND, 7, 0, 9, encode_message(stored(5)), 0, "broker-a"), 5)
    assert [message.queue_offset for message in batch.messages] == [5] and (batch.next_offset, batch.gone) == (7, 0)
    assert batch.messages[0].broker_name == "broker-a"


def test_offsets_that_were_deleted_are_counted() -> None:
    batch = batch_of(PullResult(PullStatus.OFFSET_ILLEGAL, 40, 40, 90), 5)
    assert (batch.messages, batch.next_offset, batch.gone) == ([], 40, 35)


def test_a_filter_that_takes_nothing_moves_on_and_a_broker_that_has_nothing_does_not() -> None:
    assert batch_of(PullResult(PullStatus.NO_MATCHED_MESSAGE, 5, 0, 9), 5).next_offset == 6
    assert batch_of(PullResult(PullStatus.NO_MATCHED_MESSAGE, 8, 0, 9), 5).next_offset == 8
    assert batch_of(PullResult(PullStatus.NO_NEW_MESSAGE, 5, 0, 5), 5).next_offset == 5
    assert batch_of(PullResult(PullStatus.NO_NEW_MESSAGE, 3, 0, 3), 5).next_offset == 5
    assert batch_of(PullResult(PullStatus.OFFSET_ILLEGAL, 3, 0, 3), 5) == batch_of(
        PullResult(PullStatus.NO_NEW_MESSAGE, 5, 0, 5), 5
    )
