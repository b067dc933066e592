"""TestBroker: a name server and a broker in this process, on free ports, with files in memory and a movable clock."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, TypeVar

from pymq.broker.assembly.broker import Broker
from pymq.client import Admin
from pymq.clock import SystemClock
from pymq.config import BrokerConfig, load_broker_config
from pymq.errors import UsageError
from pymq.model.lite_groups import BIND_TOPIC
from pymq.model.message_types import TYPE_ATTRIBUTE
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.namesrv.server import NameServer
from pymq.net.runtime import new_event_loop
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.testing.clock import MovableClock
from pymq.testing.faults import Fault, Faults, answer_dropped, dropped, refused
from pymq.wire.codes import ResponseCode

T = TypeVar("T")

CALL_TIMEOUT_S = 30.0
# Work that one move of the clock causes may cause more: a round runs each job of the broker once.
ROUNDS_MAX = 200
_HOST = "127.0.0.1"
_DIRECTORY = "/data"
# Files in memory are made whole, so they are small.
_SETTINGS = {
    "mappedFileSizeCommitLog": "4194304",
    "mappedFileSizeConsumeQueue": "20000",
    "mapperFileSizeBatchConsumeQueue": "46000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


class TestBroker:
    """A name server and a broker for one test, in a thread of their own; a context manager that starts and stops them.

    Clients of the same process or of others connect to :attr:`namesrv`. Nothing is written to the disk. ``settings``:
    keys of broker.conf. All methods may be called from any thread; they return when what they do is done.
    """

    __test__ = False  # a name for pytest to pass over

    def __init__(self, **settings: str) -> None:
        self.namesrv = ""  # "host:port" of the name server, once started
        self.address = ""  # "host:port" of the broker
        self.clock = MovableClock(self._deliver_due)
        self._settings: Mapping[str, str] = {**_SETTINGS, "storePathRootDir": _DIRECTORY, **settings}
        self._files = MemoryFiles(now_ms=self.clock.now_ms)
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pymq-test-broker", daemon=True)
        self._faults = Faults(self._call_later, lambda: self.clock.is_moved)
        self._name_server = NameServer(clock=SystemClock())
        self._broker: Broker | None = None
        self._port = 0
        self._reserved: socket.socket | None = None

    # -- start and end -------------------------------------------------------------------------------------------

    def start(self) -> TestBroker:
        """Start both servers, once. Returns when clients can connect."""
        if self._thread.is_alive() or self._loop.is_closed():
            raise UsageError("this TestBroker was started before: make another one, or call restart()")
        self._thread.start()
        try:
            self._call(self._name_server.start(_HOST, 0))
            self.namesrv = self._name_server.address
            self._call(self._start_broker())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop both servers for good and forget all messages. May be called twice."""
        if self._loop.is_closed():
            return
        self._faults.clear()
        try:
            if self._thread.is_alive():
                self.kill()
                self._call(self._name_server.stop())
        finally:
            self._release_port()
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(CALL_TIMEOUT_S)
            self._loop.close()

    def kill(self) -> None:
        """End the broker as ``kill -9`` does: connections break, and the data is what a crash leaves.

        The name server goes on. Nothing happens when the broker does not run.
        """
        self._call(self._end_broker(Broker.kill))

    def stop(self) -> None:
        """Stop the broker as SIGTERM does. The name server goes on."""
        self._call(self._end_broker(Broker.stop))

    def restart(self) -> None:
        """Start the broker again, on the same port and data: after :meth:`kill` with a recovery.

        A broker that runs is stopped first. Faults stay.
        """
        self.stop()
        self._call(self._start_broker())

    @property
    def is_running(self) -> bool:
        """False between :meth:`kill` or :meth:`stop` and :meth:`restart`."""
        return self._broker is not None

    def __enter__(self) -> TestBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- topics --------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, queue_count: int = 4, message_type: str | None = None) -> None:
        """Make a topic, which clients can use at once. ``message_type``: such as "FIFO" or "LITE".

        Raises what :class:`~pymq.client.Admin` raises.
        """
        self._call(self._create_topic(name, queue_count, message_type))

    def create_group(self, name: str, lite_parent: str | None = None, *, retry_max: int = 16) -> None:
        """Make a consumer group, with ``lite_parent`` one that reads the lite topics of this topic."""
        attributes = {} if lite_parent is None else {f"+{BIND_TOPIC}": lite_parent}
        config = SubscriptionGroupConfig(group_name=name, retry_max_times=retry_max, attributes=attributes)
        self._call(self._create_group(config))

    # -- faults --------------------------------------------------------------------------------------------------

    def refuse(
        self,
        code: int = ResponseCode.SYSTEM_BUSY,
        *,
        topic: str | None = None,
        requests: str | int | None = "send",
        count: int | None = 1,
        remark: str = "a test refuses this request",
    ) -> Fault:
        """Answer the next ``count`` requests with ``code`` and do nothing of what they ask.

        ``requests``: a kind of :data:`~pymq.testing.faults.REQUEST_KINDS`, a request code, or None for all requests;
        ``topic``: only requests that name it; ``count`` None: until the fault is ended. Raises UsageError.
        """
        return self._faults.add(refused(code, remark), requests, topic, count)

    def delay(
        self,
        seconds: float,
        *,
        topic: str | None = None,
        requests: str | int | None = "send",
        count: int | None = 1,
    ) -> Fault:
        """Handle the next ``count`` requests only after so many seconds of real time; see :meth:`refuse`."""
        return self._faults.add(self._faults.delayed(seconds), requests, topic, count)

    def drop(self, *, topic: str | None = None, requests: str | int | None = "send", count: int | None = 1) -> Fault:
        """Lose the next ``count`` requests: their client waits until its own timeout; see :meth:`refuse`."""
        return self._faults.add(dropped, requests, topic, count)

    def drop_answer(
        self, *, topic: str | None = None, requests: str | int | None = "send", count: int | None = 1
    ) -> Fault:
        """Do what the next ``count`` requests ask and lose the answer. A client that tries again sends twice."""
        return self._faults.add(answer_dropped, requests, topic, count)

    def watch(
        self, *, topic: str | None = None, requests: str | int | None = "send", count: int | None = None
    ) -> Fault:
        """Count requests and change nothing: :meth:`Fault.wait <pymq.testing.faults.Fault.wait>` waits for them."""
        return self._faults.add(None, requests, topic, count)

    def clear_faults(self) -> None:
        """End all faults."""
        self._faults.clear()

    # -- on the loop ---------------------------------------------------------------------------------------------

    async def _start_broker(self) -> None:
        keys = {**self._settings, "namesrvAddr": self.namesrv, "listenPort": str(self._port), "fastListenPort": "-1"}
        broker = Broker(
            load_broker_config(None, keys, env={}),
            clock=self.clock,
            files=self._files,
            rng=random.Random(),
            front=self._faults,
        )
        self._release_port()
        try:
            self.address = await broker.start()
        except BaseException:
            await broker.kill()
            raise
        self._port = broker.config.listen_port
        self._broker = broker

    async def _end_broker(self, end: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        await end(broker)
        self._files = self._files.after_kill()
        # No other process may be given the port until this broker is back.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((_HOST, self._port))

    async def _create_group(self, config: SubscriptionGroupConfig) -> None:
        if self._broker is None:
            raise UsageError(f"group {config.group_name} can't be made while the broker is down: call restart() first")
        async with Admin(self.namesrv) as admin:
            await admin.groups.put(self.address, config)

    async def _create_topic(self, name: str, queue_count: int, message_type: str | None) -> None:
        if self._broker is None:
            raise UsageError(f"topic {name} can't be made while the broker is down: call restart() first")
        attributes = {} if message_type is None else {TYPE_ATTRIBUTE: message_type}
        config = TopicConfig(
            topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, attributes=attributes
        )
        async with Admin(self.namesrv) as admin:
            await admin.topics.put(self.address, config)

    def _deliver_due(self) -> None:
        """Run the broker's periodic work until it writes nothing more."""
        if self._thread.is_alive() and not self._loop.is_closed():
            self._call(self._run_due_jobs())

    async def _run_due_jobs(self) -> None:
        idle_rounds = 0
        for round_number in range(ROUNDS_MAX):
            broker = self._broker
            if broker is None or broker.parts is None or idle_rounds > 1:
                return
            end_before = broker.parts.store.physical_max_offset
            with _round_of_checks(broker.config) if round_number == 0 else nullcontext():
                broker.run_jobs()
            await asyncio.sleep(0)  # the turn's end: commits, and answers to those who wait
            idle_rounds = 0 if broker.parts.store.physical_max_offset > end_before else idle_rounds + 1

    # -- threads -------------------------------------------------------------------------------------------------

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            coroutine.close()
            raise UsageError("this TestBroker does not run, or was called on its own event loop: start it first")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_TIMEOUT_S)

    def _call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, function)

    def _release_port(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None


@contextmanager
def _round_of_checks(config: BrokerConfig) -> Iterator[None]:
    """Let a round of questions about open transactions be due: rounds go by the monotonic time, which goes on."""
    interval_ms, config.transaction_check_interval_ms = config.transaction_check_interval_ms, 0
    try:
        yield
    finally:
        config.transaction_check_interval_ms = interval_ms
