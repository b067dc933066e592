"""Frames from templates have the bytes that the plain encoder writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, encode_command
from pymq.wire.frame_templates import AnswerTemplate, Place
from pymq.wire.headers.send import SendMessageAnswer
from pymq.wire.reply import Reply

TEMPLATE = AnswerTemplate(
    SendMessageAnswer(message_id="@id@", queue_id=1_777_777_777, queue_offset=7_777_777_777, transaction_id="@key@"),
    (
        Place("@id@", binary=b"%b%b"),
        Place(1_777_777_777, json=b"%d"),
        Place(7_777_777_777, json=b"%d"),
        Place("@key@"),
    ),
    remark="50% done",
)


@given(
    st.text("0123456789ABCDEF,", min_size=1, max_size=700),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.text("abcXYZ019", min_size=1, max_size=40),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=9),
)
def test_a_filled_answer_is_the_encoded_answer(
    ids: str, queue_id: int, offset: int, key: str, opaque: int, body: bytes
) -> None:
    answer = SendMessageAnswer(message_id=ids, queue_id=queue_id, queue_offset=offset, transaction_id=key)
    texts = [str(value).encode() for value in (queue_id, offset, key)]
    sized = [part for text in texts for part in (len(text), text)]
    frames = (
        (SERIALIZE_JSON, TEMPLATE.json((ids.encode(), queue_id, offset, key.encode(), opaque), len(body))),
        (
            SERIALIZE_ROCKETMQ,
            TEMPLATE.binary(opaque, (len(ids).to_bytes(4, "big"), ids.encode(), *sized), len(body)),
        ),
    )
    for serialize, frame in frames:
        reply = Reply(remark="50% done", ext=answer, body=body)
        assert frame + body == encode_command(reply.to_command(Command(310, opaque=opaque, serialize=serialize)))


def test_an_answer_without_fields() -> None:
    template = AnswerTemplate(None)
    for serialize, frame in ((SERIALIZE_JSON, template.json((7,))), (SERIALIZE_ROCKETMQ, template.binary(7, ()))):
        assert frame == encode_command(Reply().to_command(Command(37, opaque=7, serialize=serialize)))
