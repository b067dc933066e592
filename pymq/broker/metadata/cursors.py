"""CursorManager: the committed offset of each consumer group in each queue; saved in ``consumerOffset.json``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any

from pymq.broker.metadata.offset_table import OffsetTable, as_saved_table, as_table, read_offsets
from pymq.broker.metadata.often_changed_table import OftenChangedTable
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal, StoreError
from pymq.model import names
from pymq.model.lite_topics import is_light_queue, parent_of
from pymq.model.tables import DataVersion
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

NO_OFFSET = -1
CLONED_AT_ONCE = 1000  # offsets of a clone before the next rest
COPIED_BY_LOOP_MAX = 20_000  # offsets that the loop copies for a save, in about a millisecond

# (topic, queue id) -> the queue's end.
MaxOffset = Callable[[str, int], int]

_NONE: Mapping[int, int] = {}


class CursorManager(OftenChangedTable):
    """Committed offsets by (topic, group) and queue. Saved by :meth:`tick`, not by each commit.

    A commit past the queue's end is refused: the group would skip messages that are still to come.
    """

    def __init__(self, table: TableSaver, *, clock: Clock, config: BrokerConfig, max_offset: MaxOffset) -> None:
        super().__init__(table, "consumer offsets could not be saved, trying again")
        self.data_version = DataVersion()
        self._clock = clock
        self._config = config
        self._max_offset = max_offset
        self._all = OffsetTable()
        self._offsets = self._all.by_key  # bound here because each commit and pull looks into it
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        self._resets: dict[tuple[str, str, int], int] = {}
        # Changes are numbered, so that a slave gets only those that it lacks.
        self.change_count = 0
        self._changed: dict[tuple[str, str], int] = {}  # the number of each last change, in the order of numbers
        self._removed_at = 0  # the number of the last change that removed something
        # The keys whose offsets stand for records of the log: a slave takes these when its log has the records.
        self._log_bound: set[tuple[str, str]] = set()
        self.log_bound_change_count = 0
        self._next_save_ms = clock.monotonic_ms() + table.interval_ms(config.flush_consumer_offset_interval_ms)
        self._save_begun_ms = 0

    def load(self) -> None:
        """Read ``consumerOffset.json``. Broadcast offsets of RocketMQ's proxy (a second ``@``) are left out."""
        loaded = self._table.load()
        self.data_version = read_version(loaded)
        self._all.update(read_offsets(loaded.get("offsetTable")))

    def fit(self, queue_end: Callable[[str, int], int | None]) -> None:
        """Move offsets that are past their queue's end back to it: a power loss took messages that were consumed.

        Java's broker leaves them, and the group then misses the messages that get the lost ones' offsets. ``queue_end``
        returns None for a queue that is not here.
        """
        for (topic, group), queues in self._offsets.items():
            for queue_id, offset in queues.items():
                end = queue_end(topic, queue_id)
                if end is not None and offset > end:
                    log.warning(
                        "group %s had consumed %s queue %d to offset %d, but the queue ends at %d since the last stop: "
                        "it goes on there",
                        group, topic, queue_id, offset, end,
                    )  # fmt: skip
                    queues[queue_id] = end
                    self._dirty = True

    def advance(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group forward, never back, even past the queue's end: :meth:`fit` must follow."""
        if offset > self.query(group, topic, queue_id):
            self._set(group, topic, queue_id, offset)

    # -- one queue -----------------------------------------------------------------------------------------------

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset, or the pending reset; -1 when there is neither."""
        reset = self._resets.get((topic, group, queue_id)) if self._resets else None
        if reset is not None:
            return reset
        queues = self._offsets.get((topic, group))
        return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, end: int | None = None) -> None:
        """Take a consumer's commit.

        Raises Refusal: INVALID_PARAMETER for an offset that can't be, NO_PERMISSION at the limit of offsets.

        ``end`` is the greatest offset that can be; None: the end that consumers see. A commit is dropped while a reset
        is pending: the consumer does not know of it yet.
        """
        if (topic, group, queue_id) in self._resets:
            return
        if end is None:
            end = self._max_offset(topic, queue_id)
        if not 0 <= offset <= end:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"offset {offset} of {topic} queue {queue_id} can't be committed: use 0 to {end}, the queue's end",
            )
        before = self.query(group, topic, queue_id)
        if self._config.strict_offsets and offset < before:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"offset {offset} of {topic} queue {queue_id} is behind {before}, which strictOffsets forbids: "
                "reset the group's offset instead",
            )
        if before == NO_OFFSET:
            self._check_count(1)
        self._set(group, topic, queue_id, offset)

    def commit_from_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take a commit that came with a pull. An offset that can't be is dropped, because the pull needs an answer."""
        try:
            self.commit(group, topic, queue_id, offset)
        except Refusal as refusal:
            log.info("group %s: %s", group, refusal.remark)

    def hand_out(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a pop group to behind what was handed out to it, also backwards. Dropped while a reset is pending.

        In a light queue the offset says what is acknowledged, so slaves need no check point to understand it.
        """
        if not is_light_queue(topic):
            self.bind_to_log(group, topic)
        if (topic, group, queue_id) not in self._resets:
            self._set(group, topic, queue_id, offset)

    def bind_to_log(self, group: str, topic: str) -> None:
        """Have slaves take the group's offsets in a topic only with the records that the log has by now.

        A pop's offset says "handed out", and a check point in the log what became of it: without that a slave that
        takes over would skip messages that came to no consumer.
        """
        if (topic, group) not in self._log_bound:
            self._log_bound.add((topic, group))
            self.log_bound_change_count += 1

    def log_bound_offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return the offsets that are bound to the log. Use them before the next change."""
        return {key: self._offsets[key] for key in self._log_bound if key in self._offsets}

    def check_room(self) -> None:
        """Check that the group may have an offset in one more queue. Raises Refusal(NO_PERMISSION)."""
        self._check_count(1)

    def note_pulled(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Note how far the group has pulled (not saved)."""
        queues = self._pulled.get((topic, group))
        if queues is None:
            if len(self._pulled) >= self._config.offset_count_max:
                return
            queues = self._pulled[topic, group] = {}
        queues[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return how far the group has pulled, at least its committed offset; -1 for neither."""
        return max(self._pulled.get((topic, group), {}).get(queue_id, NO_OFFSET), self.query(group, topic, queue_id))

    def places(self, group: str, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return the committed offsets by queue, without pending resets, and how far the group has pulled.

        Both are the table's own objects, for many reads in one turn.
        """
        return self._offsets.get((topic, group), _NONE), self._pulled.get((topic, group), _NONE)

    def committed_in(self, group: str, topic: str) -> Mapping[int, int]:
        """Return by queue id what :meth:`query` returns for queues with an offset. Use it before the next change."""
        queues = self._offsets.get((topic, group), _NONE)
        if self._resets:
            return {queue_id: self._resets.get((topic, group, queue_id), at) for queue_id, at in queues.items()}
        return queues

    def committed_by(self, groups: Iterable[str], topic: str) -> list[Mapping[int, int]]:
        """Return :meth:`committed_in` for each of the groups, in their order."""
        if self._resets:
            return [self.committed_in(group, topic) for group in groups]
        offsets = self._offsets
        return [offsets.get((topic, group), _NONE) for group in groups]

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group as an operator asks. The answer to its next pull of the queue is PULL_OFFSET_MOVED.

        Raises Refusal(NO_PERMISSION) at the limit of offsets.
        """
        if queue_id not in self._offsets.get((topic, group), ()):
            self._check_count(1)
        self._resets[topic, group, queue_id] = offset
        self._set(group, topic, queue_id, offset)

    @property
    def has_resets(self) -> bool:
        """True while a reset is pending."""
        return bool(self._resets)

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return True while a reset of the group in this queue is pending."""
        return (topic, group, queue_id) in self._resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the group's pending reset, once; None almost always."""
        return self._resets.pop((topic, group, queue_id), None) if self._resets else None

    # -- many queues ---------------------------------------------------------------------------------------------

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets by queue id; empty when nothing is committed."""
        return dict(self._offsets.get((topic, group), {}))

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which the group has offsets, sorted; no light queues."""
        return self._all.topics_of(group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in the topic, sorted."""
        return self._all.groups_of(topic)

    def all_groups(self) -> list[str]:
        """Return every group with an offset, sorted."""
        return self._all.groups()

    def known_groups(self) -> frozenset[str]:
        """Return :meth:`all_groups` in no order."""
        return self._all.known_groups()

    def committed(self) -> list[tuple[str, str]]:
        """Return every (topic, group) with an offset."""
        return list(self._offsets)

    def clone(self, source: str, target: str, topic: str | None) -> int:
        """Do as :meth:`clone_in_steps` at once."""
        steps = self.clone_in_steps(source, target, topic)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return int(stop.value)

    def clone_in_steps(self, source: str, target: str, topic: str | None) -> Generator[None, None, int]:
        """Copy the offsets of ``source`` to ``target``, in one topic or in all; return the number of queues.

        Yields now and then. Raises Refusal(NO_PERMISSION) when the copies would pass the limit of offsets; when others
        reach it meanwhile, some are copied.
        """
        topics = [topic] if topic else [one for one in self.topics_of(source) if not one.startswith(names.RETRY_PREFIX)]
        self._check_count(sum(len(self._offsets.get((one, source), ())) for one in topics))
        count = 0
        for one in topics:
            offsets = list(self.offsets(source, one).items())
            for start in range(0, len(offsets), CLONED_AT_ONCE):
                piece = offsets[start : start + CLONED_AT_ONCE]
                self._check_count(len(piece))
                for queue_id, offset in piece:
                    self._set(target, one, queue_id, offset)
                count += len(piece)
                yield
        return count

    def forget_group(self, *groups: str) -> None:
        """Drop all offsets of groups."""
        gone = frozenset(groups)
        keys = [(topic, group) for group in groups for topic in self.topics_of(group)]
        keys += [key for key in self._all.light_keys() if key[1] in gone]
        self._forget(keys, lambda key: key[1] in gone)

    def forget_topic(self, *topics: str) -> None:
        """Drop all offsets in topics, so that a new topic of such a name starts at 0."""
        gone = frozenset(topics)
        keys = [(topic, group) for topic in topics for group in self.groups_of(topic)]
        keys += [key for key in self._all.light_keys() if parent_of(key[0]) in gone]
        self._forget(keys, lambda key: key[0] in gone)

    def forget_queue(self, topic: str, queue_id: int) -> None:
        """Drop all offsets in a queue that was removed."""
        for group in self.groups_of(topic):
            self._pulled.get((topic, group), {}).pop(queue_id, None)
        if self._all.remove_queue(topic, queue_id):
            self._note_removal()

    def as_table(self) -> dict[str, Any]:
        """Return the saved object: ``offsetTable`` by ``topic@group`` and the derived ``groupTopicMap``."""
        return as_table(self._offsets, self.data_version)

    def table_in_steps(self) -> Generator[None, None, dict[str, Any]]:
        """Return a copy of :meth:`as_table`. Yields now and then; each group's offsets in a topic are of one moment."""
        offsets = yield from self._all.copy_in_steps()
        return as_saved_table(offsets, self.data_version)

    @property
    def offset_count(self) -> int:
        """The number of committed offsets: queues of all groups."""
        return self._all.count

    def light_keys(self) -> list[tuple[str, str]]:
        """Return (light queue's name, group) of all offsets in light queues."""
        return self._all.light_keys()

    def forget_keys(self, keys: list[tuple[str, str]]) -> None:
        """Drop the offsets of these pairs of topic and group."""
        gone = frozenset(keys)
        self._forget([key for key in keys if key in self._offsets], gone.__contains__)

    @property
    def light_offset_count(self) -> int:
        """The number of committed offsets in light queues, of all groups."""
        return self._all.light_count

    def changes_since(self, number: int, count_max: int = sys.maxsize) -> dict[str, Any] | None:
        """Return :meth:`as_table` with only the groups' topics that changed after ``number``, a past ``change_count``.

        None when something was removed since then, or when they have more than ``count_max`` offsets: the caller needs
        the whole table.
        """
        if number < self._removed_at:
            return None
        changed: dict[tuple[str, str], dict[int, int]] = {}
        for key in self._changed_since(number):
            changed[key] = self._offsets[key]
            count_max -= len(changed[key])
            if count_max < 0:
                return None
        return as_table(changed, self.data_version)

    def piece_at(self, start: int, number: int, count_max: int) -> tuple[dict[str, Any], int | None] | None:
        """Return :meth:`as_table` with the groups' topics from the ``start``-th on, and where the next piece begins.

        A piece has at least one group's topic, and ends with the first that brings it to ``count_max`` offsets. The
        last one returns None as the next begin. None when something was removed after the change ``number``: then a
        topic may have another place.
        """
        if number < self._removed_at:
            return None
        found: dict[tuple[str, str], dict[int, int]] = {}
        for key, queues in islice(self._offsets.items(), start, None):
            if count_max <= 0:
                return as_table(found, self.data_version), start + len(found)
            found[key] = queues
            count_max -= len(queues)
        return as_table(found, self.data_version), None

    def committed_since(self, number: int) -> Iterator[tuple[str, str, int, int]]:
        """Return (group, topic, queue id, offset) of all queues of groups' topics that changed after ``number``."""
        for topic, group in self._changed_since(number):
            for queue_id, offset in self._offsets[topic, group].items():
                yield group, topic, queue_id, offset

    def _changed_since(self, number: int) -> Iterator[tuple[str, str]]:
        return takewhile(lambda key: self._changed[key] > number, reversed(self._changed))

    # -- persistence ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Save in a worker thread when something changed and ``flushConsumerOffsetInterval`` has passed.

        The thread copies a large table, too, so that it does not hold up the loop.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_save_ms:
            return
        self._next_save_ms = now_ms + self._save_interval_ms()
        if self._dirty and not self._table.is_busy:
            self._save_begun_ms = now_ms
            version = self.data_version = self._version_to_save()
            copy = self._all.snapshot() if self._all.count <= COPIED_BY_LOOP_MAX else None
            self._save_soon(lambda: as_saved_table(self._all.snapshot() if copy is None else copy, version))

    def _saved(self, error: StoreError | OSError | None) -> None:
        now_ms = self._clock.monotonic_ms()
        pause_ms = self._table.pause_ms(now_ms - self._save_begun_ms)
        self._next_save_ms = max(self._next_save_ms, now_ms + pause_ms)
        super()._saved(error)

    def _table_to_save(self) -> dict[str, Any]:
        self.data_version = self._version_to_save()
        return self.as_table()

    def _save_interval_ms(self) -> int:
        return self._table.interval_ms(self._config.flush_consumer_offset_interval_ms)

    def _version_to_save(self) -> DataVersion:
        return self.data_version.next(self._clock.now_ms())

    def _set(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if self._all.set(topic, group, queue_id, offset):
            self._dirty = True
            self.change_count += 1
            self._changed.pop((topic, group), None)
            self._changed[topic, group] = self.change_count
            if (topic, group) in self._log_bound:
                self.log_bound_change_count += 1

    def _check_count(self, added: int) -> None:
        limit = self._config.offset_count_max
        if added and self._all.count + added > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has reached its limit of {limit} committed offsets (queues of all groups): delete "
                "unused groups with their offsets, or raise maxConsumerOffsets",
            )

    def _forget(self, keys: list[tuple[str, str]], doomed: Callable[[tuple[str, str]], bool]) -> None:
        for key in keys:
            self._all.remove(key)
            self._changed.pop(key, None)
            self._log_bound.discard(key)
            self._note_removal()
        for key in [key for key in self._pulled if doomed(key)]:
            del self._pulled[key]
        for reset_key in [key for key in self._resets if doomed(key[:2])]:
            del self._resets[reset_key]

    def _note_removal(self) -> None:
        self._dirty = True
        self.change_count += 1
        self._removed_at = self.change_count
        self.log_bound_change_count += 1
