"""Metrics of a filter server: the filters of groups, and killed workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.filterserver.metrics import FilterServerMetrics, WorkMetrics
from pymq.filterserver.workers import Filter, WorkerFailedError, WorkerPool
from tests.broker.metrics.readings import table
from tests.filterserver.records import records
from tests.filterserver.test_server import Cluster
from tests.filterserver.test_server import run as run_cluster
from tests.filterserver.test_workers import run as run_workers


def test_figures_of_a_groups_filter(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert (await cluster.bring("hostile", "obey")).code == 0
        await cluster.send(b"yes", b"no", b"no", b"bad")
        await cluster.pull(0)
        server = cluster.filter_server
        found = table(WorkMetrics(server))
        assert found["pymq_filter_messages_total"] == {
            ("T", "G", "hostile", "matched"): 1,
            ("T", "G", "hostile", "skipped"): 2,
            ("T", "G", "hostile", "errors"): 1,
        }
        assert found["pymq_filter_seconds_total"][("T", "G", "hostile")] > 0
        assert found["pymq_filter_server_registered"] == {(): 1}
        assert found["pymq_filter_server_classes"] == {(): 1}
        assert found["pymq_filter_server_batches_total"] == {(): 1}
        assert found["pymq_filter_server_running_workers"] == {(): 1}
        assert [key[1:] for key in found["pymq_filter_server_info"]] == [(cluster.broker.address, "broker-a")]
        assert FilterServerMetrics(server).labels() == {"node_id": server.address, "node_type": "filter-server"}

    run_cluster(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "kills"), [(b"hang", 1), (b"die", 0)])
def test_kills_and_other_deaths_are_counted_apart(order: bytes, kills: int) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert (pool.running_count, pool.kill_count) == (0, 0)
        with pytest.raises(WorkerFailedError):
            await pool.filter_records(Filter("hostile", "obey"), "b", records([order]))
        assert (pool.restart_count, pool.kill_count, pool.running_count) == (1, kills, 0)

    run_workers(scenario)
