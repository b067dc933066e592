"""Legal names at the edges of their limits, and which names are RocketMQ's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model import names, pop, timers


@pytest.mark.parametrize(
    ("prefix", "limit"), [("", 127), ("RETRY", 127), ("%retry%", 127), ("%RETRY%", 255), ("%DLQ%", 255)]
)
def test_a_topics_length_at_its_limit(prefix: str, limit: int) -> None:
    longest = prefix + "x" * (limit - len(prefix))
    assert names.check_topic(longest) == longest
    with pytest.raises(UsageError, match=f"has {limit + 1} characters, the limit is {limit}: shorten it"):
        names.check_topic(longest + "x")


def test_a_groups_length_at_its_limit() -> None:
    assert names.check_group("g" * 255) == "g" * 255
    with pytest.raises(UsageError, match=r"group name .* has 256 characters, the limit is 255: shorten it"):
        names.check_group("g" * 256)


@pytest.mark.parametrize("name", ["a", "%", "|", "-", "_", "0", "%RETRY%", "%RETRY%ns%group", "a|b-c_D%9"])
def test_legal_names(name: str) -> None:
    assert names.topic_problem(name) is None
    assert names.group_problem(name) is None


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "a\\b", "a b", "a\n", "\0", "a.b", "ä", "a\u0661", "#", "a:b", "a,b"]
)
def test_names_with_other_characters(name: str) -> None:
    for problem in (names.topic_problem(name), names.group_problem(name)):
        assert problem is not None and repr(name) in problem and "use only those" in problem


def test_an_empty_name() -> None:
    assert names.topic_problem("") == "the topic name is empty: give a name of 1 to 127 characters"
    assert names.group_problem("") == "the group name is empty: give a name of 1 to 255 characters"


@given(st.text())
def test_a_legal_name_never_leaves_its_directory(name: str) -> None:
    if names.topic_problem(name) is None:
        assert name and not set(name) & set("/\\.\0") and name.isascii()


def test_a_long_name_is_shortened_in_the_error() -> None:
    problem = names.topic_problem("x" * 100_000)
    assert problem is not None and len(problem) < 200


def test_retry_and_dead_letter_topics_keep_the_namespace() -> None:
    assert names.retry_topic("ns%g") == "%RETRY%ns%g"
    assert names.dlq_topic("ns%g") == "%DLQ%ns%g"
    longest = "g" * (names.RETRY_TOPIC_LENGTH_MAX - len(names.RETRY_PREFIX))
    assert names.topic_problem(names.retry_topic(longest)) is None
    assert names.topic_problem(names.retry_topic(longest + "g")) is not None


@pytest.mark.parametrize(
    ("topic", "system", "user"),
    [
        ("Orders", False, True),
        ("TBW102", True, False),
        ("SCHEDULE_TOPIC_XXXX", True, False),
        ("RMQ_SYS_TRACE_TOPIC", True, False),
        ("rmq_sys_anything", True, False),
        ("RMQ_SYS_anything", False, True),
        ("%RETRY%g", False, False),
        ("%DLQ%g", False, False),
        ("Cluster_REPLY_TOPIC", False, False),
    ],
)
def test_system_and_user_topics(topic: str, system: bool, user: bool) -> None:
    assert (names.is_system_topic(topic), names.is_user_topic(topic)) == (system, user)


def test_topics_that_refuse_sends_are_system_topics() -> None:
    assert all(names.is_system_topic(topic) for topic in names.SEND_FORBIDDEN_TOPICS)
    assert names.TRACE_TOPIC not in names.SEND_FORBIDDEN_TOPICS


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("TOOLS_CONSUMER", True),
        ("CID_RMQ_SYS_x", True),
        ("CID_RMQ_SYS", False),
        ("tools_consumer", False),
        ("g", False),
    ],
)
def test_system_groups(group: str, expected: bool) -> None:
    assert names.is_system_group(group) is expected


@pytest.mark.parametrize("known", [names.SYSTEM_TOPICS, names.SYSTEM_GROUPS])
def test_rocketmqs_own_names_are_legal(known: frozenset[str]) -> None:
    assert not [name for name in known if names.topic_problem(name)]


LEGAL = st.text("ab_-%|1", min_size=1, max_size=6)


@given(LEGAL, LEGAL, LEGAL, LEGAL)
def test_names_that_are_made_of_two_names_are_of_one_pair(group: str, topic: str, other: str, another: str) -> None:
    """What the broker makes of a group and a topic, or of a topic and a key, is never that of another pair."""
    pair, others = (group, topic), (other, another)
    for made in (
        pop.retry_topic_v2,  # retries of pops
        lambda topic, group: f"{topic}@{group}",  # offsets, orderly pops
        lambda topic, key: timers.delete_key(topic, key),  # recalls: a key may have any character
    ):
        assert (made(*pair) == made(*others)) is (pair == others)
    assert (names.retry_topic(group) == names.dlq_topic(other)) is False
    assert (names.retry_topic(group) == pop.retry_topic_v2(other, another)) is False
    assert names.topic_problem(pop.retry_topic_v2(group, topic)) is None and "+" not in group + topic
