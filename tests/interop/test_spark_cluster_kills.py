"""On a standalone Spark cluster a write, a pipeline, an import and an export of files outlive kills.

The Python workers, an executor and the driver are killed while all four run. ``scripts/kill-streams --cluster`` kills
more often.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")

from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.pymq_server import REPOSITORY
from tests.spark.kills import files, imports, stores, together
from tests.spark.kills.attack import out_of_order
from tests.spark.kills.cluster import copied_rows, stored_rows
from tests.spark.kills.victims import await_end, below, descendants, kill, kill_executor, worker_pids
from tests.spark.standalone import StandaloneSpark

COUNT = 12_000
IMPORTED_FILES = 1
TIMEOUT_S = 300.0
RUNS_MAX = 5


class Works:
    """The process of the four works, and what they have done so far."""

    def __init__(self, home: Path, namesrv: str, topic: str, spark: StandaloneSpark) -> None:
        self.home = home
        self._arguments = [namesrv, topic, str(home), spark.url]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, or start it again."""
        command = [sys.executable, "-m", "tests.spark.kills.together", *self._arguments]
        with (self.home / "works.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            self._process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)

    def steps(self) -> dict[str, int]:
        """Return how many steps each work has done."""
        return {name: together.steps_of(self.home, name) for name in together.PROGRESS}

    def wait_for_steps(self, ended_max: int) -> None:
        """Wait until each work has begun, and two have done another step. At most ``ended_max`` may have ended."""
        before = self.steps()

        def moved() -> bool:
            assert self._process is not None and self._process.poll() is None, self.log()
            now = self.steps()
            return all(now.values()) and sum(now[name] > before[name] for name in now) >= min(2, len(now) - ended_max)

        probe.wait_until("steps of the works", moved, TIMEOUT_S)
        ended = [path.stem for path in self.home.glob("*.done")]
        assert len(ended) <= ended_max, f"{', '.join(ended)}: ended before the attack"

    def kill(self) -> None:
        """Kill the process, and wait until its JVM has ended."""
        assert self._process is not None
        family = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        await_end(family, TIMEOUT_S)

    def finish(self) -> None:
        """Let all works come to their ends."""
        for _ in range(RUNS_MAX):
            assert self._process is not None
            if self._process.wait(TIMEOUT_S) == 0:
                return
            self.start()
        raise AssertionError(self.log())

    def log(self) -> str:
        """Return the end of the process's output."""
        return (self.home / "works.log").read_text(errors="replace")[-3000:]


@pytest.fixture
def topic(server: Broker) -> str:
    name = f"together-{uuid.uuid4().hex[:8]}"
    copies = [together.name_of_copy(name, kind) for kind in ("written", "piped", "imported")]
    for each in (name, *copies):
        probe.create_topic(server.namesrv, server.broker, each)
    command = [sys.executable, "-m", "pymq", "send", name, "--batch", "100", "--namesrv", server.namesrv]
    lines = "".join(f"{number}\n" for number in range(COUNT))
    subprocess.run(command, cwd=REPOSITORY, input=lines, text=True, check=True, timeout=TIMEOUT_S, capture_output=True)
    probe.wait_for_messages(server.broker, name, COUNT)
    return name


@pytest.fixture
def works(server: Broker, cluster: StandaloneSpark, topic: str, tmp_path: Path) -> Iterator[Works]:
    imports.write_files(tmp_path / "files", IMPORTED_FILES)
    stores.write_store(tmp_path / "kept", COUNT)
    started = Works(tmp_path, server.namesrv, topic, cluster)
    started.start()
    yield started
    started.kill()


def test_four_works_outlive_kills(server: Broker, cluster: StandaloneSpark, topic: str, works: Works) -> None:
    attacks: list[Callable[[], object]] = [
        lambda: [kill(pid) for pid in below(worker_pids(cluster), "python")],
        lambda: kill_executor(cluster, random.Random(1)),
        works.kill,
    ]
    for number, attack in enumerate(attacks, 1):
        works.wait_for_steps(ended_max=number)  # how long each takes depends on the machine
        attack()
    works.start()
    works.finish()

    stored = stored_rows(server.namesrv, topic)
    assert len(stored) == COUNT
    for kind in ("written", "piped"):
        rows = copied_rows(server.namesrv, together.name_of_copy(topic, kind))
        assert sorted(rows) == stored
        assert out_of_order(rows) == []
    imported = together.name_of_copy(topic, "imported")
    rows_max = IMPORTED_FILES * imports.ROWS_OF_A_FILE
    assert imports.fault(imports.numbers_by_queue(server.namesrv, imported, rows_max), IMPORTED_FILES) == ""
    assert files.fault(stores.numbers_in(works.home / "store"), COUNT - 1) == ""
