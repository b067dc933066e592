"""Keeps the machine that runs the tests out of them: its default ports, and what its environment says.

A test never listens on RocketMQ's or PyMQ's default ports and never connects to one: a developer's own
``pymq standalone`` may serve there. ``PORTS`` watches the sockets of the pytest process and refuses. A command that a
test runs finds an environment without a cluster: its name server is ``NOWHERE`` unless the test names another one.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pymq.config import BrokerConfig, NamesrvConfig

BROKER_PORT = BrokerConfig().listen_port
DEFAULT_PORTS = {
    NamesrvConfig().listen_port: "name server",
    BROKER_PORT: "broker",
    BROKER_PORT - 2: "broker, for clients before 4.5",
    BROKER_PORT + 1: "broker, for slaves",
    BrokerConfig().metrics_prom_exporter_port: "metrics",
    8080: "proxy and dashboard",
    8081: "proxy, gRPC",
}
NOWHERE = "127.0.0.1:1"  # Nothing listens here: port 1 needs root, and its service is long gone.

_PROXIES = {
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
}
REGISTRY_VARIABLES = {"HOME", *_PROXIES}  # what a package manager needs of the machine

# What a shell or a CI runner may say that changes where commands connect, or what they print.
_REMOVED = {
    *("ROCKETMQ_HOME", "PYMQ_DEBUG", "LANGUAGE"),
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "TTY_COMPATIBLE"),
    *_PROXIES,
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS"),
}
_SET = {
    "NAMESRV_ADDR": NOWHERE,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "COLUMNS": "80",
    "LINES": "24",
    "TERM": "dumb",
    # A test's JVM lives for seconds: quick compilation and serial collection halve its CPU.
    "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_UMASK = 0o022

_ADVICE = "listen on port 0 and read the port, or use 127.0.0.1:1 for a server that isn't there"


class PortGuard:
    """Refuses what the pytest process does with ``ports``, and keeps it for :meth:`check`.

    It stands in front of Python's sockets and in front of uvloop, which opens its own.
    """

    def __init__(self, ports: Mapping[int, str]) -> None:
        self._ports = ports
        self.touched: list[str] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Guard the ports until ``patch`` is undone."""
        for method, verb, code in (
            ("connect", "connected to", errno.ECONNREFUSED),
            ("connect_ex", "connected to", errno.ECONNREFUSED),
            ("bind", "listened on", errno.EADDRINUSE),
        ):
            patch.setattr(socket.socket, method, self._guarded_socket(getattr(socket.socket, method), verb, code))
        try:
            import uvloop
        except ImportError:
            return
        for method, verb, code in (
            ("create_connection", "connected to", errno.ECONNREFUSED),
            ("create_server", "listened on", errno.EADDRINUSE),
        ):
            patch.setattr(uvloop.Loop, method, self._guarded_loop(getattr(uvloop.Loop, method), verb, code))

    def check(self) -> None:
        """Fails the test that touched a port since the last call."""
        if self.touched:
            touched, self.touched = self.touched, []
            pytest.fail(
                f"a test must not touch a default port, this one {'; '.join(touched)}: {_ADVICE}", pytrace=False
            )

    def _guarded_socket(self, real: Callable[..., Any], verb: str, code: int) -> Callable[..., Any]:
        def guarded(own: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple):  # a text or bytes is a path
                self._refuse(address[0], address[1], verb, code)
            return real(own, address)

        return guarded

    def _guarded_loop(self, real: Callable[..., Any], verb: str, code: int) -> Callable[..., Any]:
        async def guarded(loop: Any, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
            self._refuse(host, port, verb, code)
            return await real(loop, factory, host, port, **options)

        return guarded

    def _refuse(self, host: Any, port: Any, verb: str, code: int) -> None:
        name = self._ports.get(port)
        if name is not None:
            self.touched.append(f"{verb} {host}:{port} ({name})")
            raise OSError(code, f"{os.strerror(code)}: the tests' guard of default ports, {host}:{port}")


PORTS = PortGuard(DEFAULT_PORTS)


@contextmanager
def isolated(home: Path) -> Iterator[dict[str, str]]:
    """Set the same environment on every machine, for this process and its children. Yield the previous one.

    The suites' own knobs (``PYMQ_KILL_COUNT``, ``PYMQ_FUZZ_SEED``, …) stay.
    """
    before = dict(os.environ)
    umask = os.umask(_UMASK)
    with pytest.MonkeyPatch.context() as patch:
        for name in _REMOVED | {name for name in os.environ if name.startswith("LC_")}:
            patch.delenv(name, raising=False)
        for name, value in {**_SET, "HOME": str(home)}.items():
            patch.setenv(name, value)
        time.tzset()
        PORTS.install(patch)
        try:
            yield before
        finally:
            os.umask(umask)
    time.tzset()


@pytest.fixture(scope="session", autouse=True)
def machine_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Isolate every test. The value is the machine's own environment, for tests that need its package registry."""
    with isolated(tmp_path_factory.mktemp("home")) as before:
        yield before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    return (yield from _watched())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    return (yield from _watched())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    return (yield from _watched())


def _watched() -> Iterator[Any]:
    try:
        return (yield)
    finally:
        PORTS.check()
