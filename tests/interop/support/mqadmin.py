"""The real mqadmin 5.3.3 or 5.5.0, whose commands run one after the other in one JVM (a JVM start takes 3.5 s)."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path

from tests.interop.support.maven import compiled
from tests.interop.support.second_runs import SecondRuns
from tests.interop.support.tools import require

COMMAND_TIMEOUT_S = 180
# A call of mqadmin waits 5 s for its answer; no setting changes that.
TIMED_OUT = "RemotingTimeoutException"


class MqAdmin:
    """A running driver; `run` returns the output of a command on both streams."""

    def __init__(
        self, namesrv: str, directory: Path, second_runs: SecondRuns, artifact_set: str = "server-5.3.3"
    ) -> None:
        self._second_runs = second_runs
        (java,) = require("java")
        classes = compiled("admin", artifact_set)
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
        # Some commands write files below the home directory or among the temporary files.
        flags += [f"-D{name}={directory}" for name in ("user.home", "rocketmq.home.dir", "java.io.tmpdir")]
        self._log = (directory / "mqadmin.log").open("wb")
        self._process = subprocess.Popen(
            [java, *flags, "-cp", classes, "interop.AdminDriver", namesrv],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Other lines on the stream are prints of the client library.
            if line.startswith(b'"'):
                self._answers.put(json.loads(line))

    def run(self, *words: str) -> str:
        """Run one command, as in `run("topicRoute", "-t", "T")`; repeat it once after a timeout of a call.

        Raises AssertionError when it doesn't return, or times out twice.
        """
        printed = self._run_once(words)
        # The driver's own commands, with "!" in front, are no calls of mqadmin.
        if TIMED_OUT in printed and not words[0].startswith("!"):
            printed = self._run_again(words, printed)
        return printed

    def _run_again(self, words: tuple[str, ...], first: str) -> str:
        printed = ""

        def again() -> str | None:
            nonlocal printed
            printed = self._run_once(words)
            return printed if TIMED_OUT in printed else None

        self._second_runs.run(f"mqadmin {' '.join(words)}", first, again)
        return printed

    def _run_once(self, words: tuple[str, ...]) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(("\t".join(words) + "\n").encode())
        self._process.stdin.flush()
        try:
            return self._answers.get(timeout=COMMAND_TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(f"mqadmin {' '.join(words)} did not return within {COMMAND_TIMEOUT_S} s") from None

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        self._process.stdout.close()
        self._log.close()
