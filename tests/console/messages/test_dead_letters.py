"""Dead letters: groups, letters with where they came from, and what was scanned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue
from pymq.console.messages.dead_letters import dead_letter_groups, dead_letters
from pymq.console.pages.page import Page
from pymq.console.web.parameters import BadRequest
from pymq.errors import UsageError
from tests.console.messages.world import BEGUN_MS, FakeTopic, html, stored, visit

QUEUE = MessageQueue("%DLQ%billing", "broker-a", 0)


def letters(count: int) -> FakeTopic:
    return FakeTopic(
        *(
            stored(
                at,
                b"letter %d" % at,
                queue=QUEUE,
                DLQ_ORIGIN_TOPIC="orders" if at % 2 else "a<b",
                ORIGIN_MESSAGE_ID=f"7F{at}",
            )
            for at in range(count)
        )
    )


def shown(there: FakeTopic, group: str = "billing", /, *, shows_bodies: bool = True, **fields: str) -> tuple[Page, str]:
    visited = visit(there, {"group": group}, shows_bodies=shows_bodies, **fields)
    page = asyncio.run(dead_letters(visited))
    assert isinstance(page, Page)
    return page, html(page, visited)


def test_groups_have_counts_and_the_time_of_the_newest_letter() -> None:
    there = letters(3)

    async def names() -> list[str]:
        return ["orders", "%DLQ%billing"]

    visited = visit(there)
    admin: Any = visited.cluster._admin
    admin.topics.names = names
    page = asyncio.run(dead_letter_groups(visited))
    assert isinstance(page, Page)
    assert page.data == {
        "groups": [{"group": "billing", "messages": 3, "brokers": ["broker-a"], "last_stored_ms": BEGUN_MS + 2000}],
        "total": 1,
        "page": 1,
        "pages": 1,
    }
    assert "/at/prod/dlq/billing" in html(page, visited)


def test_no_group_with_dead_letters_is_said() -> None:
    async def names() -> list[str]:
        return ["orders"]

    visited = visit(letters(1))
    admin: Any = visited.cluster._admin
    admin.topics.names = names
    page = asyncio.run(dead_letter_groups(visited))
    assert isinstance(page, Page) and "No group has dead letters" in html(page, visited)


def test_letters_say_where_they_came_from_and_lead_to_their_page() -> None:
    page, text = shown(letters(3))
    assert [row["offset"] for row in page.data["messages"]] == [2, 1, 0]
    assert page.data["messages"][1]["origin_topic"] == "orders" and page.data["messages"][1]["origin_id"] == "7F1"
    assert (
        "a&lt;b" in text and "scanned 3 of 3" in text and "/at/prod/messages/%25DLQ%25billing/broker-a%3A0%3A2" in text
    )
    assert page.command == ("dlq", "show", "billing")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"origin": "orders"}, [3, 1]),
        ({"id": "7F2"}, [2]),
        ({"from": str(BEGUN_MS + 2000)}, [3, 2]),
        ({"to": str(BEGUN_MS + 1000)}, [0]),
    ],
)
def test_letters_are_chosen_by_origin_id_and_time(fields: dict[str, Any], expected: list[int]) -> None:
    assert [row["offset"] for row in shown(letters(4), **fields)[0].data["messages"]] == expected


def test_many_letters_are_cut_and_go_on() -> None:
    page, text = shown(letters(60))
    assert len(page.data["messages"]) == 50 and page.data["of"] == 60 and "Go on" in text
    page, text = shown(letters(60), at=page.data["position"], scanned="50")
    assert len(page.data["messages"]) == 10 and page.data["scanned"] == 60 and "This is all" in text


def test_a_group_without_dead_letters_is_empty_and_a_wrong_name_is_refused() -> None:
    page, text = shown(letters(1), "other")
    assert not page.data["messages"] and "no such dead letters" in text
    with pytest.raises(UsageError):
        shown(letters(1), "bad group!")
    with pytest.raises(BadRequest, match="from"):
        shown(letters(1), from_="yesterday")


def test_without_bodies_letters_have_no_content() -> None:
    page, text = shown(letters(1), shows_bodies=False)
    assert "letter 0" not in text and page.data["messages"][0]["body_begin"] is None
    assert page.data["messages"][0]["origin_topic"] == "a<b"
