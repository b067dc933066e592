"""Runs a real Apache RocketMQ name server and broker; needs Maven and Java."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bench import process
from bench.control import GET_BROKER_CLUSTER_INFO, BenchError, Control
from tests.ports import free_port_block

VERSION = "5.3.3"
START_DEADLINE_S = 90.0
# The flags of Apache's own start scripts for Java 9 and later.
JVM_FLAGS = [
    "-XX:+UseG1GC",
    "-XX:-OmitStackTraceInFastThrow",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]
_ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools")
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d %p %c - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


def cache_dir() -> Path:
    """Returns the directory that keeps the jars between runs: ``$PYMQ_BENCH_CACHE`` or ``~/.cache/pymq-bench``."""
    return Path(os.environ.get("PYMQ_BENCH_CACHE", Path.home() / ".cache" / "pymq-bench"))


def jars(version: str = VERSION) -> Path:
    """Returns the directory with all jars of a version; fetches them with Maven on first use.

    Raises:
        BenchError: Maven or Java is missing, or Maven failed.
    """
    for tool in ("mvn", "java"):
        if shutil.which(tool) is None:
            raise BenchError(f"--apache and java-push need {tool} on PATH: install Maven and a JDK, or leave them out")
    target = cache_dir() / f"apache-{version}"
    if (target / "complete").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for name in _ARTIFACTS
    )
    (target / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pymq</groupId><artifactId>bench</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={target}",
    ]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(
            f"Maven could not fetch Apache RocketMQ {version}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    (target / "complete").touch()
    return target


class ApacheBroker:
    """A name server and one master broker on free loopback ports, with their files under ``directory``."""

    name = "Apache"

    def __init__(
        self,
        directory: Path,
        heap: str = "512m",
        settings: Mapping[str, str] = MappingProxyType({}),
        version: str = VERSION,
    ) -> None:
        """``settings``: keys of broker.conf that override the defaults of this class."""
        self._directory = directory
        self._heap = heap
        self._version = version
        self._settings = settings
        self._processes: list[subprocess.Popen[bytes]] = []
        self.namesrv = ""
        self.broker = ""
        self.ready_s = 0.0

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._processes]

    @property
    def broker_pid(self) -> int:
        return self._processes[-1].pid

    def start(self) -> None:
        """Starts both and waits until the broker is registered; ``ready_s`` is the time that took.

        Raises:
            BenchError: one of them ended, or the broker did not register within 90 s.
        """
        self._classpath = self._class_path()
        home = self._directory / "home"
        (home / "conf").mkdir(parents=True)
        for role in ("namesrv", "broker", "proxy"):
            log = self._directory / f"{role}.log"
            (home / "conf" / f"rmq.{role}.logback.xml").write_text(_LOGBACK.format(log=log))
        begin = time.monotonic()
        namesrv_port, broker_port = free_port_block(), free_port_block()
        self.namesrv = f"127.0.0.1:{namesrv_port}"
        self.broker = f"127.0.0.1:{broker_port}"
        namesrv_conf = self._write("namesrv.properties", {"listenPort": namesrv_port})
        self._spawn("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", namesrv_conf)
        self._broker_conf = self._write("broker.properties", self._broker_settings(broker_port))
        self._spawn_broker()
        while not self._registered():
            if any(child.poll() is not None for child in self._processes):
                raise BenchError(f"Apache RocketMQ ended during start; see {self._directory}/*.out")
            if time.monotonic() - begin > START_DEADLINE_S:
                raise BenchError(f"Apache RocketMQ did not register within {START_DEADLINE_S:.0f} s")
            time.sleep(0.02)
        self.ready_s = time.monotonic() - begin

    def _class_path(self) -> str:
        return f"{jars(self._version)}/*"

    @property
    def store_directory(self) -> Path:
        return self._directory / "store"

    def last_words(self) -> str:
        """Returns the end of the broker's log."""
        return (self._directory / "broker.out").read_text()[-2000:].strip()

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""
        self._processes[-1].kill()
        self._processes[-1].wait()

    def stop_broker(self) -> None:
        """Stops only the broker, cleanly."""
        process.stop(self._processes[-1])

    def restart(self) -> float:
        """Starts only the broker again without waiting for it; returns the monotonic time of the start."""
        del self._processes[-1]
        begin = time.monotonic()
        self._spawn_broker()
        return begin

    def stop(self) -> None:
        for child in reversed(self._processes):
            process.stop(child)
        self._processes.clear()

    def topic_list_command(self) -> list[str]:
        """Returns mqadmin's command that lists topics."""
        main = "org.apache.rocketmq.tools.command.MQAdminStartup"
        return ["java", *JVM_FLAGS, "-cp", self._classpath, main, "topicList", "-n", self.namesrv]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "ROCKETMQ_HOME": str(self._directory / "home")}

    def _broker_settings(self, port: int) -> dict[str, object]:
        return {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "namesrvAddr": self.namesrv,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": port,
            "storePathRootDir": self._directory / "store",
            "storePathCommitLog": self._directory / "store" / "commitlog",
            "flushDiskType": "ASYNC_FLUSH",
            "brokerRole": "ASYNC_MASTER",
            "enablePropertyFilter": "true",
            **self._settings,
        }

    def _write(self, name: str, settings: dict[str, object]) -> str:
        path = self._directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def _spawn_broker(self) -> None:
        self._spawn("broker", "org.apache.rocketmq.broker.BrokerStartup", "-c", self._broker_conf)

    def _spawn(self, role: str, *arguments: str) -> None:
        heap = self._heap if role == "broker" else "256m"
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *JVM_FLAGS, f"-Duser.home={self._directory}"]
        command.append(f"-Djava.io.tmpdir={self._directory}")  # a killed one leaves files there
        with (self._directory / f"{role}.out").open("wb") as output:
            child = subprocess.Popen(
                [*command, "-cp", self._classpath, *arguments],
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(child)

    def _registered(self) -> bool:
        try:
            with Control(self.namesrv) as control:
                _, body = control.ask(GET_BROKER_CLUSTER_INFO, {})
            return self.broker.encode() in body
        except (OSError, BenchError):
            return False
