"""Every queue has a topic of its own, which says its name; names that need too long a topic are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymq_celery.names import exchange_topic, queue_of, queue_topic

from pymq.errors import UsageError
from pymq.model.names import TOPIC_LENGTH_MAX, topic_problem


@given(st.text(min_size=1, max_size=10), st.integers(0, 9))
def test_a_queue_is_read_from_its_topic(queue: str, step: int) -> None:
    topic = queue_topic("shop", queue, step)
    assert topic_problem(topic) is None
    assert queue_of("shop", topic) == queue


@given(st.text(max_size=10), st.text(min_size=1, max_size=10), st.integers(0, 9))
def test_exchanges_and_queues_have_different_topics(exchange: str, queue: str, step: int) -> None:
    topic = exchange_topic("shop", exchange)
    assert topic_problem(topic) is None
    assert topic != queue_topic("shop", queue, step)
    assert queue_of("shop", topic) is None


def test_plain_names_stay_readable() -> None:
    assert queue_topic("kombu", "celery") == "kombu-celery"
    assert queue_topic("kombu", "mail.high", 3) == "kombu-mail%2Ehigh|3"
    assert exchange_topic("kombu", "celery.pidbox") == "kombu-|celery%2Epidbox"


def test_the_topic_of_another_prefix_is_no_queue() -> None:
    assert queue_of("kombu", "shop-celery") is None


def test_the_longest_name_fits_and_a_longer_one_is_refused() -> None:
    longest = "q" * (TOPIC_LENGTH_MAX - len("kombu-"))
    assert len(queue_topic("kombu", longest)) == TOPIC_LENGTH_MAX
    with pytest.raises(UsageError, match="the limit is 127"):
        queue_topic("kombu", longest + "q")
    with pytest.raises(UsageError, match="the limit is 127"):
        queue_topic("kombu", longest, 1)
