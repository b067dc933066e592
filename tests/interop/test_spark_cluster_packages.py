"""Executors that have no packages of Python get them as an archive: the command line of docs/spark-clusters.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import uuid
import venv
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")

from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.pymq_server import REPOSITORY
from tests.spark.standalone import CONF, StandaloneSpark

COUNT = 300
TIMEOUT_S = 240.0
# What tasks import beside the package itself, which is shipped as a zip.
PACKAGES = ("numpy", "numpy.libs", "pyarrow", "msgspec")
_NOT_NEEDED = ("include", "tests", "__pycache__")


def pack_environment(target: Path, directory: Path) -> None:
    """Write what venv-pack does: a virtual environment that works wherever it is unpacked."""
    venv.create(directory, symlinks=True)
    site = Path(sysconfig.get_paths()["purelib"])
    inside = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if Path(member.name).name in _NOT_NEEDED else member

    # Spark unpacks a .tar by itself and refuses the link to base Python; a .tar.gz goes to the program tar.
    with tarfile.open(target, "w:gz", compresslevel=0) as archive:
        archive.add(directory, ".")
        for name in PACKAGES:
            if (site / name).exists():  # numpy.libs is only in wheels for Linux
                archive.add(site / name, str(inside / name), filter=wanted)


def test_a_packed_environment_is_all_that_executors_need(
    server: Broker, cluster: StandaloneSpark, tmp_path: Path
) -> None:
    topic = f"packed-{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, topic)
    pymq = [sys.executable, "-m", "pymq"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(
        [*pymq, "send", topic, "--batch", "100", "--namesrv", server.namesrv],
        input="".join(f"{number}\n" for number in range(COUNT)),
        text=True,
        check=True,
        cwd=REPOSITORY,
        timeout=TIMEOUT_S,
    )
    probe.wait_for_messages(server.broker, topic, COUNT)
    pack_environment(tmp_path / "env.tar.gz", tmp_path / "packed")
    # The driver plans with the same path, so there it names the driver's own environment.
    (tmp_path / "env").symlink_to(sys.prefix)

    command = [*pymq, "spark-export", "-t", topic, "--output", "lake", "--namesrv", server.namesrv, "--json"]
    command += ["--master", cluster.url, "--conf", "spark.archives=env.tar.gz#env"]
    for name, value in CONF.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**environment, "PYSPARK_PYTHON": "./env/bin/python"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == COUNT
