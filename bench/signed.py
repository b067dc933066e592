"""Measures what a signature costs a broker: ``python -m bench.signed [ROUNDS]``.

Plain sends go through the fast path of an unsecured broker and signed ones through that of a secured broker, in turns,
in one process without sockets, with files in memory. The figure is the least processor time of a send in any round.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from bench.control import BenchError
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, encode_command
from tests.broker.assembly.test_security import credentials, guard
from tests.broker.fast.test_send import opened, ordinary
from tests.broker.world import FakePeer

SENDS = 1000  # a round
ROUNDS = 40
BODIES_BYTES = (128, 1024)
CODECS = {"JSON": SERIALIZE_JSON, "binary": SERIALIZE_ROCKETMQ}
BORN_MS = 1795248962945


class Unread(FakePeer):
    """A peer that keeps no answer."""

    def write(self, data: bytes) -> None:
        pass


def payloads(size_bytes: int, serialize: int, *, signed: bool) -> list[bytes]:
    """Return frames of sends that differ as a producer's do: in time, key, opaque and body."""
    found = []
    for number in range(SENDS):
        properties = f"UNIQ_KEY\x01AC110001{number:024X}\x02TAGS\x01TagA\x02"
        ext = ordinary(i=properties, g=str(BORN_MS + number))
        body = bytes([number % 256]) * size_bytes
        command = Command(310, opaque=number, ext=ext, body=body, serialize=serialize)
        if signed:
            credentials("producer").sign(command)
        found.append(encode_command(command)[4:])
    return found


def runner(frames: list[bytes], *, secured: bool) -> Callable[[], float]:
    """Return a function that sends all frames and returns microseconds of processor time a send."""
    requests = (world := opened()).parts.requests
    fast_path = requests.secured_fast_path(Gatekeeper(guard())) if secured else requests.fast_path
    peer = Unread()

    def run() -> float:
        begin_ns = time.process_time_ns()
        taken = sum(fast_path(peer, frame) for frame in frames)  # type: ignore[arg-type]
        spent_ns = time.process_time_ns() - begin_ns
        world.parts.messages.writer.commit()
        if taken != SENDS:
            raise BenchError(f"{SENDS - taken} sends took the plain path")
        return spent_ns / SENDS / 1000

    return run


def main() -> None:
    """Print a line for each codec and size."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    gc.disable()
    for size_bytes in BODIES_BYTES:
        for name, serialize in CODECS.items():
            plain = runner(payloads(size_bytes, serialize, signed=False), secured=False)
            signed = runner(payloads(size_bytes, serialize, signed=True), secured=True)
            best = [min(figures) for figures in zip(*((plain(), signed()) for _ in range(rounds)), strict=True)]
            print(
                f"{name:7}{size_bytes:5} bytes: {best[0]:.2f} us unsigned, {best[1]:.2f} us signed, "
                f"{best[1] - best[0]:+.2f} us",
                flush=True,
            )


if __name__ == "__main__":
    main()
