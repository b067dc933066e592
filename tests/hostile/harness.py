"""Tools of the attacks: a server process under attack, its memory and CPU time, and a client that must not be affected.

Everything blocks: an attacker is a thread or a plain socket. Frames come from :mod:`tests.net.hostile`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from pymq.testing.standalone import StandaloneProcess
from pymq.wire.command import Command, decode_command
from pymq.wire.framing import FrameBuffer
from tests.net.hostile import MIB, PULL, V2, ask

# How many times larger than in docs/testing.md an attack is; 0: the smaller sizes of the suite.
SCALE = int(os.environ.get("PYMQ_HOSTILE_SCALE", "0"))
SOCKET_TIMEOUT_S = 60.0 * max(1, SCALE)
PROBE_PERIOD_S = 0.01
# Another client's latency while all tests share the cores of a busy machine. It says that the client is served at all;
# what an attack costs is measured in the server's CPU time.
MEDIAN_MAX_MS = 2_000
SLOWEST_MAX_MS = 20_000
# With a scale. Then the client has a process of its own, which goes before others, and the limit is on the CPU time
# that the server spent between a request and its answer: on a machine without other work, that is the latency.
P99_MAX_MS = 200
CONNECTIONS_OF_ONE_ADDRESS = 500  # a server allows 1,024

__all__ = ["MIB", "PULL", "SCALE", "V2", "Health", "Peer", "Victim", "ask", "eventually", "sized"]

_PIDS: dict[str, int] = {}  # by address, the process that serves it
FIGURES: dict[str, list[str]] = {}  # by test, what an attack cost; the terminal's summary shows it


def sized(usual: int, attack: int) -> int:
    """Return how large an attack is: ``usual`` in the suite, with a scale so many times ``attack``."""
    return attack * SCALE if SCALE else usual


def note(text: str) -> None:
    """Keep a figure of the test that runs."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("/")[2]
    FIGURES.setdefault(test, []).append(text)


