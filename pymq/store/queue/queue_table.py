"""QueueTable: finds, makes, writes and syncs all consume queues of a store."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock

from pymq.errors import UnreadableError
from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE, RECORD_OVERHEAD_BYTES, UNIT_SIZE_BYTES
from pymq.model.names import topic_problem
from pymq.store.disk.fs import Files, make_directory
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.consume_queue import ConsumeQueue, QueueFiles, UnitGuard
from pymq.store.queue.deleted_topics import DeletedTopics
from pymq.store.queue.first_page import filled_end
from pymq.store.queue.removed_queues import DELETED_QUEUES_DIRECTORY, RemovedQueues
from pymq.store.queue.sums_file import SavedQueue, SavedQueues, SumsFile
from pymq.store.scan.scanner import record_in

_QUEUES_AT_ONCE = 500  # whose sums are copied while the lock is held
_BAD_UNITS_MAX = 1000  # at a queue's end; with more, its files are another queue's or destroyed


class QueueTable:
    """Queues by (topic, queue id). One thread calls everything; only :meth:`sync` may run in another."""

    def __init__(
        self,
        files: Files,
        root: str,
        file_size_bytes: int,
        open_max: int,
        deleted: DeletedTopics | None = None,
    ) -> None:
        self._files = files
        self.sums_file: SumsFile | None = None
        self.saved: SavedQueues | None = None  # what that file held at the start
        self.sums_outdated = True  # the file is of another run, or says the end of a queue that was deleted
        self._root = root
        self._queue_files = QueueFiles(files, root, file_size_bytes, open_max)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.deleted = deleted
        self.removed = RemovedQueues(files, f"{root.rpartition('/')[0]}/{DELETED_QUEUES_DIRECTORY}")
        self.deleted_unit_count = 0  # of deleted topics that the saved sums still count
        self._tails: list[ConsumeQueue] = []  # queues whose tails are being written some at a time
        self._lock = Lock()

    def keep_sums(self, directory: str | None) -> None:
        """Keep the checksums of units in a file of this directory; None keeps them in memory only."""
        self.sums_file = SumsFile(self._files, directory) if directory is not None else None

    def load(self) -> list[str]:
        """Make an object for every queue directory. Returns the names that are not legal topics and are left alone."""
        make_directory(self._files, self._root)
        self.removed.load()
        if self.deleted is not None:
            self.deleted.load()
        ignored = []
        for topic in self._files.listdir(self._root):
            if topic_problem(topic) is not None:
                ignored.append(topic)
                continue
            for name in self._files.listdir(f"{self._root}/{topic}"):
                if name.isdigit() and str(int(name)) == name:
                    self.make(topic, int(name))
        self._load_sums()
        return ignored

    def _load_sums(self) -> None:
        """Take over the saved sums. A queue that they know and the disk does not is there again, without units."""
        saved = self.sums_file.load() if self.sums_file is not None else None
        if saved is None or saved.file_size_bytes != self._queue_files.file_size_bytes:
            return
        self.saved = saved
        for one in saved.queues:
            if topic_problem(one.topic) is None and saved.queue_offset > self.deleted_end(one.topic):
                queue = self.make(one.topic, one.queue_id)
                queue.known_end = one.end
                queue.sums.load(one.first_block, array("I", one.sums), one.sums_end, one.open_sum)
            elif saved.queue_offset <= self.deleted_end(one.topic):
                self.deleted_unit_count += one.end

    def forget_known(self) -> None:
        """Let the saved ends of queues count for nothing: the log decides alone."""
        self.saved = None
        for queue in self:
            queue.known_end = 0

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory when it is missing. Its directory is made with its first unit."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            assert topic_problem(topic) is None and queue_id >= 0, "names are checked before they become paths"
            queue = self._queues[topic, queue_id] = ConsumeQueue(self._queue_files, topic, queue_id)
        return queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def find_begins(self, log_min_offset: int) -> None:
        """Move each queue's minimum to its first unit whose record is in the log, at a start. Raises OSError."""
        guard = self._queue_files.guard
        for queue in self:
            try:
                queue.find_begin(log_min_offset)
            except UnreadableError:
                self._queue_files.guard = None
                queue.find_begin(log_min_offset)  # with what is there: readers get the error
                self._queue_files.guard = guard

    def guard_with(self, guard: UnitGuard | None) -> None:
        """Compare units before they are used from now on; None ends that."""
        self._queue_files.guard = guard

    def distrust_sums(self) -> None:
        """Compare every block of units again when it is used next: a disk may change what it returned before."""
        for queue in self._queues.values():
            queue.sums.distrust_all()

    @property
    def sum_count(self) -> int:
        """The number of blocks of units with a checksum."""
        return sum(queue.sums.count for queue in self._queues.values())

    def note_ends(self) -> int:
        """Note every queue's end, for :meth:`save_sums`: all units are in files now. Returns their sum."""
        total = 0
        with self._lock:
            for queue in self._queues.values():
                queue.noted_end = queue.max_offset
                total += queue.max_offset
        return total

    def noted_ends(self) -> list[tuple[ConsumeQueue, int]]:
        """Every queue with the end that was noted last. Safe from another thread."""
        with self._lock:
            return [(queue, queue.noted_end) for queue in self._queues.values()]

    def save_sums(self, queue_offset: int, ends: list[tuple[ConsumeQueue, int]]) -> None:
        """Save the sums, and ends that were noted when all units below ``queue_offset`` were in files.

        Safe from another thread. Raises OSError.
        """
        if self.sums_file is None:
            return
        found: list[SavedQueue] = []
        for start in range(0, len(ends), _QUEUES_AT_ONCE):
            with self._lock:
                found += [
                    SavedQueue(queue.topic, queue.queue_id, end, *queue.sums.saved())
                    for queue, end in ends[start : start + _QUEUES_AT_ONCE]
                    if end
                ]
        found.sort()
        self.sums_file.save(queue_offset, sum(queue.end for queue in found), self.file_size_bytes, found)

    def remove_sums(self) -> None:
        """Remove the saved sums. Raises OSError."""
        if self.sums_file is not None:
            self.sums_file.remove()

    @property
    def file_size_bytes(self) -> int:
        return self._queue_files.file_size_bytes

    @property
    def unit_count(self) -> int:
        """The sum of all queues' ends. It changes when a queue is lost."""
        return sum(queue.max_offset for queue in self._queues.values())

    def write_tails(self) -> None:
        """Write every tail to its files. Raises OSError; then the rest stays in memory for the next call."""
        with self._lock:
            for queue in self._queues.values():
                if queue.tail:
                    queue.write_tail()

    def write_some_tails(self, count_max: int) -> bool:
        """Write at most ``count_max`` tails, those of all queues in turn. Return True when no other queue had one.

        Raises OSError; then the rest stays in memory for the next call.
        """
        with self._lock:
            is_all = False
            if not self._tails:
                self._tails = [queue for queue in self._queues.values() if queue.tail]
                is_all = len(self._tails) <= count_max
            batch = self._tails[-count_max:]
            del self._tails[-count_max:]
            for queue in batch:
                if self._queues.get((queue.topic, queue.queue_id)) is queue:  # not deleted since
                    queue.write_tail()
        return is_all

    def write_tail(self, queue: ConsumeQueue) -> None:
        with self._lock:
            queue.write_tail()

    def sync(self) -> None:
        """Bring everything written before the call to the disk. Safe from another thread. Raises OSError."""
        with self._lock:
            paths, self._queue_files.unsynced = self._queue_files.unsynced, set()
            directories, self._queue_files.unsynced_directories = self._queue_files.unsynced_directories, set()
        try:
            self._files.sync_together(sorted(paths), sorted(directories))
        except OSError:
            with self._lock:
                self._queue_files.unsynced |= paths
                self._queue_files.unsynced_directories |= directories
            raise

    def follow_log(self, queue: ConsumeQueue, log_min_offset: int, file_count_max: int) -> int:
        """Raise the queue's minimum to the log's; return the number of files removed because of it. Raises OSError."""
        with self._lock:
            queue.raise_min(log_min_offset)
            return queue.drop_old_files(file_count_max)

    def settle_all(self, log: CommitLog, below: int, *, trusted: bool = False) -> None:
        """Find every queue's end, as :func:`settle` does. Units are not compared from then on. Raises OSError."""
        self.guard_with(None)
        for queue in self:
            settle(queue, log, below, trusted=trusted, deleted_end=self.deleted_end(queue.topic))

    def delete_queues(self, doomed: Iterable[tuple[str, int]]) -> list[ConsumeQueue]:
        """Remove queues, and move their files aside; return them. Raises OSError; then some of them are still there."""
        gone, topics = [], set()
        for topic, queue_id in doomed:
            path = f"{self._root}/{topic}/{queue_id}"
            if self._move_aside([path]):
                topics.add(f"{self._root}/{topic}")
            gone.append(self._queues.pop((topic, queue_id)))
            self.sums_outdated = True
        if topics:
            self.removed.sync(*sorted(topics))
        return gone

    def deleted_end(self, topic: str) -> int:
        """The physical offset below which records of the topic belong to no queue: they were deleted with it."""
        return self.deleted.end(topic) if self.deleted is not None else 0

    def delete_topics(self, topics: Collection[str], log_end: int) -> list[ConsumeQueue]:
        """Remove all queues of topics, and move their files aside; return the queues.

        ``log_end``: the end of the log, which is on the disk. Raises StoreUnavailableError when the file of deletions
        can't be written; then the topics are still there.
        """
        gone = [queue for key, queue in self._queues.items() if key[0] in topics]
        if gone and self.deleted is not None:
            self.deleted.raise_to({queue.topic: log_end for queue in gone})
        for queue in gone:
            del self._queues[queue.topic, queue.queue_id]
        self.removed.keep(gone)
        self.sums_outdated = self.sums_outdated or bool(gone)
        # When the disk refuses, the next start tells old units from new ones, and drops them.
        with suppress(OSError):
            if self._move_aside([f"{self._root}/{topic}" for topic in sorted(topics)]):
                self.removed.sync(self._root)
        return gone

    def _move_aside(self, directories: list[str]) -> bool:
        """Move directories of topics or queues aside; False when none of them exists. Raises OSError."""
        is_moved = False
        with self._lock:
            self._queue_files.forget_below(set(directories))
            for path in directories:
                if self._files.is_dir(path):
                    self.removed.take(path)
                    is_moved = True
        return is_moved

    def delete_below(self, ends: Mapping[str, int]) -> list[ConsumeQueue]:
        """Remove the queues of topics that another broker with the same log deleted below these physical offsets.

        A queue whose newest unit lies behind belongs to a new topic of that name, and stays. Returns the queues that
        were removed. Raises OSError; then some of them are still there.
        """
        of_topics: dict[str, list[ConsumeQueue]] = {topic: [] for topic in ends}
        for queue in self:
            if queue.topic in of_topics:
                of_topics[queue.topic].append(queue)
        gone = []
        for topic, queues in of_topics.items():
            old = [queue for queue in queues if 0 <= queue.last_physical_offset < ends[topic]]
            if old and len(old) == len(queues) and self._move_aside([f"{self._root}/{topic}"]):
                self.removed.sync(self._root)
            gone += self.delete_queues([(topic, queue.queue_id) for queue in old])
        return gone

    def close(self) -> None:
        self.guard_with(None)
        self._queue_files.close()


