"""kombu's messages as messages of a topic, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pymq_celery.envelope import eta_ms, to_message, to_payload


def stored(body: bytes, reconsume_times: int = 0) -> Any:
    return SimpleNamespace(content=lambda: body, reconsume_times=reconsume_times)


def test_a_payload_comes_back_with_its_own_tag() -> None:
    payload = {"body": "x", "headers": {"id": "1"}, "properties": {"body_encoding": "utf-8", "delivery_info": {"a": 1}}}
    found = to_payload(stored(to_message("T", payload).body, 1), "tag")
    assert found["body"] == "x"
    assert found["properties"] == {
        "body_encoding": "utf-8", "delivery_info": {"a": 1, "redelivered": True}, "delivery_tag": "tag"
    }  # fmt: skip


@pytest.mark.parametrize("odd", [None, 7, "two words", "x" * 121, "", ["a"], "a||b"])
def test_odd_names_and_ids_of_tasks_are_no_tags_and_keys(odd: Any) -> None:
    message = to_message("T", {"headers": {"task": odd, "id": odd}, "properties": {}})
    assert (message.tags, message.keys) == ("", "")


def test_an_eta_is_read_with_its_time_zone_alone() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert eta_ms({"headers": {"eta": at.isoformat()}}) == int(at.timestamp() * 1000)
    assert eta_ms({"headers": {"eta": "2026-01-31T13:00:00+01:00"}}) == int(at.timestamp() * 1000)
    for eta in (None, 7, "soon", "2026-01-31T12:00:00"):
        assert eta_ms({"headers": {"eta": eta}}) is None
    assert eta_ms({"headers": None}) is None
