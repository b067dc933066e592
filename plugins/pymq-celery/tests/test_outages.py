"""A worker is there before its servers, and lives on while they are killed and come back."""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType

import pytest
from celery import Celery

from pymq.testing.standalone import StandaloneProcess
from tests.ports import free_port_block

WAIT_S = 60.0
TASK_COUNT = 60


def standalone(directory: Path, namesrv_port: int, port: int) -> StandaloneProcess:
    return StandaloneProcess(directory, namesrv_port=namesrv_port, port=port)


@pytest.mark.slow
def test_a_worker_waits_for_servers_and_survives_their_kill(workers: ModuleType, tmp_path: Path) -> None:
    namesrv_port, port = free_port_block(0, 0), free_port_block()
    url = f"pymq://127.0.0.1:{namesrv_port}/outages"
    out = tmp_path / "out"
    app = Celery("tasks", broker=url, set_as_current=False)
    worker = workers.Worker(url, tmp_path / "log", "-c", "2", visibility=5)
    try:
        worker.wait_for("Cannot connect to pymq://127.0.0.1")
        first = standalone(tmp_path / "data", namesrv_port, port).start()
        worker.wait_ready()
        for number in range(TASK_COUNT):
            app.send_task("tasks.note", (str(out), number), ignore_result=True)
        first.kill()
        worker.wait_for("it is tried again")
        with standalone(tmp_path / "data", namesrv_port, port):
            for number in range(TASK_COUNT, 2 * TASK_COUNT):
                app.send_task("tasks.note", (str(out), number), ignore_result=True)
            end_s = time.monotonic() + WAIT_S
            while not out.exists() or set(out.read_text().split()) != {str(n) for n in range(2 * TASK_COUNT)}:
                assert time.monotonic() < end_s, worker.log.read_text()
                time.sleep(0.05)
            workers.close_all(app)
            assert worker.stop() == 0
    finally:
        if worker.process.poll() is None:
            worker.kill()
    assert "Traceback" not in worker.log.read_text()
