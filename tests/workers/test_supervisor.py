"""The supervisor with small programs in place of brokers: starts, ends, those that are left down, and their metrics."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import pytest

from pymq.clock import ManualClock
from pymq.errors import UsageError
from pymq.net.runtime import new_event_loop
from pymq.net.service_manager import VARIABLE
from pymq.store.disk.workers_file import planned_layout
from pymq.workers import restarts
from pymq.workers.metrics import WorkersEndpoint
from pymq.workers.process import WorkerProcess
from pymq.workers.restarts import ENDS_MAX
from pymq.workers.supervisor import SETTLE_MS, Supervised, Supervisor

GOOD = """
import os, sys
print('{"broker": "127.0.0.1:1", "notify": "%s"}' % os.environ.get("NOTIFY_SOCKET", ""), flush=True)
text = "# HELP up text\\n# TYPE up gauge\\nup{node_id=\\"" + NAME + "\\"} 1\\n"
for line in sys.stdin:
    answer = text if line == "metrics\\n" else LEFT
    print('{"bytes":%d}' % len(answer), flush=True)
    print(answer, end="", flush=True)
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"broker": "127.0.0.1:1"}', flush=True)
while True:
    signal.pause()
"""
BAD = "raise SystemExit(1)"
WRONG = "raise SystemExit(2)"


class Machine:
    """A supervisor whose workers run ``programs``, by number."""

    def __init__(self, *programs: str, retiring: tuple[int, ...] = ()) -> None:
        self.programs = list(programs)
        self.left = "null"
        self.retired: list[str] = []
        self.clock = ManualClock()
        workers = planned_layout(None, "m", len(programs)).active
        self.supervisor = Supervisor(
            workers,
            self._start,
            clock=self.clock,
            retiring=retiring,
            on_retired=lambda worker: self.retired.append(worker.name),
        )

    async def _start(self, one: Supervised) -> WorkerProcess:
        return await WorkerProcess.start(self._command(one), {**os.environ, VARIABLE: "/none"})

    def _command(self, one: Supervised) -> list[str]:
        worker = one.worker
        return [sys.executable, "-c", f"NAME = {worker.name!r}\nLEFT = {self.left!r}\n{self.programs[worker.number]}"]

    def __getitem__(self, number: int) -> Supervised:
        return self.supervisor.supervised[number]

    def pid(self, number: int) -> int:
        process = self[number].process
        assert process is not None
        return process.pid

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - what happens comes from another process
                await asyncio.sleep(0.01)


def run(machine: Callable[[], Machine], work: Callable[[Machine], Awaitable[None]]) -> None:
    async def whole() -> None:
        made = machine()
        try:
            await work(made)
        finally:
            await made.supervisor.stop()

    asyncio.run(whole())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "DELAYS_MS", (0,) * (ENDS_MAX - 1))


def test_a_worker_that_ends_starts_again_and_its_neighbor_goes_on() -> None:
    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        assert machine[0].process is not None and machine[0].process.ready == {"broker": "127.0.0.1:1", "notify": ""}
        first, neighbor = machine.pid(0), machine.pid(1)
        os.kill(first, signal.SIGKILL)
        await machine.until(lambda: machine[0].is_up and machine.pid(0) != first)
        assert machine.pid(1) == neighbor and machine[1].restarts.restart_count == 0
        assert machine[0].restarts.restart_count == 1 and machine[0].address == "127.0.0.1:1"

    run(lambda: Machine(GOOD, GOOD), work)


def test_one_that_ends_again_and_again_is_left_down_and_comes_back_on_request(caplog: pytest.LogCaptureFixture) -> None:
    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        assert machine[1].is_up and machine[0].restarts.is_left_down and not machine[0].is_up
        assert "worker m-0 ended with exit code 1 for the 5th time within 60 s and is left down" in caplog.text
        machine.programs[0] = GOOD
        assert machine.supervisor.revive() == ["m-0"]
        await machine.until(lambda: machine[0].is_up)
        assert machine.supervisor.revive() == []

    run(lambda: Machine(BAD, GOOD), work)


def test_an_end_for_a_wrong_setting_ends_the_start() -> None:
    async def work(machine: Machine) -> None:
        with pytest.raises(UsageError, match=r"worker m-1 did not start \(exit code 2\): its reason stands above"):
            await machine.supervisor.start()

    run(lambda: Machine(GOOD, WRONG), work)


def test_a_machine_without_any_worker_does_not_start() -> None:
    async def work(machine: Machine) -> None:
        with pytest.raises(UsageError, match="no worker started"):
            await machine.supervisor.start()

    run(lambda: Machine(BAD, BAD), work)


def test_a_program_that_is_not_there_counts_as_an_end() -> None:
    async def work(machine: Machine) -> None:
        machine._command = lambda _: ["/nothing/here"]  # type: ignore[method-assign,assignment]
        with pytest.raises(UsageError, match="no worker started"):
            await machine.supervisor.start()

    run(lambda: Machine(GOOD), work)


def test_a_worker_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.workers.supervisor.STOP_TIMEOUT_S", 0.2)

    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        pid = machine.pid(0)
        await machine.supervisor.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(lambda: Machine(STUBBORN), work)


def test_a_stop_during_the_start_leaves_no_process() -> None:
    async def work(machine: Machine) -> None:
        starting = asyncio.ensure_future(machine.supervisor.start())
        await machine.until(lambda: machine[0].process is not None)
        await machine.supervisor.stop()
        assert machine[0].process is None
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)

    run(lambda: Machine(GOOD), work)


def test_metrics_are_those_of_all_workers_that_answer() -> None:
    async def text(endpoint: WorkersEndpoint) -> str:
        return b"".join([piece async for piece in endpoint.text()]).decode()

    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        endpoint = WorkersEndpoint(machine.supervisor, {"node_type": "machine"})
        one, other = await asyncio.gather(text(endpoint), text(endpoint))
        for found in (one, other, await text(endpoint)):
            assert '\n# TYPE up gauge\nup{node_id="m-0"} 1\nup{node_id="m-1"} 1\n' in found
        assert 'pymq_worker_up{node_type="machine",node_id="m-0"} 1' in one
        machine.programs[1] = BAD
        os.kill(machine.pid(1), signal.SIGKILL)
        await machine.until(lambda: machine[1].restarts.is_left_down)
        found = await text(endpoint)
        assert 'up{node_id="m-0"} 1' in found and 'up{node_id="m-1"}' not in found
        assert 'pymq_worker_left_down{node_type="machine",node_id="m-1"} 1' in found
        assert f'pymq_worker_restarts_total{{node_type="machine",node_id="m-1"}} {ENDS_MAX - 1}' in found

    run(lambda: Machine(GOOD, GOOD), work)


def test_one_that_does_not_answer_delays_a_scrape_by_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.workers.metrics.ANSWER_TIMEOUT_S", 0.1)

    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        os.kill(machine.pid(0), signal.SIGSTOP)
        endpoint = WorkersEndpoint(machine.supervisor, {})
        try:
            silent = b"".join([piece async for piece in endpoint.text()]).decode()
            assert 'up{node_id="m-1"} 1' in silent and 'up{node_id="m-0"} 1\n' not in silent.replace("_up", "")
        finally:
            os.kill(machine.pid(0), signal.SIGCONT)
        monkeypatch.setattr("pymq.workers.metrics.ANSWER_TIMEOUT_S", 60)
        after = b"".join([piece async for piece in endpoint.text()]).decode()
        assert '\nup{node_id="m-0"} 1' in after, "the late answer is not taken for the next one's"

    run(lambda: Machine(GOOD, GOOD), work)


def test_a_worker_that_has_ended_is_asked_nothing() -> None:
    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        ended = machine[0].process
        assert ended is not None
        ended.end(at_once=True)
        await ended.wait()
        for _ in range(3):
            with pytest.raises(EOFError):
                await ended.metrics()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:  # uvloop, as the machine has it

        async def whole() -> None:
            made = Machine(GOOD)
            try:
                await work(made)
            finally:
                await made.supervisor.stop()

        runner.run(whole())


def test_a_worker_retires_once_nothing_has_been_left_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.workers.supervisor.LOOK_S", 0.01)

    async def work(machine: Machine) -> None:
        machine.left = '{"group g": 3, "timers": 1}'
        await machine.supervisor.start()
        await machine.until(lambda: machine[1].left == {"group g": 3, "timers": 1})
        endpoint = WorkersEndpoint(machine.supervisor, {})
        text = b"".join([piece async for piece in endpoint.text()]).decode()
        assert 'pymq_worker_left_messages{node_id="m-1"} 4\n' in text and 'left_messages{node_id="m-0"}' not in text
        machine.clock.advance(SETTLE_MS)
        assert machine[1].is_up
        machine.left = "{}"
        os.kill(machine.pid(1), signal.SIGKILL)
        await machine.until(lambda: machine[1].is_up and machine[1].left == {})
        assert not machine.retired
        while not machine.retired:
            machine.clock.advance(SETTLE_MS)
            await asyncio.sleep(0.01)
        assert machine.retired == ["m-1"] and machine[1].process is None and machine[0].is_up

    run(lambda: Machine(GOOD, GOOD, retiring=(1,)), work)


def test_one_that_does_not_know_what_is_left_does_not_retire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.workers.supervisor.LOOK_S", 0.001)
    monkeypatch.setattr("pymq.workers.supervisor.SETTLE_MS", 0)

    async def work(machine: Machine) -> None:
        await machine.supervisor.start()
        one = machine[0]
        for _ in range(20):
            assert await machine.supervisor._left(one) is None
        assert one.is_up and not machine.retired

    run(lambda: Machine(GOOD, retiring=(0,)), work)