def settle(queue: ConsumeQueue, log: CommitLog, below: int, *, trusted: bool = False, deleted_end: int = 0) -> None:
    """Find the queue's end in its files: behind the last unit that points below ``below`` and fits its record.

    Units behind the end may be anything (zeros, torn sectors, remains of a truncated log), and are dropped. A binary
    search finds candidates, because all units are good whose records were on the disk at a checkpoint. Each candidate
    for the last unit is then compared with the log. Whether the units before it are good is not asked here:
    :func:`pymq.store.queue.queue_doubts.find_doubt` samples them, and a reader compares them.

    ``trusted``: PyMQ's checkpoint vouches for ``below``, so a unit may also stand for a record that is damaged by now,
    and no other message may get its offset. Units of records below ``deleted_end`` are remains of a deleted topic,
    unless newer units follow them: then the deletion had failed.
    """
    starts = queue.open_files()
    for start in reversed(starts):
        first = start // UNIT_SIZE_BYTES
        end = filled_end(queue, start, queue.max_offset)
        last = _last_good(queue, log, first, end, (0, below), trusted=trusted)
        if last >= 0 and _is_below(queue, last, deleted_end):
            last = _last_good(queue, log, first, last, (deleted_end, below), trusted=trusted)
        if last >= 0:
            queue.end_with(last + 1, starts)
            return
        queue.max_offset = first
    known_end = queue.known_end
    queue.reset()
    queue.known_end = known_end


