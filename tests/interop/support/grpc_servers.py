"""Servers of the gRPC protocol: Apache's proxy in local mode, and `pymq proxy` in front of `pymq standalone`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.interop.support import probe
from tests.interop.support.apache import CLUSTER, READY_TIMEOUT_S, ApacheServer
from tests.interop.support.process import Server
from tests.interop.support.pymq_server import REPOSITORY, PymqServer
from tests.ports import free_port_block

HOST = "127.0.0.1"


class ApacheProxy(ApacheServer):
    """One process that is both proxy and broker, with its name server; `endpoint` is its gRPC address."""

    artifact_set = "proxy-5.3.3"

    def _broker_program(self, settings: Path) -> list[str]:
        grpc_port, remoting_port = free_port_block(0, 0), free_port_block(0, 0)
        self.endpoint = f"{HOST}:{grpc_port}"
        proxy_settings = self.directory / "proxy.json"
        ports = {"grpcServerPort": grpc_port, "remotingListenPort": remoting_port}
        common = {"rocketMQClusterName": CLUSTER, "namesrvAddr": self.namesrv}
        proxy_settings.write_text(json.dumps({**common, **ports}))
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        return [main, "-pm", "local", "-n", self.namesrv, "-bc", str(settings), "-pc", str(proxy_settings)]

    def restart(self) -> None:
        """Kill the process that is both proxy and broker, and start it again at the same ports."""
        self._broker.kill()
        template = {"topic": "TBW102"}
        probe.wait_until(
            "the name server to miss the broker", lambda: probe.call(self.namesrv, probe.GET_ROUTE, template).code != 0
        )
        self._broker = Server("broker", self._broker_command, self.directory)
        probe.wait_until("the Apache broker to register again", self._registered, timeout_s=READY_TIMEOUT_S)

    restart_cleanly = restart  # a clean stop takes 15 s


class Proxy:
    """A process `pymq proxy` in front of a cluster; `endpoint` is its address."""

    def __init__(self, directory: Path, namesrv: str, module: str = "pymq") -> None:
        """``module`` is what runs, `pymq` or what stands for it."""
        port = free_port_block(0, 0)
        self.endpoint = f"{HOST}:{port}"
        self._directory = directory
        self._command = [sys.executable, "-m", module, "proxy", "--namesrv", namesrv]
        self._command += ["--host", HOST, "--port", str(port)]
        self._start()

    def _start(self) -> None:
        self._server = Server("proxy", self._command, self._directory, env={"PYTHONPATH": str(REPOSITORY)})
        try:
            probe.wait_until("the proxy to listen", self._listens)
        except AssertionError:
            self.stop()
            raise

    def _listens(self) -> bool:
        self._server.assert_running()
        return probe.listens(self.endpoint)

    def restart(self) -> None:
        """Kill the proxy and start it again at the same port; the broker goes on."""
        self._server.kill()
        self._start()

    def restart_cleanly(self) -> None:
        """Stop the proxy and start it again at the same port."""
        code = self.stop()
        assert code == 0, f"the proxy ended with {code}:\n{self._server.log_tail()}"
        self._start()

    def stop(self) -> int:
        """Stop the proxy; return its exit code."""
        return self._server.stop()


class PymqProxy(PymqServer):
    """A standalone server and a proxy in front of it; `endpoint` is the proxy's address."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, settings)
        try:
            proxy = Proxy(directory, self.namesrv, "tests.interop.support.soon_renewing")
        except AssertionError:
            super().stop()
            raise
        self._proxy, self.endpoint = proxy, proxy.endpoint
        self.restart, self.restart_cleanly = proxy.restart, proxy.restart_cleanly

    def stop(self) -> int:
        """End both processes; return the exit code of the standalone server."""
        self._proxy.stop()
        return super().stop()


class PymqPort(PymqServer):
    """A standalone server that serves gRPC itself; `endpoint` is where."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        port = free_port_block(0, 0)
        self.endpoint = f"{HOST}:{port}"
        super().__init__(directory, settings, options=("--grpc-port", str(port)))

    def restart_cleanly(self) -> None:
        """Stop the server and start it again on its directory, with its port for gRPC."""
        code = self.stop()
        assert code == 0, f"the server ended with {code}:\n{self.log_tail()}"
        self._start()

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.kill()
        self._start()


class ProxyOnApache:
    """`pymq proxy` in front of a running Apache server."""

    kind = "pymq proxy on apache"

    def __init__(self, directory: Path, apache: ApacheServer) -> None:
        self._proxy = Proxy(directory, apache.namesrv)
        self.endpoint, self.namesrv, self.broker = self._proxy.endpoint, apache.namesrv, apache.broker
        self.stop = self._proxy.stop


GrpcServer = ApacheProxy | PymqProxy | PymqPort | ProxyOnApache
