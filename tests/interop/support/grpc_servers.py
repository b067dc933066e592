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


class PymqProxy(PymqServer):
    """A standalone server and a proxy in front of it; `endpoint` is the proxy's address."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, settings)
        port = free_port_block(0, 0)
        self.endpoint = f"{HOST}:{port}"
        self._command = [sys.executable, "-m", "pymq", "proxy", "--namesrv", self.namesrv]
        self._command += ["--host", HOST, "--port", str(port)]
        self._start_proxy()

    def _start_proxy(self) -> None:
        self._proxy = Server("proxy", self._command, self.directory, env={"PYTHONPATH": str(REPOSITORY)})
        try:
            probe.wait_until("the proxy to listen", self._listens)
        except AssertionError:
            self.stop()
            raise

    def _listens(self) -> bool:
        self._proxy.assert_running()
        return probe.listens(self.endpoint)

    def restart(self) -> None:
        """Kill the proxy and start it again at the same port; the broker goes on."""
        self._proxy.kill()
        self._start_proxy()

    def restart_cleanly(self) -> None:
        """Stop the proxy and start it again at the same port."""
        code = self._proxy.stop()
        assert code == 0, f"the proxy ended with {code}:\n{self._proxy.log_tail()}"
        self._start_proxy()

    def stop(self) -> int:
        """End both processes; return the exit code of the standalone server."""
        self._proxy.stop()
        return super().stop()


GrpcServer = ApacheProxy | PymqProxy
