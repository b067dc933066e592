"""A seeded simulation of what clients hold: the proxy's receipts and sessions against a model of a broker's pop.

Clients receive, settle, fall silent and leave; proxies die between a receive and its acknowledgement; renewals fail.
``python -m tests.proxy.simulation --seeds 1000`` runs many seeds; a seed that fails is named.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field
from typing import Any

from pymq.model import pop
from pymq.proxy import receipts
from pymq.proxy.protocol.messages import Settings
from pymq.proxy.receipts import Handle, HeldMessages, decode_handle, encode_handle
from pymq.proxy.sessions import SILENT_MS_MAX, Session, Sessions

GROUP, TOPIC = "group", "topic"
STEPS = 300
MESSAGE_COUNT = 8
CLIENT_COUNT = 4
GIVE_BACK_MS = 1000
STEP_MS_MAX = 9_000  # less than RENEW_AHEAD_MS, so that a tick never comes too late


@dataclass
class Stored:
    """A message at the model broker. ``popped_ms`` and ``invisible_ms`` are those of the receipt that counts."""

    offset: int
    popped_ms: int = 0
    invisible_ms: int = 0
    is_acked: bool = False

    def is_visible(self, now_ms: int) -> bool:
        return not self.is_acked and now_ms >= self.popped_ms + self.invisible_ms


class ModelBroker:
    """Hands messages out, and settles them by their handles."""

    def __init__(self) -> None:
        self.messages = [Stored(offset) for offset in range(MESSAGE_COUNT)]

    def pop(self, now_ms: int) -> Handle | None:
        for each in self.messages:
            if each.is_visible(now_ms):
                each.popped_ms, each.invisible_ms = now_ms, receipts.AUTO_RENEW_INVISIBLE_MS
                return self._handle(each)
        return None

    def ack(self, handle: Handle, now_ms: int) -> bool:
        each = self._current(handle, now_ms)
        if each is not None:
            each.is_acked = True
        return each is not None

    def change(self, handle: Handle, invisible_ms: int, now_ms: int) -> Handle | None:
        each = self._current(handle, now_ms)
        if each is None:
            return None
        each.popped_ms, each.invisible_ms = now_ms, invisible_ms
        return self._handle(each)

    def _current(self, handle: Handle, now_ms: int) -> Stored | None:
        each = self.messages[handle.offset]
        is_current = handle.receipt.pop_time_ms == each.popped_ms and now_ms < handle.end_ms
        return each if is_current and not each.is_acked else None

    def _handle(self, each: Stored) -> Handle:
        receipt = pop.Receipt(each.offset, each.popped_ms, each.invisible_ms, 0, pop.NORMAL, "broker")
        return Handle(receipt, 0, each.offset, each.offset)


@dataclass
class Client:
    """A client: what it works on (handle as given out, with the time), and whether it is silent."""

    client_id: str
    working: dict[str, int] = field(default_factory=dict)
    is_silent: bool = False


class World:
    """One proxy after the other, some clients, and one broker."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_000_000
        self.broker = ModelBroker()
        self.clients = [Client(f"client-{i}") for i in range(CLIENT_COUNT)]
        self.acked: set[int] = set()
        self.acked_late = 0
        self._start_proxy()

    def _start_proxy(self) -> None:
        self.held, self.sessions = HeldMessages(), Sessions()
        self.proxy_began_ms = self.now_ms
        self.failed_renewals: set[int] = set()

    def run(self) -> None:
        """Make faults, then none, and check that everything is settled in the end."""
        for _ in range(STEPS):
            self.step(faults=True)
        for client in self.clients:
            client.is_silent = False
        for _ in range(STEPS):
            self.step(faults=False)
        assert {each.offset for each in self.broker.messages if each.is_acked} == set(range(MESSAGE_COUNT))
        self.now_ms += receipts.HELD_MS_MAX
        for client in self.clients:
            self.beat(client)
        self.tick(faults=False)
        assert len(self.held) == 0, "the proxy still holds what is settled"

    def step(self, *, faults: bool) -> None:
        self.now_ms += self.rng.randrange(1, STEP_MS_MAX)
        client = self.rng.choice(self.clients)
        action = self.rng.random()
        if action < 0.3:
            self.receive(client)
        elif action < (0.5 if faults else 0.9):
            self.settle(client)
        elif faults and action < 0.54:
            client.is_silent = not client.is_silent
        elif faults and action < 0.58:
            self.leave(client)
        elif faults and action < 0.6:
            self._start_proxy()
        for each in self.clients:
            if not each.is_silent:
                self.beat(each)
        self.tick(faults=faults)

    def beat(self, client: Client) -> None:
        if self.sessions.touch(client.client_id, self.now_ms) is None:
            self.sessions.put(Session(client.client_id, Settings(), "", "", self.now_ms))

    def receive(self, client: Client) -> None:
        if client.is_silent:
            return
        handle = self.broker.pop(self.now_ms)
        if handle is None:
            return
        assert handle.offset not in self.acked, "an acknowledged message came again"
        for other in self.clients:
            for given, since_ms in list(other.working.items()):
                if decode_handle(given).offset == handle.offset:
                    self.check_may_repeat(other, since_ms, handle.offset)
                    del other.working[given]
        given = encode_handle(handle)
        assert self.held.hold(client.client_id, GROUP, TOPIC, handle, self.now_ms)
        client.working[given] = self.now_ms

    def check_may_repeat(self, client: Client, since_ms: int, offset: int) -> None:
        """A message comes again only after a fault, or when it was held for too long."""
        is_faulty = client.is_silent or offset in self.failed_renewals or since_ms < self.proxy_began_ms
        assert is_faulty or self.now_ms - since_ms >= receipts.HELD_MS_MAX, "a held message was given to another"

    def settle(self, client: Client) -> None:
        if not client.working:
            return
        given = self.rng.choice(sorted(client.working))
        del client.working[given]
        held = self.held.find(GROUP, given)
        handle = decode_handle(given) if held is None else held.current
        if self.broker.ack(handle, self.now_ms):
            self.acked.add(handle.offset)
        else:
            self.acked_late += 1
        self.held.release(GROUP, given)

    def leave(self, client: Client) -> None:
        self.sessions.remove(client.client_id)
        self.give_back(client.client_id)
        client.working.clear()

    def give_back(self, client_id: str) -> None:
        for held in self.held.release_client(client_id):
            self.broker.change(held.current, GIVE_BACK_MS, self.now_ms)

    def tick(self, *, faults: bool) -> None:
        for session in self.sessions.silent(self.now_ms):
            self.give_back(session.client_id)
            silent = next(each for each in self.clients if each.client_id == session.client_id)
            assert silent.is_silent, "a client that beats was forgotten"
            silent.working.clear()
        for held in list(self.held.due(self.now_ms)):
            handle = None
            if not (faults and self.rng.random() < 0.2):
                handle = self.broker.change(held.current, held.step_ms, self.now_ms)
            if handle is None:
                self.failed_renewals.add(held.current.offset)
                self.held.not_renewed(held)
            else:
                self.held.renewed(held, handle)


def run(seed: int) -> World:
    """Run one seed. Raises AssertionError."""
    world = World(seed)
    world.run()
    return world


def main(arguments: Any = None) -> None:
    """Run many seeds, and print the one that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    for seed in range(options.first, options.first + options.seeds):
        try:
            run(seed)
        except AssertionError as error:
            raise SystemExit(f"seed {seed}: {error}") from error
    print(f"{options.seeds} seeds passed")


assert SILENT_MS_MAX > 2 * STEP_MS_MAX  # a client that beats in each step is never silent for too long

if __name__ == "__main__":
    main()
