"""The same attacks on a name server process: it survives, does not grow, and stops cleanly."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.net.hostile import MIB, NAMESRV, Raw, ask

ROUNDS = 3
RSS_GROWTH_MAX_BYTES = 64 * MIB
STOP_WITHIN_S = 20
TLS_RECORD = b"\x16\x03"

WHO = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "C", "brokerId": "0"}
# A frame of the maximum size: its memory is allocated once, not several times, and freed.
FULL_FRAMES = [
    ask(103, WHO, b"[" + b"0," * (15 * MIB // 2)),
    ask(103, WHO, b'{"topicConfigSerializeWrapper":"' + b"x" * (15 * MIB)),
    ask(105, {"topic": "T"}, bytes(15 * MIB)),
]

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to read a process's memory")


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def one_round(port: int, good: Raw, unfinished: list[asyncio.Task[None]]) -> float:
    """Run all attacks, each beside a good request; return the longest wait of those in ms.

    A connection that waits for the rest of a TLS hello is added to ``unfinished``: the server closes it after 10 s.
    """
    worst_ms = 0.0
    for raw_bytes in (*(attack.raw for attack in NAMESRV), *FULL_FRAMES):
        attacker = await Raw.open(port)
        sending = asyncio.create_task(attacker.send(raw_bytes))
        began = time.perf_counter()
        assert (await good.call(ask(106))).code == 0
        worst_ms = max(worst_ms, (time.perf_counter() - began) * 1000)
        await sending
        ending = asyncio.create_task(end(attacker))
        if raw_bytes.startswith(TLS_RECORD):
            unfinished.append(ending)
        else:
            await ending
    greedy = await Raw.open(port)
    greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
    greedy.writer.write(ask(319) * 20_000)
    assert (await good.call(ask(106))).code == 0
    greedy.close()
    return worst_ms


async def end(attacker: Raw) -> None:
    await attacker.receive()
    attacker.close()


@pytest.mark.slow
def test_a_process_survives_every_round_and_does_not_grow(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "pymq", "namesrv", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["namesrv"].rpartition(":")[2])

        async def attack() -> tuple[int, list[int], float]:
            good = await Raw.open(port)
            assert (await good.call(ask(106))).code == 0
            before = rss_bytes(process.pid)
            sizes, worst_ms = [], 0.0
            unfinished: list[asyncio.Task[None]] = []
            for _ in range(ROUNDS):
                worst_ms = max(worst_ms, await one_round(port, good, unfinished))
                sizes.append(rss_bytes(process.pid))
            await asyncio.gather(*unfinished)
            good.close()
            return before, sizes, worst_ms

        before, sizes, worst_ms = asyncio.run(attack())
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    grown = [round((size - before) / MIB) for size in sizes]
    with capsys.disabled():
        frames = ROUNDS * (len(NAMESRV) + len(FULL_FRAMES))
        print(
            f"\n{frames} hostile frames at a process, all survived; memory grew by {grown} MiB a round, "
            f"longest good answer {worst_ms:.0f} ms"
        )
    assert max(sizes) - before < RSS_GROWTH_MAX_BYTES
