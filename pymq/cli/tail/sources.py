"""The queues that a tail reads: of named topics, of patterns, and of the retries and dead letters of groups."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pymq.cli.output import print_note
from pymq.cli.tail.options import TailOptions
from pymq.client import Admin, MessageQueue, PullConsumer
from pymq.client.route_cache import why_not_read
from pymq.errors import NoQueueError, NotFoundError
from pymq.model.names import dlq_topic, retry_topic
from pymq.operations.topic.listing import user_topics

PATTERN_SIGNS = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Return whether the name stands for several topics; no topic's name has these signs."""
    return not PATTERN_SIGNS.isdisjoint(name)


async def matching_topics(admin: Admin, patterns: list[str]) -> list[str]:
    """Return the topics that match a pattern, sorted: topics of applications, and others for a pattern with ``%``."""
    names = await user_topics(admin)
    if any(pattern.startswith("%") for pattern in patterns):
        names = sorted({*names, *(name for name in await admin.topics.names() if name.startswith("%"))})
    return [name for name in names if any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and name.startswith("%") == pattern.startswith("%")


class Sources:
    """The topics of one tail and their queues."""

    def __init__(self, options: TailOptions, pull: PullConsumer, admin: Admin) -> None:
        self._options = options
        self._pull = pull
        self._admin = admin
        self._of_groups = [
            *(retry_topic(group) for group in options.retries),
            *(dlq_topic(group) for group in options.dead_letters),
        ]
        self._named = [name for name in options.topics if not is_pattern(name)] + self._of_groups
        self._patterns = [name for name in options.topics if is_pattern(name)]

    async def queues(self) -> list[MessageQueue]:
        """Return the queues at the begin of a tail. Raises NotFoundError for a named topic that is missing or empty of
        the wanted queues, and for patterns without a topic unless the tail follows."""
        found: list[MessageQueue] = []
        for topic in await self._topics():
            try:
                queues = await self._pull.queues(topic)
            except NotFoundError as error:
                if topic in self._of_groups:
                    raise NotFoundError(f"{error}; a group gets it with its first message of that kind") from error
                if topic in self._named:
                    raise
                continue  # deleted since it was listed
            chosen = self._chosen(queues)
            if not queues and topic in self._named:
                raise NoQueueError(why_not_read(topic, await self._admin.topics.route(topic)))
            if not chosen and topic in self._named:
                raise NotFoundError(
                    f"no queue {self._options.queue} in {topic}: it has {len(queues)} queues, numbered from 0"
                )
            found += chosen
        if not found and not self._named:
            self._nothing_found()
        return found

    def _nothing_found(self) -> None:
        what = f"no topic matches {' '.join(self._patterns)}" if self._patterns else "no topics of applications yet"
        if self._patterns and not self._options.follow:
            raise NotFoundError(f"{what}: pymq topic list shows all topics")
        print_note(what + (": waiting for the first" if self._options.follow else ""))

    async def queues_now(self) -> list[MessageQueue]:
        """Return the queues that there are, without a word about what is missing."""
        found: list[MessageQueue] = []
        for topic in await self._topics():
            try:
                found += self._chosen(await self._pull.queues(topic))
            except NotFoundError:
                continue
        return found

    def _chosen(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        choice = self._options.queue
        return [queue for queue in queues if choice is None or choice.takes(queue.broker_name, queue.queue_id)]

    async def _topics(self) -> list[str]:
        if self._patterns:
            return list(dict.fromkeys([*self._named, *await matching_topics(self._admin, self._patterns)]))
        return self._named or await user_topics(self._admin)
