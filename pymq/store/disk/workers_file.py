"""``workers.json``: which workers share a data directory, and which folder each of them has.

The file is old or new after any crash. A worker's name and folder never change, because clients, slaves and message
ids know the name. A worker that the machine gave up stays in the file as retired, with its folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from pymq.errors import StoreError, UsageError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.store.disk.fs import Files, make_directory, put_file

WORKERS_FILE = "workers.json"
VERSION = 1
WORKER_COUNT_MAX = 64  # that of the settings, which Spark's tasks don't have
ROOT_FOLDER = "."  # of worker 0 in a directory that was a broker's alone
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}\Z")
_STORE_MARKS = ("commitlog", "config", "consumequeue", "lock")


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its number, the name of its broker, and its folder in the data directory."""

    number: int
    name: str
    folder: str
    is_retired: bool = False

    def directory(self, root: str) -> str:
        """Return the worker's data directory."""
        return root if self.folder == ROOT_FOLDER else f"{root}/{self.folder}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The workers of a data directory, by number. ``machine``: the name that stands for all of them."""

    machine: str
    workers: tuple[Worker, ...]

    @property
    def active(self) -> tuple[Worker, ...]:
        """The workers that run: those that are not retired."""
        return tuple(worker for worker in self.workers if not worker.is_retired)


class _Row(msgspec.Struct):
    number: int
    name: str
    folder: str
    retired: bool = False


class WorkersTable(msgspec.Struct):
    version: int
    machine: str
    workers: list[_Row]


def workers_path(root: str) -> str:
    """Return the path of the file, whether it exists or not."""
    return f"{root}/{WORKERS_FILE}"


def read_layout(files: Files, root: str) -> Layout | None:
    """Return the workers of a directory, None when it has no such file. Raises StoreError, OSError."""
    path = workers_path(root)
    if not files.exists(path):
        return None
    try:
        found = decode_json(files.read_bytes(path), WorkersTable)
    except JsonError as error:
        raise _damaged(path, str(error)) from error
    if found.version != VERSION:
        raise StoreError(
            f"{path} has version {found.version}, and this PyMQ knows {VERSION}: use the PyMQ that wrote it"
        )
    workers = tuple(Worker(row.number, row.name, row.folder, row.retired) for row in found.workers)
    problem = _problem(found.machine, workers)
    if problem:
        raise _damaged(path, problem)
    return Layout(found.machine, workers)


def _problem(machine: str, workers: Sequence[Worker]) -> str:
    """Return what is wrong with the content of a file, empty when nothing is."""
    if not 1 <= len(workers) <= WORKER_COUNT_MAX:
        return f"{len(workers)} workers, where 1 to {WORKER_COUNT_MAX} may be"
    for name in (machine, *(worker.name for worker in workers)):
        if not _NAME.match(name):
            return f"{name[:60]!r} is no name of a broker"
    if len({worker.name for worker in workers}) < len(workers):
        return "two workers have one name"
    for number, worker in enumerate(workers):
        if worker.number != number:
            return f"worker {worker.number} stands where worker {number} should"
        if worker.folder != _folder(number) and not (number == 0 and worker.folder == ROOT_FOLDER):
            return f"worker {number} has the folder {worker.folder[:60]!r}, not {_folder(number)}"
    return "worker 0 is retired, which can't be" if workers[0].is_retired else ""


def _damaged(path: str, problem: str) -> StoreError:
    return StoreError(
        f"{path} can't be used: {problem}; put back a copy of it, whose workers are the folders beside it"
    )


def write_layout(files: Files, root: str, layout: Layout) -> None:
    """Put the file in the place of the present one; it is on the disk on return. Raises OSError."""
    make_directory(files, root)
    rows = [_Row(worker.number, worker.name, worker.folder, worker.is_retired) for worker in layout.workers]
    raw = msgspec.json.format(msgspec.json.encode(WorkersTable(VERSION, layout.machine, rows)), indent=1)
    put_file(files, workers_path(root), raw + b"\n")
    files.sync_dir(root)


def planned_layout(
    before: Layout | None, machine: str, count: int, *, is_store: bool = False, keeps_name: bool = False
) -> Layout:
    """Return the layout of a directory with ``count`` workers. Those above it stay: they retire when they are empty.

    ``before``: the present layout. Without one, ``is_store`` says that the directory is that of a broker alone, which
    becomes worker 0; ``keeps_name``: so is the name of worker 0 in a new one. Raises UsageError for another machine.
    """
    if before is None:
        name = machine if is_store or keeps_name else f"{machine}-0"
        before = Layout(machine, (Worker(0, name, ROOT_FOLDER if is_store else _folder(0)),))
    if before.machine != machine:
        raise UsageError(
            f"the data directory is that of the machine {before.machine}, not of {machine}: give --name "
            f"{before.machine}, or another --store"
        )
    kept = tuple(replace(worker, is_retired=worker.is_retired and worker.number >= count) for worker in before.workers)
    more = range(len(kept), count)
    return Layout(machine, kept + tuple(Worker(number, f"{machine}-{number}", _folder(number)) for number in more))


def retired(layout: Layout, number: int) -> Layout:
    """Return the layout once the worker has nothing left to give."""
    workers = (replace(one, is_retired=one.is_retired or one.number == number) for one in layout.workers)
    return Layout(layout.machine, tuple(workers))


def is_store(files: Files, root: str) -> bool:
    """Return whether a directory has files of a broker alone."""
    return any(files.exists(f"{root}/{name}") for name in _STORE_MARKS)


def refuse_workers(files: Files, root: str) -> None:
    """Refuse to open a directory of several workers as that of one broker. Raises StoreError."""
    layout = read_layout(files, root)
    if layout is not None:
        count = len(layout.active)
        raise StoreError(
            f"{workers_path(root)}: this directory belongs to {count} workers of {layout.machine}, and a broker alone "
            f"would serve a part of it: give --workers {count}"
        )


def _folder(number: int) -> str:
    return f"worker-{number}"
