"""What a broker still has to give: messages that would be out of reach if it were taken away now."""

from __future__ import annotations

from collections.abc import Generator

from pymq.broker.assembly.parts import BrokerParts
from pymq.model.names import RETRY_PREFIX, SCHEDULE_TOPIC, is_system_group

QUEUES_AT_ONCE = 256  # between two rests

DELAYED, TIMERS, TRANSACTIONS, HAND_OUTS = "delayed", "timers", "transactions", "hand_outs"


def left_over(parts: BrokerParts) -> Generator[None, None, dict[str, int]]:
    """Return what is left by kind, without what is 0; ``group NAME`` is what a group has to read. It rests in between.

    A topic that no group has ever read counts for nothing. A slave has nothing to give that its master has not.
    """
    if not parts.role.is_master:
        return {}
    found: dict[str, int] = {}
    yield from _unread(parts, found)
    messages, store = parts.messages, parts.store
    delays = messages.delays.offsets()
    found[DELAYED] = sum(max(store.max_offset(SCHEDULE_TOPIC, level - 1) - at, 0) for level, at in delays.items())
    found[TIMERS] = sum(messages.timers.counts.waiting.values()) + messages.timers.behind_count
    found[TRANSACTIONS] = sum(messages.transactions.halves.count_by_topic.values())
    found[HAND_OUTS] = len(parts.pop.revive_log.check_points)
    return {kind: count for kind, count in found.items() if count > 0}


def _unread(parts: BrokerParts, found: dict[str, int]) -> Generator[None, None, None]:
    """Add what each group has committed less of than there is, and retries of groups that have committed nothing."""
    cursors, store, done = parts.metadata.cursors, parts.store, 0
    pairs = [(group, topic) for group in cursors.all_groups() for topic in cursors.topics_of(group)]
    known = set(pairs)
    retries = [name for name in parts.metadata.topics.all() if name.startswith(RETRY_PREFIX)]
    pairs += [pair for name in retries if (pair := (name.removeprefix(RETRY_PREFIX), name)) not in known]
    for group, topic in pairs:
        config = parts.metadata.topics.get(topic)
        if config is None or is_system_group(group):
            continue
        for queue_id in range(config.queue_count):
            committed = max(cursors.query(group, topic, queue_id), store.min_offset(topic, queue_id))
            behind = store.max_offset(topic, queue_id) - committed
            if behind > 0:
                found[f"group {group}"] = found.get(f"group {group}", 0) + behind
            done += 1
            if done % QUEUES_AT_ONCE == 0:
                yield
