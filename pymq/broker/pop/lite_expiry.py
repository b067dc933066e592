"""LiteExpiry: forgets lite topics after ``lite.topic.expiration`` without a message, once every group has read them.

RocketMQ deletes them read or not. Java: AbstractLiteLifecycleManager. The offsets of lite topics that are gone, by
expiry or with the log's segments, are deleted as well.

A pass looks for old messages, and gives each group that has not read them an offset in their lite topic. The next pass
moves the groups' read marks, and forgets old lite topics that were read. So no saved table has a mark without the
offsets that it relies on.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal, StoreError
from pymq.model.lite_groups import lite_group_rules
from pymq.model.lite_topics import EXPIRATION_NEVER, expiration_minutes, is_parent, split_light_queue

if TYPE_CHECKING:
    from pymq.broker.metadata.metadata import Metadata
    from pymq.store.store import LightReader

log = logging.getLogger(__name__)

# RocketMQ's liteTtlCheckInterval and minLiteTTl. A pass begins so long after the one before has ended.
CHECK_PERIOD_MS: Final = 120_000
EXPIRATION_MIN_MS: Final = 15 * 60_000
LITES_A_TICK: Final = 1000  # that a tick looks at, some milliseconds


class _Old(NamedTuple):
    """What a pass found of a parent: messages are old that come before entry ``number`` and ``physical_offset``.

    ``groups`` have a read mark, and an offset in each lite topic with old messages that they have not read.
    """

    number: int
    physical_offset: int
    groups: list[str]


class LiteExpiry:
    """Call :meth:`tick` a few times a second on a master. The first pass begins EXPIRATION_MIN_MS after the start."""

    def __init__(self, runtime: Runtime, *, metadata: Metadata, lights: LightReader, offsets: LiteOffsets) -> None:
        self._clock = runtime.clock
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._lights = lights
        self._offsets = offsets
        self._next_pass_ms = runtime.clock.monotonic_ms() + EXPIRATION_MIN_MS
        self._pass: Iterator[None] | None = None
        self._old: dict[str, _Old] = {}  # by parent, of the last whole pass
        self.expired_count = 0

    def tick(self) -> None:
        """Begin a pass when it is time, or do the next piece of it."""
        now_ms = self._clock.monotonic_ms()
        if self._pass is None:
            if now_ms < self._next_pass_ms:
                return
            self._pass = self._steps()
        try:
            next(self._pass)
        except StopIteration:
            self._end_pass(now_ms)
        except (StoreError, OSError, Refusal) as error:
            log.warning("lite topics do not expire now, the next pass tries again: %s", error)
            self._end_pass(now_ms)

    def _end_pass(self, now_ms: int) -> None:
        self._pass = None
        self._next_pass_ms = now_ms + CHECK_PERIOD_MS

    def _steps(self) -> Iterator[None]:
        before, self._old = self._old, {}
        found: dict[str, _Old] = {}
        for topic in list(self._topics.all().values()):
            parent = topic.topic_name
            minutes = expiration_minutes(topic.attributes) if is_parent(topic.attributes) else EXPIRATION_NEVER
            if minutes == EXPIRATION_NEVER or not self._lights.count_of(parent):
                continue
            if parent in before:
                yield from self._expire(parent, before[parent])
            found[parent] = yield from self._find_old(parent, max(minutes * 60_000, EXPIRATION_MIN_MS))
        yield from self._forget_offsets()
        self._old = found

    def _find_old(self, parent: str, expiration_ms: int) -> Generator[None, None, _Old]:
        """Give groups offsets in what is old and not read. Yields after each piece."""
        old = _Old(*self._lights.first_since(self._clock.now_ms() - expiration_ms), self._groups_of(parent))
        for group in old.groups:
            self._offsets.move_mark(group, parent, 0)
        names = iter(self._lights.names_of(parent))
        while some := list(islice(names, LITES_A_TICK)):
            for lite in some:
                if self._lights.is_older(parent, lite, old.number):
                    self._is_read(old.groups, parent, lite)
                else:
                    self._keep_unread(old, parent, lite)
            yield
        return old

    def _keep_unread(self, old: _Old, parent: str, lite: str) -> None:
        """Give groups an offset in a lite topic with young messages, if they have not read its old ones."""
        for group in old.groups:
            if self._offsets.committed(group, parent, lite) < 0:
                start = self._offsets.start(group, parent, lite)
                first = self._lights.entries(parent, lite, start, 1)
                if first and first[0].physical_offset < old.physical_offset:
                    self._offsets.begin_at(group, parent, lite, start)

    def _expire(self, parent: str, old: _Old) -> Iterator[None]:
        """Forget what is old and read. Yields after each piece."""
        bound = self._groups_of(parent)
        for group in old.groups:
            if group in bound and self._offsets.has_mark(group, parent):  # else it was deleted with its offsets since
                self._offsets.move_mark(group, parent, old.physical_offset)
        names = iter(self._lights.names_of(parent))
        while some := list(islice(names, LITES_A_TICK)):
            bound = self._groups_of(parent)
            for lite in some:
                if self._lights.is_older(parent, lite, old.number) and self._is_read(bound, parent, lite):
                    self.expired_count += self._lights.expire(parent, lite, old.number)
            yield

    def _is_read(self, groups: list[str], parent: str, lite: str) -> bool:
        """Return True when all groups have read a lite topic. One that has not, and has no offset, gets one."""
        is_read = True
        for group in groups:
            start = self._offsets.start(group, parent, lite)
            if start < self._lights.max_offset(parent, lite):
                is_read = False
                if self._offsets.committed(group, parent, lite) < 0:
                    self._offsets.begin_at(group, parent, lite, start)
        return is_read

    def _forget_offsets(self) -> Iterator[None]:
        """Delete groups' offsets in lite topics that are not there any more. Yields after each piece."""
        keys = iter(self._cursors.light_keys())
        while some := list(islice(keys, LITES_A_TICK)):
            gone = []
            for key in some:
                names = split_light_queue(key[0])
                if names is not None and not self._lights.has(*names):
                    gone.append(key)
            if gone:
                self._cursors.forget_keys(gone)
            yield

    def _groups_of(self, parent: str) -> list[str]:
        """Return the groups that are bound to a parent."""
        found = []
        for name, group in self._groups.all().items():
            rules = lite_group_rules(group.attributes)
            if rules is not None and rules.parent == parent:
                found.append(name)
        return found
