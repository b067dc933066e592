"""Drivers: programs in several languages that make a gRPC client do what each line of their input asks.

A line is a JSON object with an `op`, its arguments, and a number `call`, which the line of the answer repeats. Calls
run side by side. The messages of push consumers come as lines of their own. So a scenario is written once, in Python,
and does the same with each client.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.interop.support import golang, nodejs, rust
from tests.interop.support.maven import compiled
from tests.interop.support.tools import own_places, require
from tests.interop.support.virtual_environments import python_with

SOURCES = Path(__file__).parent.parent / "grpc_drivers"
PYTHON_REQUIREMENT = "rocketmq-python-client==5.1.2"
CALL_TIMEOUT_S = 60
END_TIMEOUT_S = 10

BEGINNINGS = ("producer", "simple", "push", "lite", "classic_producer", "classic_push")  # what makes a client

Json = dict[str, Any]
Command = tuple[list[str], dict[str, str]]


class DriverError(AssertionError):
    """A call failed in the client; the text is the client's."""


def _java(directory: Path) -> Command:
    (java,) = require("java")
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *own_places(directory)]
    flags.append(f"-Drocketmq.client.logRoot={directory}/logs")
    return [java, *flags, "-cp", compiled("grpc", "grpc-5.2.0"), "interop.Grpc"], {}


def _python(directory: Path) -> Command:
    return [str(python_with("python-grpc", PYTHON_REQUIREMENT)), str(SOURCES / "driver.py")], {}


def _go(directory: Path) -> Command:
    return [str(golang.built_program(SOURCES / "go"))], {}


def _node(directory: Path) -> Command:
    (node,) = require("node")
    sources = SOURCES / "node"
    return [node, str(sources / "driver.js")], {"INTEROP_MODULES": str(nodejs.modules_directory(sources))}


def _rust(directory: Path) -> Command:
    return [str(rust.built_program(SOURCES / "rust"))], {}


COMMANDS: dict[str, Callable[[Path], Command]] = {
    "java": _java,
    "python": _python,
    "go": _go,
    "node": _node,
    "rust": _rust,
}


class Driver:
    """One running program; :meth:`call` may be used by many threads. Its clients connect where :meth:`using` says."""

    def __init__(self, language: str, directory: Path) -> None:
        self.language = language
        self._place: Json = {}
        directory.mkdir(parents=True, exist_ok=True)
        command, env = COMMANDS[language](directory)
        self._log_path = directory / f"{language}.log"
        self._log = self._log_path.open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=directory,
            env={**os.environ, "HOME": str(directory), **env},
        )
        self._numbers = count()
        self._answers: dict[int, Json] = {}
        self._deliveries: dict[str, list[Json]] = defaultdict(list)
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def using(self, endpoint: str, namesrv: str = "", user: tuple[str, str] | None = None) -> Driver:
        """Return the same program for clients of these servers; ``user``: name and secret, None signs nothing."""
        other = copy.copy(self)
        other._place = {"endpoint": endpoint, "namesrv": namesrv, **({"user": user} if user is not None else {})}
        return other

    def call(self, op: str, **arguments: Any) -> Any:
        """Do ``op`` in the client; return its result, raise DriverError when it failed."""
        number = next(self._numbers)
        if op in BEGINNINGS:
            arguments = {**self._place, **arguments}
        if "body" in arguments:
            arguments["body"] = base64.b64encode(arguments["body"]).decode()
        line = json.dumps({"call": number, "op": op, **arguments}) + "\n"
        self._write(line)
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._answers or self._ended(), CALL_TIMEOUT_S):
                raise DriverError(f"{self.language}: no answer to {op} within {CALL_TIMEOUT_S} s; {self._last_words()}")
            answer = self._answers.pop(number, {"error": f"the program ended; {self._last_words()}"})
        if "error" in answer:
            raise DriverError(f"{self.language} {op}: {answer['error']}")
        return answer.get("result")

    def _write(self, line: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with self._writing, contextlib.suppress(BrokenPipeError):  # an ended program is reported by its caller
            stdin.write(line.encode())
            stdin.flush()

    def messages(self, consumer: str) -> list[Json]:
        """Return what came to a push consumer up to now."""
        with self._changed:
            return list(self._deliveries[consumer])

    def await_messages(self, consumer: str, condition: Callable[[list[Json]], bool], timeout_s: float) -> list[Json]:
        """Wait until the messages of a push consumer fulfill a condition; return them."""
        with self._changed:
            seen = self._deliveries[consumer]
            fulfilled = self._changed.wait_for(lambda: condition(seen), timeout_s)
            assert fulfilled, f"{self.language}: after {timeout_s} s {consumer} has {[text(m) for m in seen]}"
            return list(seen)

    def end(self) -> None:
        """End the program."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_TIMEOUT_S)
        self._process.stdout.close()
        self._log.close()

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _last_words(self) -> str:
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-20:])

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for raw in stdout:
            if not raw.startswith(b"{"):
                print(f"{self.language}: {raw!r}", file=sys.stderr)
                continue
            line = json.loads(raw)
            with self._changed:
                if "consumer" in line:
                    self._deliveries[line["consumer"]].append(line["message"])
                else:
                    self._answers[line["call"]] = line
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def body(message: Json) -> bytes:
    """Return the body of a message that a client received."""
    return base64.b64decode(message["body"])


def text(message: Json) -> str:
    """Return the body as text, cut."""
    return body(message)[:100].decode(errors="replace")
