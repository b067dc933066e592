"""ByTopic: how far some groups are behind in each topic, beside the sums of all groups."""

from __future__ import annotations

from collections.abc import Collection
from heapq import nlargest

from pymq.errors import Refusal
from pymq.model.names import RETRY_PREFIX
from pymq.model.pop import NORMAL, normal_topic
from pymq.wire.bodies_rows import BY_TOPIC_GROUPS_MAX, BY_TOPIC_MAX, GROUPS_SEPARATOR
from pymq.wire.codes import ResponseCode

_KEPT_MAX = 2 * BY_TOPIC_MAX


class ByTopic:
    """The lags of a few groups by topic, while topics are added. Of each group the topics with most are kept."""

    def __init__(self, groups: Collection[str]) -> None:
        # By group and topic: the lag, and how many queues have messages and no committed offset.
        self._lags: dict[str, dict[str, tuple[int, int]]] = {group: {} for group in groups}

    def add(self, topic: str, groups: list[str], found: list[tuple[int, int, int, int]]) -> None:
        """Add what groups have left in a topic, or in some of its queues: the members of a Behind for each group."""
        for group, (lag, _, _, unknown) in zip(groups, found, strict=True):
            lags = self._lags.get(group)
            if lags is None or (topic.startswith(RETRY_PREFIX) and not _is_read_itself(topic, group, lag)):
                continue
            before_lag, before_unknown = lags.get(topic, (0, 0))
            lags[topic] = before_lag + lag, before_unknown + unknown
            if len(lags) > _KEPT_MAX:
                self._lags[group] = dict(nlargest(BY_TOPIC_MAX, lags.items(), key=lambda item: item[1][0]))

    def of(self, group: str) -> dict[str, int] | None:
        """Return the lags of a group that were asked for, without those that are unknown; None for another group."""
        lags = self._lags.get(group)
        if lags is None:
            return None
        known = [(topic, lag) for topic, (lag, unknown) in lags.items() if lag or not unknown]
        return dict(nlargest(BY_TOPIC_MAX, known, key=lambda item: item[1]))


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