def _is_below(queue: ConsumeQueue, offset: int, physical_offset: int) -> bool:
    place, size, _ = queue.unit(offset)
    return place < physical_offset and size != BLANK_UNIT_SIZE


def _last_good(
    queue: ConsumeQueue, log: CommitLog, first: int, end: int, between: tuple[int, int], *, trusted: bool
) -> int:
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        physical_offset, size, _ = queue.unit(middle)
        if size > 0 and between[0] <= physical_offset < between[1]:
            low = middle + 1
        else:
            high = middle
    last = low - 1
    first = max(first, last - _BAD_UNITS_MAX)
    while last >= first and not unit_fits(queue, last, log) and not (trusted and stands_for_damage(queue, last, log)):
        last -= 1
    return last if last >= first else -1


def stands_for_damage(queue: ConsumeQueue, offset: int, log: CommitLog) -> bool:
    """True when the unit follows the one before it, and its record is unreadable or differs in one field only.

    A flipped bit can change a record's topic, queue id or queue offset, because no CRC covers them.
    """
    physical_offset, size, _ = queue.unit(offset)
    if offset > queue.base_offset:
        before, before_size, _ = queue.unit(offset - 1)
        if before_size != BLANK_UNIT_SIZE and before + before_size > physical_offset:
            return False
    return leads_to_damage(queue, offset, physical_offset, size, log)


