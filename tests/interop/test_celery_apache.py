"""Celery on a real Apache RocketMQ 5.3.3, through plugins/pymq-celery: tasks, a retry, an ETA, and a killed process."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.interop.support.apache import ApacheServer

celery = pytest.importorskip("celery", reason="needs scripts/install plugins")
WORKERS = Path(__file__).parents[2] / "plugins/pymq-celery/tests/workers.py"
GET_S = 60.0


def load_workers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pymq_celery_workers", WORKERS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tasks_run(apache: ApacheServer, tmp_path: Path) -> None:
    url = f"pymq://{apache.namesrv}/celery"
    workers = load_workers()
    with workers.worker(url, tmp_path / "log", "-c", "2", "-n", "w1@here"):
        app = celery.Celery("tasks", broker=url, backend="rpc://", set_as_current=False)
        results = [app.signature("tasks.add").delay(number, 1) for number in range(20)]
        assert [result.get(timeout=GET_S) for result in results] == list(range(1, 21))
        assert app.signature("tasks.third_time").delay().get(timeout=GET_S) == 2
        begun_s = time.monotonic()
        assert app.signature("tasks.add").apply_async((1, 2), countdown=2).get(timeout=GET_S) == 3
        assert time.monotonic() - begun_s > 1.9
        assert app.control.ping(timeout=5, limit=1) == [{"w1@here": {"ok": "pong"}}]
        assert app.signature("tasks.kill_once").delay().get(timeout=GET_S) is True
        workers.close_all(app)
