"""Makes ``format("pymq")`` known to a session, also where Spark's own search does not find it.

Spark searches with the Python that its JVM starts: ``PYSPARK_PYTHON``, else the ``python3`` of ``PATH``. A program that
is started as ``/path/.venv/bin/python job.py``, by cron, systemd or an editor, has another one there.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON_VARIABLE = "PYSPARK_PYTHON"
# What Spark 4.0 says of a source that its own search has found; later versions take the new one.
_IS_KNOWN = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> SparkSession:
    """Make ``format("pymq")`` known to a session, and return the session.

    In local mode Spark then starts this program's Python for its tasks, unless ``PYSPARK_PYTHON`` names another one.
    Call it again after a change of ``PYSPARK_PYTHON``; more than one call changes nothing.
    """
    from pyspark.errors import PySparkException

    from pymq.spark.data_source import PymqDataSource

    try:
        context = spark.sparkContext
    except PySparkException:  # a session of Spark Connect has none, and its server has Pythons of its own
        context = None
    if context is not None and context.master.startswith("local") and PYTHON_VARIABLE not in os.environ:
        context.pythonExec = sys.executable or context.pythonExec
    try:
        spark.dataSource.register(PymqDataSource)
    except PySparkException as error:
        if _IS_KNOWN not in str(error):
            raise
    return spark
