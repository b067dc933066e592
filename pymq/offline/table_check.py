"""Checks the small files: JSON tables and the checkpoint."""

from __future__ import annotations

from pymq.errors import PymqError
from pymq.model import fastjson
from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.store.disk.checkpoint import CHECKPOINT_SIZE_BYTES
from pymq.store.disk.saved_tables import CONSEQUENCES, SavedTables

TABLES_MEMBER = {
    "topics.json": "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
    "delayOffset.json": "offsetTable",
}


def check_tables(directory: Directory, report: Report) -> None:
    """Check that every table that was saved is there and parses, and that those PyMQ reads have their member."""
    config = f"{directory.root}/config"
    for name in directory.files.listdir(config) if directory.files.is_dir(config) else []:
        if not name.removesuffix(".bak").endswith(".json"):
            continue
        path = f"{config}/{name}"
        report.saw("tables")
        try:
            raw = directory.files.read_bytes(path)
        except FileNotFoundError:
            continue  # too large to be read: reported with what is odd
        problem = _table_problem(raw, TABLES_MEMBER.get(name.removesuffix(".bak")))
        if problem is None:
            continue
        if name.endswith(".bak"):
            report.note(f"the backup {path} {problem}: the next save replaces it")
        else:
            report.add("table", f"{problem}; {_backup(directory, path)}", path, 0)
    missing = SavedTables(directory.files, directory.root).missing()
    if "topics.json" not in missing and not directory.files.exists(f"{config}/topics.json"):
        report.note(f"{config}/topics.json is missing; {_backup(directory, f'{config}/topics.json')}")
    for name in missing:
        path = f"{config}/{name}"
        text = f"is gone, although it was saved; without it {CONSEQUENCES[name]}; {_backup(directory, path)}"
        report.add("table", text, path, 0)


def _table_problem(raw: bytes, member: str | None) -> str | None:
    if not raw.strip():
        return "is empty"
    try:
        table = fastjson.loads(raw)
    except PymqError as error:
        return f"is {error}"
    if not isinstance(table, dict):
        return "is not a JSON object"
    if not table:
        return "holds nothing"
    if member is not None and not isinstance(table.get(member), dict):
        return f"has no object {member}"
    return None


def _backup(directory: Directory, path: str) -> str:
    try:
        raw = directory.files.read_bytes(path + ".bak")
    except FileNotFoundError:
        return "there is no backup of it"
    return "its backup is good" if _table_problem(raw, None) is None else "its backup is bad too"


def check_checkpoint(directory: Directory, report: Report, last_store_ms: int) -> None:
    """Check the checkpoint's size, and that it claims nothing that is missing.

    ``last_store_ms``: the latest record's.
    """
    path = f"{directory.root}/checkpoint"
    if not directory.files.exists(path):
        report.note("there is no checkpoint: the next start reads the whole log")
        return
    try:
        size = len(directory.files.read_bytes(path))
    except FileNotFoundError:
        return  # too large to be read: reported with what is odd
    if size != CHECKPOINT_SIZE_BYTES:
        report.add("checkpoint", f"has {size} bytes instead of {CHECKPOINT_SIZE_BYTES}: it counts as missing", path, 0)
        return
    checkpoint = directory.checkpoint
    times = (checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.index_ms)
    for at, time_ms in enumerate(times):
        if time_ms < 0 or (last_store_ms and time_ms > last_store_ms):
            text = f"store time {time_ms} is later than the newest record's, {last_store_ms}"
            report.add("checkpoint", text, path, at * 8)
    durable = checkpoint.durable
    if durable is not None and durable.log_offset > report.log_end:
        text = f"says that the log is durable up to {durable.log_offset}, but good records end at {report.log_end}"
        report.add("checkpoint", text, path, 88, report.log_end)
