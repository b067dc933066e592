"""An error of a task is raised again in its own class, as one line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pymq.errors import RefusedError, UnreachableError
from pymq.spark.planning.ranges import DataLossError
from pymq.spark.session import gateway
from pymq.spark.session.failures import TaskFailedError, WorkerLostError, translate, translated

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
    error = translate(page("pymq.spark.planning.ranges.DataLossError: T b/0 [0, 9): gone"))
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


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: pymq.",
        "ModuleNotFoundError: No module named 'pymq'",
        "ModuleNotFoundError: No module named 'pymq.spark'",
    ],
)
def test_a_python_without_pymq_is_named_with_the_next_step(text: str) -> None:
    assert "call pyspark_pymq.register(spark) before" in str(translate(page(text)))
    assert "No module named 'pymqs'" in str(translate("ModuleNotFoundError: No module named 'pymqs'"))


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting",
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        "Lost task 0.3 in stage 1.0 (TID 7): ExecutorLostFailure (executor 1 exited caused by one of the tasks)",
    ],
)
def test_a_lost_process_has_a_class_of_its_own(text: str) -> None:
    assert type(translate(f"Job aborted due to stage failure: {text}\nDriver stacktrace:")) is WorkerLostError
    assert type(translate(page("ZeroDivisionError: division by zero"))) is TaskFailedError


STACK = """java.io.EOFException
\tat java.base/java.io.DataInputStream.readFully(Unknown Source)
\tat java.base/java.io.DataInputStream.readInt(Unknown Source)
\tat org.apache.spark.{package}.PythonStreamingSourceRunner.latestOffset(PythonStreamingSourceRunner.scala:235)
"""


class Captured(PySparkException):
    """An error as PySpark captures it from Java, with its cause."""

    _cause: object = None


@pytest.mark.parametrize(
    ("package", "kind"),
    [
        ("sql.execution.python.streaming", WorkerLostError),
        ("api.python", WorkerLostError),
        ("sql.execution.streaming.state", TaskFailedError),
    ],
)
def test_a_lost_process_that_plans_is_seen_in_the_causes(package: str, kind: type[TaskFailedError]) -> None:
    inner = SimpleNamespace(_stackTrace=STACK.replace("{package}", package), _cause=None)
    error = Captured("[STREAM_FAILED] Query terminated with exception: (no cause message)")
    error._cause = SimpleNamespace(_stackTrace="x.SparkException: a\n\tat x.y", _cause=inner)
    with pytest.raises(TaskFailedError) as caught, translated():
        raise error
    assert type(caught.value) is kind


class Mute(Py4JJavaError):
    """An error of Java whose JVM has ended: Py4J asks the JVM for the text."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        raise ConnectionRefusedError


@pytest.fixture
def no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that other tests share is not asked whether it has ended, which takes a second."""
    monkeypatch.setattr(gateway, "death", lambda: None)


@pytest.mark.usefixtures("no_death")
def test_an_error_whose_jvm_has_ended_is_one_line() -> None:
    with pytest.raises(TaskFailedError, match="Spark's JVM ended before it said why"), translated():
        raise Mute


@pytest.mark.usefixtures("no_death")
@pytest.mark.parametrize(
    ("log", "error", "reason"),
    [
        ("12:00:01 WARN A: x\n12:00:02 ERROR A: y\n12:00:03 ERROR B: Killed. Reason: All masters are unresponsive!\n",
         Mute(), ": All masters are unresponsive!"),
        ("12:00:02 ERROR SparkContext: Error initializing\njava.lang.IllegalArgumentException: too small\n\tat x\n",
         Mute(), ": IllegalArgumentException: too small"),
        ("12:00:01 WARN A: x\n", ValueError("java.lang.IllegalArgumentException: no such zone"), "no such zone"),
    ],
)  # fmt: skip
def test_a_session_that_does_not_start_names_the_cause(tmp_path: Any, log: str, error: Exception, reason: str) -> None:
    (tmp_path / "spark.log").write_text(log)
    fake = object.__new__(gateway._Gateway)
    fake.log_path = tmp_path / "spark.log"
    text = str(gateway._start_failure(error, fake, "spark://h:1"))
    assert text.startswith("Spark did not start with master spark://h:1: ") and reason in text


def test_a_master_without_executors_is_named() -> None:
    sizes: Any = SimpleNamespace(size=lambda: 1)
    scala = SimpleNamespace(getExecutorMemoryStatus=lambda: sizes)
    context = SimpleNamespace(master="spark://h:1", _jsc=SimpleNamespace(sc=lambda: scala))
    session: Any = SimpleNamespace(sparkContext=context)
    with pytest.raises(gateway.SparkStartError, match=r"spark://h:1 gave no executor in 0 s: its workers are down"):
        gateway.wait_for_executors(session, timeout_s=0)
    sizes.size = lambda: 2
    gateway.wait_for_executors(session, timeout_s=0)
