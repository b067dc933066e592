"""Machines: disks that fail and clocks that jump, as one process sees them. Linux with a C compiler only."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("machine.c")
_STATE = struct.Struct("<qq")  # as machine.c has it


class NoMachinesError(Exception):
    """The library that stands between a process and its machine can't be built: the text says what is missing."""


class Machines:
    """One for each of ``nodes``, with files below ``directory``. Raises NoMachinesError."""

    def __init__(self, nodes: Sequence[str], directory: Path) -> None:
        self._directory = directory / "machines"
        self._directory.mkdir()
        self._library = self._directory / "machine.so"
        self._states = dict.fromkeys(nodes, (0, 0))
        compiler = shutil.which("cc")
        if compiler is None:
            raise NoMachinesError("a failing disk and a jumping clock need a C compiler, cc")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoMachinesError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
        for node in nodes:
            self._path(node).write_bytes(_STATE.pack(0, 0))

    def environment(self, node: str) -> dict[str, str]:
        """Return the variables that put a process on this node's machine."""
        return {"LD_PRELOAD": str(self._library), "PYMQ_MACHINE": str(self._path(node))}

    def fail_disk(self, node: str, fails: bool) -> None:
        """Have each write and sync of a file fail, or no more."""
        self._change(node, int(fails), self._states[node][1])

    def set_clock(self, node: str, ahead_s: int) -> None:
        """Have the wall clock be ahead of the real one; behind it when negative."""
        self._change(node, self._states[node][0], ahead_s * 1_000_000_000)

    def _change(self, node: str, disk_fails: int, ahead_ns: int) -> None:
        self._states[node] = disk_fails, ahead_ns
        with self._path(node).open("r+b") as file:  # in place: a process has it mapped
            file.write(_STATE.pack(disk_fails, ahead_ns))

    def _path(self, node: str) -> Path:
        return self._directory / node
