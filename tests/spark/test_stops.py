"""``pymq spark-export`` that is interrupted, or whose JVM dies: short texts, kept rows, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pymq.spark.export.job_runners import SAMPLED_ROWS
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 180


class Export:
    """An export process of two queues; the second one's pulls wait until the process has been stopped."""

    def __init__(self, output: Path, scratch: Path, *more: str) -> None:
        self.output = output
        self.reached, self.stopped = threading.Event(), threading.Event()
        self.cluster = FakeCluster()
        for queue_id in range(2):
            self.cluster.add("T", queue_id, [record(n, queue_id=queue_id) for n in range(100)])
        self.cluster.select = self._select
        options = ["--output", str(output), "--rows-per-task", "100", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pymq", "spark-export", "--namesrv", self.cluster.address, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        )

    def _select(self, raw: bytes, expression: str) -> bool:
        # Small ranges share a task, so the first queue is finished by now. The first rows may be a sample.
        if int.from_bytes(raw[12:16], "big") == 1 and int.from_bytes(raw[20:28], "big") >= SAMPLED_ROWS:
            self.reached.set()
            self.stopped.wait(TIMEOUT_S)
        return True

    def end(self) -> tuple[int, str]:
        """Return the exit code and what it wrote to stderr."""
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        self.stopped.set()
        self.cluster.close()
        return self.process.returncode, errors


def jvm_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["an interrupt", "an interrupt without Spark", "the end of its JVM"])
def test_a_stopped_export_keeps_what_is_finished(tmp_path: Path, how: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        settings = [] if "without Spark" in how else ["--master", "local[1]"]
        export = Export(tmp_path / "out", Path(scratch), *settings)
        assert export.reached.wait(TIMEOUT_S)
        if how.startswith("an interrupt"):
            export.process.send_signal(signal.SIGINT)
        else:
            os.kill(jvm_of(export.process.pid), signal.SIGKILL)
        code, errors = export.end()
        lines = [line for line in errors.splitlines() if not line.startswith("pymq: starting Spark")]
        assert lines[0].startswith(f"pymq: 100 rows of this run are committed in {tmp_path / 'out'}")
        if how.startswith("an interrupt"):
            assert code == 130 and len(lines) == 1
        else:
            assert code == 1 and len(lines) == 2 and "Spark's JVM died (signal 9)" in lines[1]
        assert len(list((tmp_path / "out").rglob("*.parquet"))) == 1
        assert list(Path(scratch).glob("pymq-spark-*")) == []
