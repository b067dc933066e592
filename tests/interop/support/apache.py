"""A real Apache RocketMQ 5.3.3, 5.5.0 and 4.9.7: name server and broker on free loopback ports, with small heaps."""

from __future__ import annotations

from pathlib import Path

from tests.interop.support import probe
from tests.interop.support.maven import class_path
from tests.interop.support.process import Server
from tests.interop.support.tools import own_places, require
from tests.ports import free_port_block

CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"
SEGMENT_SIZE_BYTES = 128 * 1024 * 1024
READY_TIMEOUT_S = 180
STOP_TIMEOUT_S = 90
# An idle broker scans its whole timer wheel at this period (default 1000): most of its processor time.
TIMER_FLUSH_INTERVAL_MS = "60000"
# So that tests of transactions need not wait: by default half a minute. A broker gives up after transactionCheckMax
# checks (15), which may be over before a slow machine has come to the next step.
CHECKS_SOON = {"transactionTimeOut": "2000", "transactionCheckInterval": "1000", "transactionCheckMax": "1000"}
TERMINATED = 143  # exit code of a JVM after SIGTERM

# The options of Apache's own start scripts for Java 9 and later, without the collector settings.
JVM_FLAGS = [
    "-Xms64m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=1g",  # each thread of its timer takes 4 MiB, and sends and connections much more
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]


class ApacheServer:
    """Name server and broker processes; `namesrv` and `broker` are their "host:port" addresses."""

    kind = "apache"
    cluster = CLUSTER
    broker_name = BROKER_NAME
    artifact_set = "server-5.3.3"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, store: Path | None = None) -> None:
        self.directory = directory
        self.store = store or directory / "store"
        directory.mkdir(parents=True, exist_ok=True)
        self._prepare()
        try:
            self._start(settings or {})
        except AssertionError:
            if not (self._namesrv.found_port_taken() or self._broker.found_port_taken()):
                raise
            self._start(settings or {})

    def _prepare(self) -> None:
        """Write what the servers read besides their settings."""

    def _start(self, settings: dict[str, str]) -> None:
        namesrv_port = free_port_block(0, 0)
        broker_port = free_port_block()
        self.namesrv = f"127.0.0.1:{namesrv_port}"
        self.broker = f"127.0.0.1:{broker_port}"
        (java,) = require("java")
        jars = class_path(self.artifact_set)
        directory = self.directory
        base = [java, *JVM_FLAGS, f"-Drocketmq.home.dir={directory}", *own_places(directory), "-cp", jars]
        namesrv_conf = self._write("namesrv.conf", {"listenPort": str(namesrv_port), "bindAddress": "127.0.0.1"})
        broker_conf = self._write("broker.conf", {**self._broker_settings(broker_port), **settings})
        self._namesrv = Server(
            "namesrv", [*base, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(namesrv_conf)], directory
        )
        self._broker_command = [*base, *self._broker_program(broker_conf)]
        self._broker = Server("broker", self._broker_command, directory)
        try:
            probe.wait_until("the Apache broker to register", self._registered, timeout_s=READY_TIMEOUT_S)
        except AssertionError as failure:
            logs = f"{self._namesrv.log_tail()}\n{self._broker.log_tail()}"
            self.stop()
            raise AssertionError(f"{failure}\n{logs}") from None

    def _broker_program(self, settings: Path) -> list[str]:
        """Return the main class of the broker's process, and its arguments."""
        return ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(settings)]

    def _broker_settings(self, port: int) -> dict[str, str]:
        return {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER_NAME,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": "98",
            # A busy machine must not make it refuse sends (default 200 ms) or report a busy page cache (1 s).
            "waitTimeMillsInSendQueue": "20000",
            "osPageCacheBusyTimeOutMills": "20000",
            "deleteWhen": "04",
            "timerFlushIntervalMs": TIMER_FLUSH_INTERVAL_MS,
            "enableMixedMessageType": "true",
            "enablePropertyFilter": "true",
            "recallMessageEnable": "true",
            **CHECKS_SOON,
            # It asks again about what ended within this time (default 3000), which the short times above would show.
            "transactionOpBatchInterval": "100",
        }

    def _write(self, name: str, settings: dict[str, str]) -> Path:
        path = self.directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _registered(self) -> bool:
        self._namesrv.assert_running()
        self._broker.assert_running()
        # The first full registration holds the template topic, which clients need to create topics.
        return probe.call(self.namesrv, probe.GET_ROUTE, {"topic": "TBW102"}).code == 0

    def close_store(self) -> None:
        """Stop the broker cleanly, so that its files are complete, and the name server; takes about 15 s."""
        code = self._broker.stop(STOP_TIMEOUT_S)
        assert code == TERMINATED, f"the broker ended with {code}, not cleanly:\n{self._broker.log_tail()}"
        assert not (self.store / "abort").exists(), "the broker stopped cleanly but left its abort file"
        self._namesrv.kill()

    def stop(self) -> None:
        """Kill both processes: a clean stop of the broker takes 15 s, and its files are not needed."""
        self._broker.kill()
        self._namesrv.kill()


class Apache4Server(ApacheServer):
    """A real Apache RocketMQ 4.9.7: it ignores the settings that came with 5."""

    artifact_set = "server-4.9.7"

    def _prepare(self) -> None:
        conf = self.directory / "conf"
        conf.mkdir(exist_ok=True)
        for server in ("namesrv", "broker"):
            (conf / f"logback_{server}.xml").write_text("<configuration/>")


class Apache55Server(ApacheServer):
    """A real Apache RocketMQ 5.5.0."""

    artifact_set = "server-5.5.0"
