"""What a copy keeps, and where a message may go: never to a cluster where it has been."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.cli.mirror.messages import PATH, Clusters, copy_of, is_loop
from pymq.client.outgoing import own_properties
from pymq.model.compression import InflateError, compress_body
from pymq.model.properties import RESERVED, encode_properties
from pymq.model.record import StoredMessage, decode_record
from tests.client.messages import message, record


def stored_again(one: StoredMessage, topic: str, source: str) -> StoredMessage:
    """Return the message as it lies at the target."""
    copy = copy_of(one, topic, source)
    encoded, _ = own_properties(copy, "A NEW ID")
    again = decode_record(record(copy.body, topic=copy.topic))
    again.raw_properties = encoded
    again._properties = None
    return again


@given(st.lists(st.sampled_from(["A", "B", "C", "D"]), min_size=2, max_size=8))
@settings(max_examples=60)
def test_a_message_is_at_most_once_in_each_cluster(hops: list[str]) -> None:
    one, here, seen = message(b"x"), hops[0], [hops[0]]
    for there in hops[1:]:
        if here == there or is_loop(one, Clusters(here, there)):
            continue
        one = stored_again(one, "t", here)
        here = there
        seen.append(there)
    assert len(seen) == len(set(seen))


def test_a_copy_keeps_what_the_application_gave_and_its_id() -> None:
    one = message(b"body", TAGS="t", KEYS="k1 k2", color="red", __SHARDINGKEY="order-1")
    one.flag = 7
    copy = copy_of(one, "eu_t", "A")
    assert (copy.topic, copy.body, copy.tags, copy.keys, copy.flag) == ("eu_t", b"body", "t", "k1 k2", 7)
    assert copy.properties == {"UNIQ_KEY": one.message_id, "color": "red", "__SHARDINGKEY": "order-1", PATH: "A"}
    assert stored_again(one, "t", "A").message_id == one.message_id


def test_a_copy_leaves_out_what_would_act_at_the_target() -> None:
    one = message(b"x")
    one.raw_properties = encode_properties(dict.fromkeys(RESERVED, "1"))
    one._properties = None
    assert set(copy_of(one, "t", "A").properties) == {"UNIQ_KEY", PATH}


def test_a_compressed_body_is_inflated_and_a_broken_one_is_an_error() -> None:
    body, flags = compress_body(b"x" * 5000)
    one = message(body)
    one.sys_flag |= flags
    assert copy_of(one, "t", "A").body == b"x" * 5000
    one.body = body[:-4]
    with pytest.raises(InflateError):
        copy_of(one, "t", "A")
