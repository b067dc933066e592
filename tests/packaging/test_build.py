"""scripts/build: the single file it builds starts a broker and connects to it, from an empty cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.control import Control
from bench.standalone import PyMQBroker

ROOT = Path(__file__).parents[2]
pytest.importorskip("pex", reason="the build extra is not installed: scripts/install build")


@pytest.fixture(scope="module")
def built(machine_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist") / "pymq"
    environment = {**machine_environment, "PYMQ_PYTHON": sys.executable}
    done = subprocess.run(
        [str(ROOT / "scripts" / "build"), str(out)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_built_file_runs_a_broker(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEX_ROOT", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    server = PyMQBroker(tmp_path / "server", [str(built)])
    server.start()
    try:
        with Control(server.broker) as control:
            control.create_topic("FromOneFile", 2)
        listed = subprocess.run(server.topic_list_command(), capture_output=True, text=True, check=True, cwd=tmp_path)
        assert "FromOneFile" in listed.stdout
        assert Path(f"/proc/{server.broker_pid}").exists()
    finally:
        server.stop()


@pytest.mark.slow
def test_built_file_leaves_spark_out(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEX_ROOT", str(tmp_path / "cache"))
    program = "import importlib.util as u; print([n for n in ('pyspark', 'pyarrow') if u.find_spec(n)])"
    done = subprocess.run(
        [str(built), "-c", program],
        env={**os.environ, "PEX_INTERPRETER": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "[]"
