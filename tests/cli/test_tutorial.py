"""docs/tutorial.md works as written, except for its installation, its ports and its waits."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^pymq .*$", TEXT, re.MULTILINE)]
PROGRAM = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]
READY_TIMEOUT_S = 20.0


def command(*words: str) -> list[str]:
    """Return the tutorial's only command that begins with ``words``."""
    found = [line for line in COMMANDS if line[: len(words)] == list(words)]
    assert len(found) == 1, found
    return found[0]


def test_every_step_works(server: StandaloneProcess, pymq: Pymq, tmp_path: Path) -> None:
    for words in (("topic", "create"), ("send",)):
        assert pymq(*command(*words)).code == 0
    assert "order-1" in pymq(*command("message", "query")).out
    assert '{"id": 1, "total": 9.5}' in pymq(*command("tail"), "--no-follow").out
    program = tmp_path / "orders.py"
    program.write_text(PROGRAM.replace("127.0.0.1:9876", server.namesrv))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, str(program)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as consumer:
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == '0 {"id": 1, "total": 9.5}\n'
            deadline = time.monotonic() + READY_TIMEOUT_S
            while (described := pymq(*command("group", "describe"))).code != 0:
                assert time.monotonic() < deadline, described.err
                time.sleep(0.1)
            assert "Orders" in described.out
        finally:
            consumer.kill()


def test_skipped_steps_are_listed() -> None:
    """A fixture starts the server; the export needs a JVM and runs in tests/spark and scripts/demo."""
    run = {"topic", "send", "message", "tail", "group"}
    assert {line[0] for line in COMMANDS} - run == {"standalone", "spark-export"}
