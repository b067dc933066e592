"""Names of lite topics and light queues, the properties of their messages, and where senders send them."""

from __future__ import annotations

import pytest

from pymq.model.consistent_hash import consistent_bucket
from pymq.model.lite_topics import (
    EXPIRATION_MAX_MINUTES,
    LITE_NAME_SIZE_MAX_BYTES,
    LightPlace,
    expiration_minutes,
    expiration_problem,
    light_place,
    light_properties,
    light_properties_max_bytes,
    light_queue_name,
    lite_name_problem,
    lite_queue_number,
    lite_topic_of,
    split_light_queue,
)


@pytest.mark.parametrize("lite", ["a", "a b", "chat$1%", "ä", "%LMQ%$x", "n" * LITE_NAME_SIZE_MAX_BYTES])
def test_a_legal_name_makes_a_light_queue_and_its_place_is_found_again(lite: str) -> None:
    assert lite_name_problem(lite) is None
    name = light_queue_name("Jobs", lite)
    assert name == f"%LMQ%$Jobs${lite}" and split_light_queue(name) == ("Jobs", lite)
    properties = b"TAGS\x01a\x02" + light_properties("Jobs", lite, 7)
    assert light_place("Jobs", properties) == LightPlace(lite, 7)
    assert light_place("Other", properties) is None
    assert len(light_properties("Jobs", lite, 7)) <= light_properties_max_bytes("Jobs", lite)


@pytest.mark.parametrize(
    ("lite", "why"),
    [
        *[("", "blank"), (" ", "blank"), ("n" * (LITE_NAME_SIZE_MAX_BYTES + 1), "256 bytes, the limit is 255")],
        *[("ä" * 128, "256 bytes"), ("a,b", "a comma"), ("a/b", "a slash"), ("a\0b", "printed"), ("\ufffd", "printed")],
        ("\udc80", "printed"),
    ],
)
def test_another_name_has_a_reason(lite: str, why: str) -> None:
    assert why in (lite_name_problem(lite) or "")


@pytest.mark.parametrize("name", ["Jobs", "%LMQ%", "%LMQ%$", "%LMQ%$Jobs", "%LMQ%$Jobs$", "%LMQ%$$a", "%RETRY%$Jobs$a"])
def test_other_names_are_no_light_queues(name: str) -> None:
    assert split_light_queue(name) is None


@pytest.mark.parametrize("offset", ["", "-1", "x", "9223372036854775807", "9" * 20, "\u0661"])
def test_a_place_needs_an_offset(offset: str) -> None:
    properties = f"INNER_MULTI_DISPATCH\x01%LMQ%$Jobs$a\x02INNER_MULTI_QUEUE_OFFSET\x01{offset}\x02".encode()
    assert light_place("Jobs", properties) is None


def test_a_message_in_several_light_queues_is_in_none_of_a_lite_topic() -> None:
    properties = b"INNER_MULTI_DISPATCH\x01%LMQ%$Jobs$a,%LMQ%$Jobs$b\x02INNER_MULTI_QUEUE_OFFSET\x011,2\x02"
    assert light_place("Jobs", properties) is None


def test_the_lite_topic_of_a_message() -> None:
    assert lite_topic_of(b"A\x011\x02__LITE_TOPIC\x01x\x02") == "x"
    assert lite_topic_of(b"A\x01__LITE_TOPIC\x02") is None
    assert lite_topic_of(b"__LITE_TOPIC\x01\xff\x02") == "\ufffd"


@pytest.mark.parametrize(
    ("number", "buckets", "bucket"),
    [
        *[(10863919174838991, 11, 6), (2016238256797177309, 11, 3), (1673758223894951030, 11, 5)],
        *[(2, 100_001, 80_343), (2201, 100_001, 22_152), (2202, 100_001, 15_018), (-1, 1, 0)],
    ],
)
def test_the_consistent_hash_is_that_of_guava(number: int, buckets: int, bucket: int) -> None:
    """The values are those of Guava's own test."""
    assert consistent_bucket(number, buckets) == bucket
    first = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]
    assert [consistent_bucket(each, 100) for each in range(20)] == first


def test_a_queue_more_moves_few_lite_topics() -> None:
    names = [f"lite-{number}" for number in range(2000)]
    moved = [name for name in names if lite_queue_number(name, 8) != lite_queue_number(name, 9)]
    assert {lite_queue_number(name, 9) for name in moved} == {8}
    assert len(moved) < 2000 / 9 * 1.5


@pytest.mark.parametrize(
    ("text", "minutes"), [("0", 0), ("-1", -1), (str(EXPIRATION_MAX_MINUTES), EXPIRATION_MAX_MINUTES)]
)
def test_legal_expirations(text: str, minutes: int) -> None:
    assert expiration_problem(text) is None
    assert expiration_minutes({"lite.topic.expiration": text}) == minutes


@pytest.mark.parametrize("text", ["", "-2", "1d", str(EXPIRATION_MAX_MINUTES + 1), "9" * 30, "\u0661"])
def test_other_expirations_mean_never(text: str) -> None:
    assert "43200" in (expiration_problem(text) or "")
    assert expiration_minutes({"lite.topic.expiration": text}) == -1
