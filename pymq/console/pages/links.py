"""Addresses of pages below a context, with names that may hold any character."""

from __future__ import annotations

from urllib.parse import quote


def topic_path(name: str) -> str:
    """Return the path of a topic's page."""
    return f"topics/{_quoted(name)}"


def group_path(name: str) -> str:
    """Return the path of a group's page."""
    return f"groups/{_quoted(name)}"


def broker_path(name: str, broker_id: int) -> str:
    """Return the path of a broker's page."""
    return f"brokers/{_quoted(name)}/{broker_id}"


def member_path(group: str, client_id: str) -> str:
    """Return the path of the page of a group's member."""
    return f"groups/{_quoted(group)}/members/{_quoted(client_id)}"


def message_path(topic: str, message_id: str) -> str:
    """Return the path of a message's page. ``message_id``: either of its ids, or its place."""
    return f"messages/{_quoted(topic)}/{_quoted(message_id)}"


def messages_path(topic: str) -> str:
    """Return the path of a topic's messages, the newest first."""
    return f"messages?topic={_quoted(topic)}"


def dead_letters_path(group: str) -> str:
    """Return the path of the page with a group's dead letters."""
    return f"dlq/{_quoted(group)}"


def raft_path(name: str) -> str:
    """Return the path below which a Raft group is changed."""
    return f"raft/{_quoted(name)}"


def user_path(name: str) -> str:
    """Return the path of a user's page."""
    return f"auth/{_quoted(name)}"


def tail_path(topic: str) -> str:
    """Return the path of a topic's tail."""
    return f"{topic_path(topic)}/tail"


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"), safe="")
