"""Filter servers in their own processes beside a real broker, so that tests can kill them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pymq.spark.planning.remote import Remote
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from tests.cli.common.test_servers import STOP_TIMEOUT_S, first_line, process


@contextmanager
def filter_servers(server: StandaloneProcess, home: Path, count: int) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start ``count`` servers; return them by address, once the routes of the broker's topics name them."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(process("filter-server", "--broker", server.broker, "--json", home=home))
            for _ in range(count)
        ]
        servers = {json.loads(first_line(one))["filter_server"]: one for one in running}
        _wait_for_routes(server, list(servers))
        yield servers


def _wait_for_routes(server: StandaloneProcess, addresses: list[str]) -> None:
    asked = {"topic": "TBW102", "acceptStandardJsonOnly": "true"}
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    with Remote(server.namesrv) as remote:
        while True:
            route = bytes(remote.ask_ok(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)).body)
            if all(address.encode() in route for address in addresses):
                return
            assert time.monotonic() < deadline_s, f"no route names {addresses}"
            time.sleep(0.02)
