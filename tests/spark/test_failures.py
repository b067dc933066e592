"""An error of a task is raised again in its own class, as one line."""

from __future__ import annotations

from pymq.errors import RefusedError, UnreachableError
from pymq.spark.failures import TaskFailedError, translate
from pymq.spark.ranges import DataLossError

PAGE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
  File "/x/pyspark/worker.py", line 1, in main
    yield from reader.read(partition)
{line}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException
"""


def page(line: str) -> str:
    return PAGE.replace("{line}", line)


def test_pymq_errors_are_kept() -> None:
    error = translate(page("pymq.spark.ranges.DataLossError: T b/0 [0, 9): gone"))
    assert type(error) is DataLossError and str(error) == "T b/0 [0, 9): gone"
    assert type(translate(page("pymq.errors.UnreachableError: no connection"))) is UnreachableError


def test_a_refusal_keeps_code_and_address() -> None:
    error = translate(page("pymq.errors.RefusedError: 10.0.0.1:10911: refused with code 16: no permission"))
    assert isinstance(error, RefusedError)
    assert (error.code, error.remark, error.address) == (16, "no permission", "10.0.0.1:10911")


def test_other_errors_become_one_line() -> None:
    error = translate(page("ZeroDivisionError: division by zero"))
    assert type(error) is TaskFailedError and str(error) == "a Spark task failed: ZeroDivisionError: division by zero"
    assert "\n" not in str(translate("first\nsecond")) and "first" in str(translate("first\nsecond"))
    java = "An error occurred while calling o1.collect.\n: org.apache.SparkException: aborted: a.b.IOException: no file"
    assert str(translate(java)) == "a Spark task failed: IOException: no file"
    assert "no text" in str(translate(""))
