"""Measures an acknowledgement's cost on a secured broker: ``python -m bench.signed_acks [ROUNDS]``.

The same signed acknowledgements go by the fast path and by the plain one, in turns, in one process without sockets. The
figure is the least processor time of one in any round.
"""

from __future__ import annotations

import gc
import sys
import time

from bench.control import BenchError
from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, decode_command, encode_command
from tests.broker.assembly.test_security import guard, signed
from tests.broker.fast.test_ack import _fields
from tests.broker.fast.test_table import ACL
from tests.broker.handlers.test_pop import Popping
from tests.broker.world import FakePeer

MESSAGES = 640
POP_COUNT = 32
ROUNDS = 10


def us_of_one(*, fast: bool) -> float:
    """Return microseconds of processor time for an acknowledgement."""
    popping = Popping(queue_count=1)
    for _ in range(MESSAGES):
        popping.world.put("T", b"x", queue_id=0)
    frames = []
    for _ in range(MESSAGES // POP_COUNT):
        found = popping.pop(count=POP_COUNT)
        for number in range(len(found.messages)):
            frames.append(signed(Command(RequestCode.ACK_MESSAGE, ext=_fields(found, number)), "ada-user"))
    gatekeeper, peer = Gatekeeper(guard(ACL)), FakePeer()
    fast_path = popping.world.parts.requests.secured_fast_path(gatekeeper)
    dispatcher = broker_dispatcher(popping.world.parts, gatekeeper)
    begin_ns = time.process_time_ns()
    for frame in frames:
        if fast:
            if not fast_path(peer, frame):  # type: ignore[arg-type]
                raise BenchError("an acknowledgement took the plain path")
            continue
        command = decode_command(frame)
        reply = dispatcher.dispatch(peer, command)
        if reply is not None:
            encode_command(reply.to_command(command))
    popping.world.parts.messages.writer.commit()
    return (time.process_time_ns() - begin_ns) / len(frames) / 1000


def main() -> None:
    """Print both figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    gc.disable()
    plain, fast = (
        min(figures)
        for figures in zip(*((us_of_one(fast=False), us_of_one(fast=True)) for _ in range(rounds)), strict=True)
    )
    print(f"signed acknowledgements: {plain:.1f} us by the plain path, {fast:.1f} us by the fast one")


if __name__ == "__main__":
    main()
