"""The home that Spark's JVM gets: in local mode its Python processes import the installed package, not a zip of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pymq.spark.session.spark_home import quick_home

# What each of Spark's Python processes does first. Names of modules that it loads for that are printed.
LOOKUP = """
import sys
import pyspark.sql.worker.create_data_source
before = set(sys.modules)
import pyspark_pymq
source = pyspark_pymq.DefaultSource({"namesrv": "127.0.0.1:9876", "subscribe": "T", "columns": "tags,body"})
assert (source.name(), source.schema()) == ("pymq", "tags string, body binary")
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "pyspark"
    for name in ("jars/spark.jar", "bin/spark-class", "python/lib/pyspark.zip", "__init__.py"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    return home


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_local_processes_find_the_package_itself(home: Path, tmp_path: Path, master: str) -> None:
    (tmp_path / "scratch").mkdir()
    quick = quick_home(home, tmp_path / "scratch", master)
    assert (quick / "python" / "pyspark" / "__init__.py").samefile(home / "__init__.py")
    assert not (quick / "python" / "lib").exists()
    assert (quick / "jars" / "spark.jar").exists() and (quick / "bin" / "spark-class").exists()


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"])
def test_clusters_get_the_zip(home: Path, tmp_path: Path, master: str) -> None:
    assert quick_home(home, tmp_path, master) == home


def test_spark_asks_for_names_and_columns_without_loading_what_reads() -> None:
    pytest.importorskip("pyspark")
    done = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pymq" in loaded and not loaded & {"asyncio", "http", "msgspec", "numpy", "pyarrow"}


@pytest.mark.spark
def test_tasks_import_the_installed_package(spark: Any) -> None:
    (found,) = spark.sparkContext.parallelize([1], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert Path(found).is_file(), f"{found} is in a zip"
