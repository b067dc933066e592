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


def test_the_next_offset_is_always_behind_the_one_that_was_asked_for() -> None:
    for status in (PullStatus.NO_NEW_MESSAGE, PullStatus.NO_MATCHED_MESSAGE):
        assert batch_of(PullResult(status, 5, 0, 9), 5).next_offset == 6
        assert batch_of(PullResult(status, 8, 0, 9), 5).next_offset == 8
