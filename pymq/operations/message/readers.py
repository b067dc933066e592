"""What the groups that read a topic did with one of its messages, as their committed offsets tell."""

from __future__ import annotations

from typing import Any, Final

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.client.admin.asking import for_each
from pymq.errors import PymqError
from pymq.model.record import StoredMessage
from pymq.wire.bodies_admin import ConsumeOffset

GROUPS_MAX: Final = 20
GROUPS_AT_ONCE: Final = 4
PAST, NOT_YET, UNKNOWN = "past it", "not yet", "unknown"


async def reader_records(admin: Admin, message: StoredMessage) -> tuple[list[dict[str, Any]], int]:
    """Return a record for each group, and how many groups beyond :data:`GROUPS_MAX` were not asked about.

    A group that is past the message has read it, sent it to its retries, or skipped it. ``before``: the number of
    messages that the group reads before this one. Raises PymqError when the groups can't be listed.
    """
    groups = await admin.topics.groups(message.topic)
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)

    async def record(group: str) -> dict[str, Any]:
        try:
            at = (await admin.groups.lag(group, message.topic)).get(queue)
        except PymqError as error:
            return _record(group, None, str(error))
        return _known(group, at, message.queue_offset)

    return await for_each(groups[:GROUPS_MAX], record, GROUPS_AT_ONCE), max(0, len(groups) - GROUPS_MAX)


def _known(group: str, at: ConsumeOffset | None, offset: int) -> dict[str, Any]:
    if at is None or at.pymq_uncommitted or at.consumer_offset < 0:
        return _record(group, None, "the group has committed nothing in this queue")
    before = max(0, offset - at.consumer_offset)
    is_past = at.consumer_offset > offset
    return _record(group, at.consumer_offset, "") | {
        "state": PAST if is_past else NOT_YET,
        "before": None if is_past else before,
        "invisible": at.pymq_invisible,
    }


def _record(group: str, committed: int | None, why: str) -> dict[str, Any]:
    return {"group": group, "state": UNKNOWN, "committed": committed, "before": None, "invisible": None, "why": why}
