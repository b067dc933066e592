"""A reader who does what a page says: one folder, one home, one terminal for each program that stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.docs.blocks import GOES_ON, OUTPUT, PYTHON, RUN, RUNS_ON, Block, matches
from tests.ports import free_port_block
from tests.programs_on_path import path_with_programs
from tests.running_program import RunningProgram

ROOT = Path(__file__).parents[2]
BLOCK_TIMEOUT_S = 240.0
# Ports in the pages. The machine may have servers on them, so a reader in a test uses other ones.
NAMESRV, BROKER, CONSOLE, GRPC = "9876", "10911", "8082", "8081"


class Program(RunningProgram):
    """A program that the reader leaves running."""

    def wait_for(self, shown: str) -> None:
        """Wait until it has printed the lines of ``shown``."""
        self.wait_until(lambda printed: matches(shown, printed), shown, BLOCK_TIMEOUT_S)

    def end(self) -> None:
        """Press Ctrl-C."""
        assert self.process.poll() is None, f"it ended by itself:\n{self.printed}"
        self.process.send_signal(signal.SIGINT)
        try:
            self.wait(BLOCK_TIMEOUT_S)
        finally:
            self.close()


class Reader:
    """Follows one page from its first block to its last. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "folder"
        home = folder / "home"
        for each in (self._folder, home):
            each.mkdir()
        namesrv, broker = free_port_block(0, 0), free_port_block(2, 1)
        self._ports = {NAMESRV: namesrv, BROKER: broker, CONSOLE: free_port_block(0, 0), GRPC: free_port_block(0, 0)}
        self._environment = {
            **os.environ,
            "PATH": path_with_programs(folder / "bin"),
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "NAMESRV_ADDR": f"127.0.0.1:{namesrv}",
        }
        self._running: list[Program] = []
        self._count = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for program in reversed(self._running):
            program.end()

    def follow(self, blocks: list[Block]) -> list[Block]:
        """Do what the blocks say; return those that were run."""
        done = []
        blocks = _joined(blocks)
        for place, block in enumerate(blocks):
            after = blocks[place + 1] if place + 1 < len(blocks) else None
            shown = after.text if after is not None and after.mode == OUTPUT else ""
            if block.mode == RUN:
                printed = self._run(block)
                assert matches(shown, printed), f"the block of line {block.line} printed:\n{printed}\nand not:\n{shown}"
            elif block.mode == RUNS_ON:
                program = Program(self._command(block), self._folder, self._environment)
                self._running.append(program)
                program.wait_for(self._with_ports(shown) or "ready: …")
            if block.mode in (RUN, RUNS_ON):
                done.append(block)
        return done

    def _run(self, block: Block) -> str:
        done = subprocess.run(
            self._command(block),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"the block of line {block.line} ends with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _command(self, block: Block) -> list[str]:
        text = self._with_ports(block.text)
        if block.language not in PYTHON:
            last = f"exec {text}" if block.mode == RUNS_ON else text
            return ["bash", "-euo", "pipefail", "-c", last]
        self._count += 1
        is_test = re.search(r"^(def test_|@pytest\.fixture)", text, re.MULTILINE)
        file = self._folder / f"{'test_' if is_test else 'program_'}{self._count}.py"
        file.write_text(text)
        return [sys.executable, *(["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else []), str(file)]

    def _with_ports(self, text: str) -> str:
        given = f"pymq standalone --namesrv-port {NAMESRV} --port {BROKER}"
        text = re.sub(r"^pymq standalone(?! .*--namesrv-port)", given, text, flags=re.MULTILINE)
        for shown, used in self._ports.items():
            text = re.sub(rf"\b{shown}\b", str(used), text)
        return text


def _joined(blocks: list[Block]) -> list[Block]:
    """Return the blocks with those that go on as a part of the Python block before them."""
    found: list[Block] = []
    for block in blocks:
        if block.mode == GOES_ON:
            place = max(at for at, one in enumerate(found) if one.language in PYTHON and one.mode == RUN)
            before = found[place]
            found[place] = replace(before, text=f"{before.text}\n{block.text}")
        else:
            found.append(block)
    return found
