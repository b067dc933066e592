"""Bodies of lite topics: what a subscription may say, and how refusals name what is wrong."""

from __future__ import annotations

import json

import pytest

from pymq.errors import Refusal
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_lites import (
    ENTRIES_MAX,
    LiteOffsetOption,
    LiteSubscription,
    LiteSubscriptions,
    decode_lite_subscriptions,
)
from pymq.wire.header import decode_header, encode_header
from pymq.wire.headers.lites import PopLiteAnswer, PopLiteHeader
from pymq.wire.headers.pop import AckMessageHeader


def entry(**members: object) -> dict[str, object]:
    return {"action": "PARTIAL_ADD", "clientId": "c", "group": "g", "topic": "t", "liteTopicSet": ["a"], **members}


def body_of(*entries: object) -> bytes:
    return json.dumps({"subscriptionSet": entries}).encode()


def test_entries_are_read_as_java_writes_them() -> None:
    option = {"type": "TAIL_N", "value": 7}
    (found,) = decode_lite_subscriptions(body_of(entry(offsetOption=option, version=3)))
    assert found == LiteSubscription(
        action="PARTIAL_ADD", client_id="c", group="g", topic="t", lite_topic_set=["a"],
        offset_option=LiteOffsetOption(type="TAIL_N", value=7), version=3,
    )  # fmt: skip
    assert decode_lite_subscriptions(encode_body(LiteSubscriptions(subscription_set=[found]))) == [found]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"subscriptionSet":[]}', b'{"subscriptionSet":null}'])
def test_a_body_without_entries_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="subscriptionSet") as caught:
        decode_lite_subscriptions(body)
    assert caught.value.code == 604


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"[]", "object"),
        (b"\xff", "body"),
        (body_of(entry(action="ADD")), "'ADD'"),
        (body_of(entry(offsetOption={"type": "NEWEST"})), "'NEWEST'"),
        (body_of(entry(liteTopicSet="a")), "liteTopicSet"),
        (body_of(7), "subscriptionSet"),
    ],
)
def test_a_refusal_names_the_member(body: bytes, named: str) -> None:
    with pytest.raises(Refusal, match=named) as caught:
        decode_lite_subscriptions(body)
    assert caught.value.code == 1


def test_a_body_has_a_limit_of_entries() -> None:
    assert len(decode_lite_subscriptions(body_of(*[entry()] * ENTRIES_MAX))) == ENTRIES_MAX
    with pytest.raises(Refusal, match=f"{ENTRIES_MAX + 1} entries, the limit is {ENTRIES_MAX}"):
        decode_lite_subscriptions(body_of(*[entry()] * (ENTRIES_MAX + 1)))


def test_headers_have_javas_names() -> None:
    header = PopLiteHeader(
        client_id="c", consumer_group="g", topic="t", max_msg_num=8, invisible_time=1, poll_time=2, born_time=3
    )
    assert encode_header(header) == {
        "clientId": "c", "consumerGroup": "g", "topic": "t", "maxMsgNum": "8", "invisibleTime": "1", "pollTime": "2",
        "bornTime": "3",
    }  # fmt: skip
    assert encode_header(PopLiteAnswer(revive_qid=999)) == {"popTime": "0", "invisibleTime": "0", "reviveQid": "999"}
    ack = {"consumerGroup": "g", "topic": "t", "queueId": "0", "extraInfo": "x", "offset": "4", "liteTopic": "a"}
    assert encode_header(decode_header(AckMessageHeader, ack)) == ack