def leads_to_damage(queue: ConsumeQueue, offset: int, physical_offset: int, size: int, log: CommitLog) -> bool:
    """True when a unit's record is unreadable or differs from it in one field only."""
    segment = log.find(physical_offset)
    if segment is None or size < RECORD_OVERHEAD_BYTES:
        return False
    record = record_in(segment, physical_offset)
    if record is None:
        return True
    same = (record.topic == queue.topic, record.queue_id == queue.queue_id, record.queue_offset == offset)
    return record.size == size and sum(same) == 2


def unit_fits(queue: ConsumeQueue, offset: int, log: CommitLog) -> bool:
    """True for a blank or placeholder unit, and for one that points below the log or at its own record."""
    physical_offset, size, code = queue.unit(offset)
    if (size == BLANK_UNIT_SIZE and physical_offset == 0) or (code == PLACEHOLDER_CODE and size > 0):
        return True
    if size <= 0 or physical_offset < 0:
        return False
    if physical_offset < log.min_offset:
        return True
    segment = log.find(physical_offset)
    if segment is None:
        return False
    record = record_in(segment, physical_offset)
    return record is not None and (record.topic, record.queue_id, record.queue_offset, record.size) == (
        queue.topic, queue.queue_id, offset, size,
    )  # fmt: skip
