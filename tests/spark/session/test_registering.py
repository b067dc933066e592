"""A program that is called by the path of its Python finds ``format("pymq")``, whatever ``python3`` of PATH is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pymq.spark.data_source import PymqDataSource
from pymq.spark.session.registering import register
from pymq.testing.standalone import StandaloneProcess
from tests.spark.standalone import full_java

ROOT = Path(__file__).parents[3]
# Spark's own launcher, as users start it: it needs a Java with all modules.
JOB = """
import sys
import pyspark_pymq
from pyspark.sql import SparkSession

spark = pyspark_pymq.register(
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
where = {"namesrv": sys.argv[1]}
rows = spark.range(6).selectExpr("concat('k', id % 2) AS body")
rows.write.format("pymq").options(**where).mode("append").save("Jobs")
read = spark.read.format("pymq").options(**where, columns="bodyText").load("Jobs")
print("rows", read.count())
stream = spark.readStream.format("pymq").options(**where, subscribe="Jobs", startingOffsets="earliest")
counts = stream.load().groupBy("body").count().selectExpr("concat(body, ' ', count) AS body")
query = (
    counts.writeStream.outputMode("update").foreachBatch(pyspark_pymq.batch_writer(**where, topic="Counts"))
    .option("checkpointLocation", sys.argv[2]).trigger(availableNow=True).start()
)
query.awaitTermination()
found = spark.read.format("pymq").options(**where, columns="bodyText").load("Counts")
print("counts", sorted(row[0] for row in found.collect()))
print("udf", spark.sparkContext.parallelize([1]).map(lambda one: one + 1).collect())
"""


class Context:
    """What a session's context has of its Python."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.pythonExec = "python3"


def session_on(master: str) -> Any:
    registered: list[object] = []
    return SimpleNamespace(
        sparkContext=Context(master),
        dataSource=SimpleNamespace(register=registered.append),
        registered=registered,
    )


def test_local_tasks_get_the_programs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    local = session_on("local[2]")
    assert register(local) is local
    assert local.sparkContext.pythonExec == sys.executable and local.registered == [PymqDataSource]
    away = register(session_on("spark://host:7077"))
    assert away.sparkContext.pythonExec == "python3" and away.registered == [PymqDataSource]
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    assert register(session_on("local[2]")).sparkContext.pythonExec == "python3"


@pytest.mark.slow
@pytest.mark.spark
def test_a_program_whose_path_has_another_python(tmp_path: Path) -> None:
    java = full_java()
    if java is None:
        pytest.skip("Spark's own launcher needs a Java with jdk.incubator.vector: set JAVA_HOME")
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\nexec "$0-has-no-pymq"\n')
    other.chmod(0o755)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with StandaloneProcess() as server:
        done = subprocess.run(
            [sys.executable, str(job), server.namesrv, str(tmp_path / "checkpoint")],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={
                "PATH": f"{other.parent}:{os.defpath}",
                "HOME": str(tmp_path),
                "JAVA_HOME": str(java.home),
                "PYTHONPATH": str(ROOT),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("rows", "counts", "udf"))]
    assert lines == ["rows 6", "counts ['k0 3', 'k1 3']", "udf [2]"], done.stderr[-3000:]
