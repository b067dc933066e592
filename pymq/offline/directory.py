"""The parts of a store directory: log, queues, index, checkpoint, tables. Takes sizes from the files themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from pymq.errors import UsageError
from pymq.model import fastjson
from pymq.model.layout import (
    BATCH_UNIT_SIZE_BYTES,
    INDEX_ENTRY_SIZE_BYTES,
    INDEX_HEADER_SIZE_BYTES,
    INDEX_SLOT_SIZE_BYTES,
    UNIT_SIZE_BYTES,
)
from pymq.model.names import topic_problem
from pymq.offline.log_files import LogFiles, open_log
from pymq.offline.queue_files import QueueFilesReader
from pymq.offline.sound_files import SoundFiles
from pymq.store.disk.checkpoint import Checkpoint, CheckpointFile
from pymq.store.disk.fs import Files
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY
from pymq.store.lifecycle.log_extent import vouched_end
from pymq.store.log.cold_file import ColdFiles
from pymq.store.queue.deleted_topics import DELETED_TOPICS_FILE, DeletedTopics
from pymq.store.queue.queue_table import BATCH_QUEUES
from pymq.store.queue.sums_file import SavedQueue, SumsFile
from pymq.store.replica.epoch_table import last_clean_end
from pymq.store.settings import StoreSettings, parse_delay_levels

_ENTRIES_PER_SLOT = 4  # RocketMQ's default ratio, which most operators keep when they change the sizes


@dataclass(slots=True)
class Directory:
    """One store. ``options`` holds the known keys of its broker.conf; what the files themselves show needs none."""

    root: str
    log_directory: str
    files: SoundFiles
    options: dict[str, str]
    log: LogFiles
    checkpoint: Checkpoint
    clean: bool
    ignored: set[str] = field(default_factory=set)  # paths among queues whose names are no legal topics

    @property
    def settings(self) -> StoreSettings:
        """The settings that do not follow from files: delay levels."""
        levels = self.options.get("messageDelayLevel")
        try:
            return StoreSettings(delay_levels_ms=parse_delay_levels(levels)) if levels else StoreSettings()
        except (ValueError, KeyError, IndexError) as error:
            raise UsageError(f"messageDelayLevel {levels!r} is not a list of delays such as '1s 5s 2h'") from error

    def queues(self) -> Iterator[QueueFilesReader]:
        """Yield every queue with a directory, by topic and number. The caller closes each."""
        return self._readers(f"{self.root}/consumequeue", UNIT_SIZE_BYTES)

    def batch_queues(self) -> Iterator[QueueFilesReader]:
        """Yield every batch queue with a directory, as :meth:`queues`."""
        root = f"{self.root}/{BATCH_QUEUES}"
        return self._readers(root, BATCH_UNIT_SIZE_BYTES) if self.files.is_dir(root) else iter(())

    def _readers(self, root: str, unit_size_bytes: int) -> Iterator[QueueFilesReader]:
        size = self._queue_file_size(root)
        for topic in self.files.listdir(root):
            if topic_problem(topic) is not None:
                self.ignored.add(f"{root}/{topic}")
                continue
            names = self.files.listdir(f"{root}/{topic}")
            for queue_id in sorted(int(name) for name in names if name.isdigit() and str(int(name)) == name):
                path = f"{root}/{topic}/{queue_id}"
                yield QueueFilesReader(self.files, path, topic, queue_id, size, unit_size_bytes)

    def _queue_file_size(self, root: str) -> int | None:
        """Return the size that most files of queues have; None without any."""
        sizes = Counter[int]()
        for directory in (
            f"{root}/{topic}/{number}"
            for topic in self.files.listdir(root)
            for number in self.files.listdir(f"{root}/{topic}")
        ):
            for name in self.files.listdir(directory):
                if len(name) == 20 and name.isdigit():
                    file = self.files.open(f"{directory}/{name}")
                    sizes[file.size()] += 1
                    file.close()
        del sizes[0]
        return sizes.most_common(1)[0][0] if sizes else None

    def known_ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of plain queues that PyMQ saved with its checkpoint."""
        return {(queue.topic, queue.queue_id): queue.end for queue in self._saved_queues() if queue.message_end < 0}

    def known_batch_ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of batch queues, in messages, that PyMQ saved with its checkpoint."""
        queues = (queue for queue in self._saved_queues() if queue.message_end >= 0)
        return {(queue.topic, queue.queue_id): queue.message_end for queue in queues}

    def _saved_queues(self) -> list[SavedQueue]:
        saved, durable = SumsFile(self.files, f"{self.root}/digests").load(), self.checkpoint.durable
        if saved is None or durable is None or saved.queue_offset > durable.queue_offset:
            return []
        deleted = self.deleted_ends()
        return [queue for queue in saved.queues if deleted.get(queue.topic, 0) < saved.queue_offset]

    def index_paths(self) -> list[str]:
        """Return the paths of the index files, oldest first."""
        directory = f"{self.root}/index"
        return [f"{directory}/{n}" for n in self.files.listdir(directory) if n.isdigit() and len(n) == 17]

    def index_geometry(self, size: int) -> tuple[int, int] | None:
        """Return (slots, entries) for an index file of this size: RocketMQ's defaults, the options, or 4 entries per
        slot."""
        defaults = StoreSettings()
        candidates = [
            (defaults.index_slot_count, defaults.index_entry_count),
            (_number(self.options, "maxHashSlotNum"), _number(self.options, "maxIndexNum")),
        ]
        slots = (size - INDEX_HEADER_SIZE_BYTES) // (INDEX_SLOT_SIZE_BYTES + _ENTRIES_PER_SLOT * INDEX_ENTRY_SIZE_BYTES)
        candidates.append((slots, slots * _ENTRIES_PER_SLOT))
        for slot_count, entry_count in candidates:
            if (
                INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot_count + INDEX_ENTRY_SIZE_BYTES * entry_count
                == size
            ):
                return (slot_count, entry_count) if slot_count > 0 < entry_count else None
        return None

    def table(self, name: str) -> dict[str, object]:
        """Return a JSON table of ``config``, from its backup when the file is bad; empty without either."""
        path = f"{self.root}/config/{name}"
        for candidate in (path, path + ".bak"):
            try:
                table = fastjson.loads(self.files.read_bytes(candidate))
            except (FileNotFoundError, fastjson.JsonError):
                continue
            if isinstance(table, dict):
                return table
        return {}

    def topics(self) -> set[str] | None:
        """Return the names in topics.json; None without a usable table."""
        table = self.table("topics.json").get("topicConfigTable")
        return {str(name) for name in table} if isinstance(table, dict) and table else None

    def deleted_ends(self) -> dict[str, int]:
        """Return, by topic that PyMQ deleted, the physical offset below which its records count as deleted."""
        ends = DeletedTopics(self.files, f"{self.root}/config/{DELETED_TOPICS_FILE}")
        ends.load()
        return ends.ends

    def close(self) -> None:
        self.log.close()


def open_directory(
    files: Files, root: str, log_directory: str | None = None, options: dict[str, str] | None = None
) -> Directory:
    """Open the log's files and read the checkpoint. What is odd in it counts as missing (:class:`SoundFiles`).

    Raises NotFoundError, OSError.
    """
    options = options or {}
    log_directory = log_directory or options.get("storePathCommitLog") or f"{root}/commitlog"
    files = SoundFiles(files.files if isinstance(files, SoundFiles) else files, root)
    log = open_log(files, log_directory, ColdFiles(files, f"{root}/{COLD_DIRECTORY}"))
    checkpoint = CheckpointFile(files, f"{root}/checkpoint").load()
    clean = not files.exists(f"{root}/abort")
    log.vouched_end = vouched_end(checkpoint, root, lambda: last_clean_end(files, root), clean=clean).end
    return Directory(
        root=root,
        log_directory=log_directory,
        files=files,
        options=options,
        log=log,
        checkpoint=checkpoint,
        clean=clean,
    )


def _number(options: dict[str, str], key: str) -> int:
    text = options.get(key, "0").strip()
    if not text.isdigit():
        raise UsageError(f"{key}={text} is not a number: correct it in the configuration file")
    return int(text)
