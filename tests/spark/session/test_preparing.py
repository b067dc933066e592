"""A prepared Spark: its JVM maps the archive, and starts without one that is not an archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pymq.spark.session.class_archive import archive_path
from pymq.spark.session.java import find_java
from pymq.spark.session.spark_home import spark_home

# In processes of their own: the session of the tests before may still run in this one, and would be joined.
_MAPPED = """
import sys
from pathlib import Path
from pymq.spark.session import gateway

with gateway.running("local[1]") as spark:
    lines = Path(f"/proc/{gateway._Current.gateway.process.pid}/maps").read_text().splitlines()
    is_mapped = sys.argv[1] in {line.split(maxsplit=5)[-1] for line in lines}
    print("mapped" if is_mapped else "not mapped", spark.range(10).count())
"""


def output_of(cache: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the JVM's maps in /proc")
def test_a_jvm_maps_what_was_prepared(tmp_path: Path) -> None:
    path = archive_path(find_java(), spark_home(), {**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert output_of(tmp_path, "-m", "pymq", "spark-prepare", "--remove") == f"nothing to delete: there is no {path}\n"
    assert f"Spark starts from {path} (" in output_of(tmp_path, "-m", "pymq", "spark-prepare")
    assert {file.name for file in path.parent.iterdir()} == {path.name, "lock"}
    assert output_of(tmp_path, "-c", _MAPPED, str(path)) == "mapped 10\n"
    path.write_bytes(b"no archive")
    assert output_of(tmp_path, "-c", _MAPPED, str(path)) == "not mapped 10\n"  # as without one
    assert output_of(tmp_path, "-m", "pymq", "spark-prepare", "--remove") == f"deleted {path}\n"
    assert not path.exists()
