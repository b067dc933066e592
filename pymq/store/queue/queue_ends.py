"""Queue ends that a start must not go below: what gave up lost messages leaves them in ``config/queueEnds.json``.

The log no longer shows that their offsets were given. The start adds blank units up to these ends, and removes the file
once they are on the disk.
"""

from __future__ import annotations

import msgspec

from pymq.errors import StoreError
from pymq.model.names import topic_problem
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.queue.queue_table import QueueTable

QUEUE_ENDS_FILE = "queueEnds.json"
Ends = dict[str, dict[int, int]]  # topic -> queue id -> the next offset at least


def _path(root: str) -> str:
    return f"{root}/config/{QUEUE_ENDS_FILE}"


def load_queue_ends(files: Files, root: str) -> Ends:
    """Return the ends, none without the file. Raises StoreError for a file that can't be used."""
    table = JsonTable(files, _path(root)).load()
    try:
        return msgspec.convert(table.get("ends", {}), Ends, strict=False)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"{_path(root)}: {error}; run `pymq store accept-loss DIR` again, or remove it: then offsets of lost "
            f"messages may be given to new ones"
        ) from error


def save_queue_ends(files: Files, root: str, ends: Ends) -> None:
    """Let the next start begin with these ends, or with saved ones where those are higher. Raises StoreError."""
    merged = load_queue_ends(files, root)
    for topic, queues in ends.items():
        known = merged.setdefault(topic, {})
        for queue_id, end in queues.items():
            known[queue_id] = max(end, known.get(queue_id, 0))
    JsonTable(files, _path(root)).save({"ends": {topic: dict(queues) for topic, queues in merged.items()}})


def reach_queue_ends(files: Files, root: str, queues: QueueTable) -> bool:
    """Add blank units to queues that end too early; True when there is a file. Raises StoreError."""
    if not any(files.exists(path) for path in (_path(root), _path(root) + ".bak")):
        return False
    for topic, ends in load_queue_ends(files, root).items():
        for queue_id, end in ends.items():
            if topic_problem(topic) is not None or queue_id < 0 or end <= 0:
                continue
            queue = queues.make(topic, queue_id)
            if isinstance(queue, BatchQueue):
                queue.lose_to(end)
                continue
            if queue.max_offset == queue.min_offset == 0:
                queue.start_at(end - 1)  # at least one unit shows where the queue ends
            if queue.max_offset < end:
                queue.skip_to(end)
    return True


def drop_queue_ends(files: Files, root: str) -> None:
    """Remove the file: the units are on the disk. Raises OSError."""
    for path in (_path(root) + ".bak", _path(root)):
        if files.exists(path):
            files.remove(path)
    files.sync_dir(f"{root}/config")
