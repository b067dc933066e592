"""A seeded simulation of what clients hold: the proxy's receiving and sessions against a model of a broker's pop.

A request to the broker takes effect in one step, and its answer comes in a later one. Between them, or in their place,
the proxy is killed, the request or the answer is lost, or the client settles the message or leaves. Some fall silent.
``python -m tests.proxy.simulation --seeds 1000`` runs many seeds; a seed that fails is named.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pymq.clock import ManualClock
from pymq.errors import RefusedError, UnreachableError
from pymq.model import pop
from pymq.proxy import receipts
from pymq.proxy.protocol.messages import Duration, Settings
from pymq.proxy.protocol.names import Code
from pymq.proxy.receipts import Handle, HeldMessages, decode_handle, encode_handle
from pymq.proxy.receiving import GIVE_BACK_MS, Receiving
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import SILENT_MS_MAX, Session, Sessions
from pymq.proxy.waits import Waits
from pymq.wire.codes import ResponseCode

GROUP, TOPIC = "group", "topic"
STEPS = 200
MESSAGE_COUNT = 8
CLIENT_COUNT = 4
CALL_TIMEOUT_MS = 3_000
STEP_MS_MAX = 9_000  # less than RENEW_AHEAD_MS, so that a tick never comes too late
UNHELD_MS_MAX = 30_000  # a message whose client left comes again so soon


@dataclass
class Stored:
    """A message at the model broker. ``popped_ms`` and ``invisible_ms`` are those of the receipt that counts."""

    offset: int
    popped_ms: int = 0
    invisible_ms: int = 0
    is_acked: bool = False

    def is_visible(self, now_ms: int) -> bool:
        return not self.is_acked and now_ms >= self.popped_ms + self.invisible_ms


@dataclass
class Request:
    """A request on its way: ``apply`` is what it does at the broker; then ``answer`` is on its way back."""

    offset: int
    apply: Callable[[], Any]
    future: asyncio.Future[Any]
    answer: Any = None
    is_applied: bool = False


class ModelBroker:
    """Hands messages out, and settles them by their handles: the part of a backend that receiving asks."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.messages = [Stored(offset) for offset in range(MESSAGE_COUNT)]
        self.requests: list[Request] = []

    def pop(self) -> Handle | None:
        now_ms = self._clock.now_ms()
        for each in self.messages:
            if each.is_visible(now_ms):
                each.popped_ms, each.invisible_ms = now_ms, receipts.AUTO_RENEW_INVISIBLE_MS
                return self._handle(each)
        return None

    async def ack(self, topic: str, group: str, handle: Handle) -> None:
        await self._ask(handle, lambda: self._ack(handle))

    async def check_place(self, topic: str, group: str, handle: Handle) -> None:
        """Every handle of the simulation names its message."""

    async def to_dead_letters(self, topic: str, group: str, handle: Handle, message_id: str) -> None:
        await self._ask(handle, lambda: self._ack(handle))

    async def change_invisible(self, topic: str, group: str, handle: Handle, invisible_ms: int) -> Handle:
        changed: Handle = await self._ask(handle, lambda: self._change(handle, invisible_ms))
        return changed

    async def _ask(self, handle: Handle, apply: Callable[[], Any]) -> Any:
        request = Request(handle.offset, apply, asyncio.get_running_loop().create_future())
        self.requests.append(request)
        return await request.future

    def _ack(self, handle: Handle) -> None:
        """Settle a message. As at a broker, an outdated handle gets no error within its time, and settles nothing."""
        each = self._current(handle)
        if each is not None:
            each.is_acked = True
        elif self._clock.now_ms() >= handle.end_ms:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "the receipt is over")

    def _change(self, handle: Handle, invisible_ms: int) -> Handle:
        each = self._current(handle)
        if each is None:
            raise RefusedError(ResponseCode.NO_MESSAGE, pop.RECEIPT_OVER)
        each.popped_ms, each.invisible_ms = self._clock.now_ms(), invisible_ms
        return self._handle(each)

    def _current(self, handle: Handle) -> Stored | None:
        each = self.messages[handle.offset]
        is_current = handle.receipt.pop_time_ms == each.popped_ms and self._clock.now_ms() < handle.end_ms
        return each if is_current and not each.is_acked else None

    def _handle(self, each: Stored) -> Handle:
        receipt = pop.Receipt(each.offset, each.popped_ms, each.invisible_ms, 0, pop.NORMAL, "broker")
        return Handle(receipt, 0, each.offset, each.offset)


@dataclass
class Client:
    """A client: the handles that it works on, and whether it is silent."""

    client_id: str
    working: dict[str, int] = field(default_factory=dict)  # handle as given out, with the time
    is_silent: bool = False


