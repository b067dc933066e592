"""The command ``pymq console``, which also writes what it holds into a file: memory, descriptors, tasks, objects.

Usage: ``python -m tests.soak.counted_console FILE SECONDS console ...``; a line of JSON every so many seconds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def held() -> dict[str, int]:
    """Return what this process holds now."""
    objects = gc.get_objects()
    return {
        "rss_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1,  # one is the directory's own
        "tasks": sum(1 for each in objects if isinstance(each, asyncio.Task) and not each.done()),
        "objects": len(objects),
    }


def write_held(path: Path, period_s: float) -> None:
    """Write a line every ``period_s``."""
    with path.open("a", buffering=1) as out:
        while True:
            time.sleep(period_s)
            gc.collect()  # what only a collection frees is no growth
            out.write(json.dumps({"at_s": time.monotonic(), **held()}) + "\n")


if __name__ == "__main__":
    from pymq.cli.main import main

    arguments = (Path(sys.argv[1]), float(sys.argv[2]))
    threading.Thread(target=write_held, args=arguments, daemon=True).start()
    sys.argv[1:] = sys.argv[3:]
    main()
