"""The list of the workers that share a data directory: names and folders that never change, and faulty files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.config import values
from pymq.errors import StoreError, UsageError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.workers_file import (
    WORKER_COUNT_MAX,
    Layout,
    Worker,
    is_store,
    planned_layout,
    read_layout,
    refuse_workers,
    retired,
    workers_path,
    write_layout,
)

ROOT = "/data"


def names(layout: Layout) -> list[tuple[str, str, bool]]:
    return [(worker.name, worker.folder, worker.is_retired) for worker in layout.workers]


def test_a_new_directory_has_a_numbered_folder_and_name_for_each_worker() -> None:
    layout = planned_layout(None, "broker-a", 2)
    assert names(layout) == [("broker-a-0", "worker-0", False), ("broker-a-1", "worker-1", False)]
    assert [worker.directory(ROOT) for worker in layout.workers] == ["/data/worker-0", "/data/worker-1"]


def test_a_broker_alone_becomes_worker_0_where_it_is() -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/commitlog")
    assert is_store(files, ROOT) and not is_store(files, "/other")
    layout = planned_layout(None, "broker-a", 2, is_store=True)
    assert names(layout) == [("broker-a", ".", False), ("broker-a-1", "worker-1", False)]
    assert layout.workers[0].directory(ROOT) == ROOT


def test_a_slave_of_a_grown_machine_names_its_workers_as_that_does() -> None:
    layout = planned_layout(None, "broker-a", 2, keeps_name=True)
    assert names(layout) == [("broker-a", "worker-0", False), ("broker-a-1", "worker-1", False)]


def test_workers_that_were_given_up_keep_their_folders_and_come_back() -> None:
    four = planned_layout(None, "m", 4)
    assert planned_layout(four, "m", 2) == four, "they go on until they are empty"
    three = retired(four, 2)
    assert [worker.number for worker in three.active] == [0, 1, 3] and len(three.workers) == 4
    assert planned_layout(three, "m", 2) == three
    assert planned_layout(three, "m", 4) == four
    assert [worker.number for worker in planned_layout(retired(three, 3), "m", 5).active] == [0, 1, 2, 3, 4]


def test_another_name_of_the_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="that of the machine m, not of other: give --name m"):
        planned_layout(planned_layout(None, "m", 2), "other", 2)


@pytest.mark.parametrize("count", [1, 2, WORKER_COUNT_MAX])
def test_a_layout_is_read_as_it_was_written(count: int) -> None:
    files = MemoryFiles()
    assert read_layout(files, ROOT) is None
    layout = retired(planned_layout(None, "m", count), max(count - 1, 1))
    write_layout(files, ROOT, layout)
    assert read_layout(files, ROOT) == layout


def test_a_written_layout_survives_a_power_loss() -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    files.sync_dir("/")
    layout = planned_layout(None, "m", 2)
    write_layout(files, ROOT, layout)

    def lost(_: str, __: int = 0) -> bool:
        return False

    assert read_layout(files.after_power_loss(lost, lost), ROOT) == layout


def test_a_broker_alone_is_refused_with_the_way_out() -> None:
    files = MemoryFiles()
    refuse_workers(files, ROOT)
    write_layout(files, ROOT, retired(planned_layout(None, "m", 4), 3))
    with pytest.raises(StoreError, match=r"belongs to 3 workers of m, .*: give --workers 3"):
        refuse_workers(files, ROOT)


def row(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"number": number, "name": f"m-{number}", "folder": f"worker-{number}"} | more


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a WorkersTable"),
        (b"\xff", "not a WorkersTable"),
        (b"[" * 100_000, "not a WorkersTable"),
        ({"version": 2, "machine": "m", "workers": [row()]}, "version 2, and this PyMQ knows 1"),
        ({"version": 1, "machine": "m", "workers": []}, "0 workers, where 1 to 64 may be"),
        ({"version": 1, "machine": "m", "workers": [row(i) for i in range(65)]}, "65 workers, where 1 to 64 may be"),
        ({"version": 1, "machine": "m m", "workers": [row()]}, "'m m' is no name of a broker"),
        ({"version": 1, "machine": "m", "workers": [row(name="")]}, "'' is no name of a broker"),
        ({"version": 1, "machine": "m", "workers": [row(), row(1, name="m-0")]}, "two workers have one name"),
        ({"version": 1, "machine": "m", "workers": [row(1)]}, "worker 1 stands where worker 0 should"),
        (
            {"version": 1, "machine": "m", "workers": [row(folder="../../etc")]},
            "has the folder '../../etc', not worker-0",
        ),
        ({"version": 1, "machine": "m", "workers": [row(), row(1, folder=".")]}, "has the folder '.', not worker-1"),
        ({"version": 1, "machine": "m", "workers": [row(retired=True)]}, "worker 0 is retired, which can't be"),
    ],
)
def test_a_faulty_file_is_refused_with_its_fault(content: Any, problem: str) -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    files.open(workers_path(ROOT), create=True).pwrite(0, raw)
    with pytest.raises(StoreError, match=problem):
        read_layout(files, ROOT)


def test_a_retired_worker_is_not_active() -> None:
    assert Layout("m", (Worker(0, "m-0", "worker-0"), Worker(1, "m-1", "worker-1", True))).active == (
        Worker(0, "m-0", "worker-0"),
    )


def test_the_file_takes_as_many_workers_as_the_settings() -> None:
    assert WORKER_COUNT_MAX == values.WORKER_COUNT_MAX
