"""A standalone Spark cluster on this machine: a master and workers, as processes of PySpark's own jars."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pyspark

from pymq.spark.session.java import Java, JavaNotFoundError, find_java
from tests.interop.support.process import Server
from tests.ports import free_port_block

READY_TIMEOUT_S = 60.0
EXECUTOR_MEMORY = "512m"
# What a session on the cluster sets: all on this machine, one small executor on each worker.
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
}
_DEPLOY = "org.apache.spark.deploy"
_VECTOR_MODULE = "jdk.incubator.vector"


class StandaloneSpark:
    """A master and two workers with a core each. ``url`` is the master's; end it with :meth:`stop`."""

    def __init__(self, directory: Path, java: Java, *, workers: int = 2) -> None:
        self._directory = directory
        self._java = java
        self._lives = 0
        port = free_port_block(0, 0)
        self.url = f"spark://127.0.0.1:{port}"
        self._master = self._spawn("master", f"{_DEPLOY}.master.Master", "--port", str(port))
        self._await_port(port)
        self.workers = [self._spawn_worker() for _ in range(workers)]

    def kill_worker(self, number: int) -> None:
        """Kill a worker; its executors end with it."""
        self.workers[number].kill()

    def start_worker(self, number: int) -> None:
        """Start a worker in the place of one that was killed."""
        self.workers[number] = self._spawn_worker()

    def stop(self) -> None:
        """End all processes."""
        for server in (*self.workers, self._master):
            server.kill()

    def __enter__(self) -> StandaloneSpark:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn_worker(self) -> Server:
        work = self._directory / "work"
        options = ["--cores", "1", "--memory", EXECUTOR_MEMORY, "--work-dir", str(work)]
        return self._spawn("worker", f"{_DEPLOY}.worker.Worker", *options, self.url)

    def _spawn(self, name: str, main_class: str, *options: str) -> Server:
        self._lives += 1
        home = Path(pyspark.__file__).parent
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [str(self._java.executable), *flags, "-cp", str(home / "jars" / "*"), main_class]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *options]
        environment = {"SPARK_HOME": str(home), "JAVA_HOME": str(self._java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
        # Spark's shell scripts set it for a worker, which starts executors.
        (core,) = (home / "jars").glob("spark-core_*.jar")
        environment["SPARK_SCALA_VERSION"] = core.name.removeprefix("spark-core_").partition("-")[0]
        return Server(f"spark-{name}-{self._lives}", command, self._directory, env=environment)

    def _await_port(self, port: int) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            self._master.assert_running()
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                return
            except OSError:
                assert time.monotonic() < deadline, f"no Spark master in {READY_TIMEOUT_S:g} s"
                time.sleep(0.1)


def full_java() -> Java | None:
    """Return a Java that starts executors, None if there is none: Spark's scripts demand a module that wheels lack."""
    try:
        java = find_java()
    except JavaNotFoundError:
        return None
    modules = subprocess.run([java.executable, "--list-modules"], capture_output=True, text=True, check=True).stdout
    return java if _VECTOR_MODULE in modules else None
