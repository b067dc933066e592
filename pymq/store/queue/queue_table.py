"""QueueTable: finds, makes, writes and syncs all consume queues of a store."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from threading import Lock

from pymq.errors import UnreadableError
from pymq.model.layout import BATCH_UNIT_SIZE_BYTES, BLANK_UNIT_SIZE, PLACEHOLDER_CODE
from pymq.model.names import topic_problem
from pymq.printable import printable
from pymq.store.disk.fs import Files, make_directory
from pymq.store.disk.regular_files import FileKind, odd_kind
from pymq.store.disk.saved_tables import SavedTables
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.batch_queue import AnyQueue, BatchQueue
from pymq.store.queue.batch_topics import load_batch_topics
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.deleted_topics import DELETED_TOPICS_FILE, DeletedTopics
from pymq.store.queue.noted_ends import NotedEnds
from pymq.store.queue.queue_files import QueueFiles, UnitGuard
from pymq.store.queue.removed_queues import DELETED_QUEUES_DIRECTORY, RemovedQueues
from pymq.store.queue.settling import settle
from pymq.store.queue.sums_file import FileSizes, SavedQueue, SavedQueues, SumsFile
from pymq.store.queue.tail_round import TailRound
from pymq.store.scan.scanner import record_in
from pymq.store.settings import StoreSettings

BATCH_QUEUES = "batchconsumequeue"  # the directory beside consumequeue
_QUEUES_AT_ONCE = 500  # whose sums are copied while the lock is held
_DISTRUSTED_A_CALL = 10_000
_problem_of = lru_cache(maxsize=64)(topic_problem)  # a topic's queues come one after the other


class QueueTable:
    """Queues by (topic, queue id). One thread calls everything; only :meth:`sync` may run in another."""

    def __init__(
        self,
        files: Files,
        root: str,
        file_size_bytes: int,
        open_max: int,
        deleted: DeletedTopics | None = None,
        *,
        batch_root: str = "",
        batch_file_size_bytes: int = BATCH_UNIT_SIZE_BYTES,
    ) -> None:
        """``batch_root``: the directory of batch queues; without it every queue is a plain one."""
        self._files = files
        self.batch_topics: set[str] = set()  # topics whose queues are batch queues
        self.sums_file: SumsFile | None = None
        self.saved: SavedQueues | None = None  # what that file held at the start
        self.sums_outdated = True  # the file is of another run, or says the end of a queue that was deleted
        self._root = root
        self._batch_root = batch_root
        self._queue_files = QueueFiles(files, root, file_size_bytes, open_max)
        self._batch_files = QueueFiles(files, batch_root, batch_file_size_bytes, open_max, BATCH_UNIT_SIZE_BYTES)
        self._queues: dict[tuple[str, int], AnyQueue] = {}
        self._units: dict[tuple[str, int], ConsumeQueue] = {}  # what the files of each hold
        self.deleted = deleted
        self.removed = RemovedQueues(files, f"{root.rpartition('/')[0]}/{DELETED_QUEUES_DIRECTORY}")
        self.deleted_unit_count = 0  # of deleted topics that the saved sums still count
        self._noted = NotedEnds()  # when all units were in files last
        self._round: TailRound | None = None  # while tails are written some at a time
        self._distrusting: Iterator[ConsumeQueue] = iter(())
        self._lock = Lock()

    @classmethod
    def of_store(cls, files: Files, root: str, settings: StoreSettings) -> QueueTable:
        """The queues of a store directory. They are not loaded yet."""
        deleted = DeletedTopics(files, f"{root}/config/{DELETED_TOPICS_FILE}", SavedTables(files, root))
        table = cls(
            files, f"{root}/consumequeue", settings.queue_file_size_bytes, settings.open_queue_files_max,
            deleted, batch_root=f"{root}/{BATCH_QUEUES}",
            batch_file_size_bytes=settings.batch_queue_file_size_bytes,
        )  # fmt: skip
        table.keep_sums(f"{root}/digests" if settings.digests_enabled else None)
        return table

    def keep_sums(self, directory: str | None) -> None:
        """Keep the checksums of units in a file of this directory; None keeps them in memory only."""
        self.sums_file = SumsFile(self._files, directory) if directory is not None else None

    def load(self) -> list[str]:
        """Make an object for every queue directory. Returns the names that are not legal topics and are left alone."""
        make_directory(self._files, self._root)
        self.removed.load()
        if self.deleted is not None:
            self.deleted.load()
        ignored: list[str] = []
        if self._batch_root:
            self.batch_topics = load_batch_topics(self._files, self._batch_root.rpartition("/")[0])
            self._load_root(self._batch_root, ignored, holds_batches=True)
        self._load_root(self._root, ignored, holds_batches=False)
        self._load_sums()
        return ignored

    def _load_root(self, root: str, ignored: list[str], *, holds_batches: bool) -> None:
        for topic in self._files.listdir(root) if self._files.is_dir(root) else []:
            if topic_problem(topic) is not None:
                ignored.append(f"{root.rpartition('/')[2]}/{printable(topic)}")
                continue
            for name in self._queue_names(f"{root}/{topic}"):
                if name.isdigit() and str(int(name)) == name:
                    self.make(topic, int(name), holds_batches=holds_batches)

    def _queue_names(self, path: str) -> list[str]:
        """Return the names in a topic's directory. Raises OddFileError where the store would leave its directory."""
        if (kind := self._files.kind(path)) not in (FileKind.DIRECTORY, FileKind.FILE, None):
            raise odd_kind(path, kind, FileKind.DIRECTORY)
        found = self._files.entries(path)
        for name, kind in found.items():
            if name.isdigit() and kind is not FileKind.DIRECTORY:
                raise odd_kind(f"{path}/{name}", kind, FileKind.DIRECTORY)
        return list(found)

    def _load_sums(self) -> None:
        """Take over the saved sums. A queue that they know and the disk does not is there again, without units."""
        saved = self.sums_file.load() if self.sums_file is not None else None
        if saved is None or saved.file_sizes_bytes != self._file_sizes:
            return
        self.saved = saved
        for one in saved.queues:
            if _problem_of(one.topic) is None and saved.queue_offset > self.deleted_end(one.topic):
                self._take_saved(one)
            elif saved.queue_offset <= self.deleted_end(one.topic):
                self.deleted_unit_count += one.end

    def _take_saved(self, saved: SavedQueue) -> None:
        holds_batches = saved.message_end >= 0
        queue = self.make(saved.topic, saved.queue_id, holds_batches=holds_batches)
        if queue.holds_batches == holds_batches:
            queue.units.known_end = saved.end
            queue.units.sums.load(saved.first_block, array("I", saved.sums), saved.sums_end, saved.open_sum)
            if isinstance(queue, BatchQueue):
                queue.units.known_message_end = saved.message_end

    def forget_known(self) -> None:
        """Let the saved ends of queues count for nothing: the log decides alone."""
        self.saved = None
        for queue in self.units():
            queue.known_end = 0
        for batch_queue in self.batch_queues():
            batch_queue.units.known_message_end = 0

    def get(self, topic: str, queue_id: int) -> AnyQueue | None:
        return self._queues.get((topic, queue_id))

    def get_some(self, topic: str, ids: range) -> list[AnyQueue | None]:
        """The queues of a topic with these ids, None for one that is not there."""
        queues = self._queues
        return [queues.get((topic, queue_id)) for queue_id in ids]

    def make(self, topic: str, queue_id: int, *, holds_batches: bool | None = None) -> AnyQueue:
        """The queue, made in memory when it is missing. Its directory is made with its first unit.

        ``holds_batches``: the kind of queue to make; by default its topic decides.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            assert _problem_of(topic) is None and queue_id >= 0, "names are checked before they become paths"
            if holds_batches is None:
                holds_batches = topic in self.batch_topics
            if holds_batches and self._batch_root:
                queue = BatchQueue(self._batch_files, topic, queue_id)
            else:
                queue = ConsumeQueue(self._queue_files, topic, queue_id)
            self._put(queue)
        return queue

    def _put(self, queue: AnyQueue) -> None:
        key = queue.topic, queue.queue_id
        self._queues[key] = queue
        self._units[key] = queue.units

    def set_kind(self, topic: str, *, holds_batches: bool) -> None:
        """Make batch queues, or plain ones, for the topic from now on. Queues that are there stay."""
        (self.batch_topics.add if holds_batches else self.batch_topics.discard)(topic)

    def make_batch_queue(self, topic: str, queue_id: int, log: CommitLog) -> BatchQueue:
        """The batch queue. It takes over the units of a plain one of that place, which a slave has for a moment when
        messages of a new topic come before its configuration. Raises OSError.
        """
        queue = self.make(topic, queue_id, holds_batches=True)
        if isinstance(queue, BatchQueue):
            return queue
        batch = BatchQueue(self._batch_files, topic, queue_id)
        for offset in range(queue.min_offset, queue.max_offset):
            place, size, code = queue.unit(offset)
            segment = log.find(place) if size != BLANK_UNIT_SIZE and code != PLACEHOLDER_CODE else None
            record = record_in(segment, place) if segment is not None else None
            if record is not None:
                batch.append_record(record, code)
        batch.skip_to(queue.max_offset)
        self.delete_queues([(topic, queue_id)])
        self._round = None  # it knows no end of this queue, which has units
        self._put(batch)
        return batch

    def units(self) -> Iterator[ConsumeQueue]:
        """What the files of every queue hold."""
        return iter(list(self._units.values()))

    def batch_queues(self) -> Iterator[BatchQueue]:
        return (queue for queue in list(self._queues.values()) if isinstance(queue, BatchQueue))

    def plain_queues(self) -> Iterator[ConsumeQueue]:
        return (queue for queue in list(self._queues.values()) if isinstance(queue, ConsumeQueue))

    def __iter__(self) -> Iterator[AnyQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def find_begins(self, log_min_offset: int) -> None:
        """Move each queue's minimum to its first unit whose record is in the log, at a start. Raises OSError."""
        guard = self._queue_files.guard
        for queue in self.units():
            try:
                queue.find_begin(log_min_offset)
            except UnreadableError:
                self.guard_with(None)
                queue.find_begin(log_min_offset)  # with what is there: readers get the error
                self.guard_with(guard)

    def guard_with(self, guard: UnitGuard | None) -> None:
        """Compare units before they are used from now on; None ends that."""
        self._queue_files.guard = self._batch_files.guard = guard

    def distrust_sums(self) -> None:
        """Compare every block of units again when it is used next: a disk may change what it returned before.

        :meth:`distrust_some` does it.
        """
        self._distrusting = self.units()

    def distrust_some(self) -> None:
        """Go on with what :meth:`distrust_sums` began."""
        for queue in islice(self._distrusting, _DISTRUSTED_A_CALL):
            queue.sums.distrust_all()

    @property
    def sum_count(self) -> int:
        """The number of blocks of units with a checksum."""
        return sum(queue.sums.count for queue in self._units.values())

    def note_ends(self) -> NotedEnds:
        """Note every queue's end, for :meth:`save_sums`: all units are in files now."""
        with self._lock:
            self._round = None  # its ends are older
            queues = list(self._units.values())
            message_ends: dict[ConsumeQueue, int] = {queue.units: queue.max_offset for queue in self.batch_queues()}
            self._noted = NotedEnds(queues, [queue.max_offset for queue in queues], message_ends)
        return self._noted

    def save_sums(self, queue_offset: int, noted: NotedEnds) -> None:
        """Save the sums, and ends that were noted when all units below ``queue_offset`` were in files.

        Safe from another thread. Raises OSError.
        """
        if self.sums_file is None:
            return
        found: dict[str, list[SavedQueue]] = {}  # by topic: a sort of all at once would hold up other threads
        ends = iter(noted)
        while some := list(islice(ends, _QUEUES_AT_ONCE)):
            with self._lock:
                for queue, end in some:
                    if end:
                        ids = queue.topic, queue.queue_id, end, noted.message_end(queue)
                        found.setdefault(queue.topic, []).append(SavedQueue(*ids, *queue.sums.saved()))
        for of_topic in found.values():
            of_topic.sort()
        by_topic = (queue for _, of_topic in sorted(found.items()) for queue in of_topic)
        self.sums_file.save(queue_offset, noted.unit_count, self._file_sizes, by_topic)

    def remove_sums(self) -> None:
        """Remove the saved sums. Raises OSError."""
        if self.sums_file is not None:
            self.sums_file.remove()

    @property
    def _file_sizes(self) -> FileSizes:
        return FileSizes(self._queue_files.file_size_bytes, self._batch_files.file_size_bytes)

    @property
    def unit_count(self) -> int:
        """The sum of all queues' ends. It changes when a queue is lost."""
        return sum(queue.max_offset for queue in self._units.values())

    def write_tails(self) -> None:
        """Write every tail to its files. Raises OSError; then the rest stays in memory for the next call."""
        with self._lock:
            for queue in self._units.values():
                if queue.tail:
                    queue.write_tail()

    def write_some_tails(self, visible_end: int, share: Callable[[int], int]) -> bool:
        """Write some of the tails of one moment, a round's begin; the first call begins it. Return True at its end.

        ``visible_end``: of the log now. ``share`` says how many of that many tails each call writes. Raises OSError;
        then the rest stays in memory, and no round is on.
        """
        with self._lock:
            round_, self._round = self._round, None
            round_ = round_ or TailRound(list(self._units.values()), visible_end, share)
            is_over = round_.work()
            self._round = round_
        return is_over

    @property
    def is_in_round(self) -> bool:
        """True while tails are written some at a time, until :meth:`note_round`, or what ends it without a note."""
        return self._round is not None

    def note_round(self) -> NotedEnds:
        """End a round and note every queue's end of its begin, as :meth:`note_ends` does that of now."""
        assert self._round is not None
        self._noted, self._round = self._round.noted(), None
        return self._noted

    def write_tail(self, queue: AnyQueue) -> None:
        with self._lock:
            if self._round is not None:
                self._round.note_write(queue.units)
            queue.units.write_tail()

    def sync(self) -> None:
        """Bring everything written before the call to the disk. Safe from another thread. Raises OSError."""
        with self._lock:
            taken = [files.take_unsynced() for files in (self._queue_files, self._batch_files)]
        paths, directories = (sorted(first | second) for first, second in zip(*taken, strict=True))
        try:
            self._files.sync_together(paths, directories)
        except OSError:
            with self._lock:
                for files, unsynced in zip((self._queue_files, self._batch_files), taken, strict=True):
                    files.give_back(*unsynced)
            raise

    def follow_log(self, queue: AnyQueue, log_min_offset: int, file_count_max: int) -> int:
        """Raise the queue's minimum to the log's; return the number of files removed because of it. Raises OSError."""
        with self._lock:
            queue.units.raise_min(log_min_offset)
            return queue.units.drop_old_files(file_count_max)

    def settle_all(self, log: CommitLog, below: int, *, trusted: bool = False) -> None:
        """Find every queue's end, as :func:`settle` does. Units are not compared from then on. Raises OSError."""
        self.guard_with(None)
        for queue in self.units():
            settle(queue, log, below, trusted=trusted, deleted_end=self.deleted_end(queue.topic))

    def delete_queues(self, doomed: Iterable[tuple[str, int]]) -> list[ConsumeQueue]:
        """Remove queues, and move their files aside; return their units. Raises OSError; then some are still there."""
        gone, topics = [], set()
        for key in doomed:
            path = self._units[key].directory
            if self._move_aside([path]):
                topics.add(path.rpartition("/")[0])
            gone.append(self._units.pop(key))
            del self._queues[key]
            self._forget(gone[-1:])
        if topics:
            self.removed.sync(*sorted(topics))
        return gone

    def deleted_end(self, topic: str) -> int:
        """The physical offset below which records of the topic belong to no queue: they were deleted with it."""
        return self.deleted.end(topic) if self.deleted is not None else 0

    def delete_topics(self, topics: Collection[str], log_end: int) -> list[ConsumeQueue]:
        """Remove all queues of topics, and move their files aside; return the queues.

        ``log_end``: the end of the log, which is on the disk: also messages of these topics that wait elsewhere in it
        count as deleted. Raises StoreUnavailableError when the file of deletions can't be written; then the topics are
        still there.
        """
        gone = [queue for key, queue in self._units.items() if key[0] in topics]
        if self.deleted is not None:
            self.deleted.raise_to(dict.fromkeys(topics, log_end))
        for queue in gone:
            del self._queues[queue.topic, queue.queue_id], self._units[queue.topic, queue.queue_id]
        self.removed.keep(gone)
        self._forget(gone)
        # When the disk refuses, the next start tells old units from new ones, and drops them.
        with suppress(OSError):
            self._move_topics_aside(sorted(topics))
        return gone

    def _forget(self, gone: list[ConsumeQueue]) -> None:
        self.sums_outdated = self.sums_outdated or bool(gone)
        self._noted.forget(gone)
        if self._round is not None:
            self._round.forget(gone)

    def _move_topics_aside(self, topics: list[str]) -> None:
        for root in filter(None, (self._root, self._batch_root)):
            if self._move_aside([f"{root}/{topic}" for topic in topics]):
                self.removed.sync(root)

    def _move_aside(self, directories: list[str]) -> bool:
        """Move directories of topics or queues aside; False when none of them exists. Raises OSError."""
        is_moved = False
        with self._lock:
            for files in (self._queue_files, self._batch_files):
                files.forget_below(set(directories))
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
        for queue in self.units():
            if queue.topic in of_topics:
                of_topics[queue.topic].append(queue)
        gone = []
        for topic, queues in of_topics.items():
            old = [queue for queue in queues if 0 <= queue.last_physical_offset < ends[topic]]
            if old and len(old) == len(queues):
                self._move_topics_aside([topic])
            gone += self.delete_queues([(topic, queue.queue_id) for queue in old])
        return gone

    def close(self) -> None:
        self.guard_with(None)
        self._queue_files.close()
        self._batch_files.close()
