"""Where dead letters go again: to the retry topic that the group's members read, or to their first topic."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.errors import RefusedError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.dead_letters import Goals, find_goals
from tests.client.messages import message


def found(
    *topics: str, groups: tuple[str, ...] = ("g",), to_topic: bool = False, attributes: dict[str, str] | None = None
) -> Goals:
    """Return the goals of the group g on a cluster with these topics and groups."""

    async def names() -> list[str]:
        return list(topics)

    async def all_configs() -> dict[str, Any]:
        made = SubscriptionGroupConfig(group_name="g", attributes=attributes or {})
        return {group: {"broker-a": made} for group in groups}

    admin = SimpleNamespace(topics=SimpleNamespace(names=names), groups=SimpleNamespace(all_configs=all_configs))
    return asyncio.run(find_goals(admin, "g", to_topic=to_topic))  # type: ignore[arg-type]


LETTER = message(topic="%DLQ%g", RETRY_TOPIC="T")


def test_a_group_that_pops_a_topic_has_a_retry_topic_for_it() -> None:
    assert found("%RETRY%g+T", "%RETRY%g", "T").of(LETTER) == "%RETRY%g+T"
    assert found("%RETRY%g+other", "T").of(LETTER) == "%RETRY%g"
    assert found("%RETRY%g", "%RETRY%h+T").of(LETTER) == "%RETRY%g"
    assert found("%RETRY%g+T", to_topic=True).of(LETTER) == "T"


def test_a_retry_topic_of_the_first_form_may_be_another_groups() -> None:
    with pytest.raises(RefusedError, match="%RETRY%g_T, which may be another group's"):
        found("%RETRY%g_T").of(LETTER)
    assert found("%RETRY%g_T", groups=("g", "g_T")).of(LETTER) == "%RETRY%g", "it is that of the group g_T"


def test_a_group_of_lite_topics_has_no_retry_topic() -> None:
    bound = {"lite.bind.topic": "T"}
    with pytest.raises(RefusedError, match="send it to its topic instead"):
        found("%RETRY%g", attributes=bound).of(LETTER)
    assert found("%RETRY%g", attributes=bound, to_topic=True).of(LETTER) == "T"


def test_a_letter_without_an_origin_goes_nowhere() -> None:
    with pytest.raises(RefusedError, match="no property says"):
        found().of(message(topic="%DLQ%g"))
