"""Completes a rebuilt log's directory: lost tables, derived files, checkpoint and epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymq.errors import StoreError
from pymq.model import fastjson
from pymq.model.epochs import why_jumping
from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.store.disk.checkpoint import LIGHT_COUNT_UNKNOWN, CheckpointFile, Durable
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable
from pymq.store.integrity.digest_file import DigestFiles
from pymq.store.light.light_queues import LIGHT_DIRECTORY
from pymq.store.queue.deleted_topics import DELETED_TOPICS_FILE, DeletedTopics
from pymq.store.queue.queue_table import BATCH_QUEUES
from pymq.store.replica.epoch_table import ENTRIES, EPOCH_HISTORY_FILE, epoch_table

QUEUES, INDEX, DIGESTS = "consumequeue", "index", "digests"


def take_tables(files: Files, root: str, tables: dict[str, bytes]) -> list[str]:
    """Write the tables that are missing here, or damaged together with their backups; return their names.

    Readable tables stay, because they may be newer. Raises StoreError, OSError.
    """
    taken = []
    for name, raw in sorted(tables.items()):
        if name == EPOCH_HISTORY_FILE:
            continue
        table = JsonTable(files, f"{root}/config/{name}")
        if not _load(table):
            table.save(_parsed(name, raw))
            taken.append(name)
    return taken


def take_deletions(files: Files, root: str, ends: dict[str, int]) -> None:
    """Record the deletions, so that a topic that was created again does not begin with old messages.

    Records of a topic below its offset belong to no queue. Raises StoreError, OSError.
    """
    deleted = DeletedTopics(files, f"{root}/config/{DELETED_TOPICS_FILE}")
    deleted.load()
    deleted.raise_to(ends)


def _load(table: JsonTable) -> dict[str, Any]:
    try:
        return table.load()
    except StoreError:  # it and its backup are damaged; their bytes are kept beside the new one
        return {}


def _parsed(name: str, raw: bytes) -> dict[str, Any]:
    try:
        value = fastjson.loads(raw)
    except fastjson.JsonError as error:
        raise StoreError(f"the source's {name} is {error}") from error
    if not isinstance(value, dict):
        raise StoreError(f"the source's {name} is not a JSON object")
    return value


def drop_all(files: Files, root: str) -> None:
    """Remove everything that derives from a log that another one replaces. Raises OSError."""
    for name in (QUEUES, BATCH_QUEUES, LIGHT_DIRECTORY, INDEX, DIGESTS):
        if files.is_dir(f"{root}/{name}"):
            files.remove_tree(f"{root}/{name}")
    if files.exists(f"{root}/checkpoint"):
        files.remove(f"{root}/checkpoint")
    files.sync_dir(root)


def drop_what_does_not_fit(files: Files, directory: Directory, found: Report, *, is_whole: bool) -> list[str]:
    """Remove queues, index and digests with damage, and return their names; the next start rebuilds them.

    While the log itself is damaged they stay, because they show what was there. ``is_whole`` is true when another
    broker has every byte of the log, too. Raises OSError.
    """
    if "log" in found.counts or "record" in found.counts:
        return []
    dropped = []
    for kind, name in (("queue", QUEUES), ("index", INDEX), ("digest", DIGESTS)):
        if kind in found.counts and (kind != "digest" or is_whole):
            _remove(files, directory, name)
            if name == QUEUES:
                _remove(files, directory, BATCH_QUEUES)
            dropped.append(name)
    return dropped


def _remove(files: Files, directory: Directory, name: str) -> None:
    path = f"{directory.root}/{name}"
    if name == DIGESTS:
        table = DigestFiles(files, path)
        for start in table.segment_starts():
            table.remove(start)
    elif files.is_dir(path):
        files.remove_tree(path)
    files.sync_dir(directory.root)


def renew_checkpoint(files: Files, directory: Directory, found: Report, dropped: list[str]) -> None:
    """Mark the whole log as durable, and queues and index as far as they still exist. Raises OSError.

    No tool compares light queues with the log: the next start makes them again.
    """
    before = directory.checkpoint
    start = directory.log.start
    durable = before.durable
    if durable is None:
        durable = Durable(queue_offset=start, index_offset=start)
    if QUEUES in dropped:
        durable = replace(durable, queue_offset=start, unit_count=0)
    if INDEX in dropped:
        durable = replace(durable, index_offset=start, index_name=0, index_count=0)
    if durable.light_count or files.is_dir(f"{directory.root}/{LIGHT_DIRECTORY}"):
        durable = replace(durable, light_count=LIGHT_COUNT_UNKNOWN)
    durable = replace(durable, log_offset=max(durable.log_offset, found.log_end))
    CheckpointFile(files, f"{directory.root}/checkpoint").save(replace(before, durable=durable))


def take_epoch_history(
    files: Files, root: str, tables: dict[str, bytes], beyond_bytes: int, differing: int, notes: list[str]
) -> None:
    """Take the source's epochs along with its log, unless bytes beyond the source's end are from elsewhere.

    Raises StoreError, OSError.
    """
    path = f"{root}/config/{EPOCH_HISTORY_FILE}"
    if beyond_bytes:
        if differing and files.exists(path):
            for name in (path, path + ".bak"):
                if files.exists(name):
                    files.remove(name)
            files.sync_dir(f"{root}/config")
            notes.append(
                f"{path} was removed: bytes of this log were replaced, so it may be wrong; logs are compared instead"
            )
        return
    raw = tables.get(EPOCH_HISTORY_FILE)
    if raw is None:
        return
    table, expected = epoch_table(files, root), _parsed(EPOCH_HISTORY_FILE, raw)
    if why := _why_epochs_jump(expected.get(ENTRIES)):
        raise StoreError(f"the source's {EPOCH_HISTORY_FILE} can't be true: {why}; recover from another broker")
    if _load(table).get(ENTRIES) != expected.get(ENTRIES):
        table.save(expected)


def _why_epochs_jump(entries: Any) -> str:
    """Return why the source's entries are no epoch history; empty when they may be one."""
    try:
        return why_jumping(int(entry["epoch"]) for entry in entries or ())
    except (KeyError, TypeError, ValueError) as error:
        return f"an entry has no epoch ({error!r})"
