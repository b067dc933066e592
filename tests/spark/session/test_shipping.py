"""The zip for executors holds every module that a task imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pymq.spark.session.shipping import zip_package

# Each executor fetches the zip when it starts.
ZIP_BYTES_MAX = 1_200_000


@pytest.mark.slow
def test_tasks_import_everything_from_the_zip_alone(tmp_path: Path) -> None:
    archive = zip_package(tmp_path / "package.zip")
    code = (
        "import sys, pymq.spark.export.arrow_writer, pymq.spark.data_source\n"
        "import pymq.spark.sink.sink, pymq.offline.consumer_view\n"
        # What the source imports when it is asked for.
        "import pymq.spark.source.batch, pymq.spark.source.stream, pymq.spark.source.catalog_tables\n"
        "import pymq.spark.reading.reader, pymq.spark.reading.store_reader, pymq.spark.reading.unrepeated\n"
        "import pymq.spark.planning.store_view\n"
        "ours = [m.__file__ for name, m in sys.modules.items() if name.split('.')[0] == 'pymq']\n"
        f"assert len(ours) > 20 and all(file.startswith({str(archive)!r}) for file in ours), ours"
    )
    command = [sys.executable, "-c", code]
    environ = {"PYTHONPATH": str(archive)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert archive.stat().st_size < ZIP_BYTES_MAX