class Peer:
    """A blocking socket that speaks frames, or anything else."""

    def __init__(self, address: str, *, receive_buffer_bytes: int | None = None, source: str = "") -> None:
        """``address`` is "host:port"; ``source`` is the address to come from.

        A small ``receive_buffer_bytes`` makes a reader that never reads effective.
        """
        host, _, port = address.rpartition(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if source:
            self.socket.bind((source, 0))
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(SOCKET_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect((host, int(port)))
        self._frames = FrameBuffer(64 * MIB)
        self._ready: list[bytes] = []

    def send(self, raw: bytes) -> bool:
        """Send all bytes. Return False when the server closed the connection meanwhile."""
        try:
            self.socket.sendall(raw)
        except ConnectionError:
            return False
        return True

    def receive(self) -> Command | None:
        """Return the next answer, None when the server closed the connection. Raises TimeoutError."""
        while not self.read():
            pass
        return decode_command(self._ready.pop(0)) if self._ready else None

    def read(self) -> bool:
        """Read once, unless an answer is there. Return True when :meth:`receive` need not wait. Raises TimeoutError."""
        if not self._ready:
            try:
                data = self.socket.recv(256 * 1024)
            except ConnectionError:
                data = b""
            if not data:
                return True
            self._ready = self._frames.feed(data)
        return bool(self._ready)

    def call(self, raw: bytes) -> Command:
        """Send one request and return its answer."""
        assert self.send(raw), "the server closed the connection"
        answer = self.receive()
        assert answer is not None, "the server closed the connection"
        return answer

    def is_closed_by_server(self) -> bool:
        """Return True when the server has closed the connection; unread answers are dropped."""
        self.socket.settimeout(0.0)
        try:
            while self.socket.recv(MIB):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(SOCKET_TIMEOUT_S)
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Victim:
    """A ``pymq standalone`` process under attack. Use it as a context manager."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        descriptor_count: int | None = None,
        log_level: str = "warning",
        serves_grpc: bool = False,
        **settings: str,
    ) -> None:
        """``settings`` holds broker settings by RocketMQ's names; ``descriptor_count`` limits the process's files."""
        arguments = ["--metrics-port", "0", "--log-level", log_level, *(["--grpc-port", "0"] if serves_grpc else [])]
        self.process = StandaloneProcess(directory, settings=settings, arguments=arguments)
        if descriptor_count is not None:
            limited = ["/bin/sh", "-c", f'ulimit -n {descriptor_count}; exec "$@"', "sh"]
            self.process._command[:0] = limited
        self.first_rss_bytes = 0  # the memory that the process had after its start

    def __enter__(self) -> Victim:
        self.process.start()
        _PIDS[self.broker] = _PIDS[self.namesrv] = self.process.pid
        self.first_rss_bytes = self.rss_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.__exit__(kind, error, trace)

    @property
    def broker(self) -> str:
        """The broker's address, "host:port"."""
        return self.process.broker

    @property
    def namesrv(self) -> str:
        """The name server's address, "host:port"."""
        return self.process.namesrv

    def rss_bytes(self) -> int:
        """Return the memory that the process has now."""
        return self._status_bytes("VmRSS")

    def peak_rss_bytes(self) -> int:
        """Return the most memory that the process has had since :meth:`reset_peak`."""
        return self._status_bytes("VmHWM")

    def reset_peak(self) -> None:
        """Make the memory of this moment the peak."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu_s(self) -> float:
        """Return the CPU time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_file_count(self) -> int:
        """Return how many file descriptors the process has."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def metrics(self) -> dict[str, float]:
        """Scrape the process: name with labels -> value."""
        with urlopen(f"http://{self.process.metrics}/metrics", timeout=SOCKET_TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        found = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in found}

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels. Raises KeyError for an unknown name."""
        values = [value for full, value in self.metrics().items() if full.partition("{")[0] == name]
        if not values:
            raise KeyError(name)
        return sum(values)

    def held_bytes(self) -> float:
        """Return what the process holds for connections. Registrations of brokers stay while those live."""
        metrics, name = self.metrics(), "pymq_memory_held_bytes"
        return sum(value for full, value in metrics.items() if full.startswith(name) and "registrations" not in full)

    def _status_bytes(self, key: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(key)


class Health:
    """A well-behaved client beside an attack: it asks every 10 ms and notes how long each answer takes."""

    def __init__(self, address: str, probe: bytes | None = None) -> None:
        """``probe`` is the request; by default a request that every server answers from memory."""
        self._address = address
        self._probe = probe if probe is not None else ask(999)
        self._stop = threading.Event()
        self._child: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow if SCALE else self._run, daemon=True)
        self.latencies_ms: list[float] = []
        self.server_ms: list[float] = []  # with a scale: of the latencies, the server's CPU time
        self.error: Exception | None = None

    def _run(self) -> None:
        try:
            for latency_ms, _ in probe_latencies(self._address, self._probe, self._stop):
                self.latencies_ms.append(latency_ms)
        except Exception as error:  # raised in the test's own thread
            self.error = error

    def _follow(self) -> None:
        """Let another process ask: in this one, a large attack keeps the client's thread waiting, not the server."""
        try:
            assert self._child is not None and self._child.stdout is not None
            for line in self._child.stdout:
                latency_ms, server_ms = map(float, line.split())
                self.server_ms.append(server_ms)
                self.latencies_ms.append(latency_ms)
            assert self._stop.is_set(), "the client's process ended before the attack"
        except Exception as error:  # raised in the test's own thread
            self.error = error

    def __enter__(self) -> Health:
        if SCALE:
            pid = str(_PIDS[self._address])
            command = [sys.executable, "-m", "tests.hostile.harness", self._address, self._probe.hex(), pid]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread.start()
        eventually(lambda: bool(self.latencies_ms) or self.error is not None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
        self._thread.join(SOCKET_TIMEOUT_S)
        if self._child is not None:
            self._child.wait(SOCKET_TIMEOUT_S)
            if self._child.stdout is not None:
                self._child.stdout.close()
        if kind is None and self.error is not None:
            raise self.error

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that ``percent`` of the answers did not exceed."""
        return percentile(self.latencies_ms, percent)

    def assert_served(self) -> None:
        """Check that this client was served beside the attack."""
        assert self.percentile_ms(50) < MEDIAN_MAX_MS
        assert self.percentile_ms(100) < SLOWEST_MAX_MS
        note(f"p99 {self.percentile_ms(99):.0f} ms of {len(self.latencies_ms)}")
        if SCALE:
            p99_ms, worst_ms = percentile(self.server_ms, 99), percentile(self.server_ms, 100)
            note(f"p99 {p99_ms:.0f} ms, at most {worst_ms:.0f} ms in the server's CPU time")
            assert p99_ms < P99_MAX_MS, f"p99 is {p99_ms:.0f} ms of the server's CPU time, the limit is {P99_MAX_MS}"


def percentile(values: list[float], percent: float) -> float:
    """Return the value that ``percent`` of them do not exceed."""
    ordered = sorted(values)
    assert ordered, "no answer was measured"
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def probe_latencies(
    address: str, probe: bytes, stop: threading.Event, server_s: Callable[[], float] = lambda: 0.0
) -> Iterator[tuple[float, float]]:
    """Ask every 10 ms until ``stop`` is set; yield how many ms each answer took, and how many by ``server_s``."""
    with Peer(address) as peer:
        while not stop.is_set():
            begun_s, server_begun_s = time.perf_counter(), server_s()
            peer.call(probe)
            yield (time.perf_counter() - begun_s) * 1000, (server_s() - server_begun_s) * 1000
            stop.wait(PROBE_PERIOD_S)


def eventually(condition: Callable[[], bool], within_s: float = SOCKET_TIMEOUT_S) -> None:
    """Wait until ``condition`` is true. Raises AssertionError when it does not become true in time.

    It looks less and less often: a condition may cost the server some time, a scrape of metrics for example.
    """
    deadline_s, pause_s = time.monotonic() + within_s, 0.01
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:.0f} s"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.25)


@contextlib.contextmanager
def many_peers(address: str, count: int, receive_buffer_bytes: int | None = None) -> Iterator[list[Peer]]:
    """Open ``count`` connections, from as many addresses as they need; close them at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Peer(address, receive_buffer_bytes=receive_buffer_bytes, source=source_of(number)))
            for number in range(count)
        ]


def source_of(number: int) -> str:
    """Return the loopback address that the connection with this number comes from."""
    return f"127.0.0.{1 + number // CONNECTIONS_OF_ONE_ADDRESS}"


def main(address: str, probe: str, pid: str) -> None:
    """Print what each answer takes until stdin ends; the process ``pid`` answers."""
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # else it waits for a CPU that the attacker has
    spent = Path(f"/proc/{pid}/task/{pid}/schedstat")  # of the main thread, in ns

    def server_s() -> float:
        return int(spent.read_text().split()[0]) / 1e9

    for latency_ms, server_ms in probe_latencies(address, bytes.fromhex(probe), stop, server_s):
        print(f"{latency_ms:.3f} {server_ms:.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
