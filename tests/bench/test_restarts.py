"""What the store's cases return: a killed broker's start, a rebuild, appending without a broker."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import QUICK, store_append, store_follow
from bench.control import BenchError
from bench.restarts import REBUILD_CASE, UNCLEAN_CASE, measure_restarts
from bench.standalone import PyMQBroker


@pytest.mark.slow
def test_both_cases_on_a_small_log(tmp_path: Path) -> None:
    server = PyMQBroker(tmp_path, [sys.executable, "-m", "pymq"])
    figures = {figure.name: figure.value for figure in measure_restarts(server, 2048, [UNCLEAN_CASE, REBUILD_CASE])}
    assert sorted(figures) == [
        "rebuild memory growth", "rebuild rate", "unclean-start first send", "unclean-start log",
    ]  # fmt: skip
    assert figures["unclean-start log"] > 0.002  # GiB: at least the 2048 messages of 1 KiB
    assert figures["rebuild rate"] > 0


@pytest.mark.slow
def test_a_broker_that_fails_to_restart_is_reported_with_its_last_output(tmp_path: Path) -> None:
    class Spoilt(PyMQBroker):
        def restart(self) -> float:
            table = self.store_directory / "config" / "topics.json"
            table.write_text("no table")
            table.with_name("topics.json.bak").unlink(missing_ok=True)
            return super().restart()

    with pytest.raises(BenchError, match=r"(?s)ended during its start: .*topics\.json"):
        measure_restarts(Spoilt(tmp_path, [sys.executable, "-m", "pymq"]), 64, [UNCLEAN_CASE])


def test_appending_is_measured_with_and_without_keys(tmp_path: Path) -> None:
    figures = store_append(replace(QUICK, send_messages=640), 1, tmp_path)
    assert [figure.name for figure in figures] == ["store-append with unique keys", "store-append without keys"]
    assert all(figure.value > 0 for figure in figures)
    assert not list(tmp_path.iterdir())


def test_following_is_measured_in_small_pieces_and_large_ones(tmp_path: Path) -> None:
    figures = store_follow(replace(QUICK, send_messages=640), 1, tmp_path)
    assert [(figure.unit, figure.value > 0) for figure in figures] == [("µs CPU/msg", True), ("MB/s", True)]
    assert not list(tmp_path.iterdir())
