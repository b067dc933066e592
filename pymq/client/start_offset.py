"""Finds the offset at which a consumer starts in a queue: the group's stored one, else by ``consume_from``."""

from __future__ import annotations

from pymq.client.consumer_settings import FIRST, LAST, ConsumerState
from pymq.model.message import MessageQueue
from pymq.model.names import RETRY_PREFIX


async def start_offset(state: ConsumerState, queue: MessageQueue) -> int:
    """Return the first offset to pull. Raises RefusedError or UnreachableError rather than guess an offset.

    A retry topic holds only messages that this group has not finished. A new member reads it from its start, except
    when ``consume_from`` is a time (Java: RebalancePushImpl.computePullFromWhereWithException).
    """
    stored = await state.offsets.stored(queue)
    if stored is not None and stored >= 0:
        return stored
    consume_from = state.settings.consume_from
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if consume_from == FIRST:
        return await state.queue_offsets.min_offset(queue)
    if consume_from == LAST:
        return 0 if is_retry else await state.queue_offsets.max_offset(queue)
    if is_retry:
        return await state.queue_offsets.max_offset(queue)
    return await state.queue_offsets.by_time(queue, int(consume_from))
