"""ByTopic: how far some groups are behind in each topic, beside the sums of all groups."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappush, heappushpop

from pymq.errors import Refusal
from pymq.model.names import RETRY_PREFIX
from pymq.model.pop import NORMAL, normal_topic
from pymq.wire.bodies_rows import BY_TOPIC_GROUPS_MAX, BY_TOPIC_MAX, GROUPS_SEPARATOR
from pymq.wire.codes import ResponseCode


class ByTopic:
    """The lags of a few groups by topic, while topics are added. Of each group the topics with most are kept."""

    def __init__(self, groups: Collection[str]) -> None:
        self._most: dict[str, list[tuple[int, str]]] = {group: [] for group in groups}  # heaps of lags with topics
        self._topic = ""
        # By group, in this topic: the lag, and how many queues have messages and no committed offset.
        self._sums: dict[str, tuple[int, int]] = {}

    def add(self, topic: str, groups: list[str], found: list[tuple[int, int, int, int]]) -> None:
        """Add what groups have left in a topic: the members of a Behind for each group.

        The pieces of a large topic come one after the other.
        """
        if topic != self._topic:
            self._end_topic()
            self._topic = topic
        for group, (lag, _, _, unknown) in zip(groups, found, strict=True):
            if group in self._most:
                before_lag, before_unknown = self._sums.get(group, (0, 0))
                self._sums[group] = before_lag + lag, before_unknown + unknown

    def of(self, group: str) -> dict[str, int] | None:
        """Return the known lags of a group by topic; None for a group that was not asked for."""
        self._end_topic()
        most = self._most.get(group)
        return None if most is None else {topic: lag for lag, topic in sorted(most, reverse=True)}

    def _end_topic(self) -> None:
        topic, is_retry = self._topic, self._topic.startswith(RETRY_PREFIX)
        for group, (lag, unknown) in self._sums.items():
            if (unknown and not lag) or (is_retry and not _is_read_itself(topic, group, lag)):
                continue
            most = self._most[group]
            if len(most) < BY_TOPIC_MAX:
                heappush(most, (lag, topic))
            else:
                heappushpop(most, (lag, topic))
        self._sums.clear()


def groups_by_topic(text: str | None) -> list[str]:
    """Return the groups that a request names. Raises Refusal(INVALID_PARAMETER) for too many."""
    groups = [group for group in (text or "").split(GROUPS_SEPARATOR, BY_TOPIC_GROUPS_MAX + 1) if group]
    if len(groups) > BY_TOPIC_GROUPS_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"pymqByTopic names more than {BY_TOPIC_GROUPS_MAX} groups: ask for some of them",
        )
    return groups


def _is_read_itself(retry_topic: str, group: str, lag: int) -> bool:
    """Return whether a retry topic counts as a topic: every group has one, most of them unused; those of pops don't."""
    return lag > 0 and normal_topic(retry_topic, group)[1] == NORMAL
