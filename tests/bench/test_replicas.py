"""The cases of replication on a real pair, with few messages."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import QUICK
from bench.pairs import PyMQPair, log_end
from bench.replicas import REPLICA_CASES, REPLICA_SYNC_CASES, SYNC_SETTINGS, PairBench

FEW = replace(QUICK, warm_messages=256, send_messages=1024, backlog_messages=2048, latency_messages=400)


@pytest.mark.slow
def test_a_slave_is_attached_stopped_and_catches_up(tmp_path: Path) -> None:
    pair = PyMQPair(tmp_path, [sys.executable, "-m", "pymq"])
    pair.start()
    try:
        bench = PairBench(pair, FEW)
        figures = {figure.name: figure.value for case in REPLICA_CASES.values() for figure in case(bench)}
        assert log_end(pair.slave) == log_end(pair.broker)
    finally:
        pair.stop()
    assert sorted(figures) == [
        "replica-async master CPU", "replica-async master CPU without", "replica-async rate",
        "replica-async rate, of that without", "replica-async slave CPU", "replica-catch-up rate",
        "replica-lag p50", "replica-lag p99",
    ]  # fmt: skip
    assert figures["replica-async rate"] > 0 and figures["replica-catch-up rate"] > 0
    assert 0 < figures["replica-lag p50"] <= figures["replica-lag p99"]


@pytest.mark.slow
def test_sends_wait_for_the_slave(tmp_path: Path) -> None:
    pair = PyMQPair(tmp_path, [sys.executable, "-m", "pymq"], SYNC_SETTINGS)
    pair.start()
    try:
        bench = PairBench(pair, FEW)
        figures = {figure.name: figure.value for case in REPLICA_SYNC_CASES.values() for figure in case(bench)}
    finally:
        pair.stop()
    assert figures["replica-sync rate"] > 0
