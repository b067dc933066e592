"""Measures starts that read the log: after a kill, and after queues and index were deleted."""

import contextlib
import shutil
import threading
import time
from pathlib import Path
from typing import Protocol

from bench import answers, frames, process
from bench.cases import QUEUES, Figure, Server
from bench.control import BenchError, Control, connect, wait_until
from bench.sends import SendLoad, SendPlan

UNCLEAN_CASE = "unclean-start"
REBUILD_CASE = "rebuild"
RESTART_CASES = [UNCLEAN_CASE, REBUILD_CASE]
BODY_BYTES = 1024
FULL_MESSAGES = 1_730_000  # 2 GiB of log
QUICK_MESSAGES = 170_000
KILL_AFTER_S = 1.0
FIRST_SEND_DEADLINE_S = 120.0
POLL_S = 0.01
_TOPIC = "bench_restart"


class RestartServer(Server, Protocol):
    """A broker that can be killed and started again on its directory."""

    @property
    def store_directory(self) -> Path: ...
    def last_words(self) -> str:
        """Returns the end of the broker's log."""
        ...

    def stop_broker(self) -> None:
        """Stops the broker cleanly."""
        ...

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""
        ...

    def restart(self) -> float:
        """Starts the broker again at the same address without waiting; returns the monotonic time of the start."""
        ...


def measure_restarts(server: RestartServer, messages: int, cases: list[str]) -> list[Figure]:
    """Fills a log, kills the broker under load, and times its starts up to the first accepted send.

    Raises:
        BenchError: the broker did not come back, or with fewer messages than it had accepted.
    """
    server.start()
    try:
        with Control(server.broker) as control:
            control.create_topic(_TOPIC, QUEUES)
        accepted = _fill_and_kill(server, messages)
        log_bytes = _disk_bytes(server.store_directory / "commitlog")
        unclean_s, _ = _time_restart(server, accepted)
        figures = [
            Figure("unclean-start first send", unclean_s, "s", 3.0),
            Figure("unclean-start log", log_bytes / 2**30, "GiB", None),
        ]
        if REBUILD_CASE in cases:
            figures += _rebuild(server, accepted)
        return figures
    finally:
        server.stop()


def _fill_and_kill(server: RestartServer, messages: int) -> int:
    """Sends ``messages`` messages, and kills the broker while it receives more; returns the number surely accepted."""
    plan = SendPlan(_TOPIC, QUEUES, body_bytes=BODY_BYTES, batch=32, connections=2, in_flight=8)
    load = SendLoad(server.broker, plan)
    try:
        load.run(messages)
        killer = threading.Timer(KILL_AFTER_S, server.kill)
        killer.start()
        with contextlib.suppress(BenchError, OSError):
            load.run(messages)
        killer.join()
    finally:
        load.close()
    return messages


def _time_restart(server: RestartServer, accepted: int) -> tuple[float, float]:
    """Returns the seconds from the start to the first accepted send, and until all messages are in their queues."""
    begin = server.restart()
    _await_send(server, begin)
    sending_s = time.monotonic() - begin
    with Control(server.broker) as control:
        wait_until(lambda: sum(control.max_offsets(_TOPIC, QUEUES)) > accepted, f"{accepted} messages to be back")
    return sending_s, time.monotonic() - begin


def _rebuild(server: RestartServer, accepted: int) -> list[Figure]:
    server.stop_broker()
    _time_restart(server, accepted)
    usual_bytes = process.peak_resident_bytes(server.broker_pid)
    server.stop_broker()
    log_bytes = _disk_bytes(server.store_directory / "commitlog")
    for name in ("consumequeue", "index"):
        shutil.rmtree(server.store_directory / name)
    _, seconds = _time_restart(server, accepted)
    growth = process.peak_resident_bytes(server.broker_pid) - usual_bytes
    return [
        Figure("rebuild rate", log_bytes / 1e6 / seconds, "MB/s", 300.0, True),
        Figure("rebuild memory growth", growth / 1e6, "MB", 64.0),
    ]


def _await_send(server: RestartServer, begin: float) -> None:
    """Returns once a send succeeds.

    Raises:
        BenchError: the broker ended, or did not accept a send in time; the text has its last refusal and log lines.
    """
    refusal = "none was answered"
    stream = frames.SendStream(_TOPIC, QUEUES, BODY_BYTES, first_number=1 << 30)
    frame = bytes(stream.take(1))
    while time.monotonic() - begin < FIRST_SEND_DEADLINE_S:
        try:
            with connect(server.broker) as sock:
                counter = answers.AnswerCounter()
                sock.sendall(frame)
                while not counter.frames:
                    data = sock.recv(1 << 16)
                    if not data:
                        break
                    counter.feed(data)
                if counter.succeeded:
                    return
                refusal = counter.first_refusal or refusal
        except OSError:
            pass  # the broker does not listen yet
        if not process.is_running(server.broker_pid):
            raise BenchError(f"the broker ended during its start: {server.last_words()}")
        time.sleep(POLL_S)
    raise BenchError(
        f"no send was accepted within {FIRST_SEND_DEADLINE_S:.0f} s of the start, {refusal}: {server.last_words()}"
    )


def _disk_bytes(directory: Path) -> int:
    """Returns the bytes used on disk; log segments are sparse."""
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())
