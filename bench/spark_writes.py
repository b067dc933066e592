"""Writes the rows of Parquet files to a topic several times in one Spark session, and prints what each run took.

:mod:`bench.spark_cases` runs it as ``python -m bench.spark_writes KIND NAMESRV TOPIC DIRECTORY
ROUNDS ROWS``. Bodies have 128 bytes; a row in ten has one of 1,000 keys.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.process import cpu_seconds
from pymq.spark.imports import imports
from pymq.spark.imports.imports import ImportOptions
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.session import gateway

BODY = "substring(repeat(concat('order ', id, ' '), 13), 1, 128) AS body"
KEY = "if(id % 10 = 0, concat('key-', id % 1000), null) AS key"
FILES = 4


def main(kind: str, namesrv: str, topic: str, directory: Path, rounds: int, rows: int) -> None:
    """Prints for each round, as JSON: rows that the topic got, seconds, CPU seconds of all processes of Spark."""
    results = []
    files = directory / f"{kind}-{topic}"
    with gateway.running("local[*]", {"spark.driver.memory": "1g"}) as spark:
        spark.range(0, rows, 1, FILES).selectExpr(BODY, KEY).write.parquet(str(files))
        for number in range(rounds):
            stored, before_s = messages(namesrv, topic), cpu_seconds(os.getpid())
            begin_s = time.monotonic()
            if kind == "import":
                state = directory / f"state-{topic}-{number}"
                imports.run(ImportOptions((str(files),), namesrv, topic=topic, state=state))
            else:
                write(spark, files, namesrv, topic)
            wall_s = time.monotonic() - begin_s
            results.append((messages(namesrv, topic) - stored, wall_s, cpu_seconds(os.getpid()) - before_s))
    print(json.dumps(results))


def write(spark: Any, files: Path, namesrv: str, topic: str) -> None:
    """Writes the rows of the files, read by Spark, with its sink."""
    sink = spark.read.parquet(str(files)).write.format("pymq").options(namesrv=namesrv, topic=topic)
    sink.mode("append").save()


def messages(namesrv: str, topic: str) -> int:
    """Returns how many messages the topic has had."""
    with RemoteCluster(namesrv) as view:
        queues = [queue for found in view.queues_of([topic]).values() for queue in found]
        return sum(bounds.high for bounds in view.bounds(queues).values())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), *map(int, sys.argv[5:]))
