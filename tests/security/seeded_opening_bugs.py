"""Seeded bugs of what is open on purpose: replies, white lists, switches that are off. Tests that catch them."""

from __future__ import annotations

from typing import Final

from pymq.broker.handlers.replies import ReplyHandlers
from tests.planting import Bug, Text

OPENING_BUGS: Final = [
    Bug(
        "every user's replies are stored",
        Text(ReplyHandlers.reply, "request.sender is None or request.sender.may_publish(topic.topic_name)", "True"),
        ("test_replies.test_every_user_may_reply_and_has_a_copy_stored_by_the_right_to_publish",),
    ),
]