class World:
    """One proxy after the other, some clients, and one broker."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.broker = ModelBroker(self.clock)
        self.clients = [Client(f"client-{i}") for i in range(CLIENT_COUNT)]
        self.settling: set[asyncio.Task[None]] = set()
        self.errors: list[BaseException] = []  # of clients
        self.ticking: asyncio.Task[None] | None = None
        # Messages that may come again to others, or be told settled in vain: something happened since their delivery.
        self.uncertain: set[int] = set()
        self.unheld: dict[int, int] = {}  # messages whose clients left, with the time
        self.acked_count = 0
        self.kill_count = 0  # of proxies that had a renewal between its two steps
        self._start_proxy()

    def _start_proxy(self) -> None:
        self.held, self.sessions = HeldMessages(), Sessions()
        backend: Any = self.broker
        self.receiving = Receiving(backend, self.sessions, self.held, Waits(), self.clock)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def run(self) -> None:
        """Make faults, then none, and check that everything is settled in the end."""
        for _ in range(STEPS):
            await self.step(faults=True)
        for client in self.clients:
            client.is_silent = False
        for _ in range(STEPS // 2):
            await self.step(faults=False)
        self.clock.advance(receipts.HELD_MS_MAX)  # what clients settle no more comes again at last
        for _ in range(STEPS // 2):
            await self.step(faults=False)
        assert {each.offset for each in self.broker.messages if each.is_acked} == set(range(MESSAGE_COUNT))
        assert len(self.held) == 0, "the proxy still holds what is settled"
        assert not self.settling, "a client waits for an answer for ever"

    async def step(self, *, faults: bool) -> None:
        if self.broker.requests:
            self.clock.advance(CALL_TIMEOUT_MS)
            self.time_out()
            await self.settle_down()
        else:
            self.clock.advance(self.rng.randrange(1, STEP_MS_MAX))
        client = self.rng.choice(self.clients)
        action = self.rng.random()
        if action < 0.3:
            self.receive(client)
        elif faults and action < 0.34:
            client.is_silent = not client.is_silent
        for each in self.clients:
            if not each.is_silent:
                self.beat(each)
        self.tick()
        await self.settle_down()
        renewing = sorted({each.client_id for each in self.held._by_handle.values() if each.is_renewing})
        if faults and renewing and self.rng.random() < 0.6:
            busy = self.rng.choice(renewing)
            client = next(each for each in self.clients if each.client_id == busy)
            action = self.rng.uniform(0.5, 1.0)  # settle, leave, or a kill, between the two steps
        if action >= 0.34 and (action < 0.6 or not faults):
            self.settle(client)  # perhaps while its receipt is being renewed
        elif faults and 0.6 <= action < 0.66:
            self.leave(client)
        await self.deliver(faults=faults)
        if faults and action > 0.96:
            await self.kill()
        self.check_unheld()
        for error in self.errors:
            raise error

    # -- the network -----------------------------------------------------------------------------------------------

    async def deliver(self, *, faults: bool) -> None:
        """Take requests and answers to their ends in any order; lose some, and let some wait for the next step."""
        await self.settle_down()
        waiting: set[int] = set()
        while requests := [each for each in self.broker.requests if id(each) not in waiting]:
            request = self.rng.choice(requests)
            fate = self.rng.random() if faults else 1.0
            if fate < 0.05:
                self.uncertain.add(request.offset)
                self._end(request, UnreachableError("lost"))
            elif fate < 0.12:
                self.uncertain.add(request.offset)
                waiting.add(id(request))
            elif not request.is_applied:
                self._apply(request)
            else:
                self._end(request, request.answer)
            if self.rng.random() < 0.3:
                await self.settle_down()
            if faults and self.rng.random() < 0.03:
                self.settle(self.rng.choice(self.clients))
            if faults and self.rng.random() < 0.005:
                await self.kill()
            if len(waiting) == len(self.broker.requests):
                await self.settle_down()

    def time_out(self) -> None:
        """Give up what nobody answered in time; some of it still has its effect."""
        for request in list(self.broker.requests):
            if not request.is_applied and self.rng.random() < 0.5:
                self._apply(request)
            self._end(request, UnreachableError("no answer"))

    def _apply(self, request: Request) -> None:
        request.is_applied = True
        try:
            request.answer = request.apply()
        except RefusedError as error:
            request.answer = error

    def _end(self, request: Request, answer: Any) -> None:
        self.broker.requests.remove(request)
        if isinstance(answer, Exception):
            self.uncertain.add(request.offset)
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)

    async def settle_down(self) -> None:
        """Let run what can run without the broker."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def kill(self) -> None:
        """End the proxy in the midst of all that it does; requests that it sent still reach the broker, or don't."""
        self.kill_count += any(each.is_applied for each in self.broker.requests)
        for request in list(self.broker.requests):
            if not request.is_applied and self.rng.random() < 0.5:
                self._apply(request)
        self.broker.requests.clear()
        tasks = [*self.settling, *self.receiving._tasks]
        tasks += [self.ticking] if self.ticking is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.ticking = None
        self.uncertain |= {decode_handle(given).offset for client in self.clients for given in client.working}
        self.uncertain |= self.unheld.keys()
        self.unheld.clear()
        self._start_proxy()

    # -- clients ---------------------------------------------------------------------------------------------------

    def beat(self, client: Client) -> None:
        now_ms = self.clock.monotonic_ms()
        if self.sessions.touch(client.client_id, "", now_ms) is None:
            self.sessions.put(Session(client.client_id, Settings(), "", "", now_ms))

    def receive(self, client: Client) -> None:
        if client.is_silent:
            return
        handle = self.broker.pop()
        if handle is None:
            return
        offset = handle.offset
        for other in self.clients:
            for given, since_ms in list(other.working.items()):
                if decode_handle(given).offset == offset:
                    is_excused = offset in self.uncertain or other.is_silent
                    is_excused = is_excused or self.now_ms - since_ms >= receipts.HELD_MS_MAX
                    assert is_excused, "a held message was given to another"
                    del other.working[given]
        self.uncertain.discard(offset)
        self.unheld.pop(offset, None)
        given = encode_handle(handle)
        assert self.held.hold(client.client_id, GROUP, TOPIC, handle, self.now_ms)
        client.working[given] = self.now_ms

    def settle(self, client: Client) -> None:
        """Acknowledge, give up, or put off one of the messages that a client works on."""
        if not client.working:
            return
        given = self.rng.choice(sorted(client.working))
        del client.working[given]
        names = {"topic": SimpleNamespace(name=TOPIC), "group": SimpleNamespace(name=GROUP)}
        entry = SimpleNamespace(receipt_handle=given, message_id="id")
        call: Any = SimpleNamespace(client_id=client.client_id)
        kind = self.rng.random()
        if kind < 0.7:
            asked = self.receiving.ack_message(call, SimpleNamespace(**names, entries=[entry]))
        elif kind < 0.85:
            request = SimpleNamespace(**names, receipt_handle=given, message_id="id")
            asked = self.receiving.forward_message_to_dead_letter_queue(call, request)
        else:
            request = SimpleNamespace(**names, receipt_handle=given, invisible_duration=Duration(seconds=1))
            asked = self.receiving.change_invisible_duration(call, request)
        task = asyncio.get_running_loop().create_task(self._answered(decode_handle(given).offset, asked, kind < 0.85))
        self.settling.add(task)
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self.settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)

    async def _answered(self, offset: int, asked: Coroutine[Any, Any, Any], is_final: bool) -> None:
        try:
            answer = await asked
        except (UnreachableError, RefusedError, ProxyRefusal):
            self.uncertain.add(offset)
            return
        if answer.status.code != Code.OK:
            self.uncertain.add(offset)
        elif is_final:
            is_acked = self.broker.messages[offset].is_acked
            assert is_acked or offset in self.uncertain, "a client was told that a message is settled, but it is not"
            self.acked_count += is_acked

    def leave(self, client: Client) -> None:
        self.sessions.remove(client.client_id)
        self._left(client)
        self.receiving.give_back_client(client.client_id)

    def _left(self, client: Client) -> None:
        offsets = {decode_handle(given).offset for given in client.working}
        self.unheld |= dict.fromkeys(offsets - self.uncertain, self.now_ms)
        client.working.clear()

    def check_unheld(self) -> None:
        """A message whose client left is there for others soon, not only after a long renewal."""
        for offset, since_ms in list(self.unheld.items()):
            stored = self.broker.messages[offset]
            if offset in self.uncertain or stored.is_acked or stored.is_visible(self.now_ms):
                del self.unheld[offset]
            else:
                assert self.now_ms - since_ms <= UNHELD_MS_MAX, "what a client left behind does not come again"

    def tick(self) -> None:
        for session in self.sessions.silent(self.clock.monotonic_ms()):
            silent = next(each for each in self.clients if each.client_id == session.client_id)
            assert silent.is_silent, "a client that beats was forgotten"
            self._left(silent)
            self.receiving.give_back_client(session.client_id)
        if self.ticking is not None and self.ticking.done():
            self.ticking.result()
            self.ticking = None
        if self.ticking is None:
            self.ticking = asyncio.get_running_loop().create_task(self.receiving.renew_due())


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError."""

    async def main() -> World:
        world = World(seed)
        await world.run()
        return world

    return asyncio.run(main())


def main(arguments: Any = None) -> None:
    """Run many seeds, and print the one that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    kills = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            kills += run(seed).kill_count
        except AssertionError as error:
            raise SystemExit(f"seed {seed}: {error}") from error
    print(f"{options.seeds} seeds passed; {kills} proxies were killed between an effect at the broker and its answer")


assert SILENT_MS_MAX > 2 * STEP_MS_MAX  # a client that beats in each step is never silent for too long
assert GIVE_BACK_MS + STEP_MS_MAX < UNHELD_MS_MAX

if __name__ == "__main__":
    main()
