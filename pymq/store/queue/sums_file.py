"""The file ``digests/queues``: every queue's limits, and the checksums of its blocks of units (docs/storage.md).

It is written whole, beside the old one, and renamed. It may be older than the queues or missing: what it does not know
is compared with the log. What it says wrongly costs time only, because the log decides.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from xxhash import xxh3_64_digest

from pymq.store.disk.fs import Files, make_directory, put_file

SUMS_FILE = "queues"  # in the directory of digests
_MAGIC = b"PYMQUNI\x02"
# Magic, queue offset of the checkpoint, sum of the ends, sizes of queue files and of batch queue files, queues.
_HEADER = struct.Struct(">8sqqiii")
# Topic's bytes, queue id, end, message end of a batch queue, first block, end of sums, open sum, count.
_QUEUE = struct.Struct(">hiqqqqqi")
_DIGEST_SIZE_BYTES = 8


class SavedQueue(NamedTuple):
    """One queue as it was: ``end`` is its number of units, counting those that were deleted.

    ``message_end``: the maximum offset of a batch queue, -1 of any other one, where ``end`` is it. The others are what
    :meth:`UnitSums.load` takes, the sums as native 32-bit numbers.
    """

    topic: str
    queue_id: int
    end: int
    message_end: int
    first_block: int
    sums: bytes
    sums_end: int
    open_sum: int | None


class FileSizes(NamedTuple):
    """The bytes of each file of a queue, and of a batch queue."""

    plain: int
    batch: int


class SavedQueues(NamedTuple):
    """All queues at a moment: with all units of records below ``queue_offset``, ``unit_count`` in all."""

    queue_offset: int
    unit_count: int
    file_sizes_bytes: FileSizes
    queues: list[SavedQueue]


class SumsFile:
    """Reads and writes the file."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.path = f"{directory}/{SUMS_FILE}"

    def load(self) -> SavedQueues | None:
        """What was saved last; None when the file is missing or damaged."""
        try:
            raw = self._files.read_bytes(self.path)
        except OSError:
            return None
        content, digest = raw[:-_DIGEST_SIZE_BYTES], raw[-_DIGEST_SIZE_BYTES:]
        if len(content) < _HEADER.size or xxh3_64_digest(content) != digest or not content.startswith(_MAGIC):
            return None
        _, queue_offset, unit_count, *sizes, count = _HEADER.unpack_from(content)
        at, queues = _HEADER.size, []
        for _ in range(count):
            topic_size, queue_id, end, message_end, first, sums_end, open_sum, sum_count = _QUEUE.unpack_from(
                content, at
            )
            at += _QUEUE.size
            topic = content[at : at + topic_size].decode()
            at += topic_size
            sums = _swapped(content[at : at + 4 * sum_count])
            at += 4 * sum_count
            known = None if open_sum < 0 else open_sum
            queues.append(SavedQueue(topic, queue_id, end, message_end, first, sums, sums_end, known))
        return SavedQueues(queue_offset, unit_count, FileSizes(*sizes), queues)

    def save(self, queue_offset: int, unit_count: int, file_sizes: FileSizes, queues: Iterable[SavedQueue]) -> None:
        """Replace the file. It is on the disk on return. Raises OSError; then the old one is still there."""
        parts, count = [b""], 0
        for queue in queues:
            topic = queue.topic.encode()
            open_sum = -1 if queue.open_sum is None else queue.open_sum
            head = _QUEUE.pack(
                len(topic), queue.queue_id, queue.end, queue.message_end, queue.first_block, queue.sums_end, open_sum,
                len(queue.sums) // 4,
            )  # fmt: skip
            parts += (head, topic, _swapped(queue.sums))
            count += 1
        parts[0] = _HEADER.pack(_MAGIC, queue_offset, unit_count, *file_sizes, count)
        content = b"".join(parts)
        make_directory(self._files, self._directory)
        put_file(self._files, self.path, content + xxh3_64_digest(content))
        self._files.sync_dir(self._directory)

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        if self._files.exists(self.path):
            self._files.remove(self.path)
            self._files.sync_dir(self._directory)


def _swapped(sums: bytes) -> bytes:
    """The numbers from native to big endian, or back."""
    if sys.byteorder == "big":
        return sums
    numbers = array("I", sums)
    numbers.byteswap()
    return numbers.tobytes()
