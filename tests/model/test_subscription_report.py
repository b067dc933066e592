"""The text about members of a group that subscribe differently."""

from __future__ import annotations

from pymq.model.subscription_report import differing_text


def test_the_text_names_group_topic_selections_and_next_step() -> None:
    assert differing_text("g", {"T": {"A": 2, "B": 1}, "U": {"*": 2, "-": 1}}) == (
        "members of group 'g' subscribe differently, and lose messages that others skip: "
        "topic 'T': 'A' by 2, 'B' by 1; topic 'U': '*' by 2, '-' by 1: "
        "give all members the same subscriptions, or each kind of member a group of its own"
    )


def test_many_topics_are_counted() -> None:
    assert "; 95 more topics: give" in differing_text("g", {f"T{n}": {"A": 1, "B": 1} for n in range(100)})
