"""A machine's disk: it keeps synced data through a power loss, and it may be full, fail to sync, or be slow."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable

from pymq.store.disk.memory_fs import MemoryFiles
from tests.crash.losses import random_loss

WRITES = frozenset({"pwrite", "allocate", "truncate", "makedirs", "open"})
SPACE_TAKING = frozenset({"pwrite", "allocate"})


class SimDisk:
    """The disk of one machine. A power loss replaces ``files``, so read the attribute at each start."""

    def __init__(self, now_ms: Callable[[], int], usual_sync_delay_us: int) -> None:
        self._now_ms = now_ms
        self.files = MemoryFiles(now_ms=now_ms)
        self.is_full = False
        self.failing_sync_count = 0  # the number of syncs that fail from now on
        self._usual_sync_delay_us = usual_sync_delay_us
        self.sync_delay_us = usual_sync_delay_us
        self.was_faulty = False  # some call has failed since the last :meth:`heal`
        self.on_failed_sync: Callable[[], None] = lambda: None
        self.on_fill: Callable[[bool], None] = lambda is_full: None
        self._attach()

    def _attach(self) -> None:
        self.files.fault = None if not (self.is_full or self.failing_sync_count) else self._fault

    def fill(self, is_full: bool) -> None:
        self.is_full = is_full
        self.on_fill(is_full)
        self._attach()

    def fail_syncs(self, count: int) -> None:
        self.failing_sync_count = count
        self._attach()

    def heal(self) -> None:
        """Make it work again, and forget that it ever failed."""
        self.was_faulty = False
        self.failing_sync_count = 0
        self.speed_up()
        self.fill(False)

    def speed_up(self) -> None:
        """Make it as fast as usual."""
        self.sync_delay_us = self._usual_sync_delay_us

    def _fault(self, call: str, path: str) -> None:
        if self.is_full and call in SPACE_TAKING:
            self.was_faulty = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if self.failing_sync_count and call == "sync":
            self.failing_sync_count -= 1
            self.on_failed_sync()
            self.was_faulty = True
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def after_kill(self) -> None:
        """Keep what the dead process wrote: it is in the page cache."""
        self.files.after_kill()

    def lose_power(self, chance: random.Random) -> None:
        """Keep what was synced, and of the rest what chance keeps."""
        image = random_loss(chance).of(self.files.snapshot())
        lost = self.files.nodes
        modified = {path: node.modified_ms for path, node in lost.items()}
        self.files = MemoryFiles.restored(image, now_ms=self._now_ms)
        for node in lost.values():  # the dead process' objects keep them until the run ends
            node.forget()
        for path, node in self.files.nodes.items():
            node.modified_ms = modified.get(path, 0)
        self._attach()
