"""Starts Spark's JVM without PySpark's launcher; a normal SparkSession then attaches to it.

The launcher always passes ``--add-modules=jdk.incubator.vector``, but the runtimes in wheels lack that module and
refuse to start. This way also saves bash and a second JVM.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pymq
from pymq.errors import PymqError
from pymq.file_lock import try_lock_file
from pymq.spark.session.class_archive import archive_path, reading_options
from pymq.spark.session.error_texts import essence, text_of
from pymq.spark.session.java import Java, find_java
from pymq.spark.session.registering import register
from pymq.spark.session.spark_home import quick_home, spark_home
from pymq.spark.session.watchdog import Watchdog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 15.0
# Packages are downloaded before the JVM is ready: so long without a word in its log.
DOWNLOAD_TIMEOUT_S = 600.0
EXECUTOR_TIMEOUT_S = 60.0
LOG_END_MAX_CHARS = 300
# A process that dies closes its connections a moment before it has ended.
_DEATH_TIMEOUT_S = 1.0
DRIVER_MEMORY = "1g"

# Spark's own list (JavaModuleOptions), without the module that runtimes in wheels lack.
_OPENS = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_SCRATCH = "pymq-spark-"
_JAVA_EXCEPTION = re.compile(r"(?:[\w$]+\.)+([\w$]+(?:Exception|Error): .+)")
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class SparkStartError(PymqError):
    """Spark could not be started."""


class _Gateway:
    """The JVM's process, the way to connect to it, and its scratch directory with the log."""

    def __init__(self, java: Java, master: str, conf: Mapping[str, str]) -> None:
        self.java = java
        self.stop_timeout_s = STOP_TIMEOUT_S
        _remove_old_scratch()
        self.scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH))
        self._lock = (self.scratch / "lock").open("w")
        try_lock_file(self._lock.fileno())
        self.log_path = self.scratch / "spark.log"
        self._answer_path = self.scratch / "gateway"
        (self.scratch / "log4j2.properties").write_text(_LOG4J)
        home = spark_home()
        command = jvm_command(java, home, self.scratch, master, conf)
        with self.log_path.open("wb") as log:
            # In a new session the JVM doesn't get Ctrl-C; it ends when its standard input is closed.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_jvm_environment(java, master, self._answer_path, quick_home(home, self.scratch, master)),
                start_new_session=True,
            )
        self._watchdog = Watchdog(self.process.pid)

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> tuple[int, str]:
        """Return (port, secret) of the started JVM. Raises SparkStartError with the end of its log.

        The time is that without a new line in the log: ``spark.jars.packages`` are downloaded first.
        """
        deadline = time.monotonic() + timeout_s
        logged_bytes = 0
        while not self._answer_path.exists():
            if logged_bytes != (logged_bytes := self.log_path.stat().st_size):
                deadline = time.monotonic() + timeout_s
            if self.process.poll() is not None:
                is_prepared = archive_path(self.java, spark_home()).exists()
                advice = "; `pymq spark-prepare --remove` starts it without the file of its classes" * is_prepared
                raise SparkStartError(f"Spark's JVM ended at once ({self.java}): {self.log_end()}{advice}")
            if time.monotonic() > deadline:
                raise SparkStartError(
                    f"Spark's JVM was not ready, and logged nothing for {timeout_s:g} s ({self.java}): {self.log_end()}"
                )
            time.sleep(0.02)
        answer = self._answer_path.read_bytes()
        port, size = struct.unpack_from(">ii", answer)
        return port, answer[8 : 8 + size].decode()

    def close(self) -> None:
        """End the JVM and remove its scratch directory."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._watchdog.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self._lock.close()

    def first_error(self) -> str:
        """Return the first error in the JVM's log, its exception if it has one; empty without an error."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        for line in lines:
            if " ERROR " in line and "Reason: " in line:  # a master's answer, or that none came
                return line.partition("Reason: ")[2].strip()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            if " ERROR " in line:
                exception = _JAVA_EXCEPTION.match(below)
                return exception[1] if exception else line.partition(" ERROR ")[2].strip()
        return ""

    def log_end(self) -> str:
        """Return the last lines of the JVM's log."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-5:]) or "its log is empty"


def _remove_old_scratch() -> None:
    """Remove the scratch directories of processes that were killed: their files are locked no more."""
    for path in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/lock"):
        with suppress(OSError), path.open("r+") as lock:
            if try_lock_file(lock.fileno()):
                shutil.rmtree(path.parent, ignore_errors=True)


def _say_nothing(_: str) -> None: ...


class _Current:
    """The only JVM of this process: PySpark supports only one."""

    gateway: _Gateway | None = None
    users = 0
    announce: Callable[[str], None] = staticmethod(_say_nothing)


def announce_starts(announce: Callable[[str], None]) -> None:
    """Call ``announce(text)`` before a JVM is started, which takes seconds."""
    _Current.announce = staticmethod(announce)


# Two archives of a pipeline begin and end at once.
_SESSIONS = threading.RLock()


def session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, java: Java | None = None
) -> SparkSession:
    """Return the program's SparkSession if it has one, else a new session on a new JVM.

    ``conf`` may hold any setting, also one that must be known before the JVM starts (``spark.driver.memory``,
    ``spark.jars.packages``). Spark finds the source ``pymq`` by itself. End the session with :func:`close`.
    Raises JavaNotFoundError, SparkStartError, and UsageError when Spark is not installed.
    """
    spark_home()
    with _SESSIONS:
        return _joined_or_new(master, conf or {}, java)


def _joined_or_new(master: str, conf: Mapping[str, str], java: Java | None) -> SparkSession:
    loaded = sys.modules.get("pyspark")
    if loaded is not None and loaded.SparkContext._active_spark_context is not None:
        joined: SparkSession = loaded.sql.SparkSession.builder.getOrCreate()
        register(joined)  # it may not find the package by itself
        _Current.users += 1
        return joined
    java = java or find_java()
    # Before the import of pyspark, which takes long, too.
    _Current.announce(f"starting Spark {version('pyspark')} with {java}")
    from pyspark.sql import SparkSession

    if _Current.gateway is not None:
        # The program has stopped the session itself, so its JVM is no longer used.
        _end_jvm(_Current.gateway)
    gateway = _Gateway(java, master, {**_defaults(master), **conf})
    _Current.gateway = gateway
    try:
        port, secret = gateway.wait_ready(DOWNLOAD_TIMEOUT_S if "spark.jars.packages" in conf else START_TIMEOUT_S)
        with (
            _environment(
                PYSPARK_GATEWAY_PORT=str(port),
                PYSPARK_GATEWAY_SECRET=secret,
                PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable),
            ),
            warnings.catch_warnings(),
        ):
            # PySpark warns about the version of pandas, which PyMQ doesn't use.
            warnings.simplefilter("ignore", FutureWarning)
            spark = SparkSession.builder.getOrCreate()
            _ = spark.conf  # its first use checks the settings of SQL
    except Exception as error:
        # The text of a Java error is asked from the JVM, so it is read before the JVM ends.
        cause = error if isinstance(error, PymqError) else _start_failure(error, gateway, master)
        _end_jvm(gateway)
        raise cause from None
    except BaseException:
        _end_jvm(gateway)
        raise
    # Python's socketserver would print a traceback when the JVM dies and this connection ends.
    spark.sparkContext._accumulatorServer.handle_error = lambda *_: None
    atexit.register(_end_jvm, gateway)
    _Current.users = 1
    return spark


def _start_failure(error: Exception, gateway: _Gateway, master: str) -> SparkStartError:
    """Return the error of a session that didn't start: the first error in the JVM's log, its death, or Java's text."""
    text = text_of(error)
    reason = gateway.first_error()
    if not reason and (dead := death()):
        return dead
    return SparkStartError(f"Spark did not start with master {master}: {(reason or essence(text))[:LOG_END_MAX_CHARS]}")


