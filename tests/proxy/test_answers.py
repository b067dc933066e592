"""Answers that are made the short way are those of the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")

from pymq.errors import NotFoundError
from pymq.model.message import MessageQueue, SendResult, SendStatus
from pymq.proxy import publishing, receiving

TEXTS = st.text(max_size=20)


@given(st.sampled_from(SendStatus), TEXTS, st.integers(0, 2**63 - 1), TEXTS)
def test_the_answer_to_a_message(status: SendStatus, message_id: str, offset: int, recall_handle: str) -> None:
    result = SendResult(status, message_id, "F" * 32, MessageQueue("T", "broker-a", 3), offset, recall_handle)
    plain = publishing.answer_to_all([publishing._entry(result)])
    assert publishing.answer_to_one(result) == plain
    assert publishing.answer_to_one(result).SerializeToString() == plain.SerializeToString()


@given(TEXTS, TEXTS, st.sampled_from([None, NotFoundError("no topic")]))
def test_the_answer_to_an_acknowledgement(message_id: str, handle: str, error: NotFoundError | None) -> None:
    plain = receiving.answer_to_acks([receiving._entry(message_id, handle, error)])
    assert receiving.answer_to_ack(message_id, handle, error) == plain
    assert receiving.answer_to_ack(message_id, handle, error).SerializeToString() == plain.SerializeToString()
