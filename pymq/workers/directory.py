"""The data directory of a machine: one machine at a time uses it, and a new worker begins with what worker 0 knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from pymq.config.security import AUTH_FILE_NAME
from pymq.errors import StoreError, UsageError
from pymq.model.names import is_system_topic
from pymq.model.tables import PERM_INHERIT
from pymq.store.disk.fs import Files, Lock, make_directory
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.workers_file import Layout, Worker, read_layout, retired, write_layout

LOCK_FILE = "workers.lock"
FREE_WITHIN_S = 30.0  # the workers of a killed machine end within that time
LOOK_S = 0.05
TOPICS_FILE, TOPICS_MEMBER = "topics.json", "topicConfigTable"
# What operators set for all brokers of a cluster: a new worker begins with it.
COPIED_TABLES = ("subscriptionGroup.json", AUTH_FILE_NAME, "runtimeSettings.json")


def lock_machine(files: Files, root: str) -> Lock:
    """Keep other machines off the directory until this process ends. Raises UsageError, OSError."""
    make_directory(files, root)
    try:
        return files.lock(f"{root}/{LOCK_FILE}")
    except StoreError:
        raise UsageError(
            f"{root} is in use by another process that runs its workers: stop that one, or choose another --store"
        ) from None


async def wait_until_free(files: Files, directories: Iterable[str], show: Callable[[str], None]) -> None:
    """Return once no broker uses the directories: after a kill of their machine, workers need a moment to end.

    ``show`` gets a line when that takes time. Raises StoreError for one that stays in use.
    """
    for directory in directories:
        for number in range(int(FREE_WITHIN_S / LOOK_S)):
            if _is_free(files, directory):
                break
            if number == 0:
                show(f"{directory} is in use: waiting up to {FREE_WITHIN_S:g} s for its broker to end")
            await asyncio.sleep(LOOK_S)
        else:
            raise StoreError(f"{directory} is in use by another broker: stop it first, or choose another --store")


def _is_free(files: Files, directory: str) -> bool:
    path = f"{directory}/lock"
    if not files.exists(path):
        return True
    try:
        files.lock(path).release()
    except StoreError:
        return False
    return True


def prepare_new_workers(files: Files, root: str, layout: Layout) -> list[Worker]:
    """Give each worker without a directory the topics, groups, users and kept settings of worker 0; return them.

    Else a topic would stay on the workers that have it, because its producers find it there.
    """
    first, *others = layout.active
    source = first.directory(root)
    new = [worker for worker in others if not files.exists(f"{worker.directory(root)}/config")]
    if not files.exists(f"{source}/config/{TOPICS_FILE}"):
        return []
    for worker in new:
        # The topics come last: with them the directory is complete. A half copied one is made again.
        target, building = f"{worker.directory(root)}/config", f"{worker.directory(root)}/config.new"
        if files.exists(building):
            files.remove_tree(building)
        make_directory(files, building)
        for name in COPIED_TABLES:
            table = JsonTable(files, f"{source}/config/{name}").load()
            if table:
                JsonTable(files, f"{building}/{name}").save(table)
        topics = JsonTable(files, f"{source}/config/{TOPICS_FILE}", TOPICS_MEMBER).load()
        topics[TOPICS_MEMBER] = {name: row for name, row in topics[TOPICS_MEMBER].items() if _is_shared(name, row)}
        JsonTable(files, f"{building}/{TOPICS_FILE}").save(topics)
        files.replace(building, target)
        files.sync_dir(worker.directory(root))
    return new


def retire(files: Files, root: str, number: int) -> None:
    """Write down that a worker is retired. Raises StoreError, OSError."""
    layout = read_layout(files, root)
    if layout is not None:
        write_layout(files, root, retired(layout, number))


def _is_shared(topic: str, row: Any) -> bool:
    """Return whether a topic is one of users, not one that each broker makes for itself."""
    permission = row.get("perm", 0) if isinstance(row, dict) else 0
    return not is_system_topic(topic) and not (isinstance(permission, int) and permission & PERM_INHERIT)
