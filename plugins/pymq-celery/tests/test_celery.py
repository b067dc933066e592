"""Celery's first steps on a broker: real workers in processes, and Celery's own commands, unchanged but for the URL."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError

from pymq.testing.broker import TestBroker

GET_S = 30.0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with TestBroker() as broker:
        yield f"pymq://{broker.namesrv}/first-steps"


@pytest.fixture(scope="module")
def worker(workers: ModuleType, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with workers.worker(url, tmp_path_factory.mktemp("worker") / "log", "-c", "2", "-n", "w1@here") as running:
        yield running


@pytest.fixture(scope="module")
def tasks(workers: ModuleType, url: str) -> Iterator[Any]:
    """The tasks of the program, sent from this process."""
    with sending(workers, url) as names:
        yield names
        workers.close_all(names.app)


@contextmanager
def sending(workers: ModuleType, url: str) -> Iterator[Any]:
    app = Celery("tasks", broker=url, backend="rpc://", set_as_current=False)
    try:
        yield Names(app)
    finally:
        workers.close(app)


class Names:
    """Tasks by the names that the worker knows them by."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __getattr__(self, name: str) -> Any:
        return self.app.signature(f"tasks.{name}")


def test_a_task_returns_its_result(tasks: Any, worker: Any) -> None:
    assert tasks.add.delay(2, 3).get(timeout=GET_S) == 5


def test_results_of_many_tasks_come_back(tasks: Any, worker: Any) -> None:
    results = [tasks.add.delay(number, number) for number in range(100)]
    assert [result.get(timeout=GET_S) for result in results] == [2 * number for number in range(100)]


def test_the_state_of_a_result_is_read_without_waiting(workers: ModuleType, worker: Any, url: str) -> None:
    with sending(workers, url) as tasks:  # an application of its own: no other result is waited for in it
        result = tasks.add.delay(1, 1)
        end_s = time.monotonic() + GET_S
        while not result.ready():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        assert result.get(timeout=GET_S) == 2


def test_a_task_is_retried_with_a_countdown(tasks: Any, worker: Any) -> None:
    assert tasks.third_time.delay().get(timeout=GET_S) == 2


def test_a_countdown_waits_at_the_broker(tasks: Any, worker: Any) -> None:
    begun_s = time.monotonic()
    result = tasks.add.apply_async((1, 2), countdown=0.8)
    assert tasks.app.control.inspect(timeout=0.3).scheduled() == {"w1@here": []}
    assert result.get(timeout=GET_S) == 3
    assert time.monotonic() - begun_s > 0.75


def test_chains_and_groups_run(tasks: Any, worker: Any) -> None:
    assert chain(tasks.add.clone((1, 2)), tasks.add.clone((3,))).apply_async().get(timeout=GET_S) == 6
    assert group(tasks.add.clone((n, n)) for n in range(5)).apply_async().get(timeout=GET_S) == [0, 2, 4, 6, 8]


@pytest.mark.slow
def test_a_task_whose_pool_process_is_killed_comes_again(tasks: Any, worker: Any) -> None:
    assert tasks.kill_once.delay().get(timeout=GET_S) is True


def test_a_pool_process_sends_tasks(tasks: Any, worker: Any) -> None:
    sent = tasks.spread.delay(5).get(timeout=GET_S)
    for task_id in sent:
        worker.wait_for(f"Task tasks.add[{task_id}] succeeded")


def test_a_task_is_revoked_before_it_is_due(tasks: Any, worker: Any) -> None:
    result = tasks.add.apply_async((1, 2), countdown=1)
    (answer,) = tasks.app.control.revoke(result.id, reply=True, timeout=GET_S, limit=1)
    assert "flagged as revoked" in answer["w1@here"]["ok"]
    with pytest.raises(TaskRevokedError):
        result.get(timeout=GET_S)


def test_control_revoke_reaches_the_worker(workers: ModuleType, worker: Any, url: str) -> None:
    assert "tasks {'4711'} flagged as revoked" in workers.celery(url, "control", "revoke", "4711")
    worker.wait_for("Tasks flagged as revoked: 4711")


def test_inspect_ping_answers(workers: ModuleType, worker: Any, url: str) -> None:
    assert "w1@here: OK\n        pong" in workers.celery(url, "inspect", "ping")


def test_inspect_active_shows_what_runs(workers: ModuleType, tasks: Any, worker: Any, url: str) -> None:
    result = tasks.nap.delay(3)
    worker.wait_for(result.id)
    assert result.id in workers.celery(url, "inspect", "active")


def test_inspect_stats_shows_the_url_without_a_secret(workers: ModuleType, worker: Any, url: str) -> None:
    shown = workers.celery(url, "inspect", "stats")
    assert '"transport": "pymq"' in shown
    assert '"prefetch_count": 8' in shown


@pytest.mark.slow
def test_events_are_dumped(workers: ModuleType, tasks: Any, worker: Any, url: str) -> None:
    with subprocess.Popen(
        [*workers.CELERY, "events", "--dump"],
        cwd=workers.HERE,
        env=workers.environment(url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as dump:
        try:
            assert dump.stdout is not None
            lines = iter(dump.stdout.readline, "")
            assert any("w1@here" in line and "heartbeat" in line for line in lines)  # now it reads
            result = tasks.add.delay(40, 2)
            assert any("task succeeded" in line and result.id in line for line in lines)
        finally:
            dump.kill()


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
def test_each_pool_runs_tasks_and_stops(workers: ModuleType, pool: str, tasks: Any, url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with workers.worker(url, log, "-P", pool, "-c", "2", "-Q", pool, "--max-tasks-per-child", "5") as running:
        results = [tasks.add.clone((number, 1)).apply_async(queue=pool) for number in range(30)]
        assert [result.get(timeout=GET_S) for result in results] == [number + 1 for number in range(30)]
        assert running.stop() == 0
    assert "Traceback" not in log.read_text()
