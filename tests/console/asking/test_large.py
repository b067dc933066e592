"""Which answers are so large that pages take them for a while."""

from __future__ import annotations

import pytest

from pymq.client.admin.rows import Rows
from pymq.console.asking.large import LARGE_KEPT_MS, PAIRS_MANY, TOPICS_MANY, ends_kept_ms, lags_kept_ms
from pymq.operations.topic.table import Ends
from pymq.wire.bodies_rows import GroupLag, TopicEnds


@pytest.mark.parametrize(("pairs", "kept_ms"), [(0, 0), (PAIRS_MANY - 1, 0), (PAIRS_MANY, LARGE_KEPT_MS)])
def test_lags_of_many_pairs(pairs: int, kept_ms: int) -> None:
    lags = Rows(
        {"a": GroupLag(topics=pairs - pairs // 2), "b": GroupLag(topics=pairs // 2), "c": GroupLag(topics=None)}
    )
    assert lags_kept_ms(lags) == kept_ms


@pytest.mark.parametrize(("topics", "kept_ms"), [(0, 0), (TOPICS_MANY - 1, 0), (TOPICS_MANY, LARGE_KEPT_MS)])
def test_ends_of_many_topics(topics: int, kept_ms: int) -> None:
    names = [f"t{number}" for number in range(topics)]
    halves = {"a": names[: topics // 2], "b": names[topics // 2 :]}
    assert ends_kept_ms(Ends({broker: dict.fromkeys(half, TopicEnds()) for broker, half in halves.items()})) == kept_ms