def close(spark: SparkSession) -> None:
    """End one use of the session. The last use stops a session that :func:`session` started, and its JVM."""
    with _SESSIONS:
        _end_use(spark)


def _end_use(spark: SparkSession) -> None:
    _Current.users -= 1
    gateway = _Current.gateway
    if gateway is None or _Current.users > 0:
        return
    try:
        if gateway.process.poll() is None:
            spark.stop()
    finally:
        atexit.unregister(_end_jvm)
        _end_jvm(gateway)


def kill() -> None:
    """End the JVM of this process at once, also one that is starting: the session's user has given up."""
    gateway = _Current.gateway
    if gateway is not None:
        gateway.process.kill()


def wait_for_end(timeout_s: float) -> None:
    """Give the JVM of this process so long to end by itself, once its session is closed."""
    assert _Current.gateway is not None
    _Current.gateway.stop_timeout_s = timeout_s


def death() -> SparkStartError | None:
    """Return an error when the JVM of this process has ended by itself, None while it runs."""
    gateway = _Current.gateway
    if gateway is None:
        return None
    try:
        code = gateway.process.wait(_DEATH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return SparkStartError(
        f"Spark's JVM died ({how}): the machine may be short of memory, or the driver needs more (--driver-memory); "
        f"its log ends with: {gateway.log_end()[:LOG_END_MAX_CHARS]}"
    )


def wait_for_executors(spark: SparkSession, timeout_s: float = EXECUTOR_TIMEOUT_S) -> None:
    """Return once a cluster has given the session an executor; at once in local mode. Raises SparkStartError."""
    context = spark.sparkContext
    if context.master.startswith("local["):
        return
    deadline = time.monotonic() + timeout_s
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # one is the driver
        if time.monotonic() > deadline:
            raise SparkStartError(
                f"{context.master} gave no executor in {timeout_s:g} s: its workers are down, have too little memory "
                "or cores, or can't start a JVM; see the master's page and the workers' logs"
            )
        time.sleep(0.1)


@contextmanager
def running(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, java: Java | None = None
) -> Iterator[SparkSession]:
    """Call :func:`session` before a block and :func:`close` after it."""
    spark = session(master, conf, java=java)
    try:
        yield spark
    finally:
        close(spark)


def activate(spark: SparkSession) -> None:
    """Make the session the one of this thread: when a stream is started, Spark looks for sinks in Python there."""
    type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def running_java() -> Java | None:
    """Return the Java that :func:`session` started, None when there is none."""
    return _Current.gateway.java if _Current.gateway is not None else None


def jvm_command(java: Java, home: Path, scratch: Path, master: str, conf: Mapping[str, str]) -> list[str]:
    """Return the command line of Spark's JVM."""
    opens = [name for name in _OPENS if not (java.major >= 24 and name.endswith("security.action"))]
    quiet = ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"] if java.major >= 24 else []
    class_path = [conf[key] for key in ("spark.driver.extraClassPath",) if key in conf]
    extra_options = conf.get("spark.driver.extraJavaOptions", "")
    return [
        str(java.executable),
        "-cp",
        os.pathsep.join([*class_path, str(home / "jars" / "*")]),
        f"-Xmx{conf.get('spark.driver.memory', DRIVER_MEMORY)}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *[f"--add-opens={name}=ALL-UNNAMED" for name in opens],
        *quiet,
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'}",
        f"-Dderby.system.home={scratch}",
        *reading_options(java, archive_path(java, home), extra_options),
        *shlex.split(extra_options),
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        master,
        *[part for name, value in conf.items() for part in ("--conf", f"{name}={value}")],
        "--conf",
        f"spark.sql.warehouse.dir={conf.get('spark.sql.warehouse.dir', scratch / 'warehouse')}",
        "pyspark-shell",
    ]


def light_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return ``conf`` for a JVM that only plans: quick compilation and serial collection save a third of its CPU."""
    return {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", **conf}


def _defaults(master: str) -> dict[str, str]:
    settings = {
        "spark.app.name": "pymq",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Without it Spark refuses readers that take filters from a query's WHERE.
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _jvm_environment(java: Java, master: str, answer_path: Path, home: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    # Python workers must import the same package, even if it is in a checkout and not installed.
    package_home = str(Path(pymq.__file__).resolve().parent.parent)
    paths = [package_home, *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    environ.update(
        JAVA_HOME=str(java.home),
        SPARK_HOME=str(home),
        SPARK_CONNECT_MODE="0",
        PYTHONPATH=os.pathsep.join(dict.fromkeys(paths)),
        _PYSPARK_DRIVER_CONN_INFO_PATH=str(answer_path),
    )
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environ


def _end_jvm(gateway: _Gateway) -> None:
    """End a JVM and remove all references to it.

    PySpark keeps its connection in class attributes, and the next session would use a closed one.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _Current.gateway = None
    _Current.users = 0
    connection = SparkContext._gateway
    if connection is not None:
        with suppress(Exception):
            connection.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    gateway.close()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
