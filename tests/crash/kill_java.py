"""The same load from the real Java client. One JVM runs all rounds; a line on its input starts each of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import until
from tests.crash.kill_load import ACKNOWLEDGED_MAX, ACKNOWLEDGED_MIN, TOPIC, Load
from tests.interop.support.running import RunningJava

THREAD_COUNT = 16
END_TIMEOUT_S = 10.0


class JavaSending:
    """A running ``interop.Load``. Collects its lines and parses them between rounds."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self._round = 0
        self._lines: list[str] = []
        self._acknowledged = 0
        self._program = RunningJava("load", [namesrv, TOPIC, str(THREAD_COUNT)], directory, self._gather)

    def _gather(self, line: str) -> None:
        self._lines.append(line)
        self._acknowledged += line.startswith("ok ")

    async def until_killed(self, servers: StandaloneProcess, load: Load, rng: random.Random) -> None:
        self._round += 1
        self._lines.clear()
        self._acknowledged = 0
        goal = rng.randrange(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX)
        self._program.write_line(str(self._round))
        await until(lambda: self._acknowledged >= goal or self._is_over(), "the Java client's load", 120)
        assert not self._is_over(), f"the Java client stopped before the kill: {self._lines[-3:]}"
        await load.kill(servers)
        await until(self._is_over, "the Java client to notice", 120)
        assert self._program.exit_code is None, f"the Java client ended with {self._program.exit_code}"
        self._understand(load)

    def _is_over(self) -> bool:
        return self._program.exit_code is not None or f"done {self._round}\n" in self._lines[-1:]

    def _understand(self, load: Load) -> None:
        answered: Counter[int] = Counter()
        for line in self._lines:
            kind, *numbers = line.split()
            if kind == "ok":
                queue_id, queue_offset, sender, number = map(int, numbers)
                load.note(queue_id, queue_offset, self._body(sender, number))
                answered[sender] += 1
        for line in self._lines:
            kind, *numbers = line.split()
            if kind == "end":
                sender, tried = map(int, numbers)
                load.sent.update(self._body(sender, number) for number in range(tried))
                load.in_flight += sender > 0 and tried > answered[sender]

    def _body(self, sender: int, number: int) -> bytes:
        """Return the body that the Java program makes of a number. Keep both in step."""
        return f"java-{self._round}-{sender}-{number}-".encode() + b"x" * (number * 31 % 300)

    async def close(self) -> None:
        """End the JVM."""
        await asyncio.to_thread(self._program.end, END_TIMEOUT_S)
