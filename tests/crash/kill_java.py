"""The same load from the real Java client: one JVM for all rounds, told by a line to send until the broker is gone."""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from collections import Counter
from pathlib import Path

from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import until
from tests.crash.kill_load import ACKNOWLEDGED_MAX, ACKNOWLEDGED_MIN, TOPIC, Load
from tests.interop.support.maven import compiled
from tests.interop.support.tools import require

THREAD_COUNT = 16


class JavaSending:
    """A running ``interop.Load``; its lines are read by a thread and understood between rounds."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        (java,) = require("java")
        directory.mkdir(parents=True, exist_ok=True)
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}"]
        flags += [f"-Drocketmq.client.logRoot={directory}/logs"]
        command = [java, *flags, "-cp", compiled("load", "client-5.3.3"), "interop.Load"]
        self._round = 0
        self._lines: list[str] = []
        self._acknowledged = 0
        self._log = (directory / "java.log").open("wb")
        self._process = subprocess.Popen(
            [*command, namesrv, TOPIC, str(THREAD_COUNT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            self._acknowledged += line.startswith("ok ")

    async def until_killed(self, servers: StandaloneProcess, load: Load, rng: random.Random) -> None:
        self._round += 1
        self._lines.clear()
        self._acknowledged = 0
        goal = rng.randrange(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._round}\n")
        self._process.stdin.flush()
        await until(lambda: self._acknowledged >= goal or self._is_over(), "the Java client's load", 120)
        assert not self._is_over(), f"the Java client stopped before the kill: {self._lines[-3:]}"
        await load.kill(servers)
        await until(self._is_over, "the Java client to notice", 120)
        assert self._process.poll() is None, f"the Java client ended with {self._process.returncode}"
        self._understand(load)

    def _is_over(self) -> bool:
        return self._process.poll() is not None or f"done {self._round}\n" in self._lines[-1:]

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
        """What the program makes of a number; a change there must be made here."""
        return f"java-{self._round}-{sender}-{number}-".encode() + b"x" * (number * 31 % 300)

    async def close(self) -> None:
        """Ends the JVM."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            await asyncio.to_thread(self._process.wait, 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._process.stdout.close()
        self._log.close()
