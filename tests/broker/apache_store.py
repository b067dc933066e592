"""Directories that Apache RocketMQ 5.3.3 left, opened by a broker in memory."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.timer.timer_store import WHEEL_SLOTS
from tests.broker.world import ROOT, World

STORES = Path(__file__).parent.parent / "golden" / "stores"
STEP_MS = 500


class ApacheStore:
    """A directory of tests/golden/stores; ``manifest`` says what is in it."""

    def __init__(self, name: str) -> None:
        self._packed = STORES / f"{name}.tar.zst"
        self.manifest: dict[str, Any] = json.loads((STORES / f"{name}.manifest.json").read_text())
        self.end_ms: int = self.manifest["endMs"]

    def world(self, now_ms: int) -> World:
        """Return a broker that has opened a copy of the directory at this time."""
        config = self.manifest["brokerConfig"]
        return World(self._unpacked(), ManualClock(now_ms), timer_slot_count=WHEEL_SLOTS, **config)

    def _unpacked(self) -> MemoryFiles:
        files = MemoryFiles()
        raw = zstandard.ZstdDecompressor().stream_reader(self._packed.read_bytes()).read()
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            for member in archive:
                path = ROOT + member.name.removeprefix("store")
                if member.isdir():
                    files.makedirs(path)
                    continue
                content = archive.extractfile(member)
                assert content is not None
                with closing(files.open(path, create=True)) as file:
                    file.pwrite(0, content.read())
                    file.sync()
        return files


def let_pass(world: World, ms: int) -> None:
    """Let time pass, with all periodic work."""
    for _ in range(0, ms, STEP_MS):
        world.clock.advance(STEP_MS)
        for job in world.parts.jobs():
            job.run()
        world.parts.end_turn()
