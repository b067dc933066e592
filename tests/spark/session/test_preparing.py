"""A prepared Spark: its JVM maps the archive, and starts without one that is not an archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pymq.cli import main as cli
from pymq.errors import EXIT_OK
from pymq.spark.session import gateway
from pymq.spark.session.class_archive import archive_path
from pymq.spark.session.java import find_java
from pymq.spark.session.spark_home import spark_home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path
    gateway.kill()


def mapped_files() -> set[str]:
    current = gateway._Current.gateway
    assert current is not None
    maps = Path(f"/proc/{current.process.pid}/maps").read_text()
    return {line.split(maxsplit=5)[-1] for line in maps.splitlines()}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the JVM's maps in /proc")
def test_a_jvm_maps_what_was_prepared(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = archive_path(find_java(), spark_home())
    assert cli.run(["spark-prepare", "--remove"]) == EXIT_OK
    assert capsys.readouterr().out == f"nothing to delete: there is no {path}\n"
    assert cli.run(["spark-prepare"]) == EXIT_OK
    assert f"Spark starts from {path} (" in capsys.readouterr().out
    assert {file.name for file in path.parent.iterdir()} == {path.name, "lock"}
    with gateway.running("local[1]") as spark:
        assert str(path) in mapped_files()
        assert spark.range(10).count() == 10
    path.write_bytes(b"no archive")
    with gateway.running("local[1]") as spark:  # as without one
        assert str(path) not in mapped_files()
        assert spark.range(10).count() == 10
    assert cli.run(["spark-prepare", "--remove"]) == EXIT_OK
    assert capsys.readouterr().out == f"deleted {path}\n" and not path.exists()
